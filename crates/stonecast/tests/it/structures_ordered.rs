//! Every call on structures whose entries have an order, and what queues and stacks have in common with them: one story
//! for all kinds.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::RangeBounds;
use std::time::Duration;

use stonecast::Durability;
use stonecast::structures::classic::{Bst, MvBst, SkipList};
use stonecast::structures::{
    BTree, BlockingReader, BlockingSession, BlockingWriter, Error, MvBTree, Ordered, Queue,
    Sequence, Server, ServerHandle, Stack, Transaction, Versioned, connect_blocking,
};
use tempfile::TempDir;

type Model = BTreeMap<u64, String>;

fn serve() -> (TempDir, ServerHandle, BlockingSession) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::builder(folder.path().join("pool"))
        .durability(Durability::Process)
        .capacity(32 << 20)
        .serve()
        .unwrap();
    let session = connect_blocking(&server.address().to_string()).unwrap();
    (folder, server, session)
}

fn text(key: u64, round: u64) -> String {
    format!("{key} in round {round}")
}

fn entry((key, text): (&u64, &String)) -> (u64, String) {
    (*key, text.clone())
}

/// Keys with gaps, of which some are gone again.
fn fill<S: Ordered<Key = u64, Value = String>>(writer: &mut BlockingWriter<S>) -> Model {
    let mut model: Model = (0..300).map(|key| (key * 3, text(key * 3, 0))).collect();
    writer.insert_all(&model).unwrap();
    for key in (0..900).step_by(21) {
        writer.stage_remove(&key).unwrap();
        model.remove(&key);
    }
    writer.publish().unwrap();
    model
}

/// A range in both directions, left after any number of entries and taken up by another reader.
fn range_is_as_in<S: Ordered<Key = u64, Value = String>>(
    readers: &mut [BlockingReader<S>; 2],
    model: &Model,
    keys: impl RangeBounds<u64> + Clone,
) {
    let expected: Vec<_> = model.range(keys.clone()).map(entry).collect();
    for is_reversed in [false, true] {
        for given in [0, 1, 2, expected.len() / 2, expected.len()] {
            let [first, second] = readers;
            let mut range = first.range(keys.clone());
            if is_reversed {
                range = range.reversed();
            }
            let mut found: Vec<_> = range.by_ref().take(given).map(Result::unwrap).collect();
            let rest = range.rest();
            assert_eq!(rest.is_reversed, is_reversed);
            found.extend(second.resume(&rest).map(Result::unwrap));
            if is_reversed {
                found.reverse();
            }
            assert_eq!(found, expected, "{given} were given");
        }
    }
}

fn every_call_of_an_order<S: Ordered<Key = u64, Value = String>>(
    session: &BlockingSession,
    name: &str,
) {
    let mut writer = session.writer::<S>(name).unwrap();
    let mut readers = [0, 1].map(|_| session.reader::<S>(name).unwrap());
    assert_eq!(readers[0].first().unwrap(), None, "{name}");
    assert_eq!(readers[0].last().unwrap(), None, "{name}");
    assert_eq!(readers[0].range(..).count(), 0, "{name}");
    let mut model = fill(&mut writer);
    range_is_as_in(&mut readers, &model, ..);
    range_is_as_in(&mut readers, &model, 30..=600);
    range_is_as_in(&mut readers, &model, 31..599);
    range_is_as_in(&mut readers, &model, ..7);
    range_is_as_in(&mut readers, &model, 890..);
    range_is_as_in(&mut readers, &model, 31..32);
    let ends = |model: &Model| {
        let (first, last) = (model.first_key_value(), model.last_key_value());
        (first.map(entry), last.map(entry))
    };
    let found = (readers[0].first().unwrap(), readers[0].last().unwrap());
    assert_eq!(found, ends(&model), "{name}");

    // An answer that is accepted for long is given again; another reader looks at the structure.
    let [seen, other] = readers;
    let mut seen = seen.max_staleness(Duration::from_secs(3600));
    assert_eq!(seen.get(&3).unwrap(), Some(text(3, 0)), "{name}");
    assert!(writer.insert(&3, &text(3, 1)).unwrap());
    model.insert(3, text(3, 1));
    assert_eq!(seen.get(&3).unwrap(), Some(text(3, 0)), "{name}");
    let mut readers = [other, session.reader::<S>(name).unwrap()];
    assert_eq!(readers[0].get(&3).unwrap(), Some(text(3, 1)), "{name}");
    range_is_as_in(&mut readers, &model, ..=100);

    let attempt = writer.attempt(NonZeroU64::MIN);
    for _ in 0..2 {
        let changed = writer
            .once(attempt)
            .compare_and_update(&3, &text(3, 1), &text(3, 2));
        assert!(changed.unwrap(), "{name}");
    }
    assert_eq!(readers[0].get(&3).unwrap(), Some(text(3, 2)), "{name}");
}

