//! Names of keys, of all lengths that matter to a record, so that keys end and values start at
//! every offset.

/// The name of key `number`: 4 bytes or longer, up to a few lines of a cache.
pub(crate) fn name(number: u32) -> Vec<u8> {
    let mut name = format!("k{number:03}").into_bytes();
    let size = [4, 11, 23, 40, 64, 100, 191][number as usize % 7];
    while name.len() < size {
        name.push(b'a' + (name.len() % 26) as u8);
    }
    name
}

/// Bytes of the records of key `number` with a value of `value_size` bytes, in segments of `segment_size` bytes. A
/// value that fits no segment is in chunks, each as long as a quarter of a segment, with a name of 20 bytes and an
/// expiry.
pub(crate) fn live_size(number: u32, value_size: usize, segment_size: u64) -> u64 {
    let whole = record_size(number, value_size);
    let room = segment_size - 4 * 64;
    if whole <= room {
        return whole;
    }
    let beside = 56 + 8 + 20_u64;
    let chunk_size = room / 4 / 64 * 64 - beside.next_multiple_of(64);
    let (chunks, last) = (
        value_size as u64 / chunk_size,
        value_size as u64 % chunk_size,
    );
    let of_size = |size: u64| match size {
        0 => 0,
        size => (beside + size).next_multiple_of(64),
    };
    record_size(number, 24) + chunks * of_size(chunk_size) + of_size(last)
}

/// Bytes of a record of key `number` with a value of `value_size` bytes.
pub(crate) fn record_size(number: u32, value_size: usize) -> u64 {
    (56 + name(number).len() as u64 + value_size as u64).next_multiple_of(64)
}
