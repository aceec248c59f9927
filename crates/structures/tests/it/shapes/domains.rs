//! Domains of several structures: snapshots, ends of structures, groups, and results of operations with tokens.

use rand::{Rng as _, RngExt as _};
use stonecast_base::random_from_seed;
use stonecast_structures::shapes::btree::MvBTree;
use stonecast_structures::shapes::sequence::{Cursor, Numbered, TAKEN_MAX};
use stonecast_structures::shapes::{
    Answer, Description, Rooted, Stale, Structure, StructureKind, drive,
};
use stonecast_structures::{Group, Key as _, Operation, StageFault, Verb};

use super::in_call;
use super::store::{FIRST, SLAB_SIZE, Store};

fn description(kind: StructureKind) -> Description {
    Description {
        kind,
        key_size_max: if kind.has_keys() { 8 } else { 0 },
        value_size: 16,
        schema: 0,
    }
}

fn on(structure: u32, verb: Verb, key: &[u8], value: &[u8]) -> (u32, Verb, Vec<u8>, Vec<u8>) {
    (structure, verb, key.to_vec(), value.to_vec())
}

fn group(parts: &[(u32, Verb, Vec<u8>, Vec<u8>)]) -> Group {
    let mut group = Group::default();
    for (structure, verb, key, value) in parts {
        group.push(&Operation {
            token: 0,
            structure: *structure,
            verb: *verb,
            key,
            value,
        });
    }
    group
}

type Items = Vec<(Vec<u8>, Vec<u8>)>;

fn items(store: &Store, tree: &MvBTree) -> Result<Items, Stale> {
    let contents = drive(tree.tree().walk(), |span| store.read(span))?;
    assert_eq!(contents.length, contents.items.len() as u64);
    Ok(contents.items)
}

/// Needs the retire chain: a snapshot lasts as long as nothing is reclaimed, and then ends as too old or shows the
/// same. Needs the root word at the end of a transaction: two trees that change in groups are the same in every
/// snapshot.
pub fn a_snapshot_holds_one_state_of_all_trees_until_it_is_too_old() {
    for seed in 0..4 {
        let mut random = random_from_seed(seed);
        let mut store = Store::new(16, description(StructureKind::MvBTree));
        let second = store.create("second", description(StructureKind::MvBTree));
        store.publish();
        store.apply_all();
        let mut snapshots = Vec::new();
        let (mut lasted, mut too_old) = (0, 0);
        for _ in 0..400 {
            let key = random.random_range(0..200_u64).encoded();
            let mut value = vec![0; random.random_range(0..400)];
            random.fill_bytes(&mut value);
            let verb = [Verb::Insert, Verb::Insert, Verb::Remove][random.random_range(0..3)];
            let parts = [FIRST, second].map(|tree| on(tree, verb, &key, &value));
            let change = store.of_domain(Verb::Group, "", group(&parts).value());
            let Ok(Answer::Group(answers)) = change else {
                panic!("{change:?}");
            };
            assert_eq!(answers[0], answers[1]);
            if random.random_range(0..4) > 0 {
                store.publish();
            }
            (0..random.random_range(0..2_000)).for_each(|_| store.apply_word());
            if random.random_range(0..8) == 0
                && let Ok(roots) = store.roots()
            {
                let trees = [FIRST, second].map(|number| match roots.structure(number) {
                    Some(Structure::MvBTree(tree)) => tree,
                    other => panic!("{other:?}"),
                });
                snapshots.push((trees, None, false));
            }
            if store.writer_units() > 3_000 {
                store.reclaim();
                snapshots.iter_mut().for_each(|(.., is_old)| *is_old = true);
            }
            for ([one, other], seen, is_old) in &mut snapshots {
                let read = items(&store, one).and_then(|one| Ok((one, items(&store, other)?)));
                match read {
                    Ok((one, other)) => {
                        assert_eq!(one, other, "seed {seed}: the trees are the same");
                        assert_eq!(*seen.get_or_insert(one.clone()), one, "seed {seed}");
                        lasted += 1;
                    }
                    Err(stale) => {
                        assert!(*is_old, "seed {seed}: nothing was reclaimed: {stale}");
                        too_old += 1;
                    }
                }
            }
            if snapshots.len() > 6 {
                snapshots.remove(0);
            }
        }
        assert!(lasted > 200 && too_old > 20, "{lasted}, {too_old}");
        store.publish();
        store.apply_all();
        store.check_memory();
    }
}

