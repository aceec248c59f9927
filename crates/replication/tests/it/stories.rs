//! What one machine answers to one mistake.

use std::collections::{BTreeMap, BTreeSet};

use stonecast_cluster::{Epoch, NodeName};
use stonecast_replication::{
    Entry, Fence, Judgement, Kind, LaterTerm, LeaseSays, Lineage, Point, Primary,
    ReportedOutOfOrder, Settled, ShardCopy, Step, Taken, Takeover, TermNotNew, TooFewCopies,
};

fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

fn names(words: &str) -> BTreeSet<NodeName> {
    words.split_whitespace().map(name).collect()
}

fn record(term: u64, version: u64, previous: u64, horizon: u64) -> Entry {
    Entry {
        shard: 1,
        term: Epoch(term),
        version,
        previous,
        horizon,
        kind: Kind::Record,
    }
}

fn point(term: u64, version: u64) -> Point {
    Point {
        term: Epoch(term),
        version,
    }
}

fn takeover(before: u64, lost: &str) -> Result<Takeover, TermNotNew> {
    let copy = ShardCopy::new(1, Lineage::default());
    let lost = names(lost);
    Takeover::new(
        Epoch(1),
        Epoch(before),
        &name("a"),
        copy,
        names("a b"),
        lost,
    )
}

/// A primary of term 1 on `a`, with a backup on `b`.
fn primary(min_copies: usize) -> Primary<&'static str> {
    let mut heir = takeover(0, "").unwrap();
    heir.decide();
    heir.kept();
    heir.confirmed(&name("b"));
    heir.leases_over();
    heir.serve(min_copies, |_| panic!("nothing is left to digest"))
}

#[test]
fn a_write_that_too_few_copies_would_keep_is_refused() {
    let mut primary = primary(2);
    primary.removed(&name("b"));
    let refused = TooFewCopies {
        found: 1,
        needed: 2,
    };
    assert_eq!(primary.stamp(5, "put"), Err(refused));
    assert_eq!(primary.last(), 0, "nothing of it exists");
}

#[test]
fn a_write_waits_for_every_copy_until_the_configuration_is_without_it() {
    let mut primary = primary(1);
    let entry = primary.stamp(5, "put").unwrap();
    assert_eq!(primary.take_unsent(&name("b")), [entry]);
    assert_eq!(primary.take_unsent(&name("a")), [entry]);
    primary.persisted(&name("a"), 5).unwrap();
    assert_eq!(primary.settle(LeaseSays::Holds), Some(vec![]));
    primary.removed(&name("b"));
    let written = vec![Settled::Written("put")];
    assert_eq!(primary.settle(LeaseSays::Holds), Some(written));
    assert_eq!(primary.horizon(), 5);
}

#[test]
fn a_report_of_what_was_not_sent_is_refused_by_name() {
    let mut primary = primary(1);
    primary.stamp(5, "put").unwrap();
    let wrong = |expected| ReportedOutOfOrder {
        copy: name("b"),
        found: 5,
        expected,
    };
    assert_eq!(primary.persisted(&name("b"), 5), Err(wrong(None)));
    primary.stamp(7, "put").unwrap();
    primary.take_unsent(&name("b"));
    assert!(primary.persisted(&name("b"), 7).is_err(), "5 comes first");
    assert_eq!(primary.persisted(&name("b"), 5), Ok(()));
}

#[test]
fn a_primary_that_resigns_gives_back_what_waited_and_stays_a_copy() {
    let mut primary = primary(1);
    primary.stamp(5, "put").unwrap();
    primary.refuse(5, "conflict");
    assert_eq!(primary.settle(LeaseSays::Over), None);
    let resigned = primary.resign();
    assert_eq!(resigned.unknown, ["put"]);
    assert_eq!(resigned.unanswered, ["conflict"]);
    assert_eq!(resigned.copy.end(), point(1, 5));
}

#[test]
fn an_heir_looks_at_its_memory_after_the_leases_where_a_peer_may_still_append() {
    let mut heir = takeover(0, "b").unwrap();
    assert_eq!(heir.next(), Step::Quiesce(names("b")));
    heir.fenced(&name("b"), Fence::Unquiesced);
    assert_eq!(heir.next(), Step::AwaitLeases);
    heir.leases_over();
    assert_eq!(heir.next(), Step::Read);
}

#[test]
fn a_process_that_starts_again_needs_a_new_term() {
    let refused = takeover(1, "b").expect_err("the node was in this epoch");
    assert_eq!((refused.found, refused.known), (Epoch(1), Epoch(1)));
}

#[test]
fn a_copy_takes_no_entry_of_a_term_that_it_has_not_entered() {
    let mut copy = ShardCopy::new(1, Lineage::default());
    let refused = LaterTerm {
        found: point(2, 5),
        term: Epoch(0),
    };
    assert_eq!(copy.take(record(2, 5, 0, 0)), Err(refused));
}

/// What a copy has of a term counts up to the cut of the heir, and the heir's entries follow there.
#[test]
fn an_heir_voids_what_it_does_not_have_and_may_give_the_same_versions() {
    let open = Lineage {
        term: Epoch(1),
        ..Lineage::default()
    };
    let found = [record(1, 7, 5, 0), record(1, 5, 0, 0), record(1, 8, 7, 5)];
    let mut copy = ShardCopy::recover(1, open, found).unwrap();
    assert_eq!(copy.end(), point(1, 8));
    let heir = Lineage {
        term: Epoch(2),
        floor: Point::default(),
        cuts: BTreeMap::from([(Epoch(1), 5)]),
    };
    copy.adopt(&heir);
    assert!(copy.has_settled());
    assert_eq!(copy.end(), point(1, 5));
    assert_eq!(copy.take(record(1, 7, 5, 0)), Ok(Taken::Void));
    let taken = copy.take(record(2, 7, 5, 5));
    assert_eq!(taken, Ok(Taken::Contiguous(point(2, 7))));
    assert_eq!(copy.digest().map(|entry| entry.point()), Some(point(1, 5)));
    assert_eq!(copy.digest(), None, "7 is above the horizon");
}

#[test]
fn an_heir_with_a_higher_floor_leaves_a_copy_the_history_below_it() {
    let open = Lineage {
        term: Epoch(2),
        floor: Point::default(),
        cuts: BTreeMap::from([(Epoch(1), 5)]),
    };
    let found = [record(1, 5, 0, 0), record(2, 6, 5, 5), record(2, 9, 6, 6)];
    let mut copy = ShardCopy::recover(1, open, found).unwrap();
    let heir = Lineage {
        term: Epoch(3),
        floor: point(2, 6),
        cuts: BTreeMap::new(),
    };
    copy.adopt(&heir);
    assert_eq!(copy.end(), point(2, 6));
    assert_eq!(copy.lineage().judge(point(1, 5)), Judgement::Counts);
    assert_eq!(copy.lineage().judge(point(2, 9)), Judgement::Void);
}
