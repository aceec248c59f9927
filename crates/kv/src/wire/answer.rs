//! The answers of a server. A message holds one or more answers, in order. Each answer is a tag byte and a body whose
//! size follows from the tag.

use stonecast_media::SHARDS_MAX;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::bucket::{INDEX_BITS_MAX, table_size};
use super::copies::{CopiesBody, CopiesPage};
use super::layout::message;
use super::word::Word;
use crate::stat::COUNTERS;
use crate::wire::intent::RING_SIZE;
use crate::wire::limits::{ANSWER_SIZE_MAX, LEASES_PER_CLIENT};

/// The result of an operation at the server. The first column is the tag byte.
macro_rules! verdicts {
    ($($number:literal $name:ident: $body:literal, $meaning:literal;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Verdict { $(#[doc = $meaning] $name = $number,)+ }

        impl Verdict {
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)+];
        }

        /// Tag, body and meaning of each verdict, for the page of the format.
        #[cfg(test)]
        pub(crate) const VERDICTS: &[(u8, &str, &str)] = &[$(($number, $body, $meaning),)+];
    };
}

verdicts! {
    0 Done: "version", "done: durable and visible";
    1 Conflict: "present version; 0: absent", "conflict: the condition did not hold, nothing was done";
    2 Absent: "0", "absent: nothing to delete";
    3 NoSpace: "bytes of live records", "no space: nothing was done";
    4 Invalid: "0", "invalid: the request breaks the rules, nothing was done";
    5 Busy: "0", "busy: space is being prepared, cleaned or taken back, nothing was done";
    6 Failed: "0", "failed: the write could not be made durable; its outcome is unknown";
    7 IndexFull: "0", "index full: there is no memory for a larger index, nothing was done";
    8 SpaceFailed: "0", "the medium failed to allocate space: nothing was done";
    9 NotDone: "0", "outcome: the write was not done, and will not be";
    10 Forgotten: "0", "outcome: forgotten, since too many later writes had tokens; unknown";
    11 MediumFull: "0", "the file system that the pool lies on is full: nothing was done";
    12 DoneReturn: "version", "done, as 0; other clients wait for room, and the client returns its leases for puts";
    13 NotPrimary: "epoch of the node", "not the primary: the node does not lead the shard in the term that the client named, nothing was done";
    14 TooFewCopies: "copies of the shard", "too few copies: the policy of the cluster asks for more, nothing was done";
    15 TooLong: "bytes of the longest record", "too long: no copy takes a record of that length, nothing was done";
    16 NoTime: "0", "no time yet: the time of the shard is on its way to all copies, nothing was done";
    17 Contradicted: "place of the key in the batch, from 0", "contradicted: an expectation of the batch did not hold, nothing was done";
    18 NoBatch: "place of a key of another shard than the first one's, from 1; 0: the server is alone on a pool of a cluster", "no batch: a node takes keys of one shard, nothing was done";
    19 NoHold: "1: of a cluster; 2: its clients publish", "no hold: the server does not see every change of its keys, nothing is kept";
    20 HoldLost: "0", "hold lost: the server keeps nothing for the client any more";
    21 Counted: "keys of the shard", "counted: the shard has so many keys";
    22 ChunksGone: "0", "chunks gone: a chunk that the record names is not there, or its time has come; nothing was done";
}

impl Verdict {
    fn parse(value: u8) -> Option<Self> {
        Self::ALL.get(usize::from(value)).copied()
    }
}

/// Tags of the other answers.
pub(crate) const TAG_LEASE: u8 = 0x40;
pub(crate) const TAG_STAT: u8 = 0x41;
pub(crate) const TAG_ACCESS: u8 = 0x42;
pub(crate) const TAG_RIGHTS: u8 = 0x43;
pub(crate) const TAG_READER_LEASE: u8 = 0x44;
pub(crate) const TAG_TIME: u8 = 0x45;
pub(crate) const TAG_KEPT: u8 = 0x46;
pub(crate) const TAG_COPIES: u8 = 0x47;

/// Words of kept records in one answer: as long as a page of a report.
pub(crate) const KEPT_WORDS: usize = COUNTERS - 4;

/// Stands for no shard in a reader's lease.
const NO_SHARD: u32 = u32::MAX;

message! {
    /// A lease on the wire.
    LeaseBody, LEASE:
    slot: U32, "slot, 0 to 7";
    segment: U32, "number of the segment";
    generation: U32, "generation of the segment";
    start: U32, "first free unit of the segment";
    last: U32, "unit of the last record stamped in the segment since the seal; 0: none";
    durable: U32, "every record below this unit is durable";
    rkey: U32, "rkey, write-only, from that unit to the end of the segment";
}

message! {
    /// The memory in which a client reads and stages, on the wire.
    AccessBody, ACCESS:
    table: U32, "number of the index";
    index_bits: U32, "log2 of its buckets";
    index_address: U64, "remote address of the index";
    log_address: U64, "remote address of the log";
    staging_address: U64, "remote address of the staging memory; 0: none";
    index_rkey: U32, "rkey of the index, read-only";
    log_rkey: U32, "rkey of the log, read-only";
    staging_rkey: U32, "rkey of the staging memory, write-only; 0: none";
    version: U64, "the latest version that the node has given: a write of the client that comes later gets a higher one";
}

message! {
    /// Rights to publish, on the wire.
    RightsBody, RIGHTS:
    table: U32, "number of the index of the rights";
    index_rkey: U32, "rkey of the index, atomics";
    counter_address: U64, "remote address of the next sequence";
    ring_address: U64, "remote address of the ring for intents";
    counter_rkey: U32, "rkey of the counter, atomics";
    ring_rkey: U32, "rkey of the ring, read and write";
    secret: [U64; 2], "secret of the pool";
}

message! {
    /// A reader's lease on the wire.
    ReaderLeaseBody, READER_LEASE:
    held_ns: U64, "nanoseconds, from the moment at which the client sent the request, for which the memory of the covered shards tells the truth";
    covered: U64, "the covered shards, bit N for shard N";
    lapsed: U32, "a shard that the node does not lead in the term that the client named, and that the client is no longer in; 0xffffffff: none";
}

message! {
    /// The server's time on the wire.
    TimeBody, TIME:
    now_ms: U64, "the server's time, milliseconds since 1970 in UTC";
    mark_ms: U64, "durable mark: the server's time does not exceed it before the mark is raised, and goes on from the mark or above after a restart";
}

message! {
    /// A page of kept records on the wire.
    KeptBody, KEPT:
    version: U64, "the version that the client holds";
    keys: U64, "keys of the store at that version";
    chunks: U64, "chunks of values beside them";
    waiting: U64, "records that the client still has to read";
    words: [U64; KEPT_WORDS], "the words of the first of them; 0: no more";
}

/// The records that a client which holds a version has to read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptPage {
    /// The version that the client holds.
    pub version: u64,
    /// Keys of the store at that version.
    pub keys: u64,
    /// Chunks of values beside them.
    pub chunks: u64,
    /// Records that the client still has to read.
    pub waiting: u64,
    /// The words of the first of them, as many as there are.
    pub words: [Word; KEPT_WORDS],
}

