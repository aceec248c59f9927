//! Data structures as a program uses them, over shared memory.

use std::collections::BTreeMap;
use std::time::Duration;

use stonecast::Durability;
use stonecast::structures::classic::MvBst;
use stonecast::structures::{
    self, BTree, BlockingSession, Builder, Error, HashTable, Look, MvBTree, Ordered, Queue, Server,
    ServerHandle, Stack, Transaction, connect_blocking,
};
use tempfile::TempDir;
use zerocopy::{FromBytes, Immutable, IntoBytes, little_endian::U64};

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Order {
    article: U64,
    count: U64,
}
stonecast::fixed_value!(Order);

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn builder(&self) -> Builder {
        Server::builder(self.0.path().join("pool"))
            .durability(Durability::Process)
            .capacity(32 << 20)
    }

    fn serve(&self) -> (ServerHandle, BlockingSession) {
        let server = self.builder().serve().unwrap();
        let session = connect_blocking(&server.address().to_string()).unwrap();
        (server, session)
    }
}

fn order(number: u64) -> Order {
    Order {
        article: U64::new(number),
        count: U64::new(number * 2),
    }
}

/// The error with which reads end whose back-end has ended. Until the reader hears of the end, it reads the memory as
/// the back-end has left it.
fn end_of<T: PartialEq + std::fmt::Debug>(
    mut read: impl FnMut() -> Result<T, Error>,
    left: &T,
) -> Error {
    for _ in 0..10_000 {
        match read() {
            Ok(found) => assert_eq!(found, *left),
            Err(error) => return error,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the reader hears nothing of the end");
}

#[test]
fn every_structure_is_there_after_a_restart_with_everything_that_was_acknowledged() {
    let place = Place::new();
    let (server, session) = place.serve();
    let mut orders = session.writer::<BTree<u64, Order>>("shop/orders").unwrap();
    let mut jobs = session.writer::<Queue<String>>("jobs").unwrap();
    let mut pile = session.writer::<Stack<Vec<u8>>>("pile").unwrap();
    let mut names = session.writer::<HashTable<String, u64>>("names").unwrap();
    for number in 0..500 {
        orders.stage(&number, &order(number)).unwrap();
    }
    orders.publish().unwrap();
    for number in 500..510 {
        orders.stage(&number, &order(number)).unwrap();
    }
    // Durable, and not published: the back-end executes it.
    orders.flush().unwrap();
    assert_eq!(orders.get(&505).unwrap(), Some(order(505)));
    assert!(!names.insert(&"one".to_owned(), &1).unwrap());
    assert!(names.insert_if_absent(&"one".to_owned(), &2).unwrap());
    assert!(!names.update(&"two".to_owned(), &2).unwrap());
    for text in ["a", "b", "c"] {
        jobs.push(&text.to_owned()).unwrap();
        pile.push(&text.as_bytes().to_vec()).unwrap();
    }
    assert_eq!(jobs.pop().unwrap().as_deref(), Some("a"));
    assert_eq!(pile.pop().unwrap(), Some(b"c".to_vec()));
    let mut seen = session.reader::<BTree<u64, Order>>("shop/orders").unwrap();
    assert_eq!(seen.get(&505).unwrap(), None, "it was not published");
    server.shutdown().unwrap();
    let gone = end_of(|| seen.get(&1), &Some(order(1)));
    assert!(matches!(gone, Error::Gone { .. }), "{gone}");

    let (server, session) = place.serve();
    let mut orders = session.reader::<BTree<u64, Order>>("shop/orders").unwrap();
    let all: Vec<_> = orders.range(..).map(Result::unwrap).collect();
    let expected: Vec<_> = (0..510).map(|number| (number, order(number))).collect();
    assert_eq!(all, expected);
    let back: Vec<u64> = orders
        .range(100..=200)
        .reversed()
        .map(|entry| entry.unwrap().0)
        .collect();
    assert_eq!(back, (100..=200).rev().collect::<Vec<_>>());
    let some: Vec<u64> = orders.range(507..).map(|entry| entry.unwrap().0).collect();
    assert_eq!(some, [507, 508, 509]);
    let below: Vec<u64> = orders
        .range(..3)
        .reversed()
        .map(|entry| entry.unwrap().0)
        .collect();
    assert_eq!(below, [2, 1, 0]);
    let mut names = session.reader::<HashTable<String, u64>>("names").unwrap();
    assert_eq!(names.entries().unwrap(), [("one".to_owned(), 1)]);
    let mut jobs = session.reader::<Queue<String>>("jobs").unwrap();
    assert_eq!(jobs.values().unwrap(), ["b", "c"]);
    let mut pile = session.reader::<Stack<Vec<u8>>>("pile").unwrap();
    assert_eq!(pile.peek().unwrap(), Some(b"b".to_vec()));
    let mut listed: Vec<_> = session
        .list()
        .unwrap()
        .into_iter()
        .map(|one| (one.name, one.kind))
        .collect();
    listed.sort();
    assert_eq!(
        listed,
        [
            ("jobs".to_owned(), "a queue"),
            ("names".to_owned(), "a hash table"),
            ("pile".to_owned(), "a stack"),
            ("shop/orders".to_owned(), "a B+tree"),
        ]
    );
    drop((orders, names, jobs, pile, session));
    server.shutdown().unwrap();
    let found =
        structures::verify(&place.0.path().join("pool"), &place.0.path().join("copy")).unwrap();
    assert_eq!(found.len(), 4);
    assert!(
        found.iter().all(|domain| domain.damage.is_none()),
        "{found:?}"
    );
}

/// Needs the loads: 5,000 entries are a few operations. Needs the inserts in their place, where entries do not lie
/// behind all keys.
fn load_in_any_order<S: Ordered<Key = u64, Value = Vec<u8>>>() {
    let place = Place::new();
    let (_server, session) = place.serve();
    let mut orders = session.writer::<S>("orders").unwrap();
    let mut expected = BTreeMap::new();
    let mut load = |keys: &[u64], size: usize| {
        let entries = keys
            .iter()
            .map(|key| (*key, key.to_le_bytes().repeat(size)));
        let entries: Vec<(u64, Vec<u8>)> = entries.collect();
        let pairs = entries.iter().map(|(key, value)| (key, value));
        orders.bulk_load(pairs).unwrap();
        expected.extend(entries);
    };
    load(&(0..5_000).collect::<Vec<_>>(), 1);
    let operations = session.stat().unwrap()[0].stat.published;
    assert!((2..20).contains(&operations), "{operations}");
    load(&(5_000..5_010).collect::<Vec<_>>(), 10_000); // longer than what is loaded together
    load(&(4_990..5_300).collect::<Vec<_>>(), 2); // the first ones have a value
    load(&[6_000, 7_000, 6_500, 6_400, 9_000, 9_001, 100, 100], 3);
    load(&(5_300..5_900).collect::<Vec<_>>(), 40); // in front of others
    load(&(9_002..9_500).collect::<Vec<_>>(), 50);
    load(&[], 1);
    let mut seen = session.reader::<S>("orders").unwrap();
    let found: BTreeMap<u64, Vec<u8>> = seen.entries().unwrap().into_iter().collect();
    assert!(found == expected, "other entries");
    assert_eq!(seen.len().unwrap(), expected.len() as u64);
}

#[test]
fn entries_in_any_order_are_loaded_as_inserts_would_leave_them() {
    load_in_any_order::<BTree<u64, Vec<u8>>>();
    load_in_any_order::<MvBTree<u64, Vec<u8>>>();
}

#[test]
fn a_load_with_an_entry_that_is_refused_stages_nothing() {
    let place = Place::new();
    let (_server, session) = place.serve();
    let mut names = session.writer::<BTree<String, u64>>("names").unwrap();
    let (short, long) = ("a".to_owned(), "b".repeat(200));
    let refused = names.bulk_load([(&short, &1), (&long, &2)]).unwrap_err();
    assert!(
        matches!(refused, Error::TooLarge { key_size: 202, .. }),
        "{refused}"
    );
    names.publish().unwrap();
    let mut seen = session.reader::<BTree<String, u64>>("names").unwrap();
    assert!(seen.is_empty().unwrap());
}

/// Needs the order of equal keys, which a sort by their places has to keep, and the end of a scan of a table that was
/// made empty: its second half would be in another order.
#[test]
fn a_hash_table_is_loaded_by_places_and_scanned_segment_by_segment() {
    let place = Place::new();
    let (_server, session) = place.serve();
    let mut table = session.writer::<HashTable<u64, u64>>("table").unwrap();
    let entries: Vec<(u64, u64)> = (0..20_000).map(|number| (number % 9_000, number)).collect();
    let pairs = || entries.iter().map(|(key, value)| (key, value));
    table.bulk_load(pairs()).unwrap();
    let expected: BTreeMap<u64, u64> = entries.iter().copied().collect();
    let mut seen = session.reader::<HashTable<u64, u64>>("table").unwrap();
    let all = seen.scan().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!((all.len(), seen.len().unwrap()), (9_000, 9_000));
    assert!(all.into_iter().collect::<BTreeMap<_, _>>() == expected);

    let mut scan = seen.scan();
    let mut met = vec![scan.next().unwrap().unwrap()];
    table.clear().unwrap();
    table.bulk_load(pairs()).unwrap();
    met.extend(scan.map(Result::unwrap));
    assert!(met.len() < 1_000, "{} entries of two tables", met.len());
    let again = seen.scan().collect::<Result<Vec<_>, _>>().unwrap();
    assert!(again.into_iter().collect::<BTreeMap<_, _>>() == expected);
}

/// Values of one name and size, whose fields lie in another order.
mod layouts {
    use zerocopy::{FromBytes, Immutable, IntoBytes, little_endian::U64};

    #[derive(Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
    #[repr(C)]
    pub struct Parcel {
        pub grams: U64,
        pub order: U64,
    }
    stonecast::fixed_value!(Parcel as "grams, order");

    pub mod later {
        use super::*;

        #[derive(Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
        #[repr(C)]
        pub struct Parcel {
            pub order: U64,
            pub grams: U64,
        }
        stonecast::fixed_value!(Parcel as "order, grams");
    }
}

/// Needs the words about the layout: name and size are the same. Needs the release of the tenure of the writer that is
/// refused, too: it would hold the structure until its lease ended.
#[test]
fn values_of_one_name_and_size_are_told_apart_by_the_words_about_their_layout() {
    let place = Place::new();
    let (_server, session) = place.serve();
    let parcel = layouts::Parcel {
        grams: U64::new(500),
        order: U64::new(7),
    };
    let mut parcels = session.writer::<Stack<layouts::Parcel>>("parcels").unwrap();
    parcels.push(&parcel).unwrap();
    parcels.release().unwrap();
    let other = session.writer::<Stack<layouts::later::Parcel>>("parcels");
    let other = other.err().expect("another layout");
    assert!(matches!(other, Error::OtherType { .. }), "{other}");
    let mut parcels = session.writer::<Stack<layouts::Parcel>>("parcels").unwrap();
    assert_eq!(parcels.pop().unwrap(), Some(parcel));
}

#[test]
fn bad_requests_are_refused_by_name_and_change_nothing() {
    let place = Place::new();
    let (server, session) = place.serve();
    let url = server.address().to_string();
    let mut orders = session.writer::<BTree<u64, u64>>("orders").unwrap();
    orders.insert(&1, &1).unwrap();
    let other = connect_blocking(&url).unwrap();
    let held = other.writer::<BTree<u64, u64>>("orders").err().unwrap();
    assert!(
        matches!(&held, Error::Held { name, tenure: 1, .. } if name == "orders"),
        "{held}"
    );
    let host = rustix::system::uname();
    let host = host.nodename().to_str().unwrap();
    let holder = format!("process {} on {host}", std::process::id());
    let words = format!(
        "\"orders\" has a writer, {holder} (tenure 1); one front-end writes a structure at a time"
    );
    assert_eq!(held.to_string(), words);
    let other_type = other.reader::<HashTable<u64, u64>>("orders").err().unwrap();
    let words = "\"orders\" is a B+tree, and a hash table of u64 to u64 was asked for";
    assert_eq!(other_type.to_string(), words);
    let other_schema = other.reader::<BTree<u64, u32>>("orders").err().unwrap();
    assert!(
        other_schema.to_string().contains("of other keys or values"),
        "{other_schema}"
    );
    let absent = other.reader::<BTree<u64, u64>>("order").err().unwrap();
    assert!(matches!(absent, Error::NotFound { .. }), "{absent}");
    for name in ["", "a/", "/a", "a/b/c", &"n".repeat(65)] {
        let refused = other.writer::<Stack<u64>>(name).err().unwrap();
        assert!(matches!(refused, Error::Name { .. }), "{name}: {refused}");
    }
    let mut texts = session
        .writer::<HashTable<String, Vec<u8>>>("texts")
        .unwrap();
    let refused = texts
        .insert(&"k".to_owned(), &vec![0; (1 << 20) + 1])
        .unwrap_err();
    assert!(matches!(refused, Error::TooLarge { .. }), "{refused}");
    let refused = texts.insert(&"k".repeat(300), &Vec::new()).unwrap_err();
    assert!(matches!(refused, Error::TooLarge { .. }), "{refused}");
    texts.insert(&"k".to_owned(), &vec![7; 100_000]).unwrap();
    orders.release().unwrap();
    let mut next = loop {
        match other.writer::<BTree<u64, u64>>("orders") {
            Ok(writer) => break writer,
            Err(Error::Held { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert!(next.insert(&1, &2).unwrap());
    // Pools of another kind.
    let pool = place.0.path().join("keys");
    drop(
        stonecast::Server::builder(&pool)
            .durability(Durability::Process)
            .serve()
            .unwrap(),
    );
    let refused = Server::builder(&pool).serve().err().unwrap();
    assert!(
        refused
            .to_string()
            .contains("is a pool of keys and values, not of data structures"),
        "{refused}"
    );
    drop((next, texts, session, other));
    server.shutdown().unwrap();
    let refused = stonecast::Server::builder(place.0.path().join("pool"))
        .serve()
        .err()
        .unwrap();
    assert!(
        refused.to_string().contains("serve it with --structures"),
        "{refused}"
    );
    let refused = connect_blocking(&url).err().unwrap();
    assert!(matches!(refused, Error::Connect(_)), "{refused}");
}

/// Needs the end of silent leases.
#[test]
fn a_silent_writer_is_told_that_its_tenure_is_over() {
    let place = Place::new();
    let server = place
        .builder()
        .lease(Duration::from_millis(50))
        .serve()
        .unwrap();
    let session = connect_blocking(&server.address().to_string()).unwrap();
    let mut words = session.writer::<HashTable<u64, u64>>("words").unwrap();
    words.insert(&1, &1).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let over = words.insert(&2, &2).unwrap_err();
    assert!(
        matches!(over, Error::TenureOver { .. } | Error::Gone { .. }),
        "{over}"
    );
    let session = connect_blocking(&server.address().to_string()).unwrap();
    let mut words = loop {
        match session.writer::<HashTable<u64, u64>>("words") {
            Ok(words) => break words,
            Err(Error::Held { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(words.get(&1).unwrap(), Some(1));
    server.shutdown().unwrap();
}

/// Needs the trimming of the log and the growth of a domain: far more than a log holds, into a pool that fills up.
#[test]
fn a_full_pool_refuses_updates_and_keeps_its_content() {
    let place = Place::new();
    let (server, session) = place.serve();
    let mut blobs = session.writer::<HashTable<u64, Vec<u8>>>("blobs").unwrap();
    let mut stored = 0;
    let full = loop {
        match blobs.insert(&stored, &vec![stored as u8; 50_000]) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 1_000, "the pool has 32 MiB");
    };
    assert!(matches!(full, Error::NoRoom), "{full}");
    assert!(stored > 200, "{stored}");
    blobs.remove(&0).unwrap();
    blobs.insert(&0, &vec![1; 50_000]).unwrap();
    let mut reader = session.reader::<HashTable<u64, Vec<u8>>>("blobs").unwrap();
    for key in 1..stored {
        assert_eq!(reader.get(&key).unwrap(), Some(vec![key as u8; 50_000]));
    }
    drop((reader, blobs, session));
    server.shutdown().unwrap();
}

#[test]
fn a_range_goes_on_in_both_directions_where_another_reader_has_ended() {
    let place = Place::new();
    let (server, session) = place.serve();
    let mut numbers = session.writer::<BTree<u64, u64>>("numbers").unwrap();
    for number in 0..200 {
        numbers.stage(&number, &number).unwrap();
    }
    numbers.publish().unwrap();
    let expected: Vec<u64> = (20..=150).collect();
    for is_reversed in [false, true] {
        for given in [0, 1, 14, 15, 60, 130, 131] {
            let mut first = session.reader::<BTree<u64, u64>>("numbers").unwrap();
            let mut range = first.range(20..=150);
            if is_reversed {
                range = range.reversed();
            }
            let key = |entry: Result<(u64, u64), Error>| entry.unwrap().0;
            let mut found: Vec<u64> = range.by_ref().take(given).map(key).collect();
            let rest = range.rest();
            let mut second = session.reader::<BTree<u64, u64>>("numbers").unwrap();
            found.extend(second.resume(&rest).map(key));
            if is_reversed {
                found.reverse();
            }
            assert_eq!(found, expected, "{given} were given");
        }
    }
    drop(server);
}

#[test]
fn a_writer_goes_on_behind_its_publications_which_become_visible_in_their_order() {
    let place = Place::new();
    let (server, session) = place.serve();
    let connection = structures::connect(&server.address().to_string()).unwrap();
    let published = connection.run(async |session| {
        let mut orders = session.writer::<BTree<u64, Order>>("orders").await?;
        let mut begun = Vec::new();
        for number in 0..20 {
            let _ticket = orders.stage(&number, &order(number)).await?;
            begun.push(orders.start_publication().await?);
            orders.stage(&(1000 + number), &order(0)).await?.await?;
        }
        let last = begun.pop().unwrap();
        last.await?;
        assert!(begun.iter().all(structures::Publication::is_visible));
        let mut seen = session.reader::<BTree<u64, Order>>("orders").await?;
        assert_eq!(seen.get(&19).await?, Some(order(19)));
        // The updates staged behind the last publication are durable and not visible.
        assert_eq!((orders.staged(), seen.get(&1019).await?), (1, None));
        orders.release().await
    });
    published.unwrap();

    let mut orders = session.writer::<BTree<u64, Order>>("orders").unwrap();
    orders.stage(&20, &order(20)).unwrap();
    orders.start_publication().unwrap();
    orders.publish().unwrap();
    let mut seen = session.reader::<BTree<u64, Order>>("orders").unwrap();
    assert_eq!(seen.get(&20).unwrap(), Some(order(20)));
    assert_eq!(seen.get(&1019).unwrap(), Some(order(0)));
}

#[test]
fn several_keys_are_looked_up_together() {
    let place = Place::new();
    let (server, session) = place.serve();
    let mut names = session.writer::<HashTable<u64, u64>>("names").unwrap();
    for number in (0..400).step_by(2) {
        names.stage(&number, &(number * 3)).unwrap();
    }
    names.publish().unwrap();
    let mut seen = session.reader::<HashTable<u64, u64>>("names").unwrap();
    let keys: Vec<u64> = (0..400).collect();
    let expected = keys.iter().map(|key| (key % 2 == 0).then_some(key * 3));
    let expected: Vec<_> = expected.collect();
    assert_eq!(seen.get_many(&keys).unwrap(), expected);
    assert_eq!(seen.get_many(&keys).unwrap(), expected);
    assert_eq!(seen.get_many([]).unwrap(), []);
    drop(server);
}

#[test]
fn a_transaction_over_several_structures_takes_effect_once_however_often_it_is_tried() {
    let place = Place::new();
    let (server, session) = place.serve();
    let mut shop = session.domain("shop").unwrap();
    let stock = shop.structure::<HashTable<String, u64>>("stock").unwrap();
    let jobs = shop.structure::<Queue<String>>("jobs").unwrap();
    let other = shop.structure::<BTree<String, u64>>("stock").err();
    assert!(matches!(other, Some(Error::OtherType { .. })), "{other:?}");
    let nails = "nails".to_owned();
    let mut first = Transaction::default();
    let was = first.insert(&stock, &nails, &7);
    first.push(&jobs, &"count the nails".to_owned());
    assert!(!shop.commit(&first).unwrap().existed(was));
    assert!(shop.commit(&first).unwrap().existed(was));

    let attempt = shop.attempt(9.try_into().unwrap());
    let mut sale = Transaction::default();
    let sold = sale.compare_and_update(&stock, &nails, (&7, &6));
    let job = sale.pop(&jobs);
    for _ in 0..3 {
        let outcome = shop.commit_once(attempt, &sale).unwrap();
        assert!(outcome.existed(sold));
        let taken = outcome.taken::<Queue<String>>(job).unwrap();
        assert_eq!(taken.as_deref(), Some("count the nails"));
    }
    let another = shop.commit_once(attempt, &first).unwrap_err();
    assert!(
        matches!(another, Error::Token { token: 9, .. }),
        "{another}"
    );
    let mut seen = session.reader::<Queue<String>>("shop/jobs").unwrap();
    assert_eq!(seen.values().unwrap().len(), 1);
    let mut seen = session
        .reader::<HashTable<String, u64>>("shop/stock")
        .unwrap();
    assert_eq!(seen.get(&nails).unwrap(), Some(6));
    shop.release().unwrap();
    drop(server);
}

/// Needs the look at the tenure: what the writer remembers is from before the tenure of its successor.
#[test]
fn values_that_a_writer_has_looked_up_do_not_count_once_its_tenure_is_over() {
    let place = Place::new();
    let lease = Duration::from_millis(200);
    let server = place.builder().lease(lease).serve().unwrap();
    let address = server.address().to_string();
    let session = connect_blocking(&address).unwrap();
    let mut bank = session.domain("bank").unwrap();
    let accounts = bank.structure::<HashTable<u64, u64>>("accounts").unwrap();
    let mut both = Transaction::default();
    both.insert(&accounts, &1, &100);
    both.insert(&accounts, &2, &50);
    bank.commit(&both).unwrap();

    let mut look = Look::default();
    let [one, two, none] = [1, 2, 3].map(|key| look.at(&accounts, &key));
    let found = bank.look(&look).unwrap();
    assert_eq!(found.value(one).unwrap(), Some(100));
    assert_eq!(found.value(two).unwrap(), Some(50));
    assert_eq!(found.value(none).unwrap(), None);
    bank.confirm().unwrap();

    let end = std::time::Instant::now() + Duration::from_secs(20);
    let other = connect_blocking(&address).unwrap();
    let mut next = loop {
        match other.domain("bank") {
            Ok(next) => break next,
            Err(error) => assert!(std::time::Instant::now() < end, "{error}"),
        }
    };
    let accounts = next.structure::<HashTable<u64, u64>>("accounts").unwrap();
    let mut moved = Transaction::default();
    moved.insert(&accounts, &1, &0);
    next.commit(&moved).unwrap();
    let seen = bank.look(&look);
    let value = seen.map(|found| found.value(one).unwrap());
    assert_ne!(value.ok(), Some(Some(0)), "nobody has told this writer");
    let over = bank.confirm().unwrap_err();
    assert!(
        matches!(over, Error::TenureOver { .. } | Error::Gone { .. }),
        "{over}"
    );
}

/// Needs the renewal: the writer does nothing else for longer than its lease.
#[test]
fn a_writer_that_says_nothing_else_keeps_its_tenure_by_renewals() {
    let place = Place::new();
    let lease = Duration::from_secs(2);
    let server = place.builder().lease(lease).serve().unwrap();
    let session = connect_blocking(&server.address().to_string()).unwrap();
    let mut orders = session.writer::<BTree<u64, u64>>("orders").unwrap();
    for _ in 0..5 {
        std::thread::sleep(lease / 4);
        orders.renew().unwrap();
    }
    orders.insert(&1, &1).unwrap();
    drop(server);
}

/// Needs the table of the snapshot: readers of a structure follow the current one.
#[test]
fn a_snapshot_shows_one_moment_of_all_structures_and_ends_with_an_error() {
    let place = Place::new();
    let (server, session) = place.serve();
    let mut bank = session.domain("bank").unwrap();
    let left = bank.structure::<MvBTree<u64, u64>>("left").unwrap();
    let right = bank.structure::<MvBst<u64, u64>>("right").unwrap();
    let log = bank.structure::<MvBTree<u64, Vec<u8>>>("log").unwrap();
    let mut put = |amount: u64, size: usize| {
        let mut transaction = Transaction::default();
        for key in 0..300 {
            transaction.insert(&left, &key, &amount);
            transaction.insert(&right, &key, &(1000 - amount));
        }
        transaction.insert(&log, &0, &vec![7; size]);
        bank.commit(&transaction).unwrap();
    };
    put(1, 0);
    let missing = session.snapshot("none").map(|_| ()).unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
    let snapshot = session.snapshot("bank").unwrap();
    put(2, 0);
    let mut lefts = snapshot.reader::<MvBTree<u64, u64>>("left").unwrap();
    let mut rights = snapshot.reader::<MvBst<u64, u64>>("right").unwrap();
    put(3, 0);
    assert_eq!(lefts.get(&7).unwrap(), Some(1));
    assert_eq!(rights.get(&7).unwrap(), Some(999));
    assert!(lefts.range(..).all(|entry| entry.unwrap().1 == 1));
    assert_eq!(rights.entries().unwrap().len(), 300);
    let mut now = session.reader::<MvBTree<u64, u64>>("bank/left").unwrap();
    assert_eq!(now.get(&7).unwrap(), Some(3));
    let other = snapshot.reader::<MvBTree<u64, String>>("left").err();
    assert!(matches!(other, Some(Error::OtherType { .. })));

    let mut rounds = 0;
    let ended = loop {
        put(4 + rounds, 1 << 18);
        rounds += 1;
        match lefts.entries() {
            Ok(entries) => assert!(entries.iter().all(|(_, amount)| *amount == 1)),
            Err(error) => break error,
        }
        assert!(rounds < 200, "the versions are kept for ever");
    };
    assert!(matches!(ended, Error::TooOld { .. }), "{ended}");
    drop(server);
}

/// Needs the reclaiming before a publication: without it, each update would leave the copied way behind.
#[test]
fn a_writer_keeps_old_versions_within_bounds_and_its_readers_go_on() {
    let place = Place::new();
    let (server, session) = place.serve();
    let mut tree = session.writer::<MvBTree<u64, Vec<u8>>>("tree").unwrap();
    let mut seen = session.reader::<MvBTree<u64, Vec<u8>>>("tree").unwrap();
    let bound = 4 << 20;
    let (mut largest, mut written) = (0, 0);
    for round in 0..60_u64 {
        for key in 0..16 {
            let value = vec![round as u8; 20_000];
            written += value.len() as u64;
            tree.stage(&key, &value).unwrap();
        }
        tree.publish().unwrap();
        assert_eq!(seen.get(&7).unwrap(), Some(vec![round as u8; 20_000]));
        let state = &session.stat().unwrap()[0];
        assert_eq!((state.stat.tenure, state.stat.staged), (1, 0));
        assert!(state.memory > state.old_versions);
        largest = largest.max(state.old_versions);
    }
    // A publication may add what one round has replaced.
    assert!(written > 4 * bound && largest > bound / 2);
    assert!(
        largest < bound + (1 << 20),
        "{largest} bytes of old versions"
    );
    drop(server);
}
