//! Stories of one machine that meets one mistake.

use std::collections::{BTreeMap, BTreeSet};

use stonecast_cluster::{Epoch, NodeName, Nonce};
use stonecast_replication::{
    Connection, Consent, Entry, Fence, Incomplete, Judgement, Kind, LaterTerm, LeaseSays, Lineage,
    NotAdopted, NotStamped, Point, Primary, Report, ReportedOutOfOrder, Settled, ShardCopy, Step,
    Taken, Takeover, TermNotNew,
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

/// A copy of term 1 that has found these entries.
fn copy_with(found: &[Entry]) -> ShardCopy {
    let open = Lineage {
        term: Epoch(1),
        ..Lineage::default()
    };
    ShardCopy::recover(1, open, found.iter().copied()).unwrap()
}

fn takeover(lineage: Lineage, lost: &str) -> Result<Takeover, TermNotNew> {
    let copy = ShardCopy::new(1, lineage);
    Takeover::new(Epoch(1), &name("a"), copy, names("a b"), names(lost))
}

fn heir(lost: &str) -> Takeover {
    takeover(Lineage::default(), lost).expect("the term is new")
}

/// A primary of term 1 on `a`, with a backup on `b`.
fn primary(min_copies: usize) -> Primary<&'static str> {
    let mut heir = heir("");
    heir.decide().unwrap();
    heir.kept();
    heir.confirmed(&name("b"), Epoch(1));
    heir.leases_over();
    heir.serve(min_copies, |_| panic!("nothing is left to digest"))
}

/// `node` has persisted everything that was not sent to it.
fn persist(primary: &mut Primary<&'static str>, node: &str) {
    for entry in primary.take_unsent(&name(node), Connection::OWN) {
        let report = Report::of(Connection::OWN, &entry);
        primary.persisted(&name(node), report).unwrap();
    }
}

/// The report that the record of `version` is persisted.
fn report(connection: Connection, version: u64) -> Report {
    Report::of(connection, &record(1, version, version - 1, 0))
}

#[test]
fn a_write_that_too_few_copies_would_keep_is_refused() {
    let mut primary = primary(2);
    primary.removed(&name("b"));
    let refused = NotStamped::TooFewCopies {
        found: 1,
        needed: 2,
    };
    assert_eq!(primary.stamp(5, "put"), Err(refused));
    assert_eq!(primary.last(), 0, "nothing of it exists");
}

#[test]
fn a_write_whose_copies_became_too_few_waits_until_a_joiner_is_named() {
    let mut primary = primary(2);
    primary.stamp(5, "put").unwrap();
    primary.removed(&name("b"));
    persist(&mut primary, "a");
    assert_eq!(primary.settle(LeaseSays::Holds), Some(vec![]));
    primary.fill(&name("c"), 1);
    primary.dropped(&name("c"), 1);
    persist(&mut primary, "c");
    primary.pulled(&name("c"), 1);
    assert!(primary.admit(&name("c")));
    assert_eq!(
        primary.settle(LeaseSays::Holds),
        Some(vec![]),
        "c is awaited, and not named"
    );
    primary.named(&name("c"));
    let written = vec![Settled::Written("put")];
    assert_eq!(primary.settle(LeaseSays::Holds), Some(written));
}

#[test]
fn a_write_waits_for_every_copy_until_the_configuration_is_without_it() {
    let mut primary = primary(1);
    let entry = primary.stamp(5, "put").unwrap();
    let sent = primary.take_unsent(&name("b"), Connection::OWN);
    assert_eq!(sent, [entry]);
    persist(&mut primary, "a");
    assert_eq!(primary.settle(LeaseSays::Holds), Some(vec![]));
    primary.removed(&name("b"));
    let written = vec![Settled::Written("put")];
    assert_eq!(primary.settle(LeaseSays::Holds), Some(written));
    assert_eq!(primary.horizon(), 5);
}

