//! A pool: the header that says what the log is, found whole or repaired, and its life from creation to closing.
//!
//! ```text
//!             create                    open(Serve)                   close
//!   (none) ------------> served, e=1    ------------> served, e+1  ------------> closed, clean
//!                            |                            |                          |
//!                            | the server dies            | the server dies          | open(Serve)
//!                            v                            v                          v
//!                          open(Serve): epoch + 1, not clean: recover       epoch + 1, was clean
//! ```
//!
//! Each arrow writes both copies of the header, one after the other, each synced before the next step.
//!
//! Invariants:
//! - Nothing is written before everything that is read was validated.
//! - The copy that is damaged or older is written first, so a whole copy exists at every moment. A crash between the two
//!   leaves two whole copies of different generations: the newer counts, and nothing is said, since nothing was damaged.
//! - An epoch is on the medium before [`Pool::open`] returns, so no two runs ever write under the same one.

mod header;
mod layout;

use std::rc::Rc;

use stonecast_base::{Corruption, GIB, KIB, MIB};
use uuid::Uuid;

use crate::pool::header::{Header, NoHeader, Place};
use crate::{
    Backing, Blob, DeclaredPlatform, Durability, LogOptions, MediaError, PersistentRegion,
};

pub(crate) use layout::MAGIC as HEADER_MAGIC;
pub use layout::header_table;

/// Smallest segment, in bytes: less would spend its space on headers and its time on leases.
pub const SEGMENT_SIZE_MIN: u64 = 256 * KIB;
/// Largest segment, in bytes: a segment is addressed by 24 bits of 64-byte units.
pub const SEGMENT_SIZE_MAX: u64 = GIB;
/// Segment size of a large pool whose owner does not say anything else; see [`segment_size_default`].
pub const SEGMENT_SIZE_DEFAULT: u64 = 4 * MIB;
/// Segments that a small pool has at least where its owner does not say how large they are. What is reserved, and what is lost
/// at the ends of those that are being written, counts in whole segments: of 32 it leaves room for 85 % of live data.
const SEGMENT_COUNT_DEFAULT_MIN: u64 = 32;
/// Fewest segments of a pool: some to write, the last ones kept for deletes.
pub const SEGMENT_COUNT_MIN: u64 = 4;
/// Largest pool, in bytes: an index word has 34 bits for a 64-byte unit.
pub const CAPACITY_MAX: u64 = (1 << 34) * 64;

/// Segment size of a pool of `capacity` bytes whose owner does not say anything else: [`SEGMENT_SIZE_DEFAULT`], in smaller
/// pools what gives 32 segments, [`SEGMENT_SIZE_MIN`] at least. A power of two.
pub const fn segment_size_default(capacity: u64) -> u64 {
    let mut size = SEGMENT_SIZE_DEFAULT;
    while size > SEGMENT_SIZE_MIN && capacity / size < SEGMENT_COUNT_DEFAULT_MIN {
        size /= 2;
    }
    size
}

const _: () = {
    assert!(segment_size_default(MIB) == 256 * KIB);
    assert!(segment_size_default(16 * MIB) == 512 * KIB);
    assert!(segment_size_default(64 * MIB) == 2 * MIB);
    assert!(segment_size_default(100 * MIB) == 2 * MIB);
    assert!(segment_size_default(128 * MIB) == SEGMENT_SIZE_DEFAULT);
    assert!(segment_size_default(CAPACITY_MAX) == SEGMENT_SIZE_DEFAULT);
};

const COPIES: [Blob; 2] = [Blob::HeaderFirst, Blob::HeaderSecond];

/// What a new pool is to be.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Bytes of the log; a multiple of `segment_size`.
    pub capacity: u64,
    /// Bytes of a segment; a power of two.
    pub segment_size: u64,
    /// What the operator declares.
    pub platform: DeclaredPlatform,
    /// What the pool is to promise.
    pub durability: Durability,
    /// Random bytes from a source that nobody can predict: name, tag key and secret are made from them.
    pub entropy: [u8; 64],
}

/// What a pool is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// To be written. A copy that was made while the pool was served is refused.
    Serve,
    /// To be written, also if it is such a copy: what is there counts, and what was moved or written meanwhile is missing.
    Adopt,
    /// To be looked at. Nothing is changed, whoever else uses the pool.
    Inspect,
}

