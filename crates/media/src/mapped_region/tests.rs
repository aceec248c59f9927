use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::mm::mmap;

use super::*;
use crate::futex::FutexWait;

fn memory(size: u64, sealing: Sealing) -> MappedRegion {
    MappedRegion::create_memory("test", size, sealing).unwrap()
}

/// A second descriptor of the memory of `region`, as a peer receives it.
fn handed_on(region: &MappedRegion) -> OwnedFd {
    region.share().unwrap().file.try_clone_to_owned().unwrap()
}

#[test]
fn fresh_memory_is_zero_and_keeps_written_bytes() {
    let region = memory(10_000, Sealing::None);
    assert_eq!(region.size(), 10_000);
    let mut bytes = vec![1; 10_000];
    region.read(0, &mut bytes);
    assert!(bytes.iter().all(|byte| *byte == 0));
    region.write(4090, b"across a page");
    let mut found = [0; 13];
    region.read(4090, &mut found);
    assert_eq!(&found, b"across a page");
    region.prefetch(9_999, 1);
    region.populate(Span::new(4096, 100));
    region.populate_for_writing(Span::new(9_999, 1));
}

#[test]
fn words_are_loaded_stored_exchanged_and_added_to() {
    let region = memory(4096, Sealing::None);
    region.store(8, 5);
    assert_eq!(region.load(8), 5);
    assert_eq!(region.compare_exchange(8, 4, 9), Err(5));
    assert_eq!(region.compare_exchange(8, 5, u64::MAX), Ok(5));
    assert_eq!(region.fetch_add(8, 3), u64::MAX);
    assert_eq!((region.load(8), region.load_relaxed(8)), (2, 2));
    region.store(4088, 7);
    assert_eq!(region.load(4088), 7);
}

#[test]
fn whole_lines_go_from_one_mapping_to_another_and_nothing_else_does() {
    let (from, into) = (memory(8192, Sealing::None), memory(8192, Sealing::None));
    let bytes: Vec<u8> = (0..8192u32).map(|index| ((index * 7) >> 3) as u8).collect();
    from.write(0, &bytes);
    let place = from.mapped_at().unwrap();
    for size in [64, 128, 1984] {
        assert!(into.copy_lines(64, &place, 320, size));
        let mut found = vec![0; size as usize + 1];
        into.read(64, &mut found);
        assert_eq!(found[..size as usize], bytes[320..][..size as usize]);
        assert_eq!(
            found[size as usize], 0,
            "nothing behind the lines is written"
        );
    }
    for (offset, from_offset, size) in [
        (4096, 0, 63),
        (4096, 8, 64),
        (4104, 0, 64),
        (4096, 0, 2048),
        (4096, 0, 0),
    ] {
        assert!(!into.copy_lines(offset, &place, from_offset, size));
    }
    assert_eq!(into.load(4096), 0, "nothing was copied");
}

#[test]
#[should_panic(expected = "are not in a mapping of")]
fn lines_behind_the_end_of_a_mapping_are_not_copied() {
    let (from, into) = (memory(4096, Sealing::None), memory(8192, Sealing::None));
    into.copy_lines(0, &from.mapped_at().unwrap(), 4096, 64);
}

#[test]
fn two_mappings_of_one_memory_show_the_same_bytes() {
    let region = memory(3 * 4096, Sealing::None);
    let peer = MappedRegion::map(handed_on(&region), 4096, 4096, Writable::Yes).unwrap();
    peer.write(1, b"hello");
    let mut found = [0; 5];
    region.read(4097, &mut found);
    assert_eq!(&found, b"hello");
    assert!(peer.cannot_shrink());
    assert!(!peer.share().unwrap().write_sealed);
    assert_eq!(peer.share().unwrap().file_offset, 4096);
}

