//! The longest values, the largest batches, names that are taken, and the number of entries.

use std::collections::BTreeMap;

use stonecast::structures::classic::{Bst, MvBst, SkipList};
use stonecast::structures::{
    self, BTree, BlockingSession, Error, HashTable, Keyed, MvBTree, Queue, Sequence, Server,
    ServerHandle, Shape, Stack, Transaction, Verified, connect, connect_blocking,
};
use stonecast::{Durability, Effect};
use tempfile::TempDir;

/// Bytes of the longest value.
const LONGEST: usize = 1 << 20;

fn serve(folder: &TempDir, capacity: u64) -> (ServerHandle, BlockingSession) {
    let server = Server::builder(folder.path().join("pool"))
        .durability(Durability::Process)
        .capacity(capacity)
        .serve()
        .unwrap();
    let session = connect_blocking(&server.address().to_string()).unwrap();
    (server, session)
}

/// A value that no other number has.
fn long(number: u64, size: usize) -> Vec<u8> {
    (0..size as u64)
        .map(|place| (place * 7 + number * 31 + place / 251) as u8)
        .collect()
}

fn store_long<S: Keyed<Key = u64, Value = Vec<u8>>>(session: &BlockingSession, name: &str) {
    let mut writer = session.writer::<S>(name).unwrap();
    for key in 0..3 {
        assert!(!writer.insert(&key, &long(key, LONGEST)).unwrap());
    }
    assert!(writer.insert(&1, &long(9, LONGEST)).unwrap());
    let refused = writer.insert(&2, &long(2, LONGEST + 1)).unwrap_err();
    assert!(matches!(refused, Error::TooLarge { .. }), "{refused}");
}

fn read_long<S: Keyed<Key = u64, Value = Vec<u8>>>(session: &BlockingSession, name: &str) {
    let mut reader = session.reader::<S>(name).unwrap();
    for (key, number) in [(0, 0), (1, 9), (2, 2)] {
        let found = reader.get(&key).unwrap();
        assert!(found == Some(long(number, LONGEST)), "{name}: key {key}");
    }
}

fn store_in_line<S: Sequence<Value = Vec<u8>>>(session: &BlockingSession, name: &str) {
    let mut writer = session.writer::<S>(name).unwrap();
    for number in 0..3 {
        writer.push(&long(number, LONGEST)).unwrap();
    }
}

/// Needs records, blocks and reads that are longer than the longest value.
#[test]
fn a_value_of_exactly_1_mib_is_stored_and_read_in_every_kind_of_structure_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (server, session) = serve(&folder, 512 << 20);
    store_long::<HashTable<u64, Vec<u8>>>(&session, "hash");
    store_long::<BTree<u64, Vec<u8>>>(&session, "tree");
    store_long::<MvBTree<u64, Vec<u8>>>(&session, "versions");
    store_long::<SkipList<u64, Vec<u8>>>(&session, "list");
    store_long::<Bst<u64, Vec<u8>>>(&session, "binary");
    store_long::<MvBst<u64, Vec<u8>>>(&session, "binary-versions");
    store_in_line::<Queue<Vec<u8>>>(&session, "queue");
    store_in_line::<Stack<Vec<u8>>>(&session, "stack");
    drop(session);
    server.shutdown().unwrap();
    let (server, session) = serve(&folder, 512 << 20);
    read_long::<HashTable<u64, Vec<u8>>>(&session, "hash");
    read_long::<BTree<u64, Vec<u8>>>(&session, "tree");
    read_long::<MvBTree<u64, Vec<u8>>>(&session, "versions");
    read_long::<SkipList<u64, Vec<u8>>>(&session, "list");
    read_long::<Bst<u64, Vec<u8>>>(&session, "binary");
    read_long::<MvBst<u64, Vec<u8>>>(&session, "binary-versions");
    let mut queue = session.writer::<Queue<Vec<u8>>>("queue").unwrap();
    let mut stack = session.writer::<Stack<Vec<u8>>>("stack").unwrap();
    for number in 0..3 {
        assert!(queue.pop().unwrap() == Some(long(number, LONGEST)));
        assert!(stack.pop().unwrap() == Some(long(2 - number, LONGEST)));
    }
    drop(server);
}