/// A damage that the other copy of the header made good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// What was damaged.
    pub corruption: Corruption,
    /// Whether it was put right on the medium: when serving, not when inspecting.
    pub written: bool,
}

/// An open pool.
pub struct Pool {
    backing: Rc<dyn Backing>,
    log: Rc<dyn PersistentRegion>,
    header: Header,
    was_clean: bool,
    same_power_cycle: bool,
    was_copied: bool,
    /// Clients published in the run before, which was not closed.
    may_be_published: bool,
}

impl Pool {
    /// Creates a pool in an empty backing and serves it.
    pub fn create(backing: Rc<dyn Backing>, options: PoolOptions) -> Result<Self, MediaError> {
        let PoolOptions {
            capacity,
            segment_size,
            ..
        } = options;
        check_geometry(capacity, segment_size).map_err(|needed| {
            MediaError::Options(format!(
                "a pool needs {needed}, not capacity {capacity} and segment size {segment_size}"
            ))
        })?;
        for copy in COPIES {
            if backing.load(copy)?.is_some() {
                return Err(MediaError::Exists {
                    path: backing.place(),
                });
            }
        }
        let header = Header::create(&options, backing.power_cycle());
        let log = open_log(&*backing, &header)?;
        // The log is a new file: nobody knows its place before it is there.
        let header = header.at(backing.home());
        let pool = Self {
            backing,
            log,
            header,
            was_clean: true,
            same_power_cycle: true,
            was_copied: false,
            may_be_published: false,
        };
        pool.store_header(COPIES)?;
        Ok(pool)
    }

    /// Opens the pool in `backing`. Says what had to be repaired to do so.
    ///
    /// The header keeps the power cycle of the last run, and of a copy the home, until [`Pool::recovered`]: a crash before
    /// leaves the next opening with the same losses to expect.
    pub fn open(
        backing: Rc<dyn Backing>,
        mode: OpenMode,
    ) -> Result<(Self, Vec<Repair>), MediaError> {
        let path = backing.place();
        let mut found = find_header(&*backing);
        if mode == OpenMode::Inspect && !matches!(found, Ok(Found { damage: None, .. })) {
            // A server may be writing a copy at this moment. It does so three times in its life, so one more look is enough.
            found = find_header(&*backing);
        }
        let Found {
            header,
            stale_first,
            damage,
        } = found?;
        if header.unknown_incompatible() != 0 {
            return Err(MediaError::UnsupportedFeatures {
                path,
                unknown: header.unknown_incompatible(),
            });
        }
        let refusal = match mode {
            OpenMode::Inspect => None,
            OpenMode::Serve | OpenMode::Adopt => refusal(&header, &*backing, mode),
        };
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        // Who closed it had seen to it that nobody publishes any more.
        let may_be_published = header.is_published() && !header.clean();
        let found = backing.home();
        let was_copied = is_copy(&header, &*backing);
        let power_cycle = backing.power_cycle();
        let same_power_cycle = header.power_cycle() == power_cycle && !was_copied;
        // Without a promise about power nothing of a log needs to be left after a power cut, also of one that was closed.
        let was_clean =
            header.clean() && (same_power_cycle || header.durability() == Durability::Power);
        let header = match mode {
            OpenMode::Inspect => header,
            OpenMode::Serve | OpenMode::Adopt => {
                let opened = header
                    .opened()
                    .ok_or(MediaError::EpochsExhausted { path })?;
                match was_copied {
                    true => opened,
                    false => opened.at(found),
                }
            }
        };
        let log = open_log(&*backing, &header)?;
        let pool = Self {
            backing,
            log,
            header,
            was_clean,
            same_power_cycle,
            was_copied,
            may_be_published,
        };
        let written = mode != OpenMode::Inspect;
        if written {
            pool.store_header(stale_first)?;
        }
        Ok((
            pool,
            damage
                .into_iter()
                .map(|corruption| Repair {
                    corruption,
                    written,
                })
                .collect(),
        ))
    }

