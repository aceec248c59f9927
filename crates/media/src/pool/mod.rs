//! A pool, from creation to closing: a log, and the header that describes it.
//!
//! ```text
//!             create                    open(Serve)                   close
//!   (none) ------------> served, e=1    ------------> served, e+1  ------------> closed, clean
//!                            |                            |                          |
//!                            | the server dies            | the server dies          | open(Serve)
//!                            v                            v                          v
//!                          open(Serve): opening + 1, not clean: recover       opening + 1, was clean
//! ```
//!
//! Each arrow writes both copies of the header, one after the other, each synced before the next step.
//!
//! Invariants:
//! - Everything read is validated before anything is written.
//! - The damaged or older copy is written first, so a whole copy exists at every moment. A crash between the two writes
//!   leaves two whole copies of different generations. The newer one counts, and no repair is reported: nothing was
//!   damaged.
//! - An opening is on the medium before [`Pool::open`] returns, so no two runs ever write under the same opening.

mod content;
mod copies;
mod geometry;
mod grow;
mod header;
mod layout;
mod membership;
mod options;
mod record_features;
mod time_mark;

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::Corruption;
use uuid::Uuid;

use crate::pool::copies::{COPIES, Found, find_header};
use crate::pool::geometry::{check_geometry, check_shards};
use crate::pool::header::Header;
use crate::{
    Backing, Blob, DeclaredPlatform, Durability, LogOptions, MediaError, PersistentRegion,
};

pub use content::Content;
pub use geometry::{
    CAPACITY_MAX, SEGMENT_COUNT_MIN, SEGMENT_SIZE_DEFAULT, SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN,
    SHARDS_MAX, segment_size_default,
};
pub use grow::Growth;
pub(crate) use layout::MAGIC as HEADER_MAGIC;
pub use layout::header_table;
pub use membership::{Membership, MembershipCell};
pub use options::PoolOptions;
pub use record_features::{RecordFeature, RecordFeatures};
pub use time_mark::TimeMark;

/// The purpose of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// To write. A copy of the pool that was made while the pool was served is refused.
    Serve,
    /// To write, even to such a copy. Its content counts; records that were moved or written during the copying are
    /// missing.
    Adopt,
    /// To read. Nothing is changed, and a server may use the pool at the same time.
    Inspect,
}

/// Damage of one copy of the header that the other copy repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The damage.
    pub corruption: Corruption,
    /// Whether the medium was repaired: yes when serving, no when inspecting.
    pub written: bool,
}

/// An open pool.
pub struct Pool {
    backing: Rc<dyn Backing>,
    log: Rc<dyn PersistentRegion>,
    header: SharedHeader,
    was_clean: bool,
    same_power_cycle: bool,
    was_copied: bool,
    /// Whether clients published in the previous run, which did not close the pool.
    may_be_published: bool,
}

/// The header of an open pool, which the pool and its [`MembershipCell`] change.
#[derive(Clone)]
struct SharedHeader(Rc<RefCell<Header>>);

impl SharedHeader {
    fn new(header: Header) -> Self {
        Self(Rc::new(RefCell::new(header)))
    }

    fn read<T>(&self, look: impl FnOnce(&Header) -> T) -> T {
        look(&self.0.borrow())
    }

    /// Changes the header, durably.
    fn change(
        &self,
        backing: &dyn Backing,
        change: impl FnOnce(&Header) -> Header,
    ) -> Result<(), MediaError> {
        let changed = self.read(change);
        self.0.replace(changed);
        self.store(backing, COPIES)
    }

    fn store(&self, backing: &dyn Backing, order: [Blob; 2]) -> Result<(), MediaError> {
        copies::store(backing, &self.0.borrow(), order)
    }
}

impl Pool {
    /// Creates a pool of keys and values in an empty backing and serves it.
    pub fn create(backing: Rc<dyn Backing>, options: PoolOptions) -> Result<Self, MediaError> {
        Self::create_of(Content::KeysAndValues, backing, options)
    }

    /// Creates a pool of any content in an empty backing and serves it.
    pub fn create_of(
        content: Content,
        backing: Rc<dyn Backing>,
        options: PoolOptions,
    ) -> Result<Self, MediaError> {
        let PoolOptions {
            capacity,
            segment_size,
            shards,
            ..
        } = options;
        check_geometry(capacity, segment_size).map_err(|needed| {
            MediaError::Options(format!(
                "a pool needs {needed}, not capacity {capacity} and segment size {segment_size}"
            ))
        })?;
        check_shards(shards)
            .map_err(|needed| MediaError::Options(format!("a pool has {needed}, not {shards}")))?;
        for copy in COPIES {
            if backing.load(copy)?.is_some() {
                return Err(MediaError::Exists {
                    path: backing.place(),
                });
            }
        }
        let header = Header::create(&options, content, backing.power_cycle());
        let log = open_log(&*backing, &header)?;
        // The log is a new file, which has no home before it exists.
        let header = header.at(backing.home());
        let pool = Self {
            backing,
            log,
            header: SharedHeader::new(header),
            was_clean: true,
            same_power_cycle: true,
            was_copied: false,
            may_be_published: false,
        };
        pool.header.store(&*pool.backing, COPIES)?;
        Ok(pool)
    }

