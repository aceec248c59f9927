//! Work on pools that no server serves.

use std::path::Path;
use std::pin::pin;
use std::rc::Rc;

use futures_util::FutureExt as _;
use stonecast_base::Span;
use stonecast_fabric::BusyPoll;
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_media::{
    Backing as _, Content, DirectoryBacking, Durability, LogOptions, OpenMode, Pool, Prepared,
    inspect_backing,
};
use stonecast_structures::{
    DetachError, Medium, StandingError, StandingFault, SurveyedDomain, generation_of_mirror, survey,
};

use super::mirror::{MirrorError, unknown};
use super::pool::{content_of, identity_of, prepare, wanted};
use super::server::failed;
use super::standing;
use crate::error::{ConfigStoreError, Error};
use crate::open_device::OpenDevice;
use crate::server::Origin;

/// Bytes of a piece of a pool that is copied.
const COPIED_SIZE: usize = 1 << 20;

/// Checks everything in the pool at `data`, on a copy in `folder`, which needs room for the whole pool: the copy is
/// opened as a back-end opens a pool, and each structure and each block is visited. The pool must not be served, and is
/// not changed.
///
/// # Errors
///
/// The pool is in use, has keys and values, is a mirror, or is so damaged that no back-end opens it. Damage of a lock
/// domain is part of the result.
pub fn verify(data: &Path, folder: &Path) -> Result<Vec<SurveyedDomain>, Error> {
    verify_watched(data, folder, &mut |_| ())
}

/// The progress of [`verify_watched`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// The pool is being copied.
    Copied {
        /// Bytes that were copied.
        bytes: u64,
        /// Bytes of the pool.
        of: u64,
    },
    /// The copy is being checked. The number of bytes to read is not known beforehand; it is about twice what the
    /// structures hold.
    Read {
        /// Bytes that were read.
        bytes: u64,
    },
}

/// Checks as [`verify`] does, and often reports the progress to `watch`.
///
/// ```
/// use stonecast::structures::{self, HashTable, Server, Verified};
///
/// # let folder = tempfile::tempdir()?;
/// # let pool = folder.path().join("pool");
/// let server = Server::builder(&pool)
///     .durability(stonecast::Durability::Process)
///     .capacity(32 << 20)
///     .serve()?;
/// let session = structures::connect_blocking(&server.address().to_string())?;
/// session.writer::<HashTable<u64, u64>>("stock")?.insert(&1, &10)?;
/// drop(session);
/// server.shutdown()?;
/// let found = structures::verify_watched(&pool, &folder.path().join("copy"), &mut |step| match step {
///     Verified::Copied { bytes, of } => println!("copied {bytes} of {of} bytes"),
///     Verified::Read { bytes } => println!("read {bytes} bytes"),
/// })?;
/// assert_eq!(found[0].structures[0].1, 1); // one entry
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The errors of [`verify`].
pub fn verify_watched(
    data: &Path,
    folder: &Path,
    watch: &mut dyn FnMut(Verified),
) -> Result<Vec<SurveyedDomain>, Error> {
    let backing = inspect_backing(data)?;
    if let Some(process) = backing.in_use_by() {
        return Err(failed(format!(
            "{} is in use by process {process}, which changes it; stop that back-end first",
            data.display()
        )));
    }
    let (pool, _) = Pool::open_of(Content::Structures, backing, OpenMode::Inspect)?;
    if let Some(generation) = generation_of_mirror(&*pool.log()) {
        return Err(MirrorError::from(StandingError::IsMirror { generation }).into());
    }
    let copy = DirectoryBacking::create(folder)?;
    let declared = (pool.platform(), Durability::Process);
    let region = copy.open_log(LogOptions {
        capacity: pool.capacity(),
        platform: declared.0,
        durability: declared.1,
    })?;
    let (mut bytes, original) = (vec![0; COPIED_SIZE], pool.log());
    let mut offset = 0;
    while offset < pool.capacity() {
        let size = (pool.capacity() - offset).min(COPIED_SIZE as u64);
        let bytes = &mut bytes[..size as usize];
        original.read(offset, bytes);
        // Unprepared bytes read as zero.
        if bytes.iter().any(|byte| *byte != 0) {
            while copy.prepare(Span::new(offset, size))? == Prepared::Pending {
                std::thread::yield_now();
            }
            region.write(offset, bytes);
        }
        offset += size;
        watch(Verified::Copied {
            bytes: offset,
            of: pool.capacity(),
        });
    }
    while copy.prepare(Span::new(0, pool.capacity()))? == Prepared::Pending {
        std::thread::yield_now();
    }
    let (key, uuid) = identity_of(&pool);
    let medium = Medium::new(region, declared, key, uuid).map_err(failed)?;
    let mut read = 0;
    let mut watch = |bytes| {
        read += bytes;
        watch(Verified::Read { bytes: read });
    };
    let surveying = pin!(survey(Rc::new(medium), &mut watch));
    match surveying.now_or_never() {
        Some(found) => found.map_err(failed),
        None => unreachable!("memory that outlives processes lets nobody wait"),
    }
}