    /// Takes note, durably, that the log was recovered: what an earlier power cycle or a copy lost of it is settled, and from
    /// here on nothing that was stored may be missing in this power cycle. To be called when recovery has made durable
    /// what it settled, before anything new is acknowledged.
    pub fn recovered(&mut self) -> Result<(), MediaError> {
        let (power_cycle, home) = (self.backing.power_cycle(), self.backing.home());
        if self.header.power_cycle() == power_cycle && self.header.home() == home {
            return Ok(());
        }
        self.header = self.header.recovered(power_cycle).at(home);
        self.store_header(COPIES)
    }

    /// Marks the pool as closed in order. To be called when everything in the log was persisted, a checkpoint of it was
    /// stored if there was room for one, and nobody writes or publishes any more. A pool that is dropped without it is recovered at the next opening.
    pub fn close(mut self) -> Result<(), MediaError> {
        self.header = self.header.closed();
        self.store_header(COPIES)
    }

    /// Takes note, durably, that clients publish in this pool, before the first of them does: its log may hold what earlier
    /// versions of the format take for damage, and its next server has to know whom to wait for.
    pub fn let_clients_publish(&mut self) -> Result<(), MediaError> {
        if self.header.is_published() {
            return Ok(());
        }
        self.header = self.header.published();
        self.store_header(COPIES)
    }

    /// Whether clients of a server before this one may still publish, as long as some of them have the log mapped
    /// ([`Backing::earlier_writers_are_gone`]): what they publish after the log was scanned would be lost.
    pub fn may_be_published(&self) -> bool {
        self.may_be_published && !self.backing.earlier_writers_are_gone()
    }

    /// Where the pool lives.
    pub fn backing(&self) -> Rc<dyn Backing> {
        Rc::clone(&self.backing)
    }

    /// The log.
    pub fn log(&self) -> Rc<dyn PersistentRegion> {
        Rc::clone(&self.log)
    }

    /// The pool's name for programs.
    pub fn uuid(&self) -> Uuid {
        self.header.uuid()
    }

    /// Bytes of the log.
    pub fn capacity(&self) -> u64 {
        self.header.capacity()
    }

    /// Bytes of a segment.
    pub fn segment_size(&self) -> u64 {
        self.header.segment_size()
    }

    /// How many segments the log has.
    pub fn segment_count(&self) -> u32 {
        u32::try_from(self.capacity() / self.segment_size()).expect("at most 2^40 / 2^18 segments")
    }

    /// What the operator declared.
    pub fn platform(&self) -> DeclaredPlatform {
        self.header.platform()
    }

    /// What the pool promises.
    pub fn durability(&self) -> Durability {
        self.header.durability()
    }

    /// The epoch of this run; when inspecting, of the last one.
    pub fn epoch(&self) -> u32 {
        self.header.epoch()
    }

    /// Seed of the record tags.
    pub fn tag_key(&self) -> u64 {
        self.header.tag_key()
    }

    /// Key of the commit tags. Never leaves the server.
    pub fn secret(&self) -> [u64; 2] {
        self.header.secret()
    }

    /// Whether the run before this one closed the pool, and nothing that it had written can have been lost since: the
    /// checkpoint can be believed.
    pub fn was_clean(&self) -> bool {
        self.was_clean
    }

    /// Whether this is a copy that was made while the pool was served: its parts are of different moments.
    pub fn was_copied(&self) -> bool {
        self.was_copied
    }

    /// Why the pool, as it was found, is not opened for [`OpenMode::Serve`], where that is told by its header alone. Asked by
    /// who inspects.
    pub fn serving_refusal(&self) -> Option<MediaError> {
        refusal(&self.header, &*self.backing, OpenMode::Serve)
    }

    /// Whether the machine runs since before the last opening: what was stored and not persisted is still there.
    pub fn same_power_cycle(&self) -> bool {
        self.same_power_cycle
    }

    fn store_header(&self, order: [Blob; 2]) -> Result<(), MediaError> {
        let bytes = self.header.encode();
        for copy in order {
            self.backing.store(copy, &bytes)?;
        }
        Ok(())
    }
}

/// Whether the pool was copied while it was served. Of a pool that was closed every copy is whole.
fn is_copy(header: &Header, backing: &dyn Backing) -> bool {
    let (found, expected) = (backing.home(), header.home());
    !header.clean() && found != 0 && expected != 0 && found != expected
}

