//! The index of each shard, the state of all segments and the remembered tokens, written when a pool is closed, so that
//! the next opening scans only later records.
//!
//! A checkpoint is a hint: it is checked whole (128-bit checksum, pool UUID) before any word of it is used. If the
//! checkpoint is absent, damaged or does not fit, the log is scanned instead. A checkpoint stays useful after a crash
//! as long as segments only grow: recovery continues from the end of each segment at the time of the checkpoint. Once a
//! segment was freed since then, words may name records that are gone, and the checkpoint does not count.

use stonecast_base::{Corruption, hash, mutant};
use stonecast_log::{Heritage, LogFormat, SegmentState};
use zerocopy::byteorder::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::server::shard::Shard as LiveShard;
use crate::server::shard::keys::Keys;
use crate::server::shard::outcomes::Outcomes;
use crate::server::space::occupancy::Occupancy;
use crate::wire::{BUCKET_WORDS, INDEX_BITS_MAX, Word};

const MAGIC: [u8; 8] = *b"stoneckp";
const VERSION: u32 = 4;
/// No pool reaches this sequence: at a thousand million commits a second, it takes over a century.
const SEQUENCE_LIMIT: u64 = 1 << 62;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    /// XXH3-128 of all bytes after this field.
    checksum: U128,
    magic: [u8; 8],
    version: U32,
    shard_count: U32,
    uuid: U128,
    sequence: U64,
    segment_count: U64,
}

/// The facts of a shard. Its outcomes and buckets follow those of the preceding shards.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Shard {
    index_bits: U32,
    reserved: U32,
    live_bytes: U64,
    bucket_count: U64,
    outcome_count: U64,
    /// The version after which all outcomes are remembered; see [`Outcomes::horizon`].
    horizon: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Segment {
    number: U32,
    generation: U32,
    end: U32,
    last: U32,
    count: U32,
    durable: U32,
    seal_end: U32,
    seal_serial: U32,
    xor: U64,
    tokens_lost: U64,
    sequence_floor: U64,
    /// The facts about the records of the segment; see [`Occupancy`].
    live: U64,
    tombstones: U64,
    first_death: U64,
    written_at: U64,
    newest_tombstone: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Bucket {
    number: U64,
    words: [U64; 8],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Outcome {
    token: U64,
    sequence: U64,
}

impl Segment {
    fn new(state: &SegmentState, occupancy: &Occupancy) -> Self {
        let SegmentState {
            number,
            generation,
            end,
            last,
            count,
            xor,
            durable,
            seal_end,
            seal_serial,
            heritage,
        } = *state;
        let Heritage {
            tokens_lost,
            sequence_floor,
        } = heritage;
        let Occupancy {
            live,
            tombstones,
            first_death,
            written_at,
            newest_tombstone,
        } = *occupancy;
        Self {
            number: U32::new(number),
            generation: U32::new(generation),
            end: U32::new(end),
            last: U32::new(last),
            count: U32::new(count),
            durable: U32::new(durable),
            seal_end: U32::new(seal_end),
            seal_serial: U32::new(seal_serial),
            xor: U64::new(xor),
            tokens_lost: U64::new(tokens_lost),
            sequence_floor: U64::new(sequence_floor),
            live: U64::new(live.max(0) as u64),
            tombstones: U64::new(tombstones),
            first_death: U64::new(first_death),
            written_at: U64::new(written_at),
            newest_tombstone: U64::new(newest_tombstone),
        }
    }

    fn to_state(&self) -> SegmentState {
        SegmentState {
            number: self.number.get(),
            generation: self.generation.get(),
            end: self.end.get(),
            last: self.last.get(),
            count: self.count.get(),
            xor: self.xor.get(),
            durable: self.durable.get(),
            seal_end: self.seal_end.get(),
            seal_serial: self.seal_serial.get(),
            heritage: Heritage {
                tokens_lost: self.tokens_lost.get(),
                sequence_floor: self.sequence_floor.get(),
            },
        }
    }

    fn to_occupancy(&self) -> Occupancy {
        Occupancy {
            live: self.live.get() as i64,
            tombstones: self.tombstones.get(),
            first_death: self.first_death.get(),
            written_at: self.written_at.get(),
            newest_tombstone: self.newest_tombstone.get(),
        }
    }
}

const _: () =
    assert!(size_of::<Header>() == 64 && size_of::<Segment>() == 96 && size_of::<Bucket>() == 72);
const _: () = assert!(size_of::<Shard>() == 40 && size_of::<Outcome>() == 16);

/// The content of a checkpoint beside the keys of the shards.
#[derive(Default)]
pub(crate) struct Checkpoint {
    pub segments: Vec<SegmentState>,
    /// The occupancy of each segment, by its number; segments that were never used may be missing at the end.
    pub occupancy: Vec<Occupancy>,
    pub sequence: u64,
}

/// The bytes of a checkpoint:
///
/// ```text
///   header | segments | shards | outcomes of all shards | buckets of all shards
/// ```
pub(in crate::server) fn encode<'a>(
    format: &LogFormat,
    shards: impl ExactSizeIterator<Item = &'a LiveShard>,
    segments: impl Iterator<Item = (&'a SegmentState, &'a Occupancy)>,
    sequence: u64,
) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<Header>()];
    let mut segment_count = 0;
    for (state, occupancy) in segments {
        bytes.extend_from_slice(Segment::new(state, occupancy).as_bytes());
        segment_count += 1;
    }
    let shard_count = shards.len() as u32;
    let (mut facts, mut outcomes, mut buckets) = (Vec::new(), Vec::new(), Vec::new());
    for shard in shards {
        let of_shard = encode_shard(shard, &mut outcomes, &mut buckets);
        facts.extend_from_slice(of_shard.as_bytes());
    }
    for part in [facts, outcomes, buckets] {
        bytes.extend_from_slice(&part);
    }
    let mut header = Header {
        checksum: U128::new(0),
        magic: MAGIC,
        version: U32::new(VERSION),
        shard_count: U32::new(shard_count),
        uuid: U128::new(format.uuid),
        sequence: U64::new(sequence),
        segment_count: U64::new(segment_count),
    };
    bytes[..size_of::<Header>()].copy_from_slice(header.as_bytes());
    header.checksum = U128::new(hash::xxh3_128(&bytes[size_of::<U128>()..]));
    bytes[..size_of::<Header>()].copy_from_slice(header.as_bytes());
    bytes
}