#[test]
fn a_report_of_an_entry_that_was_not_sent_is_refused_by_name() {
    let mut primary = primary(1);
    primary.stamp(5, "put").unwrap();
    let wrong = ReportedOutOfOrder {
        copy: name("b"),
        found: (5, Kind::Record),
        expected: None,
    };
    let first = report(Connection::OWN, 5);
    assert_eq!(primary.persisted(&name("b"), first), Err(wrong));
    primary.stamp(7, "put").unwrap();
    primary.take_unsent(&name("b"), Connection::OWN);
    let second = report(Connection::OWN, 7);
    assert!(
        primary.persisted(&name("b"), second).is_err(),
        "5 comes first"
    );
    assert_eq!(primary.persisted(&name("b"), first), Ok(()));
}

#[test]
pub fn a_report_of_a_connection_that_has_ended_says_nothing() {
    let mut primary = primary(1);
    let (old, new) = (Connection(1), Connection(2));
    primary.stamp(5, "put").unwrap();
    persist(&mut primary, "a");
    primary.take_unsent(&name("b"), old);
    assert_eq!(primary.take_unsent(&name("b"), new).len(), 1);
    assert_eq!(primary.take_unsent(&name("b"), old), []);
    primary.persisted(&name("b"), report(old, 5)).unwrap();
    assert_eq!(primary.settle(LeaseSays::Holds), Some(vec![]));
    primary.persisted(&name("b"), report(new, 5)).unwrap();
    assert_eq!(primary.settle(LeaseSays::Holds).unwrap().len(), 1);
}

#[test]
fn the_report_of_a_horizon_has_its_place_among_those_of_records() {
    let mut primary = primary(1);
    let b = name("b");
    primary.stamp(5, "put").unwrap();
    persist(&mut primary, "a");
    persist(&mut primary, "b");
    primary.settle(LeaseSays::Holds);
    let horizon = primary
        .take_idle(&b, Connection::OWN)
        .expect("5 is on all copies");
    assert_eq!(
        (horizon.kind, horizon.version, horizon.horizon),
        (Kind::Horizon, 5, 5)
    );
    assert_eq!(primary.take_idle(&b, Connection::OWN), None, "b was told");
    primary.stamp(7, "put").unwrap();
    primary.take_unsent(&b, Connection::OWN);
    let early = report(Connection::OWN, 7);
    assert!(
        primary.persisted(&b, early).is_err(),
        "the horizon comes first"
    );
    let horizon = Report::of(Connection::OWN, &horizon);
    assert_eq!(primary.persisted(&b, horizon), Ok(()));
    assert_eq!(primary.persisted(&b, early), Ok(()));
}

#[test]
fn an_absent_key_is_reported_when_everything_stamped_before_is_on_all_copies() {
    let mut primary = primary(1);
    primary.stamp(5, "delete").unwrap();
    primary.refuse(None, "absent");
    assert_eq!(primary.settle(LeaseSays::Holds), Some(vec![]));
    persist(&mut primary, "a");
    persist(&mut primary, "b");
    let both = vec![Settled::Written("delete"), Settled::Refused("absent")];
    assert_eq!(primary.settle(LeaseSays::Holds), Some(both));
}

#[test]
fn a_joiner_gets_unpublished_entries_once_it_has_dropped_its_copy() {
    let mut primary = primary(1);
    let c = name("c");
    primary.stamp(5, "published").unwrap();
    persist(&mut primary, "a");
    persist(&mut primary, "b");
    primary.settle(LeaseSays::Holds);
    let waits = primary.stamp(7, "waits").unwrap();
    assert_eq!(primary.fill(&c, 1).floor, point(1, 5));
    assert_eq!(primary.take_unsent(&c, Connection::OWN), []);
    primary.dropped(&c, 1);
    assert_eq!(primary.take_unsent(&c, Connection::OWN), [waits]);
}

#[test]
fn a_report_of_an_earlier_join_says_nothing() {
    let mut primary = primary(1);
    let c = name("c");
    primary.fill(&c, 1);
    primary.fill(&c, 2);
    primary.dropped(&c, 2);
    primary.pulled(&c, 1);
    assert!(
        !primary.admit(&c),
        "the state of the first join was dropped"
    );
    primary.pulled(&c, 2);
    assert!(primary.admit(&c));
}

