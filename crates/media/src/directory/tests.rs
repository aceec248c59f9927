use std::cell::Cell;
use std::io;
use std::task::{Context, Poll, Waker};

use stonecast_base::KIB;

use uuid::Uuid;

use super::*;
use crate::not_run::not_run;
use crate::pool::HEADER_MAGIC;
use crate::{Ddio, DeclaredPlatform, Durability, PersistError, PersistenceDomain, ReceiveBuffers};

const CAPACITY: u64 = MIB;

/// The sync of the log, which fails on demand as the kernel's sync does: once, and afterwards no page is marked as
/// changed.
struct Faulty {
    log: SyncedLog,
    broken: Rc<Cell<bool>>,
    syncs: Rc<Cell<u32>>,
}

impl SyncTarget for Faulty {
    fn sync(&self) -> io::Result<()> {
        self.syncs.set(self.syncs.get() + 1);
        let synced = self.log.sync();
        if self.broken.replace(false) {
            Err(io::Error::from_raw_os_error(5))
        } else {
            synced
        }
    }
    fn sync_failed(&self) {
        self.log.sync_failed();
    }
}

struct Place {
    directory: tempfile::TempDir,
    broken: Rc<Cell<bool>>,
    syncs: Rc<Cell<u32>>,
}

impl Place {
    /// A place in the build directory; `None`, with a report, if that directory is not on a page file.
    fn new(test: &str) -> Option<Self> {
        let built = std::env::current_exe().unwrap();
        let directory = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
        let place = Self {
            directory,
            broken: Rc::default(),
            syncs: Rc::default(),
        };
        match place.open(DirectoryBacking::create(place.directory.path()).unwrap()) {
            Ok((backing, _)) => {
                backing.store(Blob::HeaderFirst, b"1").unwrap();
                backing.store(Blob::HeaderSecond, b"2").unwrap();
                Some(place)
            }
            Err(error) => {
                not_run(test, &error.to_string());
                None
            }
        }
    }

    fn open(
        &self,
        backing: DirectoryBacking,
    ) -> Result<(DirectoryBacking, Rc<PersistentMapping>), MediaError> {
        let platform = DeclaredPlatform {
            persistence_domain: PersistenceDomain::PageFile,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        };
        let options = LogOptions {
            capacity: CAPACITY,
            platform,
            durability: Durability::Power,
        };
        let (broken, syncs) = (Rc::clone(&self.broken), Rc::clone(&self.syncs));
        let region =
            backing.open_log_with(options, |log| Box::new(Faulty { log, broken, syncs }))?;
        Ok((backing, region))
    }

    fn reopen(&self) -> Result<(DirectoryBacking, Rc<PersistentMapping>), MediaError> {
        self.open(self.locked())
    }

    /// Opens the pool as soon as no process locks it. Another test starts a program: until that program runs, its
    /// process has a copy of each descriptor of this process, and with it the lock.
    fn locked(&self) -> DirectoryBacking {
        let me = Some(std::process::id());
        for _ in 0..1_000 {
            match DirectoryBacking::open(self.directory.path()) {
                Err(MediaError::InUse { pid, .. }) if pid == me || pid.is_none() => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                opened => return opened.unwrap(),
            }
        }
        panic!("the pool stays locked");
    }

    fn lock_text(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("lock")).unwrap()
    }
}

fn persist(region: &PersistentMapping) -> Result<(), PersistError> {
    match region.poll_persist(
        &[Span::new(0, 64)],
        &mut None,
        &mut Context::from_waker(Waker::noop()),
    ) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("real media do the work in the first poll"),
    }
}

/// Bytes that this thread has so far marked as changed in page caches; `None` where the kernel does not count them.
fn bytes_marked() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("write_bytes: "))?
        .parse()
        .ok()
}