/// Detaches the pool at `data`, which no server serves, from its mirror: the pool continues alone, in the next
/// generation. Returns the number of that generation.
///
/// The caller states that the mirror was not promoted and never will be, because its memory is destroyed. Nothing can
/// check that. If the statement is false and the mirror becomes the back-end, there are two back-ends, and each lacks
/// what the other acknowledges; when they meet, each refuses the other.
///
/// A crash leaves the pool detached or not.
///
/// ```no_run
/// // The server of the mirror is gone for good.
/// let generation = stonecast::structures::detach("./stonecast-structures".as_ref())?;
/// println!("the pool opens alone, as generation {generation}");
/// # Ok::<(), stonecast::Error>(())
/// ```
///
/// # Errors
///
/// [`MirrorError::Detach`]: the pool has no mirror, or is one, or has a standing record ([`detach_recorded`]). The pool
/// is in use, damaged, or not there.
pub fn detach(data: &Path) -> Result<u64, Error> {
    detach_in(data, None, true)
}

/// Detaches a pool with a standing record in the store at `url` ([`super::Builder::cluster`]). The caller states
/// nothing: the record decides. If the mirror was promoted, the call is refused; otherwise the mirror is never
/// promoted.
///
/// `mirror_is_destroyed` is needed only if the record is lost, or if the pool was bound to its mirror before both had a
/// record.
///
/// A crash leaves the pool detached or not; the record says which, and the next opening notes it in the pool.
///
/// ```no_run
/// let store = "etcd://10.0.0.3:2379/structures";
/// let generation = stonecast::structures::detach_recorded("./pool".as_ref(), store, false)?;
/// println!("the pool opens alone, as generation {generation}");
/// # Ok::<(), stonecast::Error>(())
/// ```
///
/// # Errors
///
/// The errors of [`detach`], and [`DetachError::Promoted`] in [`MirrorError::Detach`]: the mirror was promoted. The
/// store is away; after [`Effect::Unknown`](crate::Effect::Unknown) the next call tells.
pub fn detach_recorded(data: &Path, url: &str, mirror_is_destroyed: bool) -> Result<u64, Error> {
    detach_in(data, Some(url), mirror_is_destroyed)
}

fn detach_in(data: &Path, url: Option<&str>, is_destroyed: bool) -> Result<u64, Error> {
    let store = url.map(standing::open).transpose()?;
    // A pool that does not exist must not be made.
    drop(inspect_backing(data)?);
    let origin = Origin::find(&wanted(data))?;
    let (pool, _repairs) = origin.open()?;
    let device = OpenDevice::new(ShmDevice::new(ShmOptions::default())?);
    let executor = BusyPoll::new(device.park, 0);
    let runtime = executor.runtime();
    executor.block_on(prepare(&pool, &runtime))?;
    let record = store.map(|store| standing::record_of(store, runtime, &pool));
    let medium = Rc::new(content_of(&pool, record.as_ref())?);
    let detaching = stonecast_structures::detach(medium, is_destroyed);
    let detached = executor.block_on(detaching);
    pool.close()?;
    detached.map_err(|reason| {
        let is_unknown = is_unknown(&reason);
        let data = data.to_owned();
        let reason = MirrorError::Detach { data, reason };
        match is_unknown {
            true => unknown(reason),
            false => reason.into(),
        }
    })
}

/// Whether the record may say now that the pool is detached.
fn is_unknown(reason: &DetachError) -> bool {
    match reason {
        DetachError::Record(error) => matches!(
            error.fault,
            StandingFault::Store(ConfigStoreError::Unknown { .. })
        ),
        _ => false,
    }
}
