//! Entries, which a primary appends to the log of a backup.
//!
//! ```text
//!   byte  0     8        16     24        32         40        48      52      56     60       64
//!         tag   digest   term   version   previous   horizon   shard   size    kind   format   body ...
//!         `--------------------------- one line --------------------------------------'
//! ```
//!
//! A backup finds entries by reading its own memory, in which a crash, a gap, an earlier use of the segment or a value
//! of a client may have left anything. An entry therefore proves itself. The tag is a SipHash-2-4 of the header under
//! the [`AppendKey`] of the receiving pool: it binds the receiver by the key, and it binds everything else by its
//! bytes. The digest of the body stands in the header, so a scan trusts the size of the body before it reads the body:
//! no content of a value makes a scan hash megabytes at each line.
//!
//! A record that is longer than a message is appended in *pieces*: entries of their own, each with the facts of the
//! record, and with the place of its bytes in the body of the record. The pieces of a record lie anywhere, since the
//! receiver places each of them.
//!
//! The tag does not bind the place. The receiver chooses the place after the sender has made the entry. An entry at a
//! wrong place, such as an old entry inside a value or in a segment that was used again, is genuine; its term and
//! version show that the entry is no news.

use std::mem::size_of;

use stonecast_base::{LINE_SIZE, hash, mutant};
use stonecast_cluster::{Epoch, Nonce, Term};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header; the body follows.
pub const HEADER_SIZE: usize = LINE_SIZE;
/// The most bytes of a body.
pub const BODY_SIZE_MAX: usize = (2 << 20) - HEADER_SIZE;
/// Entries begin at multiples of this number of bytes.
pub const GRAIN: usize = LINE_SIZE;

const FORMAT: u32 = 1;
const TAG_SIZE: usize = size_of::<U64>();

/// The bytes of a header, as `docs/formats/append.md` has them.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeaderBytes {
    tag: U64,
    digest: U64,
    term: U64,
    version: U64,
    previous: U64,
    horizon: U64,
    shard: U32,
    size: U32,
    kind: U32,
    format: U32,
}

const _: () = assert!(size_of::<HeaderBytes>() == HEADER_SIZE);

/// Opens the log of one pool to appends by one cluster. Each pool draws two random words, and keeps them durably as
/// long as entries lie in the pool.
///
/// The primaries of the pool's shards have the key, and no client has it: the holder of the key can make entries. The
/// nonce of the cluster is a part of the key: once a configuration is restored under a new nonce, entries that were
/// made under the earlier nonce count nowhere.
#[derive(Clone)]
pub struct AppendKey {
    tag: [u64; 2],
    /// Seed of the digests. A client that knew the seed could prepare two bodies of one digest.
    digest: u64,
}

impl AppendKey {
    /// The key made of the two random words that the pool keeps, for primaries of the cluster `nonce`.
    pub fn new(words: [u64; 2], nonce: Nonce) -> Self {
        let nonce = match mutant!(NonceNotInKey) {
            true => Nonce::nil(),
            false => nonce,
        };
        let derived = |purpose: u8| {
            let mut input = [purpose; 1 + size_of::<Nonce>()];
            input[1..].copy_from_slice(nonce.as_bytes());
            hash::siphash24(words, &input)
        };
        Self {
            tag: [derived(1), derived(2)],
            digest: derived(3),
        }
    }

    fn tag_of(&self, header: &[u8]) -> u64 {
        hash::siphash24(self.tag, &header[TAG_SIZE..HEADER_SIZE])
    }

    fn digest_of(&self, body: &[u8]) -> u64 {
        hash::xxh3_64(self.digest, body)
    }
}

/// Shift of the offset of a piece in the word of the kind.
const OFFSET_SHIFT: u32 = 8;
const CODE_MASK: u32 = (1 << OFFSET_SHIFT) - 1;
const _: () = assert!(BODY_SIZE_MAX < 1 << (u32::BITS - OFFSET_SHIFT));
/// The code of a record of which more pieces follow.
const CONTINUED: u32 = 3;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A record. The body is opaque here.
    Record,
    /// The commit horizon of a shard in which nothing else is written. The entry has no body, and repeats the version
    /// before it.
    Horizon,
}

