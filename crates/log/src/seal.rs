//! Seals: count and XOR of the records accepted in a segment so far.
//!
//! Two slots are used in turn, so that a seal torn by a crash leaves the previous one. The checksum
//! binds a seal to pool, segment and generation: slots are not cleared when a segment is reused.

use stonecast_base::{Corruption, Span, hash};
use stonecast_media::Region;
use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::{LogFormat, SEGMENT_HEADER_UNITS, UNIT_SIZE};
use crate::judge::Place;
use crate::layout::layout;

/// Units of the slots: of even serials, of odd ones.
const SLOTS: [u32; 2] = [1, 2];
const CHECKSUM_OFFSET: usize = std::mem::offset_of!(SealBytes, checksum);

layout! {
    /// The bytes of a seal.
    SealBytes, FIELDS:
    serial: U32, "server", "counts the seals of this generation, from 1; odd ones stand in the second slot";
    end: U32, "server", "unit after the last record that is sealed";
    count: U32, "server", "records below the end";
    reserved: U32, "server", "zero";
    xor: U64, "server", "XOR of their commit tags";
    tokens_lost: U64, "server", "tokens of writes up to this sequence may have gone with segments that were freed";
    sequence_floor: U64, "server", "this sequence was given out before the segment got its generation";
    more_reserved: [u8; 8], "server", "zero";
    checksum: U128, "server", "XXH3-128 over bytes 0 to 48, the UUID (16 bytes), the segment's number (4) and its generation (4)";
}

/// The log's memory of dropped records of freed segments. Each freed segment carries the newest state into its next
/// generation, so the segment that was freed last always has the newest state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heritage {
    /// Tokens of writes up to this sequence may be gone.
    pub tokens_lost: u64,
    /// Sequences up to this value were given out.
    pub sequence_floor: u64,
}

impl Heritage {
    /// The union of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            tokens_lost: self.tokens_lost.max(other.tokens_lost),
            sequence_floor: self.sequence_floor.max(other.sequence_floor),
        }
    }
}

/// The records accepted below a unit of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Counts the seals of the segment in this generation, from 1.
    pub serial: u32,
    /// Unit after the last sealed record.
    pub end: u32,
    /// Number of records.
    pub count: u32,
    /// XOR of their commit tags.
    pub xor: u64,
    /// The log's memory of freed segments.
    pub heritage: Heritage,
}

impl Seal {
    fn checksum(bytes: &[u8], format: &LogFormat, number: u32, generation: u32) -> u128 {
        let mut bound = [0; CHECKSUM_OFFSET + 24];
        bound[..CHECKSUM_OFFSET].copy_from_slice(&bytes[..CHECKSUM_OFFSET]);
        bound[48..64].copy_from_slice(&format.uuid.to_be_bytes());
        bound[64..68].copy_from_slice(&number.to_le_bytes());
        bound[68..72].copy_from_slice(&generation.to_le_bytes());
        hash::xxh3_128(&bound)
    }

    fn parse(
        bytes: &[u8; UNIT_SIZE as usize],
        format: &LogFormat,
        number: u32,
        generation: u32,
    ) -> Option<Self> {
        let slot = SealBytes::read_from_bytes(bytes).expect("a seal is one line");
        let heritage = Heritage {
            tokens_lost: slot.tokens_lost.get(),
            sequence_floor: slot.sequence_floor.get(),
        };
        let (serial, end, count) = (slot.serial.get(), slot.end.get(), slot.count.get());
        let seal = Self {
            serial,
            end,
            count,
            xor: slot.xor.get(),
            heritage,
        };
        let possible = seal.serial != 0
            && (SEGMENT_HEADER_UNITS..=format.segment_units()).contains(&seal.end)
            && slot.reserved == U32::ZERO
            && slot.more_reserved == [0; 8];
        (possible && slot.checksum.get() == Self::checksum(bytes, format, number, generation))
            .then_some(seal)
    }

    /// Writes the seal over the seal before the last, and returns the bytes that the caller must persist.
    pub(crate) fn write(
        &self,
        region: &dyn Region,
        format: &LogFormat,
        number: u32,
        generation: u32,
    ) -> Span {
        let mut slot = SealBytes {
            serial: U32::new(self.serial),
            end: U32::new(self.end),
            count: U32::new(self.count),
            reserved: U32::ZERO,
            xor: U64::new(self.xor),
            tokens_lost: U64::new(self.heritage.tokens_lost),
            sequence_floor: U64::new(self.heritage.sequence_floor),
            more_reserved: [0; 8],
            checksum: U128::ZERO,
        };
        slot.checksum = U128::new(Self::checksum(slot.as_bytes(), format, number, generation));
        let unit = SLOTS[self.serial as usize % 2];
        let span = format.span(number, unit, unit + 1);
        region.write(span.offset, slot.as_bytes());
        span
    }

