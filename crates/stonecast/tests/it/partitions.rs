//! Structures whose entries are spread over several back-ends.

use std::num::NonZeroU64;
use std::time::Duration;

use stonecast::Durability;
use stonecast::structures::{
    BTree, Connections, Error, HashTable, Server, ServerHandle, connect, connect_all,
};
use tempfile::TempDir;

type Stock = HashTable<u64, u64>;

/// Back-ends, each with a folder of its own.
struct Place {
    folder: TempDir,
    servers: Vec<Option<ServerHandle>>,
}

impl Place {
    fn new(count: usize) -> Self {
        let mut place = Self {
            folder: tempfile::tempdir().unwrap(),
            servers: Vec::new(),
        };
        place.servers.resize_with(count, || None);
        (0..count).for_each(|index| place.serve(index));
        place
    }

    fn serve(&mut self, index: usize) {
        let server = Server::builder(self.folder.path().join(index.to_string()))
            .durability(Durability::Process)
            .capacity(16 << 20)
            .serve();
        self.servers[index] = Some(server.unwrap());
    }

    fn restart(&mut self, index: usize) {
        self.servers[index].take().unwrap().shutdown().unwrap();
        self.serve(index);
    }

    fn url(&self, index: usize) -> String {
        self.servers[index].as_ref().unwrap().address().to_string()
    }

    fn connect(&self, order: &[usize]) -> Connections {
        let urls: Vec<String> = order.iter().map(|index| self.url(*index)).collect();
        connect_all(urls.iter().map(String::as_str)).unwrap()
    }
}

#[test]
fn entries_are_spread_over_all_back_ends_and_found_by_every_call() {
    let mut place = Place::new(3);
    let connections = place.connect(&[0, 1, 2]);
    connections.run(async |sessions| {
        let mut stock = sessions.writer::<Stock>("shop/stock").await.unwrap();
        let entries: Vec<(u64, u64)> = (0..300).map(|key| (key, key * 3)).collect();
        stock
            .insert_all(entries.iter().map(|(key, value)| (key, value)))
            .await
            .unwrap();
        assert!(!stock.insert(&1_000, &1).await.unwrap());
        assert!(stock.compare_and_update(&1_000, &1, &2).await.unwrap());
        assert!(stock.remove(&7).await.unwrap());
        let ticket = stock.stage(&2_000, &5).await.unwrap();
        ticket.await.unwrap();
        assert_eq!(
            (stock.staged(), stock.get(&2_000).await.unwrap()),
            (1, Some(5))
        );
        stock.publish().await.unwrap();
        stock.renew().await.unwrap();
        let mut seen = sessions.reader::<Stock>("shop/stock").await.unwrap();
        let keys: Vec<u64> = (0..300).chain([1_000, 2_000, 3_000]).rev().collect();
        let found = seen.get_many(&keys).await.unwrap();
        for (key, found) in keys.iter().zip(found) {
            let expected = match key {
                7 | 3_000 => None,
                1_000 => Some(2),
                2_000 => Some(5),
                key => Some(key * 3),
            };
            assert_eq!(found, expected, "{key}");
            assert_eq!(seen.get(key).await.unwrap(), expected, "{key}");
        }
        let mut shares = Vec::new();
        for session in sessions.each() {
            let listed = session.list().await.unwrap();
            assert!(
                listed[0].name.starts_with("shop/stock."),
                "{}",
                listed[0].name
            );
            shares.push(session.contents(&listed[0].name).await.unwrap().len());
        }
        assert_eq!(shares.iter().sum::<usize>(), 301);
        assert!(shares.iter().all(|share| *share > 50), "{shares:?}");
        stock.release().await.unwrap();
    });
    drop(connections);
    // Every partition outlives its back-end.
    (0..3).for_each(|index| place.restart(index));
    place.connect(&[0, 1, 2]).run(async |sessions| {
        let mut seen = sessions.reader::<Stock>("shop/stock").await.unwrap();
        assert_eq!(seen.get(&299).await.unwrap(), Some(897));
    });
}

/// Needs the place of each part in its name, and the look at all of them.
#[test]
fn another_number_or_order_of_back_ends_is_refused_by_name() {
    let place = Place::new(3);
    place.connect(&[0, 1]).run(async |sessions| {
        let mut stock = sessions.writer::<Stock>("stock").await.unwrap();
        stock.insert(&1, &1).await.unwrap();
        stock.release().await.unwrap();
    });
    for (order, words) in [
        (
            &[1, 0][..],
            "back-end 1 of 2 has partition 2 of 2 of \"stock\"",
        ),
        (&[0], "back-end 1 of 1 has partition 1 of 2 of \"stock\""),
        (
            &[0, 1, 2],
            "back-end 1 of 3 has partition 1 of 2 of \"stock\"",
        ),
        (&[0, 2], "back-end 2 of 2 has no partition of \"stock\""),
    ] {
        place.connect(order).run(async |sessions| {
            let refused = sessions.writer::<Stock>("stock").await.err().unwrap();
            assert!(refused.to_string().starts_with(words), "{refused}");
            let refused = sessions.reader::<Stock>("stock").await.err().unwrap();
            assert!(refused.to_string().starts_with(words), "{refused}");
        });
    }
    // A refusal leaves no tenure behind, and makes nothing on the back-end that was named by mistake.
    place.connect(&[0, 1]).run(async |sessions| {
        let limit = Duration::from_secs(10);
        let opened = sessions.each()[0].within(limit, async {
            loop {
                match sessions.writer::<Stock>("stock").await {
                    Err(Error::Held { .. }) => {}
                    opened => return opened,
                }
            }
        });
        let mut stock = opened.await.unwrap().unwrap();
        assert_eq!(stock.get(&1).await.unwrap(), Some(1));
        let other = sessions
            .reader::<BTree<u64, u64>>("stock")
            .await
            .err()
            .unwrap();
        assert!(matches!(other, Error::OtherType { .. }), "{other}");
        let none = sessions.reader::<Stock>("orders").await.err().unwrap();
        assert!(matches!(none, Error::NotFound { .. }), "{none}");
    });
    let third = connect(&place.url(2)).unwrap();
    assert_eq!(third.run(async |session| session.list().await).unwrap(), []);
    assert!(connect_all([]).is_err());
}