/// Adds the outcomes and buckets of `shard`, and returns its facts.
fn encode_shard(shard: &LiveShard, outcomes: &mut Vec<u8>, buckets: &mut Vec<u8>) -> Shard {
    let mut outcome_count = 0;
    for (sequence, token) in shard.outcomes.entries() {
        let outcome = Outcome {
            token: U64::new(token),
            sequence: U64::new(sequence),
        };
        outcomes.extend_from_slice(outcome.as_bytes());
        outcome_count += 1;
    }
    let mut bucket_count = 0;
    shard.index().table().for_each_bucket(|number, words| {
        let bucket = Bucket {
            number: U64::new(number),
            words: words.map(U64::new),
        };
        buckets.extend_from_slice(bucket.as_bytes());
        bucket_count += 1;
    });
    Shard {
        index_bits: U32::new(shard.index().table().bits()),
        reserved: U32::ZERO,
        live_bytes: U64::new(shard.live_bytes()),
        bucket_count: U64::new(bucket_count),
        outcome_count: U64::new(outcome_count),
        horizon: U64::new(shard.outcomes.horizon()),
    }
}

/// Damage of a checkpoint.
fn damage(what: &'static str, found: String, expected: String) -> Corruption {
    Corruption {
        what: what.into(),
        file: "checkpoint".into(),
        offset: 0,
        found,
        expected,
    }
}

/// A checkpoint that was checked whole.
pub(crate) struct Image<'a> {
    header: Header,
    segments: &'a [Segment],
    shards: Vec<ShardImage<'a>>,
}

/// The parts of a shard.
struct ShardImage<'a> {
    facts: &'a Shard,
    outcomes: &'a [Outcome],
    buckets: &'a [Bucket],
}

impl<'a> Image<'a> {
    /// Checks `bytes`, found in a pool of `shards` shards.
    pub fn parse(bytes: &'a [u8], format: &LogFormat, shards: u32) -> Result<Self, Corruption> {
        let Ok((header, rest)) = Header::read_from_prefix(bytes) else {
            return Err(damage(
                "checkpoint",
                format!("{} bytes", bytes.len()),
                format!("at least {} bytes", size_of::<Header>()),
            ));
        };
        let checksum = hash::xxh3_128(&bytes[size_of::<U128>()..]);
        if header.checksum.get() != checksum && !mutant!(CheckpointNotChecked)
            || header.magic != MAGIC
        {
            return Err(damage(
                "checkpoint checksum",
                format!("{:#034x}", header.checksum.get()),
                format!("{checksum:#034x}"),
            ));
        }
        if header.version.get() != VERSION
            || header.uuid.get() != format.uuid
            || header.shard_count.get() != shards
        {
            return Err(damage(
                "checkpoint identity",
                "another pool or version".to_owned(),
                "this pool".to_owned(),
            ));
        }
        // The checksum is right, so `encode` wrote the rest. Lengths are still checked, because a bug must not cause a
        // read out of bounds.
        let segment_count = header.segment_count.get();
        let parts = take::<Segment>(rest, segment_count)
            .and_then(|(segments, rest)| Some((segments, parts_of_shards(rest, shards)?)));
        let Some((segments, shards)) = parts else {
            return Err(damage(
                "checkpoint length",
                format!("{} bytes", bytes.len()),
                "whole segments and buckets".to_owned(),
            ));
        };
        let image = Self {
            header,
            segments,
            shards,
        };
        image.check_parts(format)?;
        Ok(image)
    }