/// The server's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerTimeGrant {
    /// Milliseconds since 1970.
    pub now_ms: u64,
    /// A key that has expired at the mark has expired after every restart.
    pub mark_ms: u64,
}

/// A reader's lease on the shards that the client has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReaderLeaseGrant {
    /// The length, from the moment at which the client sent the request.
    pub held_ns: u64,
    /// A shard that the client is no longer in.
    pub lapsed: Option<u32>,
    /// The shards on which the lease is, bit N for shard N.
    pub covered: u64,
}

impl ReaderLeaseGrant {
    /// Whether the lease is on `shard`.
    pub fn covers(&self, shard: u32) -> bool {
        self.covered & (1 << shard) != 0
    }
}

// Each shard has a bit.
const _: () = assert!(SHARDS_MAX <= u64::BITS);

/// Rights to publish.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RightsGrant {
    /// Number of the index that the rights are for.
    pub table: u32,
    pub index_rkey: u32,
    pub counter_address: u64,
    pub counter_rkey: u32,
    pub ring_address: u64,
    pub ring_rkey: u32,
    pub secret: [u64; 2],
}

impl std::fmt::Debug for RightsGrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RightsGrant")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl RightsGrant {
    /// The fault of the rights, if any; see [`Accesses::fault`].
    pub fn fault(&self) -> Option<&'static str> {
        let fits = |address: u64, size: u64| {
            address.is_multiple_of(64) && address.checked_add(size).is_some()
        };
        let all = fits(self.counter_address, 8) && fits(self.ring_address, RING_SIZE);
        (!all).then_some("the server names memory at an address that it cannot have")
    }
}