    /// Opens the pool of keys and values in `backing`, and returns the damage that had to be repaired.
    ///
    /// # Errors
    /// The errors of [`Pool::open_of`].
    pub fn open(
        backing: Rc<dyn Backing>,
        mode: OpenMode,
    ) -> Result<(Self, Vec<Repair>), MediaError> {
        Self::open_of(Content::KeysAndValues, backing, mode)
    }

    /// Opens the pool in `backing`, and returns the damage that had to be repaired. A pool of other content is refused
    /// ([`MediaError::OtherContent`]), and nothing was changed.
    ///
    /// The header keeps the power cycle of the last run, and in a copy the home of the original, until
    /// [`Pool::recovered`]. After a crash before that call, the next opening expects the same losses.
    pub fn open_of(
        content: Content,
        backing: Rc<dyn Backing>,
        mode: OpenMode,
    ) -> Result<(Self, Vec<Repair>), MediaError> {
        let path = backing.place();
        let mut found = find_header(&*backing);
        if mode == OpenMode::Inspect && !matches!(found, Ok(Found { damage: None, .. })) {
            // A server may be writing a copy at this moment. A run writes the header three times, so one more attempt
            // is enough.
            found = find_header(&*backing);
        }
        let Found {
            header,
            stale_first,
            damage,
        } = found?;
        check_features(&header, &*backing)?;
        if header.content() != content {
            return Err(MediaError::OtherContent {
                path,
                found: header.content(),
                expected: content,
            });
        }
        let refusal = match mode {
            OpenMode::Inspect => None,
            OpenMode::Serve | OpenMode::Adopt => refusal(&header, &*backing, mode),
        };
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        // A pool is closed only after the last publishing client is gone.
        let may_be_published = header.is_published() && !header.clean();
        let found = backing.home();
        let was_copied = is_copy(&header, &*backing);
        let power_cycle = backing.power_cycle();
        let same_power_cycle = header.power_cycle() == power_cycle && !was_copied;
        // Without a promise about power, a power cut may take the log even of a closed pool.
        let was_clean =
            header.clean() && (same_power_cycle || header.durability() == Durability::Power);
        let header = match mode {
            OpenMode::Inspect => header,
            OpenMode::Serve | OpenMode::Adopt => {
                let opened = header
                    .opened()
                    .ok_or(MediaError::OpeningsExhausted { path })?;
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
            header: SharedHeader::new(header),
            was_clean,
            same_power_cycle,
            was_copied,
            may_be_published,
        };
        let written = mode != OpenMode::Inspect;
        if written {
            pool.header.store(&*pool.backing, stale_first)?;
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

    /// Notes durably that the log was recovered: the losses of an earlier power cycle or of a copy are settled, and a
    /// later opening in this power cycle treats a missing store as damage. To be called when everything that recovery
    /// settled is durable, and before anything new is acknowledged.
    pub fn recovered(&mut self) -> Result<(), MediaError> {
        let (power_cycle, home) = (self.backing.power_cycle(), self.backing.home());
        let is_noted =
            |header: &Header| header.power_cycle() == power_cycle && header.home() == home;
        match self.header.read(is_noted) {
            true => Ok(()),
            false => self.change(|header| header.recovered(power_cycle).at(home)),
        }
    }

    /// Marks the pool as closed in order. To be called when everything in the log is persisted, its checkpoint is
    /// stored if there was room for one, and no party still writes or publishes. A pool that is dropped without this
    /// call is recovered at the next opening.
    pub fn close(self) -> Result<(), MediaError> {
        self.change(Header::closed)
    }

    /// Notes durably that clients publish in this pool. To be called before the first client does: the log may then
    /// hold records that earlier versions of the format take for damage, and the next server must know that it may have
    /// to wait for clients.
    pub fn let_clients_publish(&mut self) -> Result<(), MediaError> {
        match self.header.read(Header::is_published) {
            true => Ok(()),
            false => self.change(Header::published),
        }
    }

    /// Notes durably that other nodes append to this pool. To be called before the first segment becomes one that
    /// appends fill: earlier versions of the program take such a segment for a free one.
    pub fn let_nodes_append(&mut self) -> Result<(), MediaError> {
        match self.header.read(Header::is_appended) {
            true => Ok(()),
            false => self.change(Header::appended),
        }
    }

    /// Whether clients of an earlier server may still publish: clients did publish, that server did not close the pool,
    /// and some of them still have the log mapped ([`Backing::earlier_writers_are_gone`]). Records that they publish
    /// after the scan of the log would be lost.
    pub fn may_be_published(&self) -> bool {
        self.may_be_published && !self.backing.earlier_writers_are_gone()
    }

    /// The medium of the pool.
    pub fn backing(&self) -> Rc<dyn Backing> {
        Rc::clone(&self.backing)
    }

    /// The log.
    pub fn log(&self) -> Rc<dyn PersistentRegion> {
        Rc::clone(&self.log)
    }

    /// The pool's name for programs.
    pub fn uuid(&self) -> Uuid {
        self.header.read(Header::uuid)
    }

    /// Bytes of the log.
    pub fn capacity(&self) -> u64 {
        self.header.read(Header::capacity)
    }

    /// Bytes of a segment.
    pub fn segment_size(&self) -> u64 {
        self.header.read(Header::segment_size)
    }

    /// Number of segments in the log.
    pub fn segment_count(&self) -> u32 {
        u32::try_from(self.capacity() / self.segment_size()).expect("at most 2^40 / 2^18 segments")
    }

    /// Number of even ranges of key hashes, each with an index of its own.
    pub fn shards(&self) -> u32 {
        self.header.read(Header::shards)
    }

    /// The seed by which the nodes of the pool's cluster hash keys. A ledger says which records of such a pool count.
    /// `None`: the pool belongs to no cluster.
    pub fn cluster_seed(&self) -> Option<u64> {
        self.header.read(Header::cluster_seed)
    }

    /// The place that keeps the configuration of its cluster in which the node of this pool last was.
    pub fn membership(&self) -> MembershipCell {
        MembershipCell::new(self.backing(), self.header.clone())
    }

    /// The place that keeps the mark of the server's time.
    pub fn time_mark(&self) -> TimeMark {
        TimeMark::new(self.backing(), self.header.clone())
    }

    /// The place that names the features that records of the pool need.
    pub fn record_features(&self) -> RecordFeatures {
        RecordFeatures::new(self.backing(), self.header.clone())
    }

    /// The platform, as the operator declared it.
    pub fn platform(&self) -> DeclaredPlatform {
        self.header.read(Header::platform)
    }

    /// The promise of the pool.
    pub fn durability(&self) -> Durability {
        self.header.read(Header::durability)
    }

    /// The opening of this run; when inspecting, of the last run.
    pub fn opening(&self) -> u32 {
        self.header.read(Header::opening)
    }

    /// Seed of the record tags.
    pub fn tag_key(&self) -> u64 {
        self.header.read(Header::tag_key)
    }

    /// Key of the commit tags. Never leaves the server.
    pub fn secret(&self) -> [u64; 2] {
        self.header.read(Header::secret)
    }

    /// Whether the previous run closed the pool and nothing that it wrote can have been lost since. The checkpoint can
    /// be trusted then.
    pub fn was_clean(&self) -> bool {
        self.was_clean
    }

    /// Whether this is a copy of a pool that was being served: its parts date from different moments.
    pub fn was_copied(&self) -> bool {
        self.was_copied
    }

    /// The reason why an opening with [`OpenMode::Serve`] would refuse the pool, as far as the header alone shows.
    /// For inspection.
    pub fn serving_refusal(&self) -> Option<MediaError> {
        self.header
            .read(|header| refusal(header, &*self.backing, OpenMode::Serve))
    }

    /// Whether the machine has not restarted since the last opening, so that bytes that were stored but not persisted
    /// are still present.
    pub fn same_power_cycle(&self) -> bool {
        self.same_power_cycle
    }

    fn change(&self, change: impl FnOnce(&Header) -> Header) -> Result<(), MediaError> {
        self.header.change(&*self.backing, change)
    }
}

/// Whether the pool was copied while it was served. Every copy of a closed pool is whole.
fn is_copy(header: &Header, backing: &dyn Backing) -> bool {
    let (found, expected) = (backing.home(), header.home());
    !header.clean() && found != 0 && expected != 0 && found != expected
}

/// Refuses a header with a feature that this program does not know.
fn check_features(header: &Header, backing: &dyn Backing) -> Result<(), MediaError> {
    match header.unknown_incompatible() {
        0 => Ok(()),
        unknown => Err(MediaError::UnsupportedFeatures {
            path: backing.place(),
            unknown,
        }),
    }
}

/// The reason why a pool with this header is not opened for writing.
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