#[test]
fn a_joiner_that_begins_again_is_served_by_a_later_connection_alone() {
    let mut primary = primary(1);
    let c = name("c");
    let (old, new) = (Connection(1), Connection(2));
    let put = primary.stamp(5, "put").unwrap();
    primary.fill(&c, 1);
    primary.dropped(&c, 1);
    assert_eq!(primary.take_unsent(&c, old), [put]);
    primary.removed(&c);
    primary.fill(&c, 2);
    primary.dropped(&c, 2);
    assert_eq!(primary.take_unsent(&c, old), []);
    // The report concerns the entry that the joiner has dropped.
    assert_eq!(primary.persisted(&c, Report::of(old, &put)), Ok(()));
    assert_eq!(primary.take_unsent(&c, new), [put]);
}

#[test]
fn a_primary_hands_over_when_nothing_waits_and_stamps_nothing_meanwhile() {
    let mut primary = primary(1);
    primary.stamp(5, "put").unwrap();
    primary.drain(true);
    assert_eq!(primary.stamp(6, "put"), Err(NotStamped::Draining));
    assert!(!primary.is_drained());
    persist(&mut primary, "a");
    persist(&mut primary, "b");
    primary.settle(LeaseSays::Holds);
    assert!(primary.is_drained());
    assert_eq!(primary.hand_over().end(), point(1, 5));
}

#[test]
pub fn an_heir_with_consent_awaits_nobody_and_consent_to_another_heir_says_nothing() {
    let mut heir = heir("b");
    heir.consented(Consent { to: Epoch(9) });
    assert_eq!(heir.next(), Step::Quiesce(names("b")));
    heir.consented(Consent { to: Epoch(1) });
    assert_eq!(heir.next(), Step::Read);
    heir.decide().unwrap();
    heir.kept();
    heir.confirmed(&name("b"), Epoch(1));
    assert_eq!(heir.next(), Step::Serve, "no lease is awaited");
}

#[test]
fn an_heir_does_not_wait_for_a_copy_that_was_removed() {
    let mut heir = heir("");
    heir.decide().unwrap();
    heir.kept();
    assert_eq!(heir.next(), Step::Settle(names("b")));
    heir.removed(&name("b"));
    heir.leases_over();
    let mut primary: Primary<&str> = heir.serve(1, |_| ());
    primary.stamp(5, "put").unwrap();
    persist(&mut primary, "a");
    assert_eq!(primary.settle(LeaseSays::Holds).unwrap().len(), 1);
}

#[test]
fn a_confirmation_of_another_term_says_nothing() {
    let mut heir = heir("");
    heir.confirmed(&name("b"), Epoch(1));
    heir.decide().unwrap();
    heir.kept();
    heir.confirmed(&name("b"), Epoch(2));
    assert_eq!(heir.next(), Step::Settle(names("b")));
}

#[test]
#[should_panic(expected = "nothing was decided")]
fn a_history_is_not_kept_before_it_is_decided() {
    heir("").kept();
}

#[test]
#[should_panic(expected = "something waits")]
fn a_primary_that_has_not_drained_hands_nothing_over() {
    let mut primary = primary(1);
    primary.stamp(5, "put").unwrap();
    primary.hand_over();
}

#[test]
fn a_primary_that_resigns_gives_back_its_calls_and_stays_a_copy() {
    let mut primary = primary(1);
    primary.stamp(5, "put").unwrap();
    primary.refuse(Some(5), "conflict");
    assert_eq!(primary.settle(LeaseSays::Over), None);
    let resigned = primary.resign();
    assert_eq!(resigned.unknown, ["put"]);
    assert_eq!(resigned.unanswered, ["conflict"]);
    assert_eq!(resigned.copy.end(), point(1, 5));
}

#[test]
pub fn an_heir_looks_at_its_memory_after_the_leases_where_a_peer_may_still_append() {
    let mut heir = heir("b");
    assert_eq!(heir.next(), Step::Quiesce(names("b")));
    heir.fenced(&name("b"), Fence::Unquiesced);
    assert_eq!(heir.next(), Step::AwaitLeases);
    heir.leases_over();
    assert_eq!(heir.next(), Step::Read);
}