/// A lease as the client receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub slot: u8,
    pub segment: u32,
    pub generation: u32,
    /// First free 64-byte unit of the segment.
    pub start: u32,
    /// Facts of earlier stamps, repeated by the first stamp of the lease.
    pub last: u32,
    pub durable: u32,
    pub rkey: u32,
}

/// The memory that a client may access, apart from its leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accesses {
    /// Number of the index; each index has its own.
    pub table: u32,
    /// log2 of the number of buckets.
    pub index_bits: u32,
    pub index_address: u64,
    pub log_address: u64,
    pub staging_address: u64,
    pub index_rkey: u32,
    pub log_rkey: u32,
    pub staging_rkey: u32,
    /// The latest version that the node has given.
    pub version: u64,
}

/// One answer. Most answers are verdicts, of which a batch holds many: the two that are long lie elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Verdict { verdict: Verdict, version: u64 },
    Lease(Grant),
    Stat(Box<[u64; COUNTERS]>),
    Access(Accesses),
    Rights(RightsGrant),
    ReaderLease(ReaderLeaseGrant),
    Time(ServerTimeGrant),
    Kept(Box<KeptPage>),
    Copies(Box<CopiesPage>),
}

impl From<Verdict> for Answer {
    /// A verdict without a version.
    fn from(verdict: Verdict) -> Self {
        Self::Verdict {
            verdict,
            version: 0,
        }
    }
}

/// Frames several answers into one message.
#[derive(Default)]
pub(crate) struct AnswerWriter {
    bytes: Vec<u8>,
}

impl AnswerWriter {
    /// Adds an answer. Returns false if the message is full and must be sent first.
    #[must_use]
    pub fn push(&mut self, answer: &Answer) -> bool {
        let size = 1 + match answer {
            Answer::Verdict { .. } => 8,
            Answer::Lease(_) => size_of::<LeaseBody>(),
            Answer::Stat(_) => COUNTERS * 8,
            Answer::Access(_) => size_of::<AccessBody>(),
            Answer::Rights(_) => size_of::<RightsBody>(),
            Answer::ReaderLease(_) => size_of::<ReaderLeaseBody>(),
            Answer::Time(_) => size_of::<TimeBody>(),
            Answer::Kept(_) => size_of::<KeptBody>(),
            Answer::Copies(_) => size_of::<CopiesBody>(),
        };
        if self.bytes.len() + size > ANSWER_SIZE_MAX {
            return false;
        }
        match answer {
            Answer::Verdict { verdict, version } => {
                self.bytes.push(*verdict as u8);
                self.bytes.extend_from_slice(&version.to_le_bytes());
            }
            Answer::Lease(grant) => self.add(TAG_LEASE, &LeaseBody::from(grant)),
            Answer::Stat(words) => self.add(TAG_STAT, &words.map(U64::new)),
            Answer::Access(accesses) => self.add(TAG_ACCESS, &AccessBody::from(accesses)),
            Answer::Rights(grant) => self.add(TAG_RIGHTS, &RightsBody::from(grant)),
            Answer::ReaderLease(grant) => {
                self.add(TAG_READER_LEASE, &ReaderLeaseBody::from(grant));
            }
            Answer::Time(grant) => self.add(TAG_TIME, &TimeBody::from(grant)),
            Answer::Kept(page) => self.add(TAG_KEPT, &KeptBody::from(&**page)),
            Answer::Copies(page) => self.add(TAG_COPIES, &CopiesBody::from(&**page)),
        }
        true
    }

