//! The checkpoint of a device: two slots. A new checkpoint overwrites the older slot.
//!
//! ```text
//!   slot     head, 64 bytes | bytes of the checkpoint
//!   head     generation u64 | length u64 | check u64      check: XXH3-64 of the first 16 bytes
//! ```
//!
//! The bytes are durable before the head that names them. A crash before that leaves the other slot, which then has the
//! highest valid generation. The reader of a checkpoint verifies the bytes. A checkpoint that fits in no slot is not
//! kept, and an empty one takes its place: a checkpoint is a hint, and the log holds everything that the checkpoint
//! repeats.

use stonecast_base::hash::xxh3_64;
use stonecast_base::{KIB, LINE_SIZE, Span};

use crate::Region;
use crate::dax::metadata::make_durable;
use crate::mapped_region::MappedRegion;
use crate::write_back::Processor;

const HEAD: u64 = LINE_SIZE as u64;

/// The two slots of a device, mapped.
#[derive(Debug)]
pub(super) struct Slots {
    memory: MappedRegion,
    processor: Option<Processor>,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    generation: u64,
    length: u64,
}

impl Slots {
    /// Fewest bytes that both slots need at the end of a device.
    pub const SIZE_MIN: u64 = 8 * KIB;

    /// The slots in `memory`, the part of the device after the log.
    pub fn new(memory: MappedRegion) -> Self {
        Self {
            memory,
            processor: Processor::detect(),
        }
    }

    /// Forgets every checkpoint.
    pub fn clear(&self) {
        for slot in 0..2 {
            self.write(self.offset(slot), &[0; HEAD as usize]);
        }
    }

    /// The newest checkpoint.
    pub fn load(&self) -> Option<Vec<u8>> {
        let (slot, head) = self.newest()?;
        let mut bytes = vec![0; head.length as usize];
        self.memory.read(self.offset(slot) + HEAD, &mut bytes);
        Some(bytes)
    }

    /// Replaces the checkpoint.
    pub fn store(&self, bytes: &[u8]) {
        let (slot, generation) = match self.newest() {
            // No pool stores 2^64 checkpoints.
            Some((newest, head)) => (1 - newest, head.generation.wrapping_add(1)),
            None => (0, 1),
        };
        let bytes = if bytes.len() as u64 <= self.room() {
            bytes
        } else {
            &[]
        };
        self.write(self.offset(slot) + HEAD, bytes);
        let mut head = [0; HEAD as usize];
        head[..8].copy_from_slice(&generation.to_le_bytes());
        head[8..16].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        let check = xxh3_64(0, &head[..16]);
        head[16..24].copy_from_slice(&check.to_le_bytes());
        self.write(self.offset(slot), &head);
    }

    fn newest(&self) -> Option<(u64, Head)> {
        let heads = (0..2).filter_map(|slot| Some((slot, self.head(slot)?)));
        heads.max_by_key(|(_, head)| head.generation)
    }

    /// The head of a slot, if its check is right and it names bytes inside the slot.
    fn head(&self, slot: u64) -> Option<Head> {
        let mut bytes = [0; 24];
        self.memory.read(self.offset(slot), &mut bytes);
        let word =
            |index: usize| u64::from_le_bytes(bytes[index * 8..][..8].try_into().expect("8 bytes"));
        let head = Head {
            generation: word(0),
            length: word(1),
        };
        (word(2) == xxh3_64(0, &bytes[..16]) && head.length <= self.room()).then_some(head)
    }

    fn offset(&self, slot: u64) -> u64 {
        slot * self.slot_size()
    }

    /// Bytes of the largest checkpoint that a slot holds.
    fn room(&self) -> u64 {
        self.slot_size() - HEAD
    }

    fn slot_size(&self) -> u64 {
        let half = self.memory.size() / 2;
        half - half % HEAD
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        self.memory.write(offset, bytes);
        make_durable(
            &self.memory,
            self.processor,
            Span::new(offset, bytes.len() as u64),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapped_region::Sealing;

    fn slots() -> Slots {
        Slots::new(MappedRegion::create_memory("slots", 16 * KIB, Sealing::None).unwrap())
    }

    #[test]
    fn the_newest_checkpoint_is_found_and_the_older_slot_is_overwritten() {
        let slots = slots();
        assert_eq!(slots.load(), None);
        for round in 1..6_u8 {
            slots.store(&vec![round; 1000 + usize::from(round)]);
            assert_eq!(
                slots.load().unwrap(),
                vec![round; 1000 + usize::from(round)]
            );
        }
        slots.clear();
        assert_eq!(slots.load(), None);
    }

    /// Needs two slots, and the bytes durable before the head: a torn head, or bytes without a head, leaves the older
    /// checkpoint.
    #[test]
    fn a_store_that_was_cut_off_leaves_the_older_checkpoint() {
        let slots = slots();
        slots.store(b"older");
        slots.store(b"newer");
        let (newest, _) = slots.newest().unwrap();
        for torn in [0, 8, 16] {
            let whole = slots.memory.load(slots.offset(newest) + torn);
            slots.memory.store(slots.offset(newest) + torn, whole ^ 1);
            assert_eq!(
                slots.load().unwrap(),
                b"older",
                "the head is torn at {torn}"
            );
            slots.memory.store(slots.offset(newest) + torn, whole);
        }
        slots
            .memory
            .write(slots.offset(1 - newest) + HEAD, b"half of a checkpoint");
        assert_eq!(slots.load().unwrap(), b"newer");
    }

    #[test]
    fn a_checkpoint_without_room_is_replaced_by_an_empty_one() {
        let slots = slots();
        slots.store(b"fits");
        slots.store(&vec![1; 8 * KIB as usize]);
        assert_eq!(slots.load().unwrap(), b"");
        slots.store(&vec![2; (8 * KIB - HEAD) as usize]);
        assert_eq!(slots.load().unwrap().len() as u64, 8 * KIB - HEAD);
    }

    /// Needs the bound on lengths: without it the read would panic.
    #[test]
    fn a_head_that_names_bytes_outside_its_slot_is_not_believed() {
        let slots = slots();
        slots.store(b"one");
        let mut head = [0; 24];
        head[..8].copy_from_slice(&9_u64.to_le_bytes());
        head[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        let check = xxh3_64(0, &head[..16]);
        head[16..24].copy_from_slice(&check.to_le_bytes());
        slots.memory.write(slots.offset(1), &head);
        assert_eq!(slots.load().unwrap(), b"one");
    }
}
