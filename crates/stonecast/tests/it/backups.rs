//! Backups of a store that goes on serving, and what a reader makes of files that are not whole.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use stonecast::backup::{BackupError, Chain, Identity, Plan, Taken, identity_of, take};
use stonecast::blocking::Client;
use stonecast::{ErrorKind, Lifetime, Write};
use tempfile::TempDir;

use crate::support::Place;

type State = BTreeMap<Vec<u8>, Vec<u8>>;

fn backup(place: &Place, file: &Path, base: Option<&Path>) -> Result<Taken, BackupError> {
    let mut plan = Plan::full(tempfile::tempfile().unwrap()).made_at_ms(17);
    if let Some(base) = base {
        plan = plan.based_on(identity_of(base)?);
    }
    let connection = stonecast::local::connect(&place.url()).unwrap();
    let output = File::create(file).unwrap();
    connection.run(async |client| {
        let (_, taken) = take(client, plan, output, |_| {}).await?;
        Ok(taken)
    })
}

fn state_of(files: &[PathBuf]) -> Result<State, BackupError> {
    let records = Chain::open(files)?.records()?;
    records
        .map(|record| record.map(|it| (it.key, it.value)))
        .collect()
}

fn client(place: &Place) -> Client {
    stonecast::blocking::connect(&place.url()).unwrap()
}

/// A full backup and an incremental one, with keys of any bytes, values from 0 bytes to `longest`, and the state of
/// both.
fn two_backups(folder: &TempDir, longest: usize) -> (Vec<PathBuf>, State) {
    let place = Place::new();
    let client = client(&place);
    let mut state = State::new();
    let mut put = |key: &[u8], value: Vec<u8>| {
        client.put(key, &value).unwrap();
        state.insert(key.to_vec(), value);
    };
    for n in 0..500_u32 {
        put(&n.to_be_bytes(), vec![n as u8; n as usize % 50]);
    }
    put(&[0xff; 1024], vec![3; longest]);
    put(b"gone", Vec::new());
    let files: Vec<_> = ["full", "more"].map(|name| folder.path().join(name)).into();
    backup(&place, &files[0], None).unwrap();
    for n in 100..130_u32 {
        put(&n.to_be_bytes(), b"later".to_vec());
    }
    put(&[0], Vec::new());
    client.delete(b"gone").unwrap();
    state.remove(&b"gone"[..]);
    let taken = backup(&place, &files[1], Some(&files[0])).unwrap();
    assert_eq!((taken.retained, taken.records), (471, 31));
    (files, state)
}

#[test]
fn a_chain_has_the_state_of_its_last_backup_in_whatever_order_its_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (mut files, state) = two_backups(&folder, 1_000_000);
    assert!(state_of(&files).unwrap() == state);
    files.reverse();
    assert!(state_of(&files).unwrap() == state);
    let full = identity_of(&files[1]).unwrap();
    let Identity {
        base,
        keys,
        made_ms,
        pool,
        ..
    } = identity_of(&files[0]).unwrap();
    assert_eq!(
        (base, pool, keys, made_ms),
        (full.version, full.pool, 502, 17)
    );
    let bytes: usize = state
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    let chain = Chain::open(&files).unwrap();
    assert_eq!(chain.verify().unwrap(), bytes as u64);
}

/// Fails without the end of a backup, the check of lengths, or the checksum of the header.
#[test]
fn a_torn_backup_is_refused_by_file_offset_found_and_expected() {
    let folder = tempfile::tempdir().unwrap();
    let (files, _) = two_backups(&folder, 100);
    let whole = fs::read(&files[1]).unwrap();
    for end in (0..whole.len()).step_by(7).chain([whole.len() - 1]) {
        fs::write(&files[1], &whole[..end]).unwrap();
        let error = state_of(&files).expect_err("a part of the file is gone");
        let BackupError::Corrupt(corrupt) = &error else {
            panic!("{error}");
        };
        assert!(corrupt.file.ends_with("more") && corrupt.offset <= end as u64);
        assert!(error.to_string().contains("expected"), "{error}");
    }
    fs::write(&files[1], [&whole[..], b"x"].concat()).unwrap();
    let error = state_of(&files).unwrap_err().to_string();
    assert!(
        error.contains("found more bytes, expected the end"),
        "{error}"
    );
}

/// Fails without any of the checksums.
#[test]
fn a_flipped_bit_anywhere_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (files, _) = two_backups(&folder, 100);
    let whole = fs::read(&files[1]).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&files[1], bytes).unwrap();
        assert!(state_of(&files).is_err(), "byte {at}");
    }
}

