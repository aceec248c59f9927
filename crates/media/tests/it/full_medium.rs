//! Pools on a medium that fills up.

use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change, mount_remount};
use rustix::thread::UnshareFlags;
use stonecast_base::{KIB, Span};
use stonecast_media::{Blob, Durability, MediaError};

use crate::not_run::not_run;
use crate::support::{SEGMENT, create, options, prepare, serve};

/// A file system of `size` bytes in memory. Only this thread and the threads that it starts see the file system, which
/// ends with them. `None`, with a report, where the system does not allow it.
fn small_place(test: &str, at: &Path, size: u64) -> Option<PathBuf> {
    let mounted = (|| {
        // SAFETY: a new mount namespace changes the meaning of paths for this thread, not its memory or descriptors.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
        mount_change(
            "/",
            MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
        )?;
        let size = std::ffi::CString::new(format!("size={size}")).expect("no zero byte");
        mount(
            "none",
            at,
            "tmpfs",
            MountFlags::empty(),
            Some(size.as_c_str()),
        )
    })();
    match mounted {
        Ok(()) => Some(at.to_owned()),
        Err(error) => {
            not_run(
                test,
                &format!("a small file system cannot be mounted: {error}"),
            );
            None
        }
    }
}

/// Runs each test on a thread of its own, because a thread cannot leave its mount namespace.
fn on_own_thread(test: impl FnOnce() + Send + 'static) {
    std::thread::spawn(test).join().unwrap();
}

/// Needs the allocation before anything is written: without it the write to the mapping raises SIGBUS.
#[test]
fn a_full_medium_is_reported_and_everything_else_continues() {
    on_own_thread(|| {
        let outside = tempfile::tempdir().unwrap();
        let test = "a_full_medium_is_reported_and_everything_else_continues";
        let Some(place) = small_place(test, outside.path(), 5 * SEGMENT) else {
            return;
        };
        let directory = place.join("pool");
        let pool = create(&directory, options(Durability::Process)).unwrap();
        let (backing, log) = (pool.backing(), pool.log());
        let segment = |number: u64| Span::new(number * SEGMENT, SEGMENT);
        for number in 0..4 {
            prepare(&*backing, segment(number)).unwrap();
            log.write(number * SEGMENT, &vec![number as u8 + 1; SEGMENT as usize]);
        }
        // A span with two holes, of which the first fits and the second does not. The refused span takes no space, so a
        // smaller span fits afterwards. Needs `give_back`.
        prepare(&*backing, Span::new(4 * SEGMENT + SEGMENT / 2, 16 * KIB)).unwrap();
        for _ in 0..2 {
            let refused = prepare(&*backing, Span::new(4 * SEGMENT, 2 * SEGMENT)).unwrap_err();
            assert!(
                matches!(&refused, MediaError::NoSpace { path, .. } if path.ends_with("log")),
                "{refused}"
            );
        }
        let half = Span::new(7 * SEGMENT, SEGMENT / 2);
        prepare(&*backing, half).unwrap();
        log.write(half.offset, &vec![5; SEGMENT as usize / 2]);
        let held: u64 = backing
            .occupied()
            .unwrap()
            .iter()
            .map(|span| span.size)
            .sum();
        assert_eq!(held, 4 * SEGMENT + SEGMENT / 2 + 16 * KIB);

        // A checkpoint that does not fit leaves the old one, and no file that takes up space.
        backing.store(Blob::Checkpoint, b"old").unwrap();
        let refused = backing
            .store(Blob::Checkpoint, &vec![1; SEGMENT as usize])
            .unwrap_err();
        assert!(matches!(refused, MediaError::NoSpace { .. }), "{refused}");
        assert_eq!(backing.load(Blob::Checkpoint).unwrap().unwrap(), b"old");
        assert!(!directory.join("checkpoint.new").exists());

        // Written bytes stay, the header can change, and the pool opens again.
        let mut found = vec![0; SEGMENT as usize];
        log.read(3 * SEGMENT, &mut found);
        assert!(found.iter().all(|byte| *byte == 4));
        drop((backing, log));
        pool.close().unwrap();
        let (pool, _) = serve(&directory).unwrap();
        assert!(pool.was_clean());

        // The next request succeeds once there is space.
        let remount = std::ffi::CString::new(format!("size={}", 16 * SEGMENT)).unwrap();
        mount_remount(&place, MountFlags::empty(), &remount).unwrap();
        prepare(&*pool.backing(), Span::new(4 * SEGMENT, 2 * SEGMENT)).unwrap();
        pool.log().write(6 * SEGMENT - 4, b"room");
    });
}

#[test]
fn a_pool_that_cannot_be_created_for_lack_of_space_leaves_no_pool() {
    on_own_thread(|| {
        let outside = tempfile::tempdir().unwrap();
        let test = "a_pool_that_cannot_be_created_for_lack_of_space_leaves_no_pool";
        let Some(place) = small_place(test, outside.path(), 8 * KIB) else {
            return;
        };
        std::fs::write(place.join("filler"), [1; 8192]).unwrap();
        let pool = place.join("pool");
        let refused = create(&pool, options(Durability::Process)).err().unwrap();
        assert!(matches!(refused, MediaError::NoSpace { .. }), "{refused}");
        assert!(matches!(serve(&pool), Err(MediaError::NotFound { .. })));
        std::fs::remove_file(place.join("filler")).unwrap();
        mount_remount(&place, MountFlags::empty(), c"size=64k").unwrap();
        assert!(create(&pool, options(Durability::Process)).is_ok());
    });
}
