//! Files in a state that a store never leaves, and directories that cannot be used.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use stonecast_cluster::{ConfigStore, Revision, StoreError, Swap, VALUE_SIZE_MAX};
use tempfile::TempDir;

use crate::support::{finish, not_run};

fn open(path: &Path) -> Rc<dyn ConfigStore> {
    stonecast_config_store::open(&format!("file:{}", path.display())).unwrap()
}

fn file_of(folder: &Path, revision: u64) -> PathBuf {
    folder.join(format!("revision-{revision:020}"))
}

/// A store after `changes` changes.
fn stored(changes: u64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for revision in 1..=changes {
        let expected = (revision > 1).then(|| Revision(revision - 1));
        let value = format!("value {revision}");
        let swap = finish(store.compare_and_set(expected, value.as_bytes()));
        assert_eq!(swap, Ok(Swap::Done(Revision(revision))));
    }
    folder
}

/// The reason with which a store refuses to read and to watch.
fn refusal(path: &Path) -> String {
    let store = open(path);
    let Err(StoreError::Refused { reason, .. }) = finish(store.read()) else {
        panic!("{} is refused", path.display());
    };
    let watched = finish(store.changed(None)).map_err(|error| error.to_string());
    assert!(
        watched.is_err_and(|watched| watched.contains(&reason)),
        "the watch reports it, too"
    );
    reason
}

#[test]
fn a_missing_directory_is_an_error_until_the_first_value_makes_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster");
    let reason = refusal(&path);
    assert!(
        reason.contains("there is no directory") && reason.contains("cluster"),
        "{reason}"
    );
    let store = open(&path);
    let swap = finish(store.compare_and_set(None, b"first"));
    assert_eq!(swap, Ok(Swap::Done(Revision(1))));
    assert_eq!(finish(store.read()).unwrap().unwrap().bytes, b"first");
    // A path whose parent is missing as well is more likely a mistake.
    let deeper = open(&folder.path().join("a/b"));
    let swap = finish(deeper.compare_and_set(None, b"first"));
    assert!(
        matches!(&swap, Err(StoreError::Refused { reason, .. }) if reason.contains("a/b")),
        "{swap:?}"
    );
}

#[test]
fn a_path_that_is_not_a_directory_or_takes_no_files_is_an_error_with_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "x").unwrap();
    let reason = refusal(&path);
    assert!(reason.contains("file"), "{reason}");
    // No user can make files there, not even root.
    let store = open(Path::new("/sys/kernel"));
    let swap = finish(store.compare_and_set(None, b"first"));
    assert!(
        matches!(&swap, Err(StoreError::Refused { reason, .. }) if reason.contains("making /sys/kernel/")),
        "{swap:?}"
    );
}

/// The part of the next story that runs where a small file system is mounted.
#[test]
fn a_part_of_the_story_of_a_full_disk() {
    let Some(path) = std::env::var_os("STONECAST_FULL_DISK") else {
        return;
    };
    let path = PathBuf::from(path);
    let store = open(&path);
    let big = vec![b'x'; VALUE_SIZE_MAX];
    let swap = finish(store.compare_and_set(None, &big));
    assert!(
        matches!(&swap, Err(StoreError::Refused { reason, .. }) if reason.contains("writing") && reason.contains("space")),
        "{swap:?}"
    );
    assert_eq!(
        fs::read_dir(&path).unwrap().count(),
        0,
        "nothing is left over"
    );
    assert_eq!(finish(store.read()), Ok(None));
    let swap = finish(store.compare_and_set(None, b"small"));
    assert_eq!(
        swap,
        Ok(Swap::Done(Revision(1))),
        "a value that fits is stored"
    );
}