/// Needs the bound of blocks and logs before the growth of the domain: no number of slabs makes room for such a block.
#[test]
fn an_update_that_no_slab_or_log_of_a_small_pool_takes_is_refused_and_takes_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (server, session) = serve(&folder, 32 << 20);
    let mut blobs = session.writer::<HashTable<u64, Vec<u8>>>("blobs").unwrap();
    blobs.insert(&0, &long(0, 400_000)).unwrap();
    let memory = || session.stat().unwrap()[0].memory;
    let before = memory();
    // A block of 1 MiB and its header has no place. One of half a MiB has, in a slab that is new at most once, and its
    // two records are longer than the log.
    for (size, more) in [
        (LONGEST, 0),
        ((1 << 19) - 1000, 1 << 20),
        ((1 << 19) - 999, 1 << 20),
    ] {
        let refused = blobs.insert(&1, &long(1, size)).unwrap_err();
        let Error::TooLong { size, size_max, .. } = refused else {
            panic!("{refused}");
        };
        assert!(size > size_max, "{size} and {size_max}");
        assert_eq!(refused.effect(), Effect::None);
        assert_eq!(memory(), before + more);
    }
    blobs.insert(&1, &long(1, 400_000)).unwrap();
    blobs.release().unwrap();

    // A group is one record.
    let mut domain = session.domain("blobs").unwrap();
    let member = domain
        .structure::<HashTable<u64, Vec<u8>>>("blobs")
        .unwrap();
    let mut both = Transaction::default();
    for key in 2..5 {
        both.insert(&member, &key, &long(key, 400_000));
    }
    let refused = domain.commit(&both).unwrap_err();
    assert!(matches!(refused, Error::TooLong { .. }), "{refused}");
    let words = "split the transaction, or make a pool of 128 MiB or more";
    assert!(refused.to_string().ends_with(words), "{refused}");
    let mut seen = session.reader::<HashTable<u64, Vec<u8>>>("blobs").unwrap();
    assert_eq!(seen.len().unwrap(), 2);
    assert!(seen.get(&1).unwrap() == Some(long(1, 400_000)));
    drop(server);
}

/// Needs the publication before a transaction is too long, and none before.
#[test]
fn a_batch_of_4096_is_visible_at_once_unless_it_outgrows_a_transaction() {
    const BATCH: u64 = 4096;
    let folder = tempfile::tempdir().unwrap();
    let (server, session) = serve(&folder, 256 << 20);
    let url = server.address().to_string();
    for (name, size, is_whole) in [("short", 8, true), ("long", 1000, false)] {
        let connection = connect(&url).unwrap();
        let entries: Vec<(u64, Vec<u8>)> = (0..BATCH).map(|key| (key, long(key, size))).collect();
        let staged_max = connection.run(async |session| {
            let mut writer = session.writer::<BTree<u64, Vec<u8>>>(name).await.unwrap();
            let mut staged_max = 0;
            for (key, value) in &entries {
                let _ticket = writer.stage(key, value).await.unwrap();
                staged_max = staged_max.max(writer.staged());
            }
            writer.publish().await.unwrap();
            let all = entries.iter().map(|(key, value)| (key, value));
            writer.insert_all(all).await.unwrap();
            assert_eq!(writer.staged(), 0);
            staged_max
        });
        // 4,096 short values are one transaction; the long ones are published in parts.
        assert_eq!(staged_max == BATCH, is_whole, "{name}: {staged_max}");
        assert!(staged_max > 500, "{name}: {staged_max}");
    }
    let states = session.stat().unwrap();
    let used = states.iter().map(|state| state.stat.log_used);
    println!("log used: {:?}", used.collect::<Vec<_>>());
    drop(session);
    server.shutdown().unwrap();
    let (server, session) = serve(&folder, 256 << 20);
    for (name, size) in [("short", 8), ("long", 1000)] {
        let mut reader = session.reader::<BTree<u64, Vec<u8>>>(name).unwrap();
        let expected: BTreeMap<u64, Vec<u8>> =
            (0..BATCH).map(|key| (key, long(key, size))).collect();
        let found: BTreeMap<u64, Vec<u8>> = reader.entries().unwrap().into_iter().collect();
        assert!(found == expected, "{name}");
    }
    drop(server);
}