#[test]
fn a_process_that_starts_again_needs_a_new_term() {
    let kept = Lineage {
        term: Epoch(1),
        ..Lineage::default()
    };
    let refused = takeover(kept, "b").expect_err("the copy was in this term");
    assert_eq!((refused.found, refused.known), (Epoch(1), Epoch(1)));
}

#[test]
fn an_heir_that_lost_entries_which_were_settled_does_not_lead() {
    let kept = Lineage {
        term: Epoch(2),
        cuts: BTreeMap::from([(Epoch(1), 5)]),
        ..Lineage::default()
    };
    let copy = ShardCopy::recover(1, kept, [record(1, 3, 0, 0)]).unwrap();
    let mut heir = Takeover::new(Epoch(3), &name("a"), copy, names("a"), []).unwrap();
    let refused = Incomplete {
        found: point(1, 3),
        needed: 5,
    };
    assert_eq!(heir.decide(), Err(refused));
}

#[test]
fn a_history_is_kept_after_its_entries_and_a_floor_after_its_history() {
    let open = Lineage {
        term: Epoch(1),
        ..Lineage::default()
    };
    let mut copy = ShardCopy::recover(1, open, []).unwrap();
    let heir = Lineage {
        term: Epoch(2),
        cuts: BTreeMap::from([(Epoch(1), 5)]),
        ..Lineage::default()
    };
    copy.adopt(&heir).unwrap();
    assert_eq!(copy.to_keep(), None, "5 is missing");
    copy.take(record(1, 5, 0, 0)).unwrap();
    assert_eq!(copy.to_keep(), Some(&heir));
    assert_eq!(copy.raised_floor(), None, "the history is not durable");
    copy.kept(Epoch(2));
    assert_eq!(copy.raised_floor(), Some(heir));
}

/// No client heard of a history that its heir has not settled.
#[test]
fn a_copy_that_never_got_the_entries_of_a_history_leads_without_them() {
    let mut copy = copy_with(&[record(1, 5, 0, 0)]);
    let heir = Lineage {
        term: Epoch(2),
        cuts: BTreeMap::from([(Epoch(1), 7)]),
        ..Lineage::default()
    };
    copy.adopt(&heir).unwrap();
    assert_eq!(copy.is_complete(), Ok(()));
    copy.take(record(1, 7, 5, 0)).unwrap();
    copy.kept(Epoch(2));
    assert_eq!(copy.needed(), 7);
}

/// A later heir voids what only its predecessor and this copy had.
#[test]
fn a_copy_leads_without_the_end_of_a_kept_history_that_a_later_heir_has_voided() {
    let mut copy = copy_with(&[record(1, 5, 0, 0), record(1, 7, 5, 0)]);
    let heir = |term: u64, last: u64| Lineage {
        term: Epoch(term),
        cuts: BTreeMap::from([(Epoch(1), last)]),
        ..Lineage::default()
    };
    copy.adopt(&heir(2, 7)).unwrap();
    copy.kept(Epoch(2));
    copy.adopt(&heir(3, 5)).unwrap();
    assert_eq!(copy.end(), point(1, 5));
    assert_eq!(copy.is_complete(), Ok(()));
}

#[test]
fn a_start_tells_the_end_of_the_kept_history_and_the_horizon_whichever_is_higher() {
    let kept = Lineage {
        term: Epoch(2),
        cuts: BTreeMap::from([(Epoch(1), 7)]),
        ..Lineage::default()
    };
    let found = [record(1, 5, 0, 3)];
    let mut copy = ShardCopy::recover(1, kept, found).unwrap();
    assert_eq!((copy.horizon(), copy.needed()), (3, 7));
    let lost = Incomplete {
        found: point(1, 5),
        needed: 7,
    };
    assert_eq!(copy.is_complete(), Err(lost));
    copy.take(record(2, 9, 7, 8)).unwrap();
    assert_eq!((copy.horizon(), copy.needed()), (8, 8));
}

