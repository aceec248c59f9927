//! The yardstick of reads: the speed of this memory without any store.
//!
//! ```text
//!   for each operation    read the bucket (64 bytes)  ->  its word says where  ->  read the record  ->  compare its tag
//! ```
//!
//! The loop makes as many dependent reads, of the same sizes and from the same mappings, as a GET, and checks the same
//! tag. The bucket and the word of each operation were looked up beforehand, so the loop hashes no key, searches and
//! compares nothing, checks no right, and calls no provider.
//!
//! *Dependent* ([`Order::Dependent`]): a bucket is read after the tag of the operation before was compared, as by a
//! program that reads one value after the other. [`Order::Overlapping`] lets the processor begin the next operations
//! early, and shows the speed that many reads at once could reach.
//!
//! The loop reads the formats of index and log by itself, from their documentation: a loop that called the store's code
//! would be as slow as the store.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stonecast_base::hash::xxh3_64;
use stonecast_media::{MappedRegion, Region as _};
use stonecast_workload::Sequence;

use crate::cpu_time::thread_cpu_ns;
use crate::measured::Measured;

/// The bytes of a bucket, and of a unit that a location counts.
const LINE: u64 = 64;
/// The number of words of a bucket that hold keys.
const WORDS: u64 = 7;
/// The bits of a word that hold the location.
const LOCATION: u64 = (1 << 34) - 1;
/// The offset of a record's links, whose top 16 bits are the record's opening.
const LINKS_AT: usize = 16;
/// The offset of a record's tag.
const TAG_AT: usize = 24;
/// The offset from which the tag covers a record. The first word there holds the record's facts.
const TAGGED_FROM: usize = 32;
/// The offset of the key in a record with neither token nor moment.
const KEY_AT: usize = 40;
/// The shift of the opening above the position in a tag's seed.
const OPENING_SHIFT: u32 = 40;
/// The factor of opening and position in a tag's seed, which also has the pool's tag key.
const POSITION_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// The number of lines that a reader fetches, by the size class in the top four bits of a word.
const CLASS_LINES: [u64; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64, 64];
/// The longest record that one read fetches as a whole.
const RECORD_MAX: usize = 64 * LINE as usize;
/// The number of operations between two looks at the clock.
const ROUND: usize = 1024;

/// A piece of a region, as mapped into this process.
#[derive(Clone)]
pub struct Piece {
    /// The region.
    pub memory: Rc<MappedRegion>,
    /// The offset of the piece in the region, in bytes.
    pub start: u64,
}

/// The store's memory, as mapped into a client.
#[derive(Clone)]
pub struct StoreMemory {
    /// All buckets of the index.
    pub index: Piece,
    /// Bytes of the index.
    pub index_size: u64,
    /// All segments of the log.
    pub log: Piece,
    /// Key of the record tags.
    pub tag_key: u64,
}

/// The reason why no limit was measured.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// A key of the sequence is not in the store.
    #[error("key {key} is not in the store")]
    Absent {
        /// The name of the key.
        key: String,
    },
    /// Values so long that a GET takes more than two reads.
    #[error(
        "records of more than {} bytes take more than two reads, for which there is no limit",
        RECORD_MAX
    )]
    TooLong,
    /// A client wrote at the same time, or this module does not know the formats.
    #[error("{errors} records of the bare loop had a wrong tag")]
    WrongTag {
        /// The number of wrong tags.
        errors: u64,
    },
    /// The kernel did not tell the CPU time.
    #[error("reading the CPU time: {0}")]
    CpuTime(#[from] io::Error),
}

/// Whether an operation of the bare loop waits for the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each operation waits.
    Dependent,
    /// The processor may look ahead as far as it can.
    Overlapping,
}

/// The places that each operation of a sequence reads, looked up beforehand. Threads share this value.
#[derive(Clone)]
pub struct Limit {
    steps: Arc<[Step]>,
}

/// The places that one operation reads.
#[derive(Clone, Copy)]
struct Step {
    /// Offset of the bucket in the index region.
    bucket: u64,
    /// Offset of the word in the bucket.
    word_at: u16,
    /// Bytes to read of the record.
    read_size: u16,
    /// Bytes from the record's start to the end of its value.
    tagged_to: u16,
}