impl Kind {
    fn code(self) -> u32 {
        match self {
            Self::Record => 1,
            Self::Horizon => 2,
        }
    }
}

/// The part of a record that one entry carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first byte of the record's body that the entry carries.
    pub offset: u32,
    /// Whether the body ends with this entry.
    pub is_last: bool,
}

impl Piece {
    /// All of a record, or a horizon.
    pub const WHOLE: Self = Self {
        offset: 0,
        is_last: true,
    };

    /// Whether no other piece belongs to the record.
    pub fn is_whole(self) -> bool {
        self == Self::WHOLE
    }

    /// The word that states kind and piece.
    fn word(self, kind: Kind) -> u32 {
        let code = if self.is_last { kind.code() } else { CONTINUED };
        code | self.offset << OFFSET_SHIFT
    }

    fn from_word(word: u32) -> Option<(Kind, Self)> {
        let offset = word >> OFFSET_SHIFT;
        let (kind, is_last) = match word & CODE_MASK {
            1 => (Kind::Record, true),
            2 => (Kind::Horizon, true),
            CONTINUED => (Kind::Record, false),
            _ => return None,
        };
        Some((kind, Self { offset, is_last }))
    }
}

/// The place of an entry among the writes of a shard, as the header of the entry states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the shard.
    pub shard: u32,
    /// Term of the primary that stamped the entry. An heir sends the entry again with this term.
    pub term: Term,
    /// Version of the record, from 1. Versions ascend within a term, with gaps: a worker counts for all of its shards.
    pub version: u64,
    /// The version before this one in the shard; 0: the first one.
    pub previous: u64,
    /// Commit horizon: every entry of the shard up to this version is persisted on all copies.
    pub horizon: u64,
    /// The kind.
    pub kind: Kind,
}

impl Entry {
    /// Whether the fields are consistent. A horizon never covers the entry that carries it: no copy has the entry yet.
    fn is_possible(&self, piece: Piece, size: usize) -> bool {
        let kind = match self.kind {
            Kind::Record => self.version > self.previous && size > 0,
            Kind::Horizon => self.version == self.previous && size == 0 && piece.is_whole(),
        };
        let end = piece.offset as usize + size;
        kind && self.term > Epoch(0) && self.horizon <= self.previous && end <= BODY_SIZE_MAX
    }

    /// Writes the header in front of the body, which lies from byte [`HEADER_SIZE`] to the end of `bytes` and is not
    /// copied. The entry is for the pool that has `key`. Bytes after the entry, up to the next multiple of [`GRAIN`],
    /// mean nothing.
    ///
    /// # Panics
    /// If the fields are inconsistent, or the body is longer than [`BODY_SIZE_MAX`].
    pub fn write_header(&self, key: &AppendKey, bytes: &mut [u8]) {
        self.write_piece(key, Piece::WHOLE, bytes);
    }

    /// Writes the header of an entry that carries one piece of the record, in front of the bytes of the piece.
    ///
    /// # Panics
    /// Panics as [`Entry::write_header`] does, and if a horizon is cut.
    pub fn write_piece(&self, key: &AppendKey, piece: Piece, bytes: &mut [u8]) {
        let (header, body) = bytes.split_at_mut(HEADER_SIZE);
        assert!(
            self.is_possible(piece, body.len()),
            "{self:?} with a body of {} bytes is no entry",
            body.len()
        );
        let mut encoded = HeaderBytes {
            tag: U64::ZERO,
            digest: key.digest_of(body).into(),
            term: self.term.0.into(),
            version: self.version.into(),
            previous: self.previous.into(),
            horizon: self.horizon.into(),
            shard: self.shard.into(),
            size: (body.len() as u32).into(),
            kind: piece.word(self.kind).into(),
            format: FORMAT.into(),
        };
        encoded.tag = key.tag_of(encoded.as_bytes()).into();
        header.copy_from_slice(encoded.as_bytes());
    }
}

