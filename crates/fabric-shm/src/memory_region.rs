//! The regions of this device, and copies between them and other memory.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::LocalSpan;
use stonecast_media::Region;

use crate::table::Table;

/// Bytes that a copy between two regions moves at once: they stay in the fastest cache in transit.
const COPY_SIZE: usize = 8 << 10;

/// A registered region.
pub(crate) struct LocalRegion {
    pub(crate) memory: Rc<dyn Region>,
    /// The length of the region: cached, because every operation compares with it.
    pub(crate) size: u64,
    /// Remote address of the first byte.
    pub(crate) address: u64,
    /// Whether peers can reach it.
    pub(crate) is_shared: bool,
    /// Whether only the owner can write it.
    pub(crate) write_sealed: bool,
    /// Whether the device allocated it.
    pub(crate) is_own: bool,
}

/// The region of `span`, if the span lies in it.
#[inline]
pub(crate) fn local(regions: &Table<LocalRegion>, span: LocalSpan) -> Option<&dyn Region> {
    let region = regions.get(span.region.index)?;
    Span::new(span.offset, u64::from(span.size))
        .fits(region.size)
        .then_some(&*region.memory)
}

/// Copies `size` bytes between regions. Aligned words of `to` are copied whole, and so are aligned words of `from` if
/// both sides have the same alignment.
pub(crate) fn copy(
    from: &dyn Region,
    from_offset: u64,
    to: &dyn Region,
    to_offset: u64,
    size: u64,
    scratch: &mut Vec<u8>,
) {
    copy_cut_at(from, from_offset, to, to_offset, size, to_offset, scratch);
}

/// Like [`copy`], but the words of `from` are those that are copied whole.
pub(crate) fn copy_whole_source(
    from: &dyn Region,
    from_offset: u64,
    to: &dyn Region,
    to_offset: u64,
    size: u64,
    scratch: &mut Vec<u8>,
) {
    copy_cut_at(from, from_offset, to, to_offset, size, from_offset, scratch);
}

/// Cuts the copy into pieces that end where `aligned`, an offset on the side whose words count, is a multiple of 8.
fn copy_cut_at(
    from: &dyn Region,
    from_offset: u64,
    to: &dyn Region,
    to_offset: u64,
    size: u64,
    aligned: u64,
    scratch: &mut Vec<u8>,
) {
    if scratch.len() < COPY_SIZE {
        scratch.resize(COPY_SIZE, 0);
    }
    let mut done = 0;
    while done < size {
        let room = COPY_SIZE as u64 - (aligned + done) % 8;
        let piece = room.min(size - done);
        let bytes = &mut scratch[..piece as usize];
        from.read(from_offset + done, bytes);
        to.write(to_offset + done, bytes);
        done += piece;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use stonecast_media::{MappedRegion, Sealing};

    #[test]
    fn copies_of_every_alignment_and_length_are_exact() {
        let from = MappedRegion::create_memory("from", 64 << 10, Sealing::None).unwrap();
        let bytes: Vec<u8> = (0..64 << 10)
            .map(|index: u32| ((index * 7) >> 3) as u8)
            .collect();
        from.write(0, &bytes);
        let mut scratch = Vec::new();
        for (from_offset, to_offset) in [(0, 0), (1, 0), (0, 3), (5, 7), (8, 16)] {
            for size in [0, 1, 7, 8, 9, 8191, 8192, 8193, 40_000] {
                let to = MappedRegion::create_memory("to", 64 << 10, Sealing::None).unwrap();
                copy(&from, from_offset, &to, to_offset, size, &mut scratch);
                let mut found = vec![0; size as usize];
                to.read(to_offset, &mut found);
                assert_eq!(found, bytes[from_offset as usize..][..size as usize]);
                let mut around = [1; 1];
                to.read(to_offset + size, &mut around);
                assert_eq!(around, [0], "nothing behind the copy is written");
            }
        }
    }
}