/// Needs the birth in the head of a node: the block of the old leaf is used again under the same 24 bits of a
/// generation.
pub fn a_snapshot_takes_no_younger_node_for_its_own() {
    let mut store = Store::new(2, description(StructureKind::MvBTree));
    let insert = |store: &mut Store, value: &[u8]| {
        let key = 7_u64.encoded();
        store.stage(Verb::Insert, &key, value).unwrap();
        store.publish();
        store.apply_all();
    };
    insert(&mut store, b"old");
    let Structure::MvBTree(snapshot) = store.structure() else {
        panic!("the structure is a multi-version tree");
    };
    let get = |store: &Store| {
        let find = snapshot.tree().find(&7_u64.encoded());
        drive(find, |span| store.read(span))
    };
    let in_call = |store: &Store| {
        let found = in_call::find_still(store, snapshot.tree(), &7_u64.encoded());
        found.map(|value| value.expect("the key has a value"))
    };
    assert_eq!(get(&store).unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(in_call(&store).as_deref(), Some(&b"old"[..]));
    let lsn = store.lsn() - 2;
    insert(&mut store, b"other");
    store.reclaim();
    store.publish();
    store.apply_all();
    // One of the leaves lies where the old one lay.
    for _ in 0..6 {
        store.next_writer_at(lsn + (1 << 24));
        insert(&mut store, b"young");
        if let Ok(value) = get(&store) {
            assert_eq!(value.as_deref(), Some(&b"old"[..]));
        }
        assert!(in_call(&store).is_none_or(|value| value == b"old"));
        store.reclaim();
        store.publish();
        store.apply_all();
    }
}

/// Needs the look at the root word: the blocks of the old table are still there.
pub fn a_reader_notices_that_a_structure_was_made_empty() {
    for kind in [StructureKind::HashTable, StructureKind::BTree] {
        let mut store = Store::new(2, description(kind));
        let key = 7_u64.encoded();
        store.stage(Verb::Insert, &key, b"value").unwrap();
        store.publish();
        store.apply_all();
        let roots = store.roots().unwrap();
        let get = |store: &Store| match roots.structure(FIRST).unwrap() {
            Structure::HashTable(table) => {
                let find = Rooted::new(table.find(&key), roots.word());
                drive(find, |span| store.read(span)).map(|found| found.into_value())
            }
            Structure::BTree(tree) => {
                let find = Rooted::new(tree.find(&key), roots.word());
                drive(find, |span| store.read(span))
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(get(&store).unwrap().as_deref(), Some(&b"value"[..]));
        store.of_domain(Verb::Clear, "first", b"").unwrap();
        store.publish();
        store.apply_all();
        let stale = get(&store).unwrap_err();
        assert!(stale.what.contains("root word"), "{stale}");
        let number = store.roots().unwrap().named("first").unwrap().number;
        assert_ne!(number, FIRST);
    }
}

/// A producer and a consumer, each with a domain and a writer of its own. The consumer dies at any moment, and so does
/// the producer. Needs the record of what was taken, and a floor below it: every item is done once, in order, and was
/// there to be read until then.
pub fn a_queue_goes_from_its_producer_to_its_consumer_through_the_deaths_of_both() {
    for seed in 0..10 {
        let mut random = random_from_seed(seed);
        let mut producer = Store::new(8, description(StructureKind::Queue));
        let mut consumer = Store::new(2, description(StructureKind::Cursor));
        let queue = match producer.structure() {
            Structure::Queue(queue) => queue,
            other => panic!("{other:?}"),
        };
        let cursor = match consumer.structure() {
            Structure::Cursor(cursor) => cursor,
            other => panic!("{other:?}"),
        };
        let (mut pushed, mut popped, mut token) = (0_u64, 0, 0);
        let mut done = Vec::new();
        while done.len() < 200 {
            match random.random_range(0..8) {
                0..3 => {
                    let value = pushed.to_le_bytes();
                    producer.stage(Verb::Push, b"", &value).unwrap();
                    pushed += 1;
                    producer.publish();
                    (0..random.random_range(0..100)).for_each(|_| producer.apply_word());
                }
                // The producer sees the applied words of the consumer.
                3 => {
                    let state = drive(cursor.read(), |span| consumer.read(span));
                    let floor = state.map_or(popped, |state| state.floor());
                    while popped < floor {
                        producer.stage(Verb::Pop, b"", b"").unwrap();
                        popped += 1;
                    }
                    producer.publish();
                }
                4 => {
                    producer.apply_all();
                    producer.next_writer();
                }
                // The next consumer finds the items that the one before has taken.
                5 => {
                    consumer.apply_all();
                    consumer.next_writer();
                    let state = drive(cursor.read(), |span| consumer.read(span)).unwrap();
                    producer.apply_all();
                    for (token, number) in state.taken {
                        let value = drive(queue.item(number), |span| producer.read(span));
                        let expected = Numbered::Value(number.to_le_bytes().to_vec());
                        assert_eq!(value, Ok(expected), "seed {seed}");
                        let key = Cursor::done_key(token);
                        let ended = consumer.stage(Verb::Done, &key, b"").unwrap();
                        assert_eq!(ended, Answer::Existed(true));
                        done.push(number);
                    }
                    consumer.publish();
                    consumer.apply_all();
                }
                _ => {
                    consumer.apply_all();
                    let state = drive(cursor.read(), |span| consumer.read(span)).unwrap();
                    let item = drive(queue.item(state.next), |span| producer.read(span));
                    let Ok(Numbered::Value(value)) = item else {
                        assert_ne!(item, Ok(Numbered::Gone), "seed {seed}");
                        continue;
                    };
                    assert_eq!(value, state.next.to_le_bytes(), "seed {seed}");
                    if state.taken.len() == TAKEN_MAX {
                        continue;
                    }
                    token += 1;
                    let key = Cursor::take_key(token, state.next);
                    let taken = consumer.stage(Verb::Take, &key, b"").unwrap();
                    assert_eq!(taken, Answer::Changed(true));
                    consumer.publish();
                    if random.random_range(0..3) > 0 {
                        let key = Cursor::done_key(token);
                        consumer.stage(Verb::Done, &key, b"").unwrap();
                        done.push(state.next);
                        consumer.publish();
                    }
                    (0..random.random_range(0..40)).for_each(|_| consumer.apply_word());
                }
            }
            assert!(pushed < 4_000, "seed {seed}: {} are done", done.len());
        }
        producer.apply_all();
        consumer.apply_all();
        let state = drive(cursor.read(), |span| consumer.read(span)).unwrap();
        done.extend(state.taken.iter().map(|(_, number)| *number));
        done.sort_unstable();
        let all: Vec<u64> = (0..state.next).collect();
        assert_eq!(done, all, "seed {seed}: each item is done once");
        producer.check_memory();
        consumer.check_memory();
    }
}

#[test]
fn a_consumer_that_ends_nothing_takes_no_more() {
    let mut store = Store::new(2, description(StructureKind::Cursor));
    for number in 0..TAKEN_MAX as u64 {
        let key = Cursor::take_key(number + 1, number);
        let taken = store.stage(Verb::Take, &key, b"");
        assert_eq!(taken.unwrap(), Answer::Changed(true));
    }
    let key = Cursor::take_key(99, TAKEN_MAX as u64);
    let fault = store.stage(Verb::Take, &key, b"").unwrap_err();
    assert_eq!(fault.to_string(), "63 items are taken and not done");
    let again = store.stage(Verb::Take, &Cursor::take_key(7, 6), b"");
    assert_eq!(again.unwrap(), Answer::Changed(true));
    store.stage(Verb::Done, &Cursor::done_key(7), b"").unwrap();
    let gone = store.stage(Verb::Done, &Cursor::done_key(7), b"");
    assert_eq!(gone.unwrap(), Answer::Existed(false));
    let taken = store.stage(Verb::Take, &key, b"");
    assert_eq!(taken.unwrap(), Answer::Changed(true));
    let fault = store.stage(Verb::Take, b"short", b"").unwrap_err();
    assert_eq!(fault.to_string(), "key or value of a Take are none");
}

/// Needs the look at everything else that the transaction changes: with an insert before the pair, the transaction is
/// not empty.
pub fn a_push_and_its_pop_leave_an_empty_transaction_unless_something_stands_before_them() {
    for kind in [StructureKind::Stack, StructureKind::Queue] {
        for (is_alone, has_others) in [(true, false), (true, true), (false, false)] {
            let mut store = Store::new(8, description(StructureKind::BTree));
            let sequence = store.create("sequence", description(kind));
            let call = |store: &mut Store, verb, value| {
                store.execute(&Operation {
                    token: 0,
                    structure: sequence,
                    verb,
                    key: b"",
                    value,
                })
            };
            if kind == StructureKind::Stack && has_others {
                call(&mut store, Verb::Push, b"below").unwrap();
            }
            let key = 7_u64.encoded();
            store.stage(Verb::Insert, &key, b"old").unwrap();
            store.publish();
            store.apply_all();
            if !is_alone {
                store.stage(Verb::Insert, &key, b"new").unwrap();
            }
            call(&mut store, Verb::Push, b"one").unwrap();
            let taken = call(&mut store, Verb::Pop, b"").unwrap();
            assert_eq!(taken, Answer::Taken(Some(b"one".to_vec())));
            store.publish();
            // A queue goes on with the next number: its line is another one.
            let is_empty = store.words_left() == 0;
            assert_eq!(
                is_empty,
                is_alone && kind == StructureKind::Stack,
                "{kind:?}"
            );
            store.apply_all();
            let expected: &[u8] = if is_alone { b"old" } else { b"new" };
            store.check(vec![(key.clone(), expected.to_vec())], true);
            store.next_writer();
            let left = call(&mut store, Verb::Pop, b"").unwrap();
            let below = has_others && kind == StructureKind::Stack;
            assert_eq!(left, Answer::Taken(below.then(|| b"below".to_vec())));
        }
    }
}

#[test]
fn each_rule_of_a_domain_holds() {
    a_push_and_its_pop_leave_an_empty_transaction_unless_something_stands_before_them();
    a_queue_goes_from_its_producer_to_its_consumer_through_the_deaths_of_both();
    a_snapshot_holds_one_state_of_all_trees_until_it_is_too_old();
    a_snapshot_takes_no_younger_node_for_its_own();
    a_reader_notices_that_a_structure_was_made_empty();
    a_retry_is_refused_once_its_result_may_be_forgotten();
}

#[test]
fn a_structure_that_is_dropped_gives_every_block_back() {
    for kind in StructureKind::ALL {
        let mut random = random_from_seed(kind as u64);
        let mut store = Store::empty(24);
        store.create("other", description(kind));
        store.publish();
        store.apply_all();
        let number = store.create("one", description(kind));
        if kind == StructureKind::Cursor {
            continue;
        }
        let verb = if kind.has_keys() {
            Verb::Insert
        } else {
            Verb::Push
        };
        for entry in 0..2_000_u64 {
            let size = if entry % 50 == 0 { 3_000 } else { 40 };
            let value = vec![random.random(); size];
            let key = if kind.has_keys() {
                entry.encoded()
            } else {
                Vec::new()
            };
            store
                .execute(&Operation {
                    token: 0,
                    structure: number,
                    verb,
                    key: &key,
                    value: &value,
                })
                .unwrap();
            if entry % 100 == 0 {
                store.publish();
                store.apply_all();
            }
        }
        store.of_domain(Verb::Drop, "one", b"").unwrap();
        store.publish();
        store.apply_all();
        let before = store.check_memory();
        assert!(before.blocks > 150, "{kind:?}: {before:?}");
        let mut operations = 0;
        while store.roots().unwrap().has_ended() || store.writer_units() > 0 {
            store.reclaim();
            store.publish();
            store.apply_all();
            operations += 1;
            assert!(operations < 3_000, "{kind:?}");
            if operations % 50 == 0 {
                store.check_memory();
            }
        }
        // Table, and the blocks of the other structure.
        let after = store.check_memory();
        assert!(after.blocks <= 4, "{kind:?}: {after:?}");
        assert_eq!(store.roots().unwrap().rows().len(), 1);
    }
}

#[test]
fn names_are_given_once_and_moved_by_a_rename() {
    let mut store = Store::empty(4);
    let kind = StructureKind::HashTable;
    let number = store.create("one", description(kind));
    store.create("two", description(kind));
    let refused = |store: &mut Store, verb, name: &str, value: &[u8]| {
        let fault = store.of_domain(verb, name, value).unwrap_err();
        fault.to_string()
    };
    let long = "n".repeat(65);
    for (verb, name, value, told) in [
        (
            Verb::Rename,
            "one",
            &b"two"[..],
            "a structure of the domain has the name \"two\"",
        ),
        (
            Verb::Rename,
            "none",
            b"three",
            "no structure of the domain has the name \"none\"",
        ),
        (
            Verb::Rename,
            "one",
            b"",
            "a name of 0 bytes, expected 1 to 64",
        ),
        (
            Verb::Rename,
            "one",
            long.as_bytes(),
            "a name of 65 bytes, expected 1 to 64",
        ),
        (
            Verb::Drop,
            "none",
            b"",
            "no structure of the domain has the name \"none\"",
        ),
        (
            Verb::Clear,
            "none",
            b"",
            "no structure of the domain has the name \"none\"",
        ),
        (
            Verb::Group,
            "",
            b"no group",
            "key or value of a Group are none",
        ),
        (Verb::Reclaim, "", b"", "key or value of a Reclaim are none"),
    ] {
        assert_eq!(refused(&mut store, verb, name, value), told);
    }
    store.of_domain(Verb::Rename, "one", b"three").unwrap();
    store.of_domain(Verb::Drop, "two", b"").unwrap();
    // A number is given once.
    assert_eq!(store.create("one", description(kind)), number + 2);
    store.publish();
    store.apply_all();
    let roots = store.roots().unwrap();
    let names: Vec<&str> = roots.rows().iter().map(|row| &*row.name).collect();
    assert_eq!(names, ["three", "one"]);
    assert_eq!(roots.named("three").unwrap().number, number);
}

#[test]
fn a_group_is_done_as_a_whole_or_not_at_all() {
    let mut store = Store::new(4, description(StructureKind::BTree));
    let stack = store.create("stack", description(StructureKind::Stack));
    let key = 7_u64.encoded();
    let parts = [
        on(stack, Verb::Push, b"", b"one"),
        on(FIRST, Verb::Insert, &key, b"value"),
        on(stack, Verb::Pop, b"", b""),
        on(FIRST, Verb::Remove, &key, b""),
    ];
    let answer = store.of_domain(Verb::Group, "", group(&parts).value());
    let expected = [
        Answer::Added,
        Answer::Existed(false),
        Answer::Taken(Some(b"one".to_vec())),
        Answer::Existed(true),
    ];
    assert_eq!(answer.unwrap(), Answer::Group(expected.to_vec()));
    let wrong = [
        on(stack, Verb::Push, b"", b"two"),
        on(stack, Verb::Insert, &key, b"value"),
    ];
    let fault = store.of_domain(Verb::Group, "", group(&wrong).value());
    assert!(matches!(fault, Err(StageFault::Execute(_))), "{fault:?}");
    store.publish();
    store.apply_all();
    store.check(Vec::new(), true);
    let roots = store.roots().unwrap();
    let stack = roots.structure(stack).unwrap();
    let contents = stack.contents(&mut |span| store.read(span)).unwrap();
    assert_eq!(contents.items, []);
}

#[test]
fn a_retried_operation_gives_its_first_answer() {
    let mut store = Store::new(24, description(StructureKind::Stack));
    let long = vec![7; 100_000];
    let push = |token, value| Operation {
        token,
        structure: FIRST,
        verb: Verb::Push,
        key: b"",
        value,
    };
    let pop = |token| Operation {
        verb: Verb::Pop,
        ..push(token, b"")
    };
    for _ in 0..2 {
        assert_eq!(store.execute(&push(1, &long)).unwrap(), Answer::Added);
        assert_eq!(store.execute(&push(2, b"short")).unwrap(), Answer::Added);
    }
    for is_applied in [false, true] {
        let taken = store.execute(&pop(3)).unwrap();
        assert_eq!(taken, Answer::Taken(Some(b"short".to_vec())));
        let taken = store.execute(&pop(4)).unwrap();
        assert_eq!(taken, Answer::Taken(Some(long.clone())));
        if !is_applied {
            store.publish();
            store.apply_all();
            store.check(Vec::new(), true);
            store.next_writer();
        }
    }
    let fault = store.execute(&push(3, b"short")).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "the token 0x3 was given to another operation"
    );
    // Later results take the place of the first ones, and their memory comes back.
    for token in 5..5 + 4096 {
        store.execute(&push(token, b"")).unwrap();
        store.execute(&pop(token | 1 << 32)).unwrap();
    }
    assert_eq!(store.execute(&pop(4)).unwrap(), Answer::Taken(None));
    store.publish();
    store.apply_all();
    store.check(Vec::new(), true);
}

/// Needs the look at the oldest result: the ring of results holds as many as an eighth of a slab.
pub fn a_retry_is_refused_once_its_result_may_be_forgotten() {
    let push = |token| Operation {
        token,
        structure: FIRST,
        verb: Verb::Push,
        key: b"",
        value: b"value",
    };
    for is_done in [true, false] {
        let mut store = Store::new(4, description(StructureKind::Stack));
        let lines = SLAB_SIZE / 8 / 64;
        let since = store.operations();
        if is_done {
            store.execute(&push(1)).unwrap();
        }
        for token in 2..lines + 1 {
            store.execute(&push(token)).unwrap();
        }
        let again = store.execute_again(&push(1), since).unwrap();
        assert_eq!(again, Answer::Added);
        assert_eq!(store.operations() - since, lines);
        store.execute(&push(lines + 1)).unwrap();
        store.execute(&push(lines + 2)).unwrap();
        store.publish();
        store.apply_all();
        store.next_writer();
        let again = store.execute_again(&push(1), since);
        match is_done {
            true => {
                let fault = again.unwrap_err();
                let told = "the result of the operation with the token 0x1 is not kept any more";
                assert_eq!(fault.to_string(), told);
            }
            // The operation was done by the retry, behind the others.
            false => assert_eq!(again, Ok(Answer::Added)),
        }
        let expected = vec![(Vec::new(), b"value".to_vec()); lines as usize + 2];
        store.check(expected, true);
    }
}