/// A header with a right tag: a holder of the pool's key made it. The body has still to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The entry, without its body.
    pub entry: Entry,
    /// The part of the record that this entry carries.
    pub piece: Piece,
    /// Bytes of the body, or of this part of it.
    pub body_size: usize,
    digest: u64,
}

impl Header {
    /// Reads a header from a copy of its bytes: a sender that may still write the memory must not change what is
    /// judged.
    ///
    /// # Errors
    /// No entry of the pool that has `key` begins there. No such error is damage: a crash, an unfinished append and
    /// content of an earlier use leave each of them.
    pub fn read(key: &AppendKey, bytes: &[u8; HEADER_SIZE]) -> Result<Self, NotAnEntry> {
        let header = HeaderBytes::read_from_bytes(bytes).expect("the sizes are equal");
        if header.format.get() != FORMAT {
            return Err(NotAnEntry::Format {
                found: header.format.get(),
            });
        }
        let expected = key.tag_of(bytes);
        if header.tag.get() != expected && !mutant!(AppendTagIgnored) {
            return Err(NotAnEntry::Tag {
                found: header.tag.get(),
                expected,
            });
        }
        let unknown = || NotAnEntry::Kind {
            found: header.kind.get(),
        };
        let (kind, piece) = Piece::from_word(header.kind.get()).ok_or_else(unknown)?;
        let entry = Entry {
            shard: header.shard.get(),
            term: Epoch(header.term.get()),
            version: header.version.get(),
            previous: header.previous.get(),
            horizon: header.horizon.get(),
            kind,
        };
        let body_size = header.size.get() as usize;
        if !entry.is_possible(piece, body_size) {
            return Err(NotAnEntry::Impossible { entry, body_size });
        }
        Ok(Self {
            entry,
            piece,
            body_size,
            digest: header.digest.get(),
        })
    }

    /// Bytes from the start of the entry to where the next one may begin.
    pub fn stride(&self) -> usize {
        (HEADER_SIZE + self.body_size).next_multiple_of(GRAIN)
    }

    /// Judges a copy of the body.
    ///
    /// # Errors
    /// The body has not arrived as a whole, or a crash has torn it.
    ///
    /// # Panics
    /// If `body` is not of the size that the header states.
    pub fn check_body(&self, key: &AppendKey, body: &[u8]) -> Result<(), NotAnEntry> {
        assert_eq!(body.len(), self.body_size, "the header says the size");
        let found = key.digest_of(body);
        if found == self.digest || mutant!(AppendBodyUnchecked) {
            return Ok(());
        }
        Err(NotAnEntry::Body {
            found,
            expected: self.digest,
        })
    }
}

/// The reason why bytes are no entry of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnEntry {
    /// The bytes have another format, or are no entry at all.
    #[error("found format {found}, expected {FORMAT}")]
    Format {
        /// The number found.
        found: u32,
    },
    /// The bytes are torn, of another pool, or made by a sender that may not append.
    #[error("found tag {found:#018x}, expected {expected:#018x}")]
    Tag {
        /// The tag found.
        found: u64,
        /// The tag of these bytes in this pool.
        expected: u64,
    },
    /// The tag is right, and the kind is unknown: a later version of the program made the entry.
    #[error("found kind {found}, which this version does not know")]
    Kind {
        /// The number found.
        found: u32,
    },
    /// The tag is right, and the fields are inconsistent: a bug of the sender.
    #[error("the numbers of {entry:?} with a body of {body_size} bytes cannot belong together")]
    Impossible {
        /// The entry of the header.
        entry: Entry,
        /// The size of the body that the header states.
        body_size: usize,
    },
    /// The header is right, and the body is not its body.
    #[error("found a body with digest {found:#018x}, expected {expected:#018x}")]
    Body {
        /// The digest of the body found.
        found: u64,
        /// The digest in the header.
        expected: u64,
    },
}