/// Needs the note in `lock` and `log::rewrite`: without them the next run would take bytes for durable that only the
/// page cache holds, because the kernel reports a failure once and then forgets it.
#[test]
fn the_next_run_writes_the_bytes_again_that_a_failed_sync_left_in_the_page_cache() {
    let test = "the_next_run_writes_the_bytes_again_that_a_failed_sync_left_in_the_page_cache";
    let Some(place) = Place::new(test) else {
        return;
    };
    if bytes_marked().is_none() {
        return not_run(test, "the kernel does not count what a thread writes");
    }
    let marked_since = |before: Option<u64>| bytes_marked().unwrap() - before.unwrap();
    let (backing, region) = place.reopen().unwrap();
    let span = Span::new(256 * KIB, 256 * KIB);
    while backing.prepare(span).unwrap() == Prepared::Pending {
        std::thread::yield_now();
    }
    region.write(span.offset, b"stored");
    place.broken.set(true);
    assert!(matches!(persist(&region), Err(PersistError::Sync { .. })));
    assert!(matches!(persist(&region), Err(PersistError::Poisoned)));
    drop((backing, region));
    assert!(place.lock_text().contains("\nsync failed "));

    // A run whose first sync fails as well serves no client, and keeps the note.
    place.broken.set(true);
    assert!(matches!(
        place.reopen(),
        Err(MediaError::Persist(PersistError::Sync { .. }))
    ));
    assert!(place.lock_text().contains("\nsync failed "));

    let (marked, syncs) = (bytes_marked(), place.syncs.get());
    let (_, region) = place.reopen().unwrap();
    assert_eq!(place.syncs.get(), syncs + 1);
    assert!(
        marked_since(marked) >= span.size,
        "{} bytes were marked",
        marked_since(marked)
    );
    let mut found = [0; 6];
    region.read(span.offset, &mut found);
    assert_eq!(&found, b"stored");
    drop(region);
    assert_eq!(place.lock_text(), format!("{}\n", std::process::id()));

    // Afterwards an opening does not write again.
    let marked = bytes_marked();
    let _opened = place.reopen().unwrap();
    assert!(marked_since(marked) < span.size);
}

/// A note from an earlier power cycle warns of a page cache that is gone.
#[test]
fn a_failed_sync_before_the_machine_started_needs_no_rewrite() {
    let Some(place) = Place::new("a_failed_sync_before_the_machine_started_needs_no_rewrite")
    else {
        return;
    };
    let path = place.directory.path().join("lock");
    std::fs::write(&path, format!("1\nsync failed {}\n", Uuid::from_u128(1))).unwrap();
    let (_, region) = place.reopen().unwrap();
    assert!(persist(&region).is_ok());
}

/// Needs the sync in `make_good`: the next server reads at once the bytes that a killed server left in the page cache.
#[test]
fn opening_makes_the_content_of_the_page_cache_durable() {
    let Some(place) = Place::new("opening_makes_the_content_of_the_page_cache_durable") else {
        return;
    };
    let before = place.syncs.get();
    let _opened = place.reopen().unwrap();
    assert_eq!(place.syncs.get(), before + 1);
}

/// Needs a separate open for each: the kernel reports an error once per description, to the first sync.
#[test]
fn the_synced_description_is_shared_with_no_other_descriptor() {
    let Some(place) = Place::new("the_synced_description_is_shared_with_no_other_descriptor")
    else {
        return;
    };
    let shared_with_peers = {
        let (_, region) = place.reopen().unwrap();
        region.share().unwrap().file.try_clone_to_owned().unwrap()
    };
    // A position belongs to a description: moving the position of one does not move that of another.
    let (backing, region) = place.reopen().unwrap();
    rustix::fs::seek(&shared_with_peers, rustix::fs::SeekFrom::Start(77)).unwrap();
    rustix::fs::seek(
        region.share().unwrap().file,
        rustix::fs::SeekFrom::Start(78),
    )
    .unwrap();
    let log = backing.opened_log();
    assert_eq!(rustix::fs::tell(log.preparer.file()).unwrap(), 0);
}

/// Needs the marks: after a failed sync without a note the kernel reports nothing, and the next sync writes nothing.
#[test]
fn the_next_sync_writes_exactly_the_bytes_that_are_marked_as_changed() {
    let test = "the_next_sync_writes_exactly_the_bytes_that_are_marked_as_changed";
    let Some(place) = Place::new(test) else {
        return;
    };
    if bytes_marked().is_none() {
        return not_run(test, "the kernel does not count what a thread writes");
    }
    let (backing, region) = place.reopen().unwrap();
    while backing.prepare(Span::new(0, 256 * KIB)).unwrap() == Prepared::Pending {
        std::thread::yield_now();
    }
    region.write(0, b"stored");
    persist(&region).unwrap();
    let before = bytes_marked().unwrap();
    region.mark_changed(&[Span::new(64, 64), Span::new(64 * KIB - 1, 2)]);
    // Three pages, or the units in which their zeros were written.
    let marked = bytes_marked().unwrap() - before;
    assert!(
        (3 * 4 * KIB..=3 * 16 * KIB).contains(&marked),
        "{marked} bytes were marked"
    );
    let mut found = [0; 6];
    region.read(0, &mut found);
    assert_eq!(&found, b"stored");
}