    fn add(&mut self, tag: u8, body: &(impl IntoBytes + Immutable)) {
        self.bytes.push(tag);
        self.bytes.extend_from_slice(body.as_bytes());
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
    }
}

/// Takes the next answer off `bytes`. Returns `None` at the end, and for bytes that are no answer; in the second case
/// `bytes` is not empty.
pub(crate) fn next_answer(bytes: &mut &[u8]) -> Option<Answer> {
    let (&tag, rest) = bytes.split_first()?;
    let (answer, rest) = match tag {
        TAG_LEASE => {
            let (body, rest) = LeaseBody::read_from_prefix(rest).ok()?;
            (Answer::Lease(body.grant()?), rest)
        }
        TAG_TIME => {
            let (body, rest) = TimeBody::read_from_prefix(rest).ok()?;
            (Answer::Time(ServerTimeGrant::from(&body)), rest)
        }
        TAG_KEPT => {
            let (body, rest) = KeptBody::read_from_prefix(rest).ok()?;
            (Answer::Kept(Box::new(KeptPage::from(&body))), rest)
        }
        TAG_COPIES => {
            let (body, rest) = CopiesBody::read_from_prefix(rest).ok()?;
            (Answer::Copies(Box::new(body.page()?)), rest)
        }
        TAG_STAT => {
            let (words, rest) = <[U64; COUNTERS]>::read_from_prefix(rest).ok()?;
            (Answer::Stat(Box::new(words.map(U64::get))), rest)
        }
        TAG_ACCESS => {
            let (body, rest) = AccessBody::read_from_prefix(rest).ok()?;
            (Answer::Access(Accesses::from(&body)), rest)
        }
        TAG_RIGHTS => {
            let (body, rest) = RightsBody::read_from_prefix(rest).ok()?;
            (Answer::Rights(RightsGrant::from(&body)), rest)
        }
        TAG_READER_LEASE => {
            let (body, rest) = ReaderLeaseBody::read_from_prefix(rest).ok()?;
            (Answer::ReaderLease(ReaderLeaseGrant::from(&body)), rest)
        }
        verdict => {
            let (version, rest) = U64::read_from_prefix(rest).ok()?;
            (
                Answer::Verdict {
                    verdict: Verdict::parse(verdict)?,
                    version: version.get(),
                },
                rest,
            )
        }
    };
    *bytes = rest;
    Some(answer)
}

impl From<&Grant> for LeaseBody {
    fn from(grant: &Grant) -> Self {
        Self {
            slot: U32::new(grant.slot.into()),
            segment: U32::new(grant.segment),
            generation: U32::new(grant.generation),
            start: U32::new(grant.start),
            last: U32::new(grant.last),
            durable: U32::new(grant.durable),
            rkey: U32::new(grant.rkey),
        }
    }
}

impl LeaseBody {
    /// The lease; `None`: no client has a slot of that number.
    fn grant(&self) -> Option<Grant> {
        let slot = u8::try_from(self.slot.get()).ok();
        Some(Grant {
            slot: slot.filter(|&slot| usize::from(slot) < LEASES_PER_CLIENT)?,
            segment: self.segment.get(),
            generation: self.generation.get(),
            start: self.start.get(),
            last: self.last.get(),
            durable: self.durable.get(),
            rkey: self.rkey.get(),
        })
    }
}

impl From<&ServerTimeGrant> for TimeBody {
    fn from(grant: &ServerTimeGrant) -> Self {
        Self {
            now_ms: U64::new(grant.now_ms),
            mark_ms: U64::new(grant.mark_ms),
        }
    }
}

impl From<&TimeBody> for ServerTimeGrant {
    fn from(body: &TimeBody) -> Self {
        Self {
            now_ms: body.now_ms.get(),
            mark_ms: body.mark_ms.get(),
        }
    }
}