/// Fails unless the checksum of a block covers its place and its file.
#[test]
fn a_block_of_another_place_or_file_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (files, _) = two_backups(&folder, 100);
    let [full, more] = [0, 1].map(|n| fs::read(&files[n]).unwrap());
    let head = 72;
    // The bodies of both files are whole blocks.
    fs::write(&files[1], [&more[..head], &full[head..]].concat()).unwrap();
    let error = state_of(&files).unwrap_err().to_string();
    assert!(error.contains("at offset 72: found checksum"), "{error}");
    let first = 16 + u32::from_le_bytes(full[head + 12..head + 16].try_into().unwrap()) as usize;
    let (block, rest) = full[head..].split_at(first);
    fs::write(&files[0], [&full[..head], rest, block].concat()).unwrap();
    fs::write(&files[1], more).unwrap();
    assert!(matches!(state_of(&files), Err(BackupError::Corrupt(_))));
}

#[test]
fn files_that_do_not_follow_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (files, _) = two_backups(&folder, 100);
    let gap = state_of(&files[1..]).unwrap_err();
    assert!(matches!(gap, BackupError::Gap { .. }), "{gap}");
    let twice = [&files[..1], &files[..]].concat();
    assert!(matches!(state_of(&twice), Err(BackupError::Gap { .. })));
    assert!(matches!(Chain::open(&[]), Err(BackupError::NoFile)));
    let other = tempfile::tempdir().unwrap();
    let (others, _) = two_backups(&other, 100);
    let mixed = [files[0].clone(), others[1].clone()];
    assert!(matches!(state_of(&mixed), Err(BackupError::Gap { .. })));
    let place = Place::new();
    client(&place).put("a", "1").unwrap();
    let refused = backup(&place, &other.path().join("next"), Some(&files[0])).unwrap_err();
    assert!(
        matches!(refused, BackupError::OtherPool { .. }),
        "{refused}"
    );
    let mut newer = fs::read(&files[0]).unwrap();
    newer[8] = 9;
    fs::write(&files[0], newer).unwrap();
    let refused = state_of(&files).unwrap_err();
    assert!(
        matches!(refused, BackupError::Format { found: 9, .. }),
        "{refused}"
    );
}

/// A base of another history has no record that the last file retains.
#[test]
fn a_chain_without_a_retained_record_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut place = Place::new();
    let files: Vec<_> = ["full", "more"].map(|name| folder.path().join(name)).into();
    client(&place).put("a", "1").unwrap();
    place.end();
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(place.data()).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
    }
    place.start();
    let taken = {
        let client = client(&place);
        client.put("b", "1").unwrap();
        client.delete("b").unwrap();
        client.put("c", "1").unwrap();
        backup(&place, &files[0], None).unwrap()
    };
    place.end();
    // The pool goes back, and another history gives the same versions to other records.
    for file in fs::read_dir(&copy).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), place.data().join(file.file_name())).unwrap();
    }
    place.start();
    let client = client(&place);
    while client.put("x", "1").unwrap() + 1 < taken.identity.version {}
    client.put("y", "1").unwrap();
    client.put("z", "1").unwrap();
    backup(&place, &files[1], Some(&files[0])).unwrap();
    let missing = state_of(&files).unwrap_err();
    assert!(matches!(missing, BackupError::Missing { .. }), "{missing}");
}

#[test]
fn moments_of_keys_are_backed_up_and_a_base_beyond_the_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new();
    let client = client(&place);
    let write = Write::new().living(Lifetime::For(Duration::from_secs(3600)));
    client.put_with("a", "1", write).unwrap();
    let expires = client.get("a").unwrap().unwrap().expires;
    let file = folder.path().join("full");
    backup(&place, &file, None).unwrap();
    let chain = Chain::open(std::slice::from_ref(&file)).unwrap();
    let record = chain.records().unwrap().next().unwrap().unwrap();
    assert!(expires.is_some() && record.expires == expires);
    let base = Identity {
        version: 1 << 40,
        ..*chain.identity()
    };
    let connection = stonecast::local::connect(&place.url()).unwrap();
    let plan = Plan::full(tempfile::tempfile().unwrap()).based_on(base);
    let taken = connection.run(async |client| take(client, plan, Vec::new(), |_| {}).await);
    let Err(BackupError::Store(error)) = taken else {
        panic!("the store is not that far");
    };
    assert!(matches!(error.kind(), ErrorKind::Store(_)), "{error}");
}
