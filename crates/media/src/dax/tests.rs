//! Pools on a file that stands in for a device. The integration tests cover the behaviour that only a real device has.

use std::os::unix::fs::FileExt as _;

use tempfile::NamedTempFile;

use super::*;
use crate::{
    Ddio, DeclaredPlatform, DetectedDomain, Durability, OpenMode, PersistenceDomain, Pool,
    PoolOptions, ReceiveBuffers,
};

const SIZE: u64 = 16 * MIB;
const SEGMENT: u64 = 256 * 1024;

fn device() -> NamedTempFile {
    let file = tempfile::Builder::new()
        .tempfile_in("/dev/shm")
        .or_else(|_| NamedTempFile::new())
        .unwrap();
    file.as_file().set_len(SIZE).unwrap();
    file
}

fn facts() -> Facts {
    Facts {
        size: SIZE,
        domain: DetectedDomain::MemoryController,
    }
}

fn backing(device: &NamedTempFile, serve: bool) -> Result<DaxBacking, MediaError> {
    DaxBacking::new(device.path(), facts(), serve)
}

fn creating(device: &NamedTempFile) -> Result<DaxBacking, MediaError> {
    let backing = backing(device, true)?;
    backing.check_creatable()?;
    Ok(backing)
}

fn options(domain: PersistenceDomain, capacity: u64) -> PoolOptions {
    PoolOptions {
        capacity,
        segment_size: SEGMENT,
        shards: 1,
        cluster_seed: None,
        platform: DeclaredPlatform {
            persistence_domain: domain,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        },
        durability: Durability::Power,
        entropy: std::array::from_fn(|index| index as u8),
    }
}

fn create(device: &NamedTempFile) -> Pool {
    Pool::create(
        Rc::new(creating(device).unwrap()),
        options(PersistenceDomain::Dmp, 8 * SEGMENT),
    )
    .unwrap()
}

#[test]
fn a_pool_on_a_device_keeps_its_facts_and_its_bytes_over_openings() {
    let device = device();
    let pool = create(&device);
    let (uuid, span) = (pool.uuid(), Span::new(SEGMENT, SEGMENT));
    assert_eq!(pool.log().means(), Means::WriteBack);
    assert_eq!(pool.backing().occupied().unwrap(), []);
    assert_eq!(pool.backing().prepare(span).unwrap(), Prepared::Ready);
    pool.log().write(SEGMENT + 100, b"kept");
    pool.backing()
        .store(Blob::Checkpoint, b"a checkpoint")
        .unwrap();
    pool.close().unwrap();

    let (pool, repairs) =
        Pool::open(Rc::new(backing(&device, true).unwrap()), OpenMode::Serve).unwrap();
    assert_eq!(
        (repairs.len(), pool.uuid(), pool.opening(), pool.was_clean()),
        (0, uuid, 2, true)
    );
    assert_eq!(pool.backing().occupied().unwrap(), [span]);
    assert_eq!(
        pool.backing().load(Blob::Checkpoint).unwrap().unwrap(),
        b"a checkpoint"
    );
    let mut found = [0; 4];
    pool.log().read(SEGMENT + 100, &mut found);
    assert_eq!(&found, b"kept");
    assert_eq!(pool.backing().in_use_by(), Some(std::process::id()));
    drop(pool);

    let inspected = backing(&device, false).unwrap();
    assert_eq!(
        inspected.in_use_by(),
        None,
        "a number alone does not prove a holder"
    );
    let (pool, _) = Pool::open(Rc::new(inspected), OpenMode::Inspect).unwrap();
    assert_eq!((pool.opening(), pool.was_clean()), (2, false));
}

/// Needs the clearing: without it the log would show the earlier content of the device.
#[test]
fn a_new_log_does_not_show_the_earlier_content_of_the_device() {
    let device = device();
    device
        .as_file()
        .write_all_at(&vec![0xaa; (SIZE - METADATA_SIZE) as usize], METADATA_SIZE)
        .unwrap();
    let pool = create(&device);
    let mut bytes = vec![1; pool.capacity() as usize];
    pool.log().read(0, &mut bytes);
    assert!(bytes.iter().all(|byte| *byte == 0));
    assert_eq!(pool.backing().load(Blob::Checkpoint).unwrap(), None);
}

/// Needs the state *creating*: without it a device with one header copy, or none yet, would be taken for a pool or for
/// foreign data.
#[test]
fn an_interrupted_creation_leaves_no_pool_and_is_started_over() {
    let device = device();
    let half = creating(&device).unwrap();
    let LogOptions { capacity, .. } = half_created(&half);
    half.store(Blob::HeaderFirst, &[1; 4096]).unwrap();
    assert_eq!(half.load(Blob::HeaderFirst).unwrap(), None);
    assert!(matches!(
        half.check_has_pool(),
        Err(MediaError::NotFound { .. })
    ));
    drop(half);
    let pool = create(&device);
    assert_eq!(pool.capacity(), capacity);
    drop(pool);
    backing(&device, false).unwrap().check_has_pool().unwrap();
}