impl From<&KeptPage> for KeptBody {
    fn from(page: &KeptPage) -> Self {
        Self {
            version: U64::new(page.version),
            keys: U64::new(page.keys),
            chunks: U64::new(page.chunks),
            waiting: U64::new(page.waiting),
            words: page.words.map(|word| U64::new(word.0)),
        }
    }
}

impl From<&KeptBody> for KeptPage {
    fn from(body: &KeptBody) -> Self {
        Self {
            version: body.version.get(),
            keys: body.keys.get(),
            chunks: body.chunks.get(),
            waiting: body.waiting.get(),
            words: body.words.map(|word| Word(word.get())),
        }
    }
}

impl From<&RightsGrant> for RightsBody {
    fn from(grant: &RightsGrant) -> Self {
        Self {
            table: U32::new(grant.table),
            index_rkey: U32::new(grant.index_rkey),
            counter_address: U64::new(grant.counter_address),
            ring_address: U64::new(grant.ring_address),
            counter_rkey: U32::new(grant.counter_rkey),
            ring_rkey: U32::new(grant.ring_rkey),
            secret: grant.secret.map(U64::new),
        }
    }
}

impl From<&RightsBody> for RightsGrant {
    fn from(body: &RightsBody) -> Self {
        Self {
            table: body.table.get(),
            index_rkey: body.index_rkey.get(),
            counter_address: body.counter_address.get(),
            counter_rkey: body.counter_rkey.get(),
            ring_address: body.ring_address.get(),
            ring_rkey: body.ring_rkey.get(),
            secret: body.secret.map(U64::get),
        }
    }
}

impl From<&ReaderLeaseGrant> for ReaderLeaseBody {
    fn from(grant: &ReaderLeaseGrant) -> Self {
        Self {
            held_ns: U64::new(grant.held_ns),
            lapsed: U32::new(grant.lapsed.unwrap_or(NO_SHARD)),
            covered: U64::new(grant.covered),
        }
    }
}

impl From<&ReaderLeaseBody> for ReaderLeaseGrant {
    fn from(body: &ReaderLeaseBody) -> Self {
        let lapsed = body.lapsed.get();
        Self {
            held_ns: body.held_ns.get(),
            lapsed: (lapsed != NO_SHARD).then_some(lapsed),
            covered: body.covered.get(),
        }
    }
}

impl From<&Accesses> for AccessBody {
    fn from(accesses: &Accesses) -> Self {
        Self {
            table: U32::new(accesses.table),
            index_bits: U32::new(accesses.index_bits),
            index_address: U64::new(accesses.index_address),
            log_address: U64::new(accesses.log_address),
            staging_address: U64::new(accesses.staging_address),
            index_rkey: U32::new(accesses.index_rkey),
            log_rkey: U32::new(accesses.log_rkey),
            staging_rkey: U32::new(accesses.staging_rkey),
            version: U64::new(accesses.version),
        }
    }
}

impl From<&AccessBody> for Accesses {
    fn from(body: &AccessBody) -> Self {
        Self {
            table: body.table.get(),
            index_bits: body.index_bits.get(),
            index_address: body.index_address.get(),
            log_address: body.log_address.get(),
            staging_address: body.staging_address.get(),
            index_rkey: body.index_rkey.get(),
            log_rkey: body.log_rkey.get(),
            staging_rkey: body.staging_rkey.get(),
            version: body.version.get(),
        }
    }
}