/// Needs the look for the new name.
#[test]
fn a_name_that_is_taken_is_refused_and_both_structures_keep_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let (server, session) = serve(&folder, 32 << 20);
    let mut domain = session.domain("shop").unwrap();
    let stock = domain.structure::<HashTable<u64, u64>>("stock").unwrap();
    let store = domain.structure::<HashTable<u64, u64>>("store").unwrap();
    let mut both = Transaction::default();
    both.insert(&stock, &1, &10);
    both.insert(&store, &1, &20);
    domain.commit(&both).unwrap();
    domain.release().unwrap();
    let mut writer = session.writer::<HashTable<u64, u64>>("shop/stock").unwrap();
    let taken = writer.rename("store").unwrap_err();
    assert!(
        matches!(&taken, Error::Taken { name } if name == "shop/store"),
        "{taken}"
    );
    assert_eq!(taken.to_string(), "there is a structure \"shop/store\"");
    assert_eq!(taken.effect(), Effect::None);
    // Its own name is taken, too.
    let taken = writer.rename("stock").unwrap_err();
    assert!(matches!(taken, Error::Taken { .. }), "{taken}");
    writer.insert(&2, &11).unwrap();
    for (name, length) in [("shop/stock", 2), ("shop/store", 1)] {
        let mut reader = session.reader::<HashTable<u64, u64>>(name).unwrap();
        assert_eq!(reader.len().unwrap(), length, "{name}");
    }
    drop(server);
}

fn count<S: Keyed<Key = u64, Value = u64>>(session: &BlockingSession, name: &str) {
    let mut writer = session.writer::<S>(name).unwrap();
    let mut reader = session.reader::<S>(name).unwrap();
    assert!(reader.is_empty().unwrap());
    for key in 0..500 {
        writer.stage(&key, &key).unwrap();
    }
    assert_eq!(reader.len().unwrap(), 0, "{name}: not published");
    writer.publish().unwrap();
    assert_eq!(reader.len().unwrap(), 500, "{name}");
    for key in (0..500).step_by(5) {
        assert!(writer.remove(&key).unwrap());
    }
    writer.insert(&7, &8).unwrap();
    assert_eq!(reader.len().unwrap(), 400, "{name}");
    assert_eq!(reader.entries().unwrap().len(), 400);
    writer.clear().unwrap();
    assert!(reader.is_empty().unwrap(), "{name}");
    writer.destroy().unwrap();
    let gone = reader.len().unwrap_err();
    assert!(matches!(gone, Error::NotFound { .. }), "{gone}");
}

fn count_in_line<S: Sequence<Value = u64> + Shape>(session: &BlockingSession, name: &str) {
    let mut writer = session.writer::<S>(name).unwrap();
    let mut reader = session.reader::<S>(name).unwrap();
    for value in 0..300 {
        writer.push(&value).unwrap();
    }
    writer.pop().unwrap().unwrap();
    assert_eq!(reader.len().unwrap(), 299, "{name}");
    assert_eq!(reader.values().unwrap().len(), 299);
}

#[test]
fn each_structure_counts_its_entries() {
    let folder = tempfile::tempdir().unwrap();
    let (server, session) = serve(&folder, 64 << 20);
    count::<HashTable<u64, u64>>(&session, "hash");
    count::<BTree<u64, u64>>(&session, "tree");
    count::<MvBTree<u64, u64>>(&session, "versions");
    count::<SkipList<u64, u64>>(&session, "list");
    count::<Bst<u64, u64>>(&session, "binary");
    count::<MvBst<u64, u64>>(&session, "binary-versions");
    count_in_line::<Queue<u64>>(&session, "queue");
    count_in_line::<Stack<u64>>(&session, "stack");

    let mut bank = session.writer::<MvBTree<u64, u64>>("bank").unwrap();
    bank.insert(&1, &1).unwrap();
    let snapshot = session.snapshot("bank").unwrap();
    bank.insert(&2, &2).unwrap();
    let mut then = snapshot.reader::<MvBTree<u64, u64>>("bank").unwrap();
    assert_eq!(then.len().unwrap(), 1);
    let mut now = session.reader::<MvBTree<u64, u64>>("bank").unwrap();
    assert_eq!(now.len().unwrap(), 2);
    drop(server);
}