/// Two processors: one copies a block over and over, the other reads it, and every word must be one that was written
/// whole. The sizes take each of the three paths of `copy`.
#[test]
fn no_reader_sees_half_a_word_during_a_copy() {
    const SIZE: usize = 4096;
    for size in [48, 1000, SIZE] {
        let region = memory(SIZE as u64, Sealing::None);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let blocks = [vec![0; size], vec![0xff; size]];
                for round in 0.. {
                    region.write(0, &blocks[round % 2]);
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let mut seen = vec![0; size];
            for _ in 0..2000 {
                region.read(0, &mut seen);
                let torn = seen
                    .chunks_exact(8)
                    .find(|word| word.iter().any(|byte| byte != &word[0]));
                if torn.is_some() {
                    stop.store(true, Ordering::Relaxed);
                }
                assert_eq!(torn, None);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

/// Needs `F_SEAL_FUTURE_WRITE`: without it the second mapping succeeds.
#[test]
fn only_the_owner_can_write_sealed_memory() {
    let region = memory(8192, Sealing::FutureWrite);
    region.store(0, 1);
    assert!(region.share().unwrap().write_sealed);

    let peer = handed_on(&region);
    assert!(MappedRegion::map(peer.try_clone().unwrap(), 0, 8192, Writable::Yes).is_err());
    let reopened = open(
        format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&peer)),
        OFlags::RDWR,
        Mode::empty(),
    );
    let reopened = reopened.unwrap();
    assert!(MappedRegion::map(reopened.try_clone().unwrap(), 0, 8192, Writable::Yes).is_err());
    assert!(
        File::from(reopened.try_clone().unwrap())
            .write_at(b"x", 0)
            .is_err()
    );

    let readable = MappedRegion::map(reopened, 0, 8192, Writable::No).unwrap();
    region.store(8, 77);
    assert_eq!(readable.load(8), 77);
    // SAFETY: the pages belong to `readable`, which lives; if the call succeeded, the memory would only become writable
    // for this process.
    let raised = unsafe {
        rustix::mm::mprotect(
            readable.mapping.start().cast(),
            8192,
            rustix::mm::MprotectFlags::WRITE,
        )
    };
    assert!(raised.is_err());
}

/// Needs `F_SEAL_SHRINK` and `F_SEAL_SEAL`.
#[test]
fn no_holder_can_truncate_memory_or_seal_it_further() {
    for sealing in [Sealing::None, Sealing::FutureWrite] {
        let region = memory(8192, sealing);
        let peer = handed_on(&region);
        assert!(region.cannot_shrink());
        assert!(ftruncate(&peer, 4096).is_err());
        assert!(ftruncate(&peer, 16384).is_err());
        assert!(fcntl_add_seals(&peer, SealFlags::WRITE).is_err());
    }
}

#[test]
fn a_file_that_is_too_short_is_not_mapped() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(4096).unwrap();
    let refused =
        MappedRegion::map(file.try_clone().unwrap().into(), 0, 4097, Writable::Yes).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "4097 bytes at 0 are not in a file of 4096 bytes"
    );
    assert!(
        MappedRegion::map(
            file.try_clone().unwrap().into(),
            u64::MAX - 4095,
            4096,
            Writable::Yes
        )
        .is_err()
    );
    assert!(MappedRegion::map(file.try_clone().unwrap().into(), 0, 0, Writable::Yes).is_err());
    assert!(MappedRegion::map(file.try_clone().unwrap().into(), 8, 8, Writable::Yes).is_err());
    assert!(
        !MappedRegion::map(file.into(), 0, 4096, Writable::Yes)
            .unwrap()
            .cannot_shrink()
    );
}

#[test]
fn large_memory_starts_at_a_large_page() {
    let region = memory(5 << 20, Sealing::None);
    assert_eq!(region.address(0, 1).addr() % (2 << 20), 0);
    region.write((5 << 20) - 3, b"end");
    let half = MappedRegion::map(handed_on(&region), 1 << 20, 4 << 20, Writable::Yes).unwrap();
    assert_eq!(half.address(0, 1).addr() % (2 << 20), 1 << 20);
    let mut end = [0; 3];
    half.read((4 << 20) - 3, &mut end);
    assert_eq!(&end, b"end");
}

/// The addresses before and after the mapping, which were reserved to align it, are given back. Needs the `drop` of
/// head and tail in `Mapping::reserve`.
#[test]
fn aligning_leaves_no_reservation_behind() {
    let regions: Vec<_> = (0..20).map(|_| memory(2 << 20, Sealing::None)).collect();
    let mut maps = String::new();
    File::open("/proc/self/maps")
        .unwrap()
        .read_to_string(&mut maps)
        .unwrap();
    let reserved: usize = maps
        .lines()
        .filter(|line| {
            line.contains("---p 00000000 00:00 0") && line.split_whitespace().count() == 5
        })
        .filter_map(|line| line.split_whitespace().next()?.split_once('-'))
        .map(|(from, to)| {
            usize::from_str_radix(to, 16).unwrap() - usize::from_str_radix(from, 16).unwrap()
        })
        .filter(|size| *size < (4 << 20) && *size >= (1 << 18))
        .sum();
    drop(regions);
    assert!(
        reserved < 10 << 20,
        "{reserved} bytes still reserved:\n{maps}"
    );
}