#[test]
fn a_full_disk_is_an_error_and_leaves_the_existing_value() {
    let name = "files::a_full_disk_is_an_error_and_leaves_the_existing_value";
    let folder = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=256k small \"$STONECAST_FULL_DISK\"";
    let in_namespace = |line: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", line]);
        command.env("STONECAST_FULL_DISK", folder.path());
        command
    };
    if !in_namespace(mount)
        .output()
        .is_ok_and(|output| output.status.success())
    {
        return not_run(name, "this process may not mount a small file system");
    }
    let this = std::env::current_exe().unwrap();
    let line = format!(
        "{mount} && exec {} --exact files::a_part_of_the_story_of_a_full_disk",
        this.display()
    );
    let output = in_namespace(&line).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn old_revisions_lose_their_values_and_keep_their_names() {
    let folder = stored(20);
    let sizes: Vec<_> = (1..=20)
        .map(|revision| {
            fs::metadata(file_of(folder.path(), revision))
                .unwrap()
                .len()
        })
        .collect();
    assert!(sizes[..12].iter().all(|&size| size == 0), "{sizes:?}");
    assert!(sizes[12..].iter().all(|&size| size > 0), "{sizes:?}");
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        20,
        "nothing else is left over"
    );
    let stored = finish(open(folder.path()).read()).unwrap().unwrap();
    assert_eq!(
        (stored.revision, &*stored.bytes),
        (Revision(20), &b"value 20"[..])
    );
}

/// Needs the name of a superseded revision: otherwise a writer that was stopped between its read and its link would
/// link there.
#[test]
fn a_name_that_was_once_taken_is_never_free_again() {
    let folder = stored(20);
    let late = folder.path().join("late");
    fs::write(&late, "from a writer that was stopped").unwrap();
    for revision in 1..=20 {
        assert!(fs::hard_link(&late, file_of(folder.path(), revision)).is_err());
    }
}

#[test]
fn a_damaged_newest_revision_is_an_error_with_file_offset_found_and_expected() {
    let folder = stored(3);
    let path = file_of(folder.path(), 3);
    let whole = fs::read(&path).unwrap();
    let head = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for (damaged, offset, found, expected) in [
        (
            whole[..whole.len() - 1].to_vec(),
            head,
            "found 6 bytes",
            "expected 7 bytes",
        ),
        (
            b"anything else".to_vec(),
            0,
            "anything else",
            "expected `stonecast-revision 1 3",
        ),
        (
            Vec::new(),
            0,
            "found nothing",
            "expected the newest revision",
        ),
        (
            fs::read(file_of(folder.path(), 2)).unwrap(),
            0,
            "found revision 2",
            "expected revision 3",
        ),
    ] {
        fs::write(&path, &damaged).unwrap();
        let reason = refusal(folder.path());
        for part in [
            path.to_str().unwrap(),
            &format!("at byte {offset},"),
            found,
            expected,
        ] {
            assert!(reason.contains(part), "{part} is in: {reason}");
        }
        let swap = finish(open(folder.path()).compare_and_set(Some(Revision(2)), b"x"));
        assert_eq!(swap, Ok(Swap::Conflict), "nothing is stored over it");
    }
}

/// Needs the check before the file is opened: opening a pipe waits for a writer.
#[test]
fn a_revision_that_is_not_a_file_is_an_error() {
    let folder = stored(2);
    let path = file_of(folder.path(), 3);
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let reason = refusal(folder.path());
    assert!(
        reason.contains(path.to_str().unwrap()) && reason.contains("is not a file"),
        "{reason}"
    );
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(refusal(folder.path()).contains("is not a file"));
    fs::remove_dir(&path).unwrap();
    std::os::unix::fs::symlink("nowhere", &path).unwrap();
    assert!(refusal(folder.path()).contains(path.to_str().unwrap()));
}

#[test]
fn a_removed_revision_is_an_error_and_never_an_empty_store() {
    let folder = stored(12);
    let running = open(folder.path());
    finish(running.read()).unwrap();
    for removed in [1, 5] {
        let path = file_of(folder.path(), removed);
        fs::remove_file(&path).unwrap();
        let reason = refusal(folder.path());
        assert!(
            reason.contains(path.to_str().unwrap()) && reason.contains("is gone"),
            "{reason}"
        );
        fs::write(&path, "").unwrap();
    }
    // An older copy, for a process that has seen later revisions.
    for removed in 10..=12 {
        fs::remove_file(file_of(folder.path(), removed)).unwrap();
    }
    let refused = finish(running.read()).unwrap_err().to_string();
    assert!(refused.contains("is gone"), "{refused}");
}

#[test]
fn other_files_in_the_directory_are_ignored() {
    let folder = stored(2);
    fs::write(folder.path().join("notes.txt"), "x").unwrap();
    fs::write(folder.path().join("revision-x"), "x").unwrap();
    fs::write(folder.path().join(".unlinked-1-1"), "of a dead writer").unwrap();
    let stored = finish(open(folder.path()).read()).unwrap().unwrap();
    assert_eq!(stored.revision, Revision(2));
}