impl Accesses {
    /// The fault of the access, if any. Every address that a client calculates from an access without a fault stays in
    /// the range of its type.
    pub fn fault(&self, log_size: u64, staging_size: u64) -> Option<&'static str> {
        let fits = |address: u64, size: u64| {
            address.is_multiple_of(64) && address.checked_add(size).is_some()
        };
        if self.index_bits > INDEX_BITS_MAX {
            return Some("the server names an index larger than any");
        }
        let index_size = table_size(self.index_bits);
        let places = [
            (self.index_address, index_size),
            (self.log_address, log_size),
            (self.staging_address, staging_size),
        ];
        let all = places.iter().all(|&(address, size)| fits(address, size));
        (!all).then_some("the server names memory at an address that it cannot have")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_survive_the_wire_in_order() {
        let accesses = Accesses {
            table: 1,
            index_bits: 2,
            index_address: 3 << 33,
            log_address: 4 << 33,
            staging_address: 5 << 33,
            index_rkey: 6,
            log_rkey: 7,
            staging_rkey: 8,
            version: 9 << 40,
        };
        let answers = [
            Answer::Verdict {
                verdict: Verdict::Done,
                version: 1 << 40,
            },
            Answer::Lease(Grant {
                slot: 2,
                segment: 3,
                generation: 4,
                start: 5,
                last: 4,
                durable: 5,
                rkey: 7,
            }),
            Answer::Rights(RightsGrant {
                table: 1,
                index_rkey: 2,
                counter_address: 64,
                counter_rkey: 3,
                ring_address: 128,
                ring_rkey: 4,
                secret: [5, 6],
            }),
            Answer::Stat(Box::new(std::array::from_fn(|i| i as u64))),
            Answer::Access(accesses),
            Answer::Time(ServerTimeGrant {
                now_ms: 2_000_000_000_000,
                mark_ms: u64::MAX,
            }),
            Answer::ReaderLease(ReaderLeaseGrant {
                held_ns: 9 << 40,
                lapsed: None,
                covered: 0x8000_0000_0000_0001,
            }),
            Answer::ReaderLease(ReaderLeaseGrant {
                held_ns: 0,
                lapsed: Some(31),
                covered: 0,
            }),
            Answer::Verdict {
                verdict: Verdict::Forgotten,
                version: 0,
            },
        ];
        let mut writer = AnswerWriter::default();
        assert!(answers.iter().all(|answer| writer.push(answer)));
        let mut bytes = writer.bytes();
        let back: Vec<Answer> = std::iter::from_fn(|| next_answer(&mut bytes)).collect();
        assert_eq!(back, answers);
        assert!(bytes.is_empty());
    }

    #[test]
    fn an_answer_about_copies_fills_a_message_and_survives_the_wire() {
        let answer = Answer::Copies(Box::new(CopiesPage::of(&[], 0)));
        let mut writer = AnswerWriter::default();
        assert!(writer.push(&answer));
        let mut bytes = writer.bytes();
        assert_eq!(next_answer(&mut bytes), Some(answer));
        assert!(bytes.is_empty());
    }

    #[test]
    fn a_message_of_answers_never_exceeds_the_receive_buffer() {
        let mut writer = AnswerWriter::default();
        while writer.push(&Answer::Verdict {
            verdict: Verdict::Done,
            version: 1,
        }) {}
        assert!(writer.bytes().len() <= ANSWER_SIZE_MAX);
    }

    /// Fails without either of the two checks of `fault`.
    #[test]
    fn memory_that_no_server_has_is_a_fault() {
        let sane = Accesses {
            index_bits: 10,
            index_address: 1 << 20,
            log_address: 1 << 30,
            ..Accesses::default()
        };
        assert_eq!(sane.fault(1 << 30, 0), None);
        for bits in [INDEX_BITS_MAX + 1, 63, 64, u32::MAX] {
            assert!(
                Accesses {
                    index_bits: bits,
                    ..sane
                }
                .fault(1 << 30, 0)
                .is_some()
            );
        }
        assert!(
            Accesses {
                log_address: u64::MAX - 63,
                ..sane
            }
            .fault(1 << 30, 0)
            .is_some()
        );
        assert!(
            Accesses {
                index_address: 7,
                ..sane
            }
            .fault(1 << 30, 0)
            .is_some()
        );
        assert!(
            Accesses {
                staging_address: !63,
                ..sane
            }
            .fault(1 << 30, 4096)
            .is_some()
        );
    }

    #[test]
    fn a_verdict_is_found_under_its_number() {
        for &verdict in Verdict::ALL {
            assert_eq!(Verdict::parse(verdict as u8), Some(verdict));
        }
        assert_eq!(Verdict::parse(Verdict::ALL.len() as u8), None);
    }
}
