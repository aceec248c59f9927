//! Header and seals of a segment as they lie in the log.

use stonecast_base::{LINE_SIZE, hash};
use stonecast_media::Region;
use zerocopy::byteorder::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::LogFormat;

const MAGIC: [u8; 8] = *b"stonecsg";
const VERSION: u32 = 1;

/// Unit 0 of a segment.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawSegmentHeader {
    pub magic: [u8; 8],
    pub version: U32,
    pub number: U32,
    pub generation: U32,
    pub reserved: [u8; 20],
    pub uuid: U128,
    /// SipHash-2-4 under the secret over the 56 bytes before.
    pub checksum: U64,
}

/// Units 1 and 2 of a segment.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawSeal {
    pub serial: U32,
    pub number: U32,
    pub generation: U32,
    /// First unit above the seal.
    pub end: U32,
    /// Stamped records below `end`.
    pub count: U32,
    pub reserved: [u8; 28],
    /// XOR of their commit tags.
    pub xor: U64,
    /// SipHash-2-4 under the secret over the pool UUID and the 56 bytes before.
    pub checksum: U64,
}

const _: () = assert!(size_of::<RawSegmentHeader>() == LINE_SIZE && size_of::<RawSeal>() == LINE_SIZE);

impl RawSegmentHeader {
    pub fn new(format: &LogFormat, number: u32, generation: u32) -> Self {
        let mut header = Self {
            magic: MAGIC,
            version: U32::new(VERSION),
            number: U32::new(number),
            generation: U32::new(generation),
            reserved: [0; 20],
            uuid: U128::new(format.uuid),
            checksum: U64::new(0),
        };
        header.checksum = U64::new(hash::siphash24(format.secret(), &header.as_bytes()[..56]));
        header
    }

    /// The generation, if the header is whole and of this segment of this pool.
    pub fn check(&self, format: &LogFormat, number: u32) -> Option<u32> {
        let generation = self.generation.get();
        (self.as_bytes() == Self::new(format, number, generation).as_bytes()).then_some(generation)
    }

    pub fn is_zero(&self) -> bool {
        self.as_bytes() == [0; LINE_SIZE]
    }
}

impl RawSeal {
    pub fn new(format: &LogFormat, number: u32, generation: u32, serial: u32, end: u32, count: u32, xor: u64) -> Self {
        let mut seal = Self {
            serial: U32::new(serial),
            number: U32::new(number),
            generation: U32::new(generation),
            end: U32::new(end),
            count: U32::new(count),
            reserved: [0; 28],
            xor: U64::new(xor),
            checksum: U64::new(0),
        };
        seal.checksum = U64::new(seal.compute(format));
        seal
    }

    fn compute(&self, format: &LogFormat) -> u64 {
        let mut bytes = [0; 72];
        bytes[..16].copy_from_slice(&format.uuid.to_le_bytes());
        bytes[16..].copy_from_slice(&self.as_bytes()[..56]);
        hash::siphash24(format.secret(), &bytes)
    }

    /// Whether the seal is whole and of this use of this segment. An older use's seals stay behind when a segment is
    /// used again; they do not check.
    pub fn checks(&self, format: &LogFormat, number: u32, generation: u32) -> bool {
        self.number.get() == number && self.generation.get() == generation && self.checksum.get() == self.compute(format)
    }
}

/// Reads the newest seal of a segment that checks.
pub(crate) fn newest_seal(log: &dyn Region, format: &LogFormat, number: u32, generation: u32) -> Option<RawSeal> {
    let start = u64::from(number) * format.segment_size;
    let read = |slot: u64| {
        let mut bytes = [0; LINE_SIZE];
        log.read(start + slot * LINE_SIZE as u64, &mut bytes);
        let seal = RawSeal::read_from_bytes(&bytes).expect("64 bytes are a seal");
        seal.checks(format, number, generation).then_some(seal)
    };
    [read(1), read(2)].into_iter().flatten().max_by_key(|seal| seal.serial.get())
}