    /// The newest seal. An invalid slot holds a seal that a crash tore, one of an earlier
    /// generation, or damage; the three look alike, and the previous seal, with the links above it,
    /// still names the records that must be there.
    ///
    /// Two valid seals whose serials do not follow each other are damage, reported beside the newer
    /// one.
    pub(crate) fn newest(
        region: &dyn Region,
        place: &Place<'_>,
        generation: u32,
    ) -> (Option<Self>, Option<Corruption>) {
        let (format, number) = (place.format, place.number);
        let [even, odd] = SLOTS.map(|unit| {
            let mut bytes = [0; UNIT_SIZE as usize];
            region.read(format.position(number, unit), &mut bytes);
            Self::parse(&bytes, format, number, generation).filter(|seal| seal.slot_unit() == unit)
        });
        let newest = even.into_iter().chain(odd).max_by_key(|seal| seal.serial);
        let damage = even
            .zip(odd)
            .filter(|(even, odd)| even.serial.abs_diff(odd.serial) != 1)
            .map(|(even, odd)| {
                let found = format!("serials {} and {}", even.serial, odd.serial);
                place.corruption(
                    "segment seal",
                    SLOTS[0],
                    found,
                    "serials that follow each other".to_owned(),
                )
            });
        (newest, damage)
    }

    /// The unit of this seal.
    pub(crate) fn slot_unit(&self) -> u32 {
        SLOTS[self.serial as usize % 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::format;
    use crate::memory::Memory;

    fn seal(serial: u32) -> Seal {
        Seal {
            serial,
            end: 40 + serial,
            count: 5,
            xor: 0x1234_5678_9abc_def0,
            heritage: Heritage {
                tokens_lost: 3,
                sequence_floor: 9,
            },
        }
    }

    fn newest(memory: &Memory, format: &LogFormat, number: u32, generation: u32) -> Option<Seal> {
        let (newest, damage) = Seal::newest(
            memory,
            &Place {
                format,
                file: "log",
                number,
            },
            generation,
        );
        assert_eq!(damage, None);
        newest
    }

    #[test]
    fn the_newest_seal_counts_and_the_one_before_it_stays() {
        let format = format(4096, 2);
        let memory = Memory::new(8192);
        assert_eq!(newest(&memory, &format, 1, 1), None);
        for serial in 1..6 {
            seal(serial).write(&memory, &format, 1, 1);
            assert_eq!(newest(&memory, &format, 1, 1), Some(seal(serial)));
            if serial > 1 {
                let offset = 4096 + u64::from(seal(serial).slot_unit()) * 64;
                for bit in 0..512 {
                    memory.flip(offset, bit);
                    assert_eq!(
                        newest(&memory, &format, 1, 1),
                        Some(seal(serial - 1)),
                        "bit {bit}"
                    );
                    memory.flip(offset, bit);
                }
            }
        }
    }

    /// Needs pool, number and generation in the checksum.
    #[test]
    fn a_seal_of_another_pool_segment_or_generation_is_invalid() {
        let format = format(4096, 2);
        let memory = Memory::new(8192);
        seal(1).write(&memory, &format, 0, 1);
        let mut line = [0; 64];
        memory.read(128, &mut line);
        memory.write(4096 + 128, &line);
        assert_eq!(newest(&memory, &format, 1, 1), None);
        assert_eq!(newest(&memory, &format, 0, 2), None);
        assert_eq!(
            newest(&memory, &LogFormat { uuid: 9, ..format }, 0, 1),
            None
        );
        // In the slot of even serials it is misplaced.
        memory.write(128, &[0; 64]);
        memory.write(64, &line);
        assert_eq!(newest(&memory, &format, 0, 1), None);
    }

    /// Needs the bounds: arithmetic uses the numbers of the seal.
    #[test]
    fn a_seal_with_impossible_values_is_invalid() {
        let format = format(4096, 2);
        for wrong in [
            Seal {
                serial: 0,
                ..seal(2)
            },
            Seal { end: 3, ..seal(2) },
            Seal { end: 65, ..seal(2) },
        ] {
            let memory = Memory::new(8192);
            wrong.write(&memory, &format, 0, 1);
            assert_eq!(newest(&memory, &format, 0, 1), None);
            Seal {
                serial: 2,
                end: 64,
                ..wrong
            }
            .write(&memory, &format, 0, 1);
            assert!(newest(&memory, &format, 0, 1).is_some());
        }
    }

    #[test]
    fn two_seals_that_do_not_follow_each_other_are_corruption() {
        let format = format(4096, 2);
        let memory = Memory::new(8192);
        seal(2).write(&memory, &format, 0, 1);
        seal(5).write(&memory, &format, 0, 1);
        let (_, damage) = Seal::newest(
            &memory,
            &Place {
                format: &format,
                file: "log",
                number: 0,
            },
            1,
        );
        assert_eq!(damage.unwrap().what, "segment seal");
    }
}