/// Why a pool with this header is not opened to be written.
fn refusal(header: &Header, backing: &dyn Backing, mode: OpenMode) -> Option<MediaError> {
    let path = backing.place();
    if header.read_only_compatible() != 0 {
        let unknown = header.read_only_compatible();
        return Some(MediaError::ReadOnlyFeatures { path, unknown });
    }
    (mode == OpenMode::Serve && is_copy(header, backing)).then(|| MediaError::Copied {
        path,
        log: backing.name(),
        found: backing.home(),
        expected: header.home(),
    })
}

/// A header, and what was found on the way to it.
struct Found {
    header: Header,
    /// The copies, that one first which can be lost.
    stale_first: [Blob; 2],
    damage: Option<Corruption>,
}

fn find_header(backing: &dyn Backing) -> Result<Found, MediaError> {
    let [first, second] = COPIES.map(|copy| load_copy(backing, copy));
    let (first, second) = match (first?, second?) {
        (None, None) => {
            return Err(MediaError::NotFound {
                path: backing.place(),
            });
        }
        // A copy of which nothing at all is there, beside one that is, counts as cut off.
        (first, second) => (
            first.unwrap_or_else(|| no_bytes(backing, 0)),
            second.unwrap_or_else(|| no_bytes(backing, 1)),
        ),
    };
    match (first, second) {
        (Err(NoHeader::OtherVersion { version }), _)
        | (_, Err(NoHeader::OtherVersion { version })) => {
            let (path, found, supported) = (backing.place(), version, layout::VERSION);
            Err(match found < supported {
                true => MediaError::OutdatedVersion {
                    path,
                    found,
                    supported,
                },
                false => MediaError::UnsupportedVersion {
                    path,
                    found,
                    supported,
                },
            })
        }
        (Ok(first), Ok(second)) if second.generation() > first.generation() => Ok(Found {
            header: second,
            stale_first: COPIES,
            damage: None,
        }),
        (Ok(first), Ok(_)) => Ok(Found {
            header: first,
            stale_first: [COPIES[1], COPIES[0]],
            damage: None,
        }),
        (Ok(first), Err(NoHeader::Damaged(damage))) => Ok(Found {
            header: first,
            stale_first: [COPIES[1], COPIES[0]],
            damage: Some(damage),
        }),
        (Err(NoHeader::Damaged(damage)), Ok(second)) => Ok(Found {
            header: second,
            stale_first: COPIES,
            damage: Some(damage),
        }),
        (Err(NoHeader::Damaged(first)), Err(NoHeader::Damaged(second))) => {
            Err(MediaError::HeaderLost { first, second })
        }
    }
}

fn load_copy(
    backing: &dyn Backing,
    copy: Blob,
) -> Result<Option<Result<Header, NoHeader>>, MediaError> {
    let place = place_of(backing, copy);
    Ok(backing
        .load(copy)?
        .map(|bytes| Header::decode(&bytes, &place)))
}

fn no_bytes(backing: &dyn Backing, index: usize) -> Result<Header, NoHeader> {
    Header::decode(&[], &place_of(backing, COPIES[index]))
}

fn place_of(backing: &dyn Backing, copy: Blob) -> Place {
    let (file, offset) = backing.locate(copy);
    Place { file, offset }
}

fn open_log(
    backing: &dyn Backing,
    header: &Header,
) -> Result<Rc<dyn PersistentRegion>, MediaError> {
    let options = LogOptions {
        capacity: header.capacity(),
        platform: header.platform(),
        durability: header.durability(),
    };
    backing.open_log(options)
}

/// What a pool's sizes must be; the error is a sentence for people.
fn check_geometry(capacity: u64, segment_size: u64) -> Result<(), String> {
    if !segment_size.is_power_of_two()
        || !(SEGMENT_SIZE_MIN..=SEGMENT_SIZE_MAX).contains(&segment_size)
    {
        return Err(format!(
            "a segment size that is a power of two from {SEGMENT_SIZE_MIN} to {SEGMENT_SIZE_MAX} bytes"
        ));
    }
    let least = SEGMENT_COUNT_MIN * segment_size;
    if !capacity.is_multiple_of(segment_size) || !(least..=CAPACITY_MAX).contains(&capacity) {
        return Err(format!(
            "a capacity that is a multiple of {segment_size} from {least} to {CAPACITY_MAX} bytes"
        ));
    }
    Ok(())
}
