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

/// Bytes of a record of key `number` with a value of `value_size` bytes.
pub(crate) fn record_size(number: u32, value_size: usize) -> u64 {
    (56 + name(number).len() as u64 + value_size as u64).next_multiple_of(64)
}
