//! Places and pools for tests.

use std::path::Path;
use std::rc::Rc;

use stonecast_base::{KIB, Span};
use stonecast_media::{
    Backing, Ddio, DeclaredPlatform, DirectoryBacking, Durability, MediaError, OpenMode,
    PersistenceDomain, Pool, PoolOptions, Prepared, ReceiveBuffers, Repair,
};
use tempfile::TempDir;

use crate::not_run::not_run;

pub const SEGMENT: u64 = 256 * KIB;

/// A place for tests that need no durability: in memory if possible.
pub fn fast_place() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// A place on a medium that survives power loss; `None`, with a report, if the build directory is in memory.
pub fn durable_place(test: &str) -> Option<TempDir> {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    match create(
        place.path().join("probe").as_path(),
        options(Durability::Power),
    ) {
        Ok(_) => Some(place),
        Err(error) => {
            not_run(test, &error.to_string());
            None
        }
    }
}

pub fn options(durability: Durability) -> PoolOptions {
    PoolOptions {
        capacity: 8 * SEGMENT,
        segment_size: SEGMENT,
        shards: 1,
        cluster_seed: None,
        platform: DeclaredPlatform {
            persistence_domain: PersistenceDomain::PageFile,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        },
        durability,
        entropy: std::array::from_fn(|index| index as u8 + 1),
    }
}

pub fn create(directory: &Path, options: PoolOptions) -> Result<Pool, MediaError> {
    Pool::create(Rc::new(DirectoryBacking::create(directory)?), options)
}

pub fn serve(directory: &Path) -> Result<(Pool, Vec<Repair>), MediaError> {
    Pool::open(Rc::new(DirectoryBacking::open(directory)?), OpenMode::Serve)
}

pub fn inspect(directory: &Path) -> Result<(Pool, Vec<Repair>), MediaError> {
    Pool::open(
        Rc::new(DirectoryBacking::inspect(directory)?),
        OpenMode::Inspect,
    )
}

pub fn prepare(backing: &dyn Backing, span: Span) -> Result<(), MediaError> {
    while backing.prepare(span)? == Prepared::Pending {
        std::thread::yield_now();
    }
    Ok(())
}

/// Runs a future that never waits; the futures of real media never do.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("real media do the work in the first poll"),
    }
}
