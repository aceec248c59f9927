//! Work on pools that nobody serves.

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
use stonecast_structures::{Medium, StandingError, SurveyedDomain, generation_of_mirror, survey};

use super::mirror::MirrorError;
use super::pool::{content_of, identity_of, prepare, wanted};
use super::server::failed;
use crate::error::Error;
use crate::open_device::OpenDevice;
use crate::server::Origin;

/// Bytes of a piece of a pool that is copied.
const COPIED_SIZE: usize = 1 << 20;

/// Looks at everything in the pool at `data`, on a copy in `folder`, which has to have room for the whole pool: the
/// copy is opened as a back-end opens a pool, and each structure and each block is visited. The pool must not be
/// served, and is not changed.
///
/// # Errors
///
/// The pool is in use, of keys and values, a mirror, or so damaged that no back-end opens it. Damage of a lock domain
/// is part of the result.
pub fn verify(data: &Path, folder: &Path) -> Result<Vec<SurveyedDomain>, Error> {
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
    }
    while copy.prepare(Span::new(0, pool.capacity()))? == Prepared::Pending {
        std::thread::yield_now();
    }
    let (key, uuid) = identity_of(&pool);
    let medium = Medium::new(region, declared, key, uuid).map_err(failed)?;
    let surveying = pin!(survey(Rc::new(medium)));
    match surveying.now_or_never() {
        Some(found) => found.map_err(failed),
        None => unreachable!("memory that outlives processes lets nobody wait"),
    }
}

/// Lets the pool at `data`, which nobody serves, go on without its mirror, in the next generation. Returns the number
/// of that generation.
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
/// [`MirrorError::Detach`]: the pool has no mirror, or is one. The pool is in use, damaged, or not there.
pub fn detach(data: &Path) -> Result<u64, Error> {
    // A pool that is not there must not be made.
    drop(inspect_backing(data)?);
    let origin = Origin::find(&wanted(data))?;
    let (pool, _repairs) = origin.open()?;
    let device = OpenDevice::new(ShmDevice::new(ShmOptions::default())?);
    let executor = BusyPoll::new(device.park, 0);
    let runtime = executor.runtime();
    executor.block_on(prepare(&pool, &runtime))?;
    let detaching = stonecast_structures::detach(Rc::new(content_of(&pool)?));
    let detached = executor.block_on(detaching);
    pool.close()?;
    detached.map_err(|reason| {
        let data = data.to_owned();
        MirrorError::Detach { data, reason }.into()
    })
}