    /// Checks that a pool of this format can contain the parts.
    fn check_parts(&self, format: &LogFormat) -> Result<(), Corruption> {
        let Self {
            header, segments, ..
        } = self;
        if let Some(segment) = segments
            .iter()
            .find(|segment| segment.number.get() >= format.segment_count)
        {
            return Err(damage(
                "checkpoint segment",
                segment.number.to_string(),
                format!("below {}", format.segment_count),
            ));
        }
        let capacity = format.segment_size * u64::from(format.segment_count);
        let faults = self.shards.iter().map(|shard| shard.check(capacity));
        faults.collect::<Result<(), _>>()?;
        if header.sequence.get() >= SEQUENCE_LIMIT {
            return Err(damage(
                "checkpoint sequence",
                header.sequence.get().to_string(),
                format!("below {SEQUENCE_LIMIT}"),
            ));
        }
        Ok(())
    }

    /// The last sequence of the records for which the checkpoint stands.
    pub fn sequence(&self) -> u64 {
        self.header.sequence.get()
    }

    /// The states of the segments in the checkpoint.
    pub fn segments(&self) -> Vec<SegmentState> {
        self.segments.iter().map(Segment::to_state).collect()
    }

    /// log2 of the buckets of each index at the time of the checkpoint.
    pub fn index_bits(&self) -> Vec<u32> {
        let bits = |shard: &ShardImage<'_>| shard.facts.index_bits.get();
        self.shards.iter().map(bits).collect()
    }

    /// Fills the empty `shards`, whose indexes have `index_bits`, and returns the rest of the checkpoint.
    pub fn restore(&self, shards: &mut [Keys]) -> Checkpoint {
        let count = self.header.shard_count.get();
        for (image, keys) in self.shards.iter().zip(shards) {
            image.restore(keys, count);
        }
        let mut occupancy = vec![
            Occupancy::EMPTY;
            self.segments
                .iter()
                .map(|segment| segment.number.get() + 1)
                .max()
                .unwrap_or(0) as usize
        ];
        for segment in self.segments {
            occupancy[segment.number.get() as usize] = segment.to_occupancy();
        }
        Checkpoint {
            segments: self.segments(),
            occupancy,
            sequence: self.header.sequence.get(),
        }
    }
}

impl ShardImage<'_> {
    /// Checks that the words lie in a table of this size, and point into a log of `capacity` bytes.
    fn check(&self, capacity: u64) -> Result<(), Corruption> {
        let bits = self.facts.index_bits.get();
        if bits > INDEX_BITS_MAX {
            return Err(damage(
                "checkpoint index",
                format!("2^{bits} buckets"),
                format!("at most 2^{INDEX_BITS_MAX}"),
            ));
        }
        let mut buckets = self.buckets.iter();
        if let Some(bucket) = buckets.find(|bucket| bucket.number.get() >> bits != 0) {
            return Err(damage(
                "checkpoint bucket",
                bucket.number.to_string(),
                format!("below 2^{bits}"),
            ));
        }
        let mut words = self
            .buckets
            .iter()
            .flat_map(|bucket| &bucket.words[..BUCKET_WORDS as usize])
            .map(|word| Word(word.get()));
        if let Some(word) = words.find(|&word| word != Word::EMPTY && word.position() >= capacity) {
            return Err(damage(
                "checkpoint word",
                format!("position {}", word.position()),
                format!("below {capacity}"),
            ));
        }
        Ok(())
    }

    /// Fills the empty `keys` of one of `shards` shards.
    fn restore(&self, keys: &mut Keys, shards: u32) {
        assert_eq!(keys.index.table().bits(), self.facts.index_bits.get());
        for bucket in self.buckets {
            let words = bucket.words.map(U64::get);
            keys.index.restore_bucket(bucket.number.get(), &words);
        }
        keys.live_bytes = self.facts.live_bytes.get();
        keys.outcomes = Outcomes::forgotten_up_to(self.facts.horizon.get(), shards);
        for outcome in self.outcomes {
            let (token, sequence) = (outcome.token.get(), outcome.sequence.get());
            keys.outcomes.note(token, sequence);
        }
    }
}

/// The parts of `count` shards, which are all of `bytes`.
fn parts_of_shards(bytes: &[u8], count: u32) -> Option<Vec<ShardImage<'_>>> {
    let (all, mut rest) = take::<Shard>(bytes, count.into())?;
    let mut outcomes = Vec::new();
    for facts in all {
        let of_shard;
        (of_shard, rest) = take::<Outcome>(rest, facts.outcome_count.get())?;
        outcomes.push(of_shard);
    }
    let mut shards = Vec::new();
    for (facts, outcomes) in all.iter().zip(outcomes) {
        let buckets;
        (buckets, rest) = take::<Bucket>(rest, facts.bucket_count.get())?;
        shards.push(ShardImage {
            facts,
            outcomes,
            buckets,
        });
    }
    rest.is_empty().then_some(shards)
}

/// The first `count` values of `bytes`, and the bytes after them.
fn take<T: FromBytes + KnownLayout + Immutable + Unaligned>(
    bytes: &[u8],
    count: u64,
) -> Option<(&[T], &[u8])> {
    let size = usize::try_from(count).ok()?.checked_mul(size_of::<T>())?;
    let (first, rest) = bytes.split_at_checked(size)?;
    Some((<[T]>::ref_from_bytes(first).ok()?, rest))
}