#[test]
fn a_history_of_another_cluster_or_an_earlier_term_is_not_adopted() {
    let of = |nonce: u128, term: u64| Lineage {
        term: Epoch(term),
        ..Lineage::new(Nonce::from_u128(nonce))
    };
    let mut copy = ShardCopy::new(1, of(1, 2));
    let other = NotAdopted::OtherCluster {
        found: Nonce::from_u128(2),
        known: Nonce::from_u128(1),
    };
    assert_eq!(copy.adopt(&of(2, 3)), Err(other));
    let earlier = NotAdopted::EarlierTerm {
        found: Epoch(1),
        known: Epoch(2),
    };
    assert_eq!(copy.adopt(&of(1, 1)), Err(earlier));
    assert_eq!(copy.lineage(), &of(1, 2));
}

/// Clients may have heard of every entry that a copy knows to be on all copies.
#[test]
pub fn a_history_without_something_that_was_on_all_copies_is_not_adopted() {
    let mut copy = copy_with(&[record(1, 5, 0, 0), record(1, 6, 5, 5)]);
    let before = copy.lineage().clone();
    let heir = Lineage {
        term: Epoch(2),
        ..Lineage::default()
    };
    let refused = NotAdopted::HeirLostEntries {
        found: Point::default(),
        horizon: 5,
    };
    assert_eq!(copy.adopt(&heir), Err(refused));
    assert!(copy.digest().is_some());
    assert_eq!(copy.adopt(&heir), Err(refused));
    assert_eq!(copy.lineage(), &before);
}

/// The primary of the history has raised the horizon since.
#[test]
fn a_history_that_was_adopted_may_come_again() {
    let heir = Lineage {
        term: Epoch(2),
        ..Lineage::default()
    };
    let mut copy = copy_with(&[]);
    copy.adopt(&heir).unwrap();
    copy.take(record(2, 5, 0, 0)).unwrap();
    copy.take(record(2, 7, 5, 5)).unwrap();
    assert_eq!(copy.adopt(&heir), Ok(()));
    assert_eq!(copy.end(), point(2, 7));
}

/// Without the report the heir would wait forever.
#[test]
fn a_copy_that_lacks_entries_after_the_last_of_a_letter_says_so_and_its_heir_has_it_removed() {
    let mut copy = copy_with(&[record(1, 3, 0, 0)]);
    let history = Lineage {
        term: Epoch(2),
        cuts: BTreeMap::from([(Epoch(1), 7)]),
        ..Lineage::default()
    };
    copy.adopt(&history).unwrap();
    copy.take(record(1, 7, 5, 5)).unwrap();
    let lost = Incomplete {
        found: point(1, 3),
        needed: 7,
    };
    assert_eq!(copy.all_came(), Err(lost));
    let mut heir = heir("");
    heir.decide().unwrap();
    assert!(!heir.lacks(&name("b"), Epoch(1)), "no history was sent");
    heir.kept();
    assert!(!heir.lacks(&name("b"), Epoch(2)), "of another term");
    assert!(heir.lacks(&name("b"), Epoch(1)));
    heir.confirmed(&name("b"), Epoch(1));
    assert!(!heir.lacks(&name("b"), Epoch(1)), "it has everything");
}

/// The write of the floor was on its way when the letter of an heir came.
#[test]
fn a_floor_that_is_durable_after_a_later_term_was_entered_says_nothing() {
    let mut copy = copy_with(&[record(1, 5, 0, 0), record(1, 6, 5, 5)]);
    assert!(copy.digest().is_some());
    let raised = copy.raised_floor().expect("the history is kept");
    let heir = Lineage {
        term: Epoch(2),
        cuts: BTreeMap::from([(Epoch(1), 6)]),
        ..Lineage::default()
    };
    copy.adopt(&heir).unwrap();
    assert!(!copy.floor_kept(raised), "5 must not go");
    assert_eq!(copy.lineage(), &heir);
}