/// Needs the comparison of the partitions of all keys, and the result of an attempt in the partition of its key.
#[test]
fn a_transaction_lies_in_one_partition_and_an_attempt_takes_effect_once() {
    let place = Place::new(2);
    place.connect(&[0, 1]).run(async |sessions| {
        let mut stock = sessions.writer::<Stock>("stock").await.unwrap();
        let mut seen = sessions.reader::<Stock>("stock").await.unwrap();
        let (mut same, mut across) = (0, 0);
        for key in 1..20 {
            let mut transaction = stock.transaction();
            transaction.insert(&0, &key);
            let part = transaction.insert(&key, &key);
            match stock.commit(transaction).await {
                Ok(outcome) => {
                    assert!(!outcome.existed(part));
                    let both = seen.get_many(&[0, key]).await.unwrap();
                    assert_eq!(both, [Some(key), Some(key)]);
                    same += 1;
                }
                Err(error) => {
                    assert!(matches!(error, Error::AcrossPartitions { .. }), "{error}");
                    assert!(error.to_string().contains("of \"stock\""), "{error}");
                    assert_eq!(seen.get(&key).await.unwrap(), None);
                    across += 1;
                }
            }
        }
        assert!(same > 2 && across > 2, "{same} and {across}");
        for key in [100, 101, 102, 103] {
            let token = NonZeroU64::new(key).unwrap();
            let attempt = stock.attempt(&key, token);
            assert!(!stock.once(&key, attempt).insert(&1).await.unwrap());
            assert!(
                !stock.once(&key, attempt).insert(&1).await.unwrap(),
                "it was done before"
            );
        }
    });
}

/// Needs the comparison of the hashing: the other structure has keys of the same type in the same back-ends.
#[test]
fn a_transaction_that_another_structure_began_is_refused_by_name() {
    let place = Place::new(2);
    place.connect(&[0, 1]).run(async |sessions| {
        let stock = sessions.writer::<Stock>("stock").await.unwrap();
        let mut price = sessions.writer::<Stock>("price").await.unwrap();
        let mut transaction = stock.transaction();
        transaction.insert(&1, &77);
        let refused = price.commit(transaction).await.unwrap_err();
        assert!(matches!(refused, Error::OtherDomain { .. }), "{refused}");
        assert_eq!(
            refused.to_string(),
            "\"stock\" is a structure of other partitions, and the structure \"price\" was asked; \
             a transaction lies in one lock domain"
        );
        let mut seen = sessions.reader::<Stock>("price").await.unwrap();
        assert_eq!(seen.get(&1).await.unwrap(), None);
    });
}

/// Needs the other name of a part that is being made.
#[test]
fn a_structure_whose_making_was_interrupted_is_made_by_the_next_writer() {
    let place = Place::new(2);
    let second = connect(&place.url(1)).unwrap();
    let new = "stock/stock.2-of-2.00000000000000ff.new";
    second.run(async |session| {
        let part = session.writer::<Stock>(new).await.unwrap();
        part.release().await.unwrap();
    });
    let connections = place.connect(&[0, 1]);
    connections.run(async |sessions| {
        let unfinished = sessions.reader::<Stock>("stock").await.err().unwrap();
        assert!(matches!(unfinished, Error::NotFound { .. }), "{unfinished}");
        let writer = loop {
            match sessions.writer::<Stock>("stock").await {
                Err(Error::Held { .. }) => {}
                opened => break opened.unwrap(),
            }
        };
        writer.release().await.unwrap();
        let mut names = Vec::new();
        for session in sessions.each() {
            names.extend(
                session
                    .list()
                    .await
                    .unwrap()
                    .into_iter()
                    .map(|listed| listed.name),
            );
        }
        assert_eq!(
            names,
            [
                "stock/stock.1-of-2.00000000000000ff",
                "stock/stock.2-of-2.00000000000000ff"
            ]
        );
    });
}

/// Needs the order that the entries of each partition keep: its tree is loaded from the leaves up, which takes a few
/// operations.
#[test]
fn sorted_entries_are_loaded_into_the_trees_of_all_partitions() {
    let place = Place::new(3);
    let connections = place.connect(&[0, 1, 2]);
    connections.run(async |sessions| {
        let mut prices = sessions.writer::<BTree<u64, u64>>("prices").await.unwrap();
        let entries: Vec<(u64, u64)> = (0..3_000).map(|key| (key, key * 3)).collect();
        let pairs = entries.iter().map(|(key, value)| (key, value));
        prices.bulk_load(pairs).await.unwrap();
        let mut seen = sessions.reader::<BTree<u64, u64>>("prices").await.unwrap();
        let keys = (0..3_001).collect::<Vec<u64>>();
        let found = seen.get_many(&keys).await.unwrap();
        for (key, found) in keys.iter().zip(found) {
            assert_eq!(found, (*key < 3_000).then_some(key * 3), "{key}");
        }
        for session in sessions.each() {
            let operations = session.stat().await.unwrap()[0].stat.published;
            assert!(operations < 20, "{operations}");
        }
    });
}