/// Needs the reading of a level in parts: a walk asks for all leaves at once.
#[test]
fn long_work_on_a_structure_tells_how_far_it_has_come() {
    let folder = tempfile::tempdir().unwrap();
    let (server, session) = serve(&folder, 64 << 20);
    let mut tree = session.writer::<BTree<u64, u64>>("tree").unwrap();
    for key in 0..100_000 {
        tree.stage(&key, &key).unwrap();
    }
    tree.publish().unwrap();
    let connection = connect(&server.address().to_string()).unwrap();
    let told = std::cell::RefCell::new(Vec::new());
    let watch = |bytes: u64| told.borrow_mut().push(bytes);
    let contents = connection.run(async |session| session.contents_watched("tree", &watch).await);
    assert_eq!(contents.unwrap().len(), 100_000);
    let told = told.into_inner();
    let all: u64 = told.iter().sum();
    assert!(all > 1 << 20, "{all} bytes");
    assert!(told.iter().all(|bytes| *bytes < all / 2), "{told:?}");
    drop((connection, tree, session));
    server.shutdown().unwrap();

    let pool = folder.path().join("pool");
    let mut told = Vec::new();
    let found = structures::verify_watched(&pool, &folder.path().join("copy"), &mut |step| {
        told.push(step);
    });
    assert_eq!(found.unwrap()[0].structures[0].1, 100_000);
    let of = 64 << 20;
    let last = told
        .iter()
        .rposition(|step| matches!(step, Verified::Copied { .. }));
    let (copied, read) = told.split_at(last.unwrap() + 1);
    assert!(copied.len() > 10 && read.len() > 10);
    assert_eq!(copied.last(), Some(&Verified::Copied { bytes: of, of }));
    assert!(
        matches!(read.last(), Some(Verified::Read { bytes }) if *bytes > all),
        "{read:?}"
    );
}

/// Needs the syncs of a file: the pool declares that it survives power loss, and its platform is a page file.
#[test]
fn a_pool_on_a_file_with_power_durability_is_served_and_keeps_what_was_acknowledged() {
    // Folders of tests may lie in memory, which no sync makes durable.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let serve = || {
        let server = Server::builder(folder.path().join("pool"))
            .durability(Durability::Power)
            .capacity(32 << 20)
            .serve()
            .unwrap();
        let session = connect_blocking(&server.address().to_string()).unwrap();
        (server, session)
    };
    let (server, session) = serve();
    let mut orders = session.writer::<BTree<u64, u64>>("orders").unwrap();
    let mut jobs = session.writer::<Queue<u64>>("jobs").unwrap();
    for key in 0..50 {
        orders.insert(&key, &(key * 3)).unwrap();
        jobs.push(&key).unwrap();
    }
    assert_eq!(jobs.pop().unwrap(), Some(0));
    for key in 50..500 {
        orders.stage(&key, &(key * 3)).unwrap();
    }
    // Durable, and not published: the back-end executes it.
    orders.flush().unwrap();
    drop((orders, jobs, session));
    server.shutdown().unwrap();
    let (server, session) = serve();
    let expected: Vec<(u64, u64)> = (0..500).map(|key| (key, key * 3)).collect();
    let mut orders = session.reader::<BTree<u64, u64>>("orders").unwrap();
    assert_eq!(orders.entries().unwrap(), expected);
    let mut jobs = session.reader::<Queue<u64>>("jobs").unwrap();
    assert_eq!(jobs.values().unwrap(), (1..50).collect::<Vec<_>>());
    drop(server);
}