/// Needs a sync of each directory in which a name was made: without it a power cut can take the folder of a pool that
/// has acknowledged writes.
#[test]
fn the_name_of_a_new_pool_and_of_every_folder_made_for_it_is_durable() {
    let place = tempfile::tempdir().unwrap();
    let synced = |directory: &Path| {
        let mut synced = Vec::new();
        let claim = Claim::new(directory).unwrap();
        let mut sync = |parent: &Path| {
            synced.push(parent.to_owned());
            Ok(())
        };
        claim.make_names_durable(&mut sync).unwrap();
        synced
    };
    let (one, two) = (place.path().join("one"), place.path().join("one/two"));
    assert_eq!(synced(&two), [&one, place.path()].map(Path::to_owned));
    // The maker of the directory may have been killed before the name was durable.
    assert_eq!(synced(&two), [one]);
}

/// Moves files of another pool into a directory, and returns their names.
fn move_a_pool_to(directory: &Path) {
    let elsewhere = tempfile::tempdir_in(directory.parent().unwrap()).unwrap();
    for name in ["checkpoint", "header", "lock", "log"] {
        let from = elsewhere.path().join(name);
        std::fs::write(&from, format!("{name} of another pool")).unwrap();
        std::fs::rename(&from, directory.join(name)).unwrap();
    }
}

fn assert_the_pool_is_there(directory: &Path) {
    for name in ["checkpoint", "header", "lock", "log"] {
        let found = std::fs::read_to_string(directory.join(name)).unwrap();
        assert_eq!(found, format!("{name} of another pool"));
    }
}

/// Needs the comparison with the files that this backing made: a removal by name alone would remove the whole pool.
#[test]
fn a_pool_that_is_moved_to_the_place_of_a_creation_stays() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("pool");
    let options = LogOptions {
        capacity: CAPACITY,
        platform: DeclaredPlatform {
            persistence_domain: PersistenceDomain::Volatile,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        },
        durability: Durability::Process,
    };
    for moved_after in 0..4 {
        let backing = DirectoryBacking::create(&directory).unwrap();
        let steps: [&dyn Fn(); 3] = [
            &|| drop(backing.open_log(options).unwrap()),
            &|| backing.store(Blob::HeaderFirst, b"1").unwrap(),
            &|| backing.store(Blob::HeaderSecond, b"2").unwrap(),
        ];
        steps[..moved_after].iter().for_each(|step| step());
        move_a_pool_to(&directory);
        if moved_after == 2 {
            let refused = backing.store(Blob::HeaderSecond, b"2");
            assert!(matches!(refused, Err(MediaError::Exists { .. })));
        }
        backing.discard();
        assert_the_pool_is_there(&directory);
        assert!(matches!(
            DirectoryBacking::create(&directory),
            Err(MediaError::Exists { .. } | MediaError::InUse { .. })
        ));
        drop(backing);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}

/// Needs the second check of the file that is emptied: another file may have taken its place since the directory was
/// taken.
#[test]
fn a_file_in_the_way_of_the_first_header_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let backing = DirectoryBacking::create(directory.path()).unwrap();
    let path = directory.path().join("header.new");
    std::fs::write(&path, "precious").unwrap();
    let refused = backing.store(Blob::HeaderFirst, b"1").unwrap_err();
    assert!(matches!(refused, MediaError::Unsuitable { .. }));
    backing.discard();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    assert!(
        !directory.path().join("lock").exists(),
        "this run made the lock"
    );
}

/// Needs files that were taken over to count as made: a header without its log, or a log without its header, blocks
/// every later creation.
#[test]
fn the_next_failed_creation_removes_the_leftovers_of_an_interrupted_one() {
    let place = tempfile::tempdir().unwrap();
    let mut half = HEADER_MAGIC.to_vec();
    half.resize(100, 7);
    for (name, left) in [("log", &[][..]), ("header.new", &half)] {
        std::fs::write(place.path().join(name), left).unwrap();
    }
    let backing = DirectoryBacking::create(place.path()).unwrap();
    log::create(&backing.log_path(), CAPACITY, &backing.made).unwrap();
    backing.store(Blob::HeaderFirst, b"1").unwrap();
    backing.store(Blob::HeaderSecond, b"2").unwrap();
    backing.store(Blob::Checkpoint, b"3").unwrap();
    backing.discard();
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
#[should_panic(expected = "an inspection stores nothing")]
fn an_inspection_cannot_store() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("header"), b"x").unwrap();
    let _ = DirectoryBacking::inspect(directory.path())
        .unwrap()
        .store(Blob::HeaderFirst, b"x");
}