impl Limit {
    /// Looks up the places that each operation of `sequence` reads.
    pub fn prepare(store: &StoreMemory, sequence: &Sequence) -> Result<Self, LimitError> {
        let steps = steps_of_all_keys(store);
        let step = |key: &[u8]| match steps.get(key) {
            Some(step) if step.tagged_to <= step.read_size => Ok(*step),
            Some(_) => Err(LimitError::TooLong),
            None => Err(LimitError::Absent {
                key: String::from_utf8_lossy(key).into_owned(),
            }),
        };
        Ok(Self {
            steps: sequence
                .operations()
                .iter()
                .map(|operation| step(operation.key()))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Runs the bare loop over the sequence, from its `start`-th operation on, until `duration` has passed. A wrong tag
    /// counts as an error.
    pub fn run(
        &self,
        store: &StoreMemory,
        order: Order,
        start: usize,
        duration: Duration,
    ) -> Result<Measured, LimitError> {
        match order {
            Order::Dependent => self.run_in_order::<true>(store, start, duration),
            Order::Overlapping => self.run_in_order::<false>(store, start, duration),
        }
    }

    fn run_in_order<const DEPENDENT: bool>(
        &self,
        store: &StoreMemory,
        start: usize,
        duration: Duration,
    ) -> Result<Measured, LimitError> {
        let mut next = start % self.steps.len();
        let (mut ops, mut errors) = (0, 0);
        let mut record = [0u8; RECORD_MAX];
        // The next address is made of the last difference and a zero that neither compiler nor processor can predict.
        let zero = std::hint::black_box(0);
        let mut difference = 0;
        let cpu_start = thread_cpu_ns()?;
        let begin = Instant::now();
        while begin.elapsed() < duration {
            let end = (next + ROUND).min(self.steps.len());
            for step in &self.steps[next..end] {
                let after = if DEPENDENT { difference & zero } else { 0 };
                difference = read(store, *step, after, &mut record);
                errors += u64::from(difference != 0);
            }
            ops += (end - next) as u64;
            next = if end == self.steps.len() { 0 } else { end };
        }
        let seconds = begin.elapsed().as_secs_f64();
        Ok(Measured {
            ops,
            errors,
            seconds,
            client_cpu_ns: thread_cpu_ns()? - cpu_start,
            ..Measured::default()
        })
    }
}

/// Does the two reads, and returns the difference between the tag and the expected one. `after` is 0.
#[inline]
fn read(store: &StoreMemory, step: Step, after: u64, record: &mut [u8; RECORD_MAX]) -> u64 {
    let mut bucket = [0u8; LINE as usize];
    store.index.memory.read(step.bucket + after, &mut bucket);
    let position = location(word(&bucket, usize::from(step.word_at)));
    let record = &mut record[..usize::from(step.read_size)];
    store.log.memory.read(store.log.start + position, record);
    let place = position | (word(record, LINKS_AT) >> 48) << OPENING_SHIFT;
    let tag = xxh3_64(
        store.tag_key ^ place.wrapping_mul(POSITION_FACTOR),
        &record[TAGGED_FROM..usize::from(step.tagged_to)],
    );
    word(record, TAG_AT) ^ tag
}

/// The place of each key of the store, by name.
fn steps_of_all_keys(store: &StoreMemory) -> HashMap<Vec<u8>, Step> {
    let StoreMemory {
        index,
        index_size,
        log,
        ..
    } = store;
    let mut steps = HashMap::new();
    let mut bytes = [0u8; LINE as usize];
    let mut record = [0u8; RECORD_MAX];
    for bucket in (0..*index_size / LINE).map(|number| index.start + number * LINE) {
        index.memory.read(bucket, &mut bytes);
        for word_at in (0..WORDS as usize * 8).step_by(8) {
            let found = word(&bytes, word_at);
            if found == 0 {
                continue;
            }
            let at = log.start + location(found);
            let read_size = (CLASS_LINES[(found >> 60) as usize] * LINE)
                .min(log.memory.size().saturating_sub(at));
            log.memory.read(at, &mut record[..read_size as usize]);
            let facts = word(&record, TAGGED_FROM);
            let value_size = (facts & 0x1f_ffff).saturating_sub(2) as usize;
            let key_size = (facts >> 21 & 0x3ff) as usize + 1;
            let (has_token, rule) = (facts >> 31 & 1, facts >> 32 & 3);
            let key_at = KEY_AT + 8 * (has_token + (rule & 1)) as usize;
            let tagged_to = u16::try_from(key_at + key_size + value_size).unwrap_or(u16::MAX);
            if let Some(key) = record.get(key_at..key_at + key_size) {
                let step = Step {
                    bucket,
                    word_at: word_at as u16,
                    read_size: read_size as u16,
                    tagged_to,
                };
                steps.insert(key.to_vec(), step);
            }
        }
    }
    steps
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[inline]
fn location(word: u64) -> u64 {
    (word & LOCATION) * LINE
}