#[test]
fn each_kind_with_an_order_answers_every_call_of_an_order() {
    let (_folder, _server, session) = serve();
    every_call_of_an_order::<BTree<u64, String>>(&session, "tree");
    every_call_of_an_order::<MvBTree<u64, String>>(&session, "versions");
    every_call_of_an_order::<SkipList<u64, String>>(&session, "list");
    every_call_of_an_order::<Bst<u64, String>>(&session, "binary");
    every_call_of_an_order::<MvBst<u64, String>>(&session, "binary-versions");
}

/// A snapshot answers the calls of an order, too, and keeps to its version.
fn a_snapshot_keeps_its_order<S: Ordered<Key = u64, Value = String> + Versioned>(
    session: &BlockingSession,
    name: &str,
) {
    let mut domain = session.domain(name).unwrap();
    let member = domain.structure::<S>(name).unwrap();
    let model: Model = (0..200).map(|key| (key * 2, text(key, 0))).collect();
    let mut all = Transaction::default();
    for (key, value) in &model {
        all.insert(&member, key, value);
    }
    domain.commit(&all).unwrap();
    let snapshot = session.snapshot(name).unwrap();
    let mut change = Transaction::default();
    change.remove(&member, &0);
    change.insert(&member, &1, &text(1, 1));
    change.insert(&member, &398, &text(398, 1));
    domain.commit(&change).unwrap();

    let mut then = [0, 1].map(|_| snapshot.reader::<S>(name).unwrap());
    range_is_as_in(&mut then, &model, ..);
    range_is_as_in(&mut then, &model, 10..301);
    assert_eq!(then[0].first().unwrap(), Some((0, text(0, 0))), "{name}");
    assert_eq!(then[0].last().unwrap(), Some((398, text(199, 0))), "{name}");
    let mut now = session.reader::<S>(&format!("{name}/{name}")).unwrap();
    assert_eq!(now.first().unwrap(), Some((1, text(1, 1))), "{name}");
    assert_eq!(now.last().unwrap(), Some((398, text(398, 1))), "{name}");
}

#[test]
fn each_kind_with_versions_keeps_a_snapshot_in_order() {
    let (_folder, _server, session) = serve();
    a_snapshot_keeps_its_order::<MvBTree<u64, String>>(&session, "versions");
    a_snapshot_keeps_its_order::<MvBst<u64, String>>(&session, "binary-versions");
}

/// Needs the end of the row: a reader that has the structure open looks at its number again.
fn empties_and_ends<S: Sequence<Value = String>>(
    session: &BlockingSession,
    name: &str,
    round: u64,
) {
    // A token names one update of a lock domain.
    let token = |number| NonZeroU64::new(round * 2 + number).unwrap();
    let mut writer = session.writer::<S>(name).unwrap();
    let mut reader = session.reader::<S>(name).unwrap();
    for number in 0..200 {
        writer.stage_push(&text(number, 0)).unwrap();
    }
    writer.publish().unwrap();
    assert_eq!(reader.len().unwrap(), 200, "{name}");
    writer.clear().unwrap();
    assert_eq!(reader.len().unwrap(), 0, "{name}");
    assert_eq!(reader.peek().unwrap(), None, "{name}");
    assert_eq!(writer.pop().unwrap(), None, "{name}");
    // It goes on as a new one, for the reader that had it open, too.
    let attempt = writer.attempt(token(1));
    for _ in 0..2 {
        writer.once(attempt).push(&text(7, 1)).unwrap();
    }
    assert_eq!(reader.values().unwrap(), [text(7, 1)], "{name}");
    let attempt = writer.attempt(token(2));
    for _ in 0..2 {
        let taken = writer.once(attempt).pop().unwrap();
        assert_eq!(taken, Some(text(7, 1)), "{name}");
    }
    writer.destroy().unwrap();
    let gone = reader.len().unwrap_err();
    assert!(matches!(gone, Error::NotFound { .. }), "{gone}");
    let gone = session.reader::<S>(name).err().unwrap();
    assert!(matches!(gone, Error::NotFound { .. }), "{gone}");
    assert!(session.list().unwrap().iter().all(|one| one.name != name));
}

#[test]
fn a_queue_and_a_stack_are_emptied_and_ended_and_their_memory_is_used_again() {
    let (_folder, _server, session) = serve();
    let memory = || -> u64 { session.stat().unwrap().iter().map(|one| one.memory).sum() };
    let mut before = 0;
    for round in 0..20 {
        empties_and_ends::<Queue<String>>(&session, "queue", round);
        empties_and_ends::<Stack<String>>(&session, "stack", round);
        // The first rounds may take slabs, for what is freed with later publications.
        if round == 3 {
            before = memory();
        }
    }
    assert_eq!(memory(), before);
}
