//! Real persistent memory: a mapped device, and a file system that maps its files directly. `cargo xtask guest` runs
//! these tests on emulated modules. On a machine with modules they run with `STONECAST_DAX=/dev/dax0.0
//! STONECAST_DAX_FOLDER=/mnt/pmem STONECAST_DAX_DOMAIN=memory_controller`. The content of the device is lost.

use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;

use stonecast_base::{KIB, MIB, Span};
use stonecast_media::{
    DaxBacking, DetectedDomain, DirectoryBacking, MappedRegion, Means, OpenMode, PersistenceDomain,
    Pool, PoolOptions, Region as _, Writable, detect_domain, persist_spans,
};

use crate::support::{SEGMENT, now, options, prepare};

fn device() -> PathBuf {
    std::env::var_os("STONECAST_DAX")
        .expect("STONECAST_DAX names a device")
        .into()
}

fn folder() -> PathBuf {
    std::env::var_os("STONECAST_DAX_FOLDER")
        .expect("STONECAST_DAX_FOLDER names a folder")
        .into()
}

fn domain() -> DetectedDomain {
    match std::env::var("STONECAST_DAX_DOMAIN").as_deref() {
        Ok("cpu_cache") => DetectedDomain::CpuCache,
        Ok("memory_controller") => DetectedDomain::MemoryController,
        other => panic!("STONECAST_DAX_DOMAIN is cpu_cache or memory_controller, not {other:?}"),
    }
}

/// The means that follows from the kernel's report.
fn means() -> Means {
    if domain() == DetectedDomain::CpuCache {
        Means::Fence
    } else {
        Means::WriteBack
    }
}

fn direct(capacity: u64) -> PoolOptions {
    let mut options = options(stonecast_media::Durability::Power);
    options.platform.persistence_domain = domain().declared().expect("the kernel reports a domain");
    options.capacity = capacity;
    options
}

fn map(offset: u64, size: u64, writable: Writable) -> std::io::Result<MappedRegion> {
    let file = File::options()
        .read(true)
        .write(writable == Writable::Yes)
        .open(device())
        .expect("the device opens");
    MappedRegion::map(file.into(), offset, size, writable)
}

fn clear_device() {
    map(0, 2 * MIB, Writable::Yes)
        .expect("the device can be mapped")
        .write(0, &vec![0; 2 * MIB as usize]);
}

fn round_trip(mut open: impl FnMut(bool) -> Pool) {
    let pool = open(true);
    assert_eq!(pool.log().means(), means());
    assert!(pool.backing().earlier_writers_are_gone());
    let span = Span::new(3 * SEGMENT, SEGMENT);
    prepare(&*pool.backing(), span).expect("there is room");
    pool.log().write(span.offset + 5, b"kept without a sync");
    now(persist_spans(
        &*pool.log(),
        &[Span::new(span.offset + 5, 19)],
    ))
    .expect("memory accepts the stores");
    drop(pool);

    let pool = open(false);
    let mut found = [0; 19];
    pool.log().read(span.offset + 5, &mut found);
    assert_eq!(&found, b"kept without a sync");
    // A file system may have allocated more: a fault of a large page takes space for the whole page.
    let occupied = pool.backing().occupied().expect("the backing knows");
    let covers = |part: &Span| {
        part.offset <= span.offset && span.offset + span.size <= part.offset + part.size
    };
    assert!(occupied.iter().any(covers), "{occupied:?}");
    pool.close().expect("the pool is closed in order");
    assert!(open(false).was_clean());
}

/// One test, because there is only one device.
#[test]
#[ignore = "needs persistent memory: cargo xtask guest"]
fn a_device_holds_a_pool_and_is_mapped_in_parts_of_any_size() {
    clear_device();
    let capacity = 16 * SEGMENT;
    round_trip(|fresh| {
        let backing = if fresh {
            DaxBacking::create(&device())
        } else {
            DaxBacking::open(&device())
        };
        let backing = Rc::new(backing.expect("the device is free"));
        match fresh {
            true => Pool::create(backing, direct(capacity)).expect("a pool is created"),
            false => {
                Pool::open(backing, OpenMode::Serve)
                    .expect("the pool opens")
                    .0
            }
        }
    });
    assert_eq!(detect_domain(&device()), Some(domain()));

    // A device is mapped in units of megabytes, which the mapping of an extent must hide. Needs the lead of a region.
    let whole = map(0, 4 * MIB, Writable::Yes).expect("the device can be mapped");
    for (offset, size) in [
        (0, 64 * KIB),
        (4 * KIB, 8 * KIB),
        (2 * MIB - 4 * KIB, 8 * KIB),
        (3 * MIB, 4 * KIB),
    ] {
        let part = map(offset, size, Writable::Yes).expect("a part can be mapped");
        assert_eq!(part.size(), size);
        part.write(0, &offset.to_le_bytes());
        part.write(size - 8, &size.to_le_bytes());
        assert_eq!(
            (whole.load(offset), whole.load(offset + size - 8)),
            (offset, size)
        );
        part.populate(Span::new(0, size));
    }
    assert!(
        map(100, 4 * KIB, Writable::Yes).is_err(),
        "not at an arbitrary byte"
    );
    let read_only =
        map(2 * MIB, 64 * KIB, Writable::No).expect("the device can be mapped for reading");
    assert!(read_only.share().is_none());
    clear_device();
}

#[test]
#[ignore = "needs persistent memory: cargo xtask guest"]
fn a_file_system_that_maps_directly_holds_a_pool_without_syncs() {
    let place = tempfile::tempdir_in(folder()).expect("the folder can be written");
    let directory = place.path().join("pool");
    round_trip(|fresh| {
        let backing = if fresh {
            DirectoryBacking::create(&directory)
        } else {
            DirectoryBacking::open(&directory)
        };
        let backing = Rc::new(backing.expect("the folder is free"));
        match fresh {
            true => Pool::create(backing, direct(8 * SEGMENT)).expect("a pool is created"),
            false => {
                Pool::open(backing, OpenMode::Serve)
                    .expect("the pool opens")
                    .0
            }
        }
    });
    assert_eq!(detect_domain(&directory), Some(domain()));

    let synced = place.path().join("synced");
    let mut page_file = direct(8 * SEGMENT);
    page_file.platform.persistence_domain = PersistenceDomain::PageFile;
    let pool = Pool::create(
        Rc::new(DirectoryBacking::create(&synced).expect("the place is free")),
        page_file,
    )
    .expect("the pool is created");
    assert_eq!(pool.log().means(), Means::FileSync);
}