fn half_created(backing: &DaxBacking) -> LogOptions {
    let options = options(PersistenceDomain::Dmp, 8 * SEGMENT);
    let options = LogOptions {
        capacity: options.capacity,
        platform: options.platform,
        durability: options.durability,
    };
    backing.open_log(options).unwrap();
    options
}

#[test]
fn a_device_with_a_pool_or_with_foreign_data_is_refused() {
    let device = device();
    drop(create(&device));
    assert!(matches!(creating(&device), Err(MediaError::Exists { .. })));

    let foreign = self::device();
    foreign
        .as_file()
        .write_all_at(b"somebody's", METADATA_SIZE - 10)
        .unwrap();
    let refused = creating(&foreign).unwrap_err();
    assert!(
        matches!(&refused, MediaError::Unsuitable { reason, .. } if reason.contains("clear its first 2 MiB")),
        "{refused}"
    );
    assert!(matches!(
        backing(&foreign, false).unwrap().check_has_pool(),
        Err(MediaError::NotFound { .. })
    ));
    let mut found = [0; 10];
    foreign
        .as_file()
        .read_exact_at(&mut found, METADATA_SIZE - 10)
        .unwrap();
    assert_eq!(&found, b"somebody's");
    let mut record = [1; 16];
    foreign.as_file().read_exact_at(&mut record, 8192).unwrap();
    assert_eq!(record, [0; 16], "the process was not noted either");
}

#[test]
fn a_second_server_is_refused_and_told_which_process_serves() {
    let device = device();
    let pool = create(&device);
    let refused = backing(&device, true).unwrap_err();
    assert!(
        matches!(refused, MediaError::InUse { pid: Some(pid), .. } if pid == std::process::id()),
        "{refused}"
    );
    drop(pool);
    assert!(backing(&device, true).is_ok());
}

#[test]
fn a_damaged_device_record_does_not_hide_a_pool() {
    let device = device();
    drop(create(&device));
    device.as_file().write_all_at(&[0x55; 64], 8192).unwrap();
    let (pool, _) = Pool::open(Rc::new(backing(&device, true).unwrap()), OpenMode::Serve).unwrap();
    assert_eq!(pool.opening(), 2);
}

#[test]
fn a_log_too_large_for_the_device_is_refused_before_anything_changes() {
    let device = device();
    for (capacity, fits) in [(56 * SEGMENT, false), (55 * SEGMENT, true)] {
        let backing = creating(&device).unwrap();
        let created = Pool::create(Rc::new(backing), options(PersistenceDomain::Dmp, capacity));
        match created {
            Ok(pool) => assert!(fits, "{} bytes fit", pool.capacity()),
            Err(MediaError::NoSpace { size, .. }) => {
                assert_eq!((fits, size), (false, capacity));
                assert_eq!(
                    self::backing(&device, false).unwrap().metadata.state(),
                    State::Empty
                );
            }
            Err(other) => panic!("{other}"),
        }
    }
    let capacity = backing(&device, false)
        .unwrap()
        .capacity_max(SEGMENT)
        .unwrap();
    assert!(
        capacity.is_multiple_of(SEGMENT) && (52 * SEGMENT..=53 * SEGMENT).contains(&capacity),
        "{capacity}"
    );
}

#[test]
fn a_device_has_no_pages_to_sync() {
    let device = device();
    let refused = Pool::create(
        Rc::new(creating(&device).unwrap()),
        options(PersistenceDomain::PageFile, 8 * SEGMENT),
    );
    let refused = refused
        .err()
        .expect("a device cannot be synced")
        .to_string();
    assert!(refused.contains("has no pages to sync"), "{refused}");
    assert_eq!(
        backing(&device, false).unwrap().metadata.state(),
        State::Empty
    );
}

/// Needs each change of the map to keep the neighbouring bits.
#[test]
fn a_reopened_device_reports_exactly_the_prepared_spans() {
    let device = device();
    let pool = create(&device);
    for number in [0, 2, 3, 7] {
        pool.backing()
            .prepare(Span::new(number * SEGMENT, SEGMENT))
            .unwrap();
    }
    drop(pool);
    let (pool, _) =
        Pool::open(Rc::new(backing(&device, false).unwrap()), OpenMode::Inspect).unwrap();
    let spans = [
        Span::new(0, SEGMENT),
        Span::new(2 * SEGMENT, 2 * SEGMENT),
        Span::new(7 * SEGMENT, SEGMENT),
    ];
    assert_eq!(pool.backing().occupied().unwrap(), spans);
}
