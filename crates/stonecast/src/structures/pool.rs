//! The pool of a back-end or a mirror, as the server opens it.

use std::path::Path;
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::Runtime;
use stonecast_media::{Content, Pool, Prepared};
use stonecast_structures::{LogKey, Medium, PoolGeometry, Promoted, StandingStore};

use crate::error::{Error, ErrorKind};
use crate::server::Wanted;

/// Lock domains of a new pool.
const DOMAINS: u32 = 64;
/// Bytes of a slab of a new pool: the longest record fits twice.
const SLAB_SIZE_MIN: u64 = 4 << 20;
/// Bytes of a slab of a pool that is too small for such slabs.
const SLAB_SIZE_SMALL: u64 = 1 << 20;
/// Slabs of a pool, about.
const SLABS: u64 = 256;

/// A pool of structures at `data`, with no other setting.
pub fn wanted(data: &Path) -> Wanted {
    let mut wanted = Wanted::new(data.to_owned());
    wanted.content = Content::Structures;
    wanted
}

/// Waits until all bytes of the pool can be used.
pub async fn prepare(pool: &Pool, runtime: &Rc<dyn Runtime>) -> Result<(), Error> {
    let (backing, whole) = (pool.backing(), Span::new(0, pool.capacity()));
    while backing.prepare(whole)? == Prepared::Pending {
        runtime.sleep(100_000).await;
    }
    Ok(())
}

/// The name of a content, and the seed of the tags of its records.
pub fn identity_of(pool: &Pool) -> (LogKey, u128) {
    match Promoted::of(&*pool.log()) {
        Some(promoted) => (promoted.key, promoted.content),
        None => own_identity_of(pool),
    }
}

/// The identity of a pool of which nothing was copied from elsewhere.
fn own_identity_of(pool: &Pool) -> (LogKey, u128) {
    (LogKey(pool.tag_key()), pool.uuid().as_u128())
}

/// The pool as a back-end uses it: with the name and the seed of its content, which may have been made in another pool.
pub fn content_of(pool: &Pool, record: Option<&Rc<StandingStore>>) -> Result<Medium, Error> {
    medium_of(pool, identity_of(pool), record)
}

/// The pool as a mirror uses it: a back-end knows the pool again by its own name, with any content.
pub fn copy_of(pool: &Pool, record: Option<&Rc<StandingStore>>) -> Result<Medium, Error> {
    medium_of(pool, own_identity_of(pool), record)
}

/// `record`: the store of the standing record, if the server names one.
fn medium_of(
    pool: &Pool,
    (key, uuid): (LogKey, u128),
    record: Option<&Rc<StandingStore>>,
) -> Result<Medium, Error> {
    let (backing, declared) = (pool.backing(), (pool.platform(), pool.durability()));
    let medium = Medium::new(pool.log(), declared, key, uuid);
    let medium = medium.map_err(|error| ErrorKind::Setup(error.to_string()))?;
    let medium = medium.until(Rc::new(move || backing.earlier_writers_are_gone()));
    Ok(match record {
        Some(record) => medium.recorded_in(record.clone()),
        None => medium,
    })
}

/// The sizes of a new pool of `capacity` bytes.
pub fn geometry_of(capacity: u64) -> PoolGeometry {
    let least = match capacity >= 32 * SLAB_SIZE_MIN {
        true => SLAB_SIZE_MIN,
        false => SLAB_SIZE_SMALL,
    };
    let slab_size = (capacity / SLABS).next_power_of_two().max(least);
    let mut geometry = PoolGeometry {
        domains: DOMAINS,
        slab_size,
        slab_count: capacity / slab_size,
    };
    while geometry.pool_size() > capacity {
        geometry.slab_count -= 1;
    }
    geometry
}