#[test]
fn a_primary_raises_its_floor_up_to_what_is_published_and_joiners_have() {
    let mut primary = primary(1);
    let floor = |primary: &Primary<_>| primary.raised_floor().expect("it is kept").floor;
    primary.stamp(5, "put").unwrap();
    persist(&mut primary, "a");
    persist(&mut primary, "b");
    assert_eq!(floor(&primary), Point::default());
    primary.settle(LeaseSays::Holds);
    assert_eq!(floor(&primary), point(1, 5));
    primary.fill(&name("c"), 1);
    primary.stamp(7, "put").unwrap();
    persist(&mut primary, "a");
    persist(&mut primary, "b");
    primary.settle(LeaseSays::Holds);
    let raised = primary.raised_floor().unwrap();
    assert_eq!(raised.floor, point(1, 5), "c lacks 7");
    assert!(primary.floor_kept(raised));
    primary.dropped(&name("c"), 1);
    persist(&mut primary, "c");
    primary.settle(LeaseSays::Holds);
    assert_eq!((floor(&primary), primary.last()), (point(1, 7), 7));
}

#[test]
fn a_primary_tells_nothing_before_its_first_grant_and_does_not_resign() {
    let mut primary = primary(1);
    primary.refuse(None, "absent");
    assert_eq!(primary.settle(LeaseSays::NotYet), Some(vec![]));
    let told = vec![Settled::Refused("absent")];
    assert_eq!(primary.settle(LeaseSays::Holds), Some(told));
}

/// The peer was being quiesced when the consent came.
#[test]
fn a_fence_that_is_reported_after_a_consent_says_nothing() {
    let mut heir = heir("b");
    heir.consented(Consent { to: Epoch(1) });
    heir.decide().unwrap();
    heir.fenced(&name("b"), Fence::Quiesced);
    heir.kept();
    heir.fenced(&name("b"), Fence::Unquiesced);
    assert_eq!(heir.next(), Step::Settle(names("b")));
}

#[test]
#[should_panic(expected = "a fence after the look")]
fn a_fence_without_consent_comes_before_the_look() {
    let mut heir = heir("b");
    heir.fenced(&name("b"), Fence::Quiesced);
    heir.decide().unwrap();
    heir.fenced(&name("b"), Fence::Quiesced);
}

/// Needs a look-up of the entry behind the end: a search among all entries behind the gap takes minutes.
#[test]
fn a_copy_whose_entries_are_found_from_the_last_to_the_first_takes_each_once() {
    const ENTRIES: u64 = 400_000;
    let open = Lineage {
        term: Epoch(1),
        ..Lineage::default()
    };
    let found = (1..=ENTRIES).rev();
    let found = found.map(|version| record(1, version, version - 1, 0));
    let copy = ShardCopy::recover(1, open, found).unwrap();
    assert_eq!(copy.end(), point(1, ENTRIES));
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

/// The copy's entries of a term count up to the cut of the heir, and the heir's entries follow there.
#[test]
fn an_heir_voids_entries_that_it_lacks_and_may_give_the_same_versions() {
    let open = Lineage {
        term: Epoch(1),
        ..Lineage::default()
    };
    let found = [record(1, 7, 5, 0), record(1, 5, 0, 0), record(1, 8, 7, 5)];
    let mut copy = ShardCopy::recover(1, open, found).unwrap();
    assert_eq!(copy.end(), point(1, 8));
    let heir = Lineage {
        term: Epoch(2),
        cuts: BTreeMap::from([(Epoch(1), 5)]),
        ..Lineage::default()
    };
    copy.adopt(&heir).unwrap();
    assert_eq!(copy.to_keep(), Some(&heir));
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
        cuts: BTreeMap::from([(Epoch(1), 5)]),
        ..Lineage::default()
    };
    let found = [record(1, 5, 0, 0), record(2, 6, 5, 5), record(2, 9, 6, 6)];
    let mut copy = ShardCopy::recover(1, open, found).unwrap();
    let heir = Lineage {
        term: Epoch(3),
        floor: point(2, 6),
        ..Lineage::default()
    };
    copy.adopt(&heir).unwrap();
    assert_eq!(copy.end(), point(2, 6));
    assert_eq!(copy.lineage().judge(point(1, 5)), Judgement::Counts);
    assert_eq!(copy.lineage().judge(point(2, 9)), Judgement::Void);
}