#[test]
#[should_panic(expected = "mapped read-only")]
fn a_store_to_read_only_memory_stops_the_program() {
    let region = memory(4096, Sealing::FutureWrite);
    MappedRegion::map(handed_on(&region), 0, 4096, Writable::No)
        .unwrap()
        .write(0, b"x");
}

#[test]
#[should_panic(expected = "mapped read-only")]
fn a_futex_store_to_read_only_memory_stops_the_program() {
    let region = memory(4096, Sealing::None);
    MappedRegion::map(handed_on(&region), 0, 4096, Writable::No)
        .unwrap()
        .futex_word(0)
        .store(1);
}

#[test]
#[should_panic(expected = "not in a region of 100 bytes")]
fn a_read_past_the_end_stops_the_program() {
    memory(100, Sealing::None).read(99, &mut [0; 2]);
}

#[test]
#[should_panic(expected = "not in a region of 100 bytes")]
fn an_offset_that_overflows_stops_the_program() {
    memory(100, Sealing::None).write(u64::MAX, &[0; 2]);
}

#[test]
#[should_panic(expected = "not aligned to 8 bytes")]
fn an_unaligned_word_stops_the_program() {
    let _ = memory(100, Sealing::None).load(4);
}

#[test]
fn a_sleeper_in_another_mapping_is_woken() {
    let region = memory(4096, Sealing::None);
    let peer = MappedRegion::map(handed_on(&region), 0, 4096, Writable::No).unwrap();
    assert_eq!(
        peer.futex_word(4).wait(1, None).unwrap(),
        FutexWait::Changed
    );
    assert_eq!(
        peer.futex_word(4)
            .wait(0, Some(Duration::from_millis(1)))
            .unwrap(),
        FutexWait::TimedOut
    );
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            while peer.futex_word(4).load() == 0 {
                peer.futex_word(4).wait(0, None).unwrap();
            }
        });
        assert_eq!(region.futex_word(4).swap(1), 0);
        region.futex_word(4).wake_all().unwrap();
        sleeper.join().unwrap();
    });
    assert_eq!(region.futex_word(4).fetch_add(2), 1);
    assert_eq!(peer.futex_word(4).load(), 3);
}

/// The kernel enforces the guard: an existing mapping keeps its rights, and new mappings get none.
#[test]
fn a_mapping_made_before_the_seal_stays_writable() {
    let region = memory(4096, Sealing::FutureWrite);
    region.write(0, b"still writable");
    // SAFETY: the kernel chooses the addresses; nothing refers to them.
    let other = unsafe {
        mmap(
            std::ptr::null_mut(),
            4096,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            region.file(),
            0,
        )
    };
    assert_eq!(other.unwrap_err(), Errno::PERM);
}

/// No page outside the whole large pages of the span is touched, and the content stays.
#[test]
fn memory_that_moves_into_large_pages_keeps_its_content_for_every_mapping() {
    let size = 3 * LARGE_PAGE as u64 + 4096;
    let region = memory(size, Sealing::FutureWrite);
    let peer = MappedRegion::map(handed_on(&region), 0, size, Writable::No).unwrap();
    let bytes: Vec<u8> = (0..size).map(|index| ((index * 31) >> 4) as u8).collect();
    region.write(0, &bytes);
    region.use_large_pages(Span::new(4096, size - 4096));
    let mut found = vec![0; size as usize];
    for mapping in [&region, &peer] {
        mapping.read(0, &mut found);
        assert!(found == bytes);
    }
    region.store(LARGE_PAGE as u64, 7);
    assert_eq!(peer.load(LARGE_PAGE as u64), 7);
}

/// Needs the permissions of the memory: with the default permissions, any user who received the memory for reading
/// could reopen it for writing.
#[test]
fn another_user_cannot_reopen_read_only_memory_for_writing() {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};
    if !rustix::process::geteuid().is_root() {
        return crate::not_run::not_run(
            "another_user_cannot_reopen_read_only_memory_for_writing",
            "only root can become another user",
        );
    }
    let region = memory(4096, Sealing::None);
    let name = format!("/proc/self/fd/{}", region.file().as_raw_fd());
    let opened = || Stdio::from(File::open(&name).unwrap());
    let other_user = |script: &str| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(opened());
        command.stderr(Stdio::null()).uid(65534).gid(65534);
        command.status().unwrap().success()
    };
    assert!(
        other_user("head -c 1 > /dev/null"),
        "the other user can read the memory"
    );
    assert!(!other_user("printf changed > /proc/self/fd/0"));
    assert!(!other_user("printf changed 1<> /proc/self/fd/0"));
    assert_eq!(region.load(0), 0);
}
