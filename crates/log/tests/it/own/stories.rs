//! The shards that a node led, as the node finds them after one crash.

use stonecast_base::Span;
use stonecast_lineage::{Epoch, Lineage, Point};
use stonecast_log::Link;
use stonecast_media::Region as _;

use super::node::{Look, Node};

/// The versions of a shard, each with the version before it.
fn chain(look: &Look, shard: u32) -> Vec<(u64, u64)> {
    let chain = look.history.chains.get(&shard);
    let pair = |link: &Link| (link.version, link.previous);
    chain.map_or_else(Vec::new, |chain| chain.iter().map(pair).collect())
}

fn at(term: u64, version: u64) -> Point {
    let term = Epoch(term);
    Point { term, version }
}

/// The history of a shard in `term`, with these cuts and nothing below its floor.
fn lineage(term: u64, cuts: &[(u64, u64)]) -> Lineage {
    let cuts = cuts.iter().map(|&(term, version)| (Epoch(term), version));
    Lineage {
        term: Epoch(term),
        cuts: cuts.collect(),
        ..Lineage::default()
    }
}

/// Erases the record at `position`, as a power cut does when none of its bytes were written.
fn erase(node: &Node, position: u64) {
    node.memory.write(position, &[0; 128]);
    node.memory.persist(&[Span::new(position, 128)]);
}

/// A node that leads shards 1 and 2 in terms 70,000 and 5.
fn leader() -> Node {
    let mut node = Node::new();
    node.lead(1, 70_000, 0);
    node.lead(2, 5, 0);
    node
}

#[test]
fn each_shard_has_its_own_chain_in_one_log_with_one_counter() {
    let mut node = leader();
    for (number, shard) in [(1, 1), (2, 2), (1, 1), (1, 2), (2, 1)] {
        node.stamp(number, shard);
    }
    let look = node.look().unwrap();
    assert_eq!(chain(&look, 1), [(1, 0), (3, 1), (5, 3)]);
    assert_eq!(chain(&look, 2), [(2, 0), (4, 2)]);
    let terms = [1, 2].map(|shard| look.history.chains[&shard][0].term.0);
    assert_eq!(terms, [70_000, 5]);
}

/// Needs the counter of the whole log: the missing record was the first of its shard here, so no other record names it.
#[test]
fn the_history_of_all_shards_ends_where_one_misses_a_record_and_later_records_never_come_back() {
    let mut node = leader();
    node.stamp(1, 1);
    node.persist();
    let (missing, position) = node.stamp(2, 2);
    node.stamp(1, 1);
    erase(&node, position);
    let look = node.look().unwrap();
    assert_eq!(
        (look.history.missing, look.history.behind_missing),
        (Some(missing), 1)
    );
    assert_eq!((chain(&look, 1), chain(&look, 2)), (vec![(1, 0)], vec![]));
    let mut node = node.recover(look);
    node.lead(1, 70_001, 1);
    assert_eq!(
        node.stamp(1, 1).0,
        4,
        "no version is given again that a record has"
    );
    node.persist();
    let look = node.look().unwrap();
    assert_eq!(
        (look.history.missing, chain(&look, 1)),
        (None, vec![(1, 0), (4, 1)])
    );
    node.raise(1, at(70_001, 4));
    node.keep_ledger();
    let look = node.look().unwrap();
    assert_eq!(
        look.counts.len(),
        2,
        "the record behind the missing one is still there"
    );
}

/// Needs the skip up to the version that a term names: the lost versions would be missing before records that are
/// acknowledged later.
#[test]
fn versions_that_were_lost_at_the_end_are_not_missing_later() {
    let mut node = leader();
    let (_, position) = node.stamp(1, 1);
    node.lead(3, 9, 0);
    erase(&node, position);
    let look = node.look().unwrap();
    assert_eq!((look.history.missing, look.history.given), (None, 1));
    let mut node = node.recover(look);
    node.lead(1, 70_001, 0);
    node.stamp(2, 1);
    node.persist();
    assert_eq!(chain(&node.look().unwrap(), 1), [(2, 0)]);
}

#[test]
fn a_term_begins_behind_what_other_nodes_stamped_before_it() {
    let mut node = leader();
    node.stamp(1, 1);
    node.persist();
    node.adopt(1, lineage(70_001, &[(70_000, 1)]));
    node.digest(2, 1, 30);
    node.persist();
    node.raise(1, at(70_001, 30));
    node.lead(1, 70_002, 30);
    assert_eq!(node.stamp(1, 1).0, 31);
    node.persist();
    let look = node.look().unwrap();
    assert_eq!(
        (look.history.missing, chain(&look, 1)),
        (None, vec![(31, 30)])
    );
}

/// Needs the history of the last heir in place of the one before: the heir of term 70,001 never served, and the heir of
/// term 70,002 has fewer records.
#[test]
fn a_record_is_stamped_behind_the_last_cut_even_where_an_earlier_one_was_higher() {
    let mut node = leader();
    for _ in 0..4 {
        node.stamp(1, 1);
    }
    node.persist();
    node.adopt(1, lineage(70_001, &[(70_000, 3)]));
    node.adopt(1, lineage(70_002, &[(70_000, 2)]));
    node.lead_in(1, lineage(70_005, &[(70_000, 2)]), 2);
    node.stamp(1, 1);
    assert_eq!(chain(&node.look().unwrap(), 1), [(1, 0), (2, 1), (5, 2)]);
}

/// The heir that has the records sends their entries: in this log the records stay void.
#[test]
fn a_record_that_one_heir_cut_off_and_the_next_one_has_is_void_here_and_named_as_the_one_before() {
    let mut node = leader();
    for _ in 0..4 {
        node.stamp(1, 1);
    }
    node.persist();
    node.adopt(1, lineage(70_001, &[(70_000, 2)]));
    node.adopt(1, lineage(70_002, &[(70_000, 4)]));
    node.lead_in(1, lineage(70_005, &[(70_000, 4)]), 4);
    node.stamp(1, 1);
    let look = node.look().unwrap();
    assert_eq!(chain(&look, 1), [(1, 0), (2, 1), (5, 4)]);
    assert_eq!(look.void.len(), 2);
}

/// Needs the row of the drop: a digested record is written like a moved one, and a moved record counts at any place.
#[test]
fn records_of_a_shard_from_before_its_drop_never_count_again() {
    let mut node = leader();
    node.stamp(1, 1);
    node.stamp(1, 2);
    node.persist();
    node.digest(2, 1, 30);
    node.persist();
    node.drop_shard(1, lineage(70_003, &[]).dropped());
    let digested = node.digest(2, 1, 40);
    node.persist();
    let look = node.look().unwrap();
    assert_eq!(look.counts.into_iter().collect::<Vec<_>>(), [digested]);
    assert_eq!(chain(&node.look().unwrap(), 2), [(2, 0)]);
    let look = node.look().unwrap();
    let node = node.recover(look);
    let look = node.look().unwrap();
    assert_eq!(look.void.len(), 2, "the row stays with its records");
}

#[test]
fn a_record_of_a_shard_that_the_node_never_led_is_damage() {
    let mut node = leader();
    node.stamp(1, 3);
    let damage = node.look().map(drop).unwrap_err().to_string();
    assert!(damage.contains("version 1 of shard 3"), "{damage}");
}

#[test]
fn two_records_of_one_version_are_damage() {
    let mut node = leader();
    node.stamp(1, 1);
    node.next = 1;
    node.unsettled = Default::default();
    node.stamp(2, 1);
    let damage = node.look().map(drop).unwrap_err().to_string();
    assert!(damage.contains("version 1 for the second time"), "{damage}");
}

/// Needs the proofs: by the missing version alone the damage looks like a crash, which hides all later records.
#[test]
fn a_damaged_record_is_refused_by_its_version_when_a_later_record_was_durable() {
    let mut node = leader();
    let (_, damaged) = node.stamp(1, 1);
    node.persist();
    node.stamp(2, 2);
    node.persist();
    erase(&node, damaged);
    let end = |node: &Node| node.look().map(|look| look.history.missing);
    assert_eq!(end(&node), Ok(Some(1)), "nothing says that 2 was durable");
    node.stamp(2, 2);
    let error = end(&node).unwrap_err();
    assert!(
        error.found.contains("version 1")
            && error
                .expected
                .contains("version 2 was durable, as the stamp of version 3 says"),
        "{error}"
    );
}

#[test]
fn a_damaged_record_is_refused_when_a_segment_was_freed_behind_it() {
    let mut node = leader();
    node.stamp(3, 1);
    node.persist();
    node.raise(1, at(70_000, 1));
    node.keep_ledger();
    let (_, damaged) = node.stamp(1, 1);
    node.stamp(2, 2);
    node.persist();
    node.free(3);
    erase(&node, damaged);
    let error = node.look().map(|look| look.history.missing).unwrap_err();
    assert!(
        error.found.contains("version 2")
            && error
                .expected
                .contains("up to version 3 was durable when segment 3"),
        "{error}"
    );
}

/// Needs the bound by the last record that is stamped and not settled: the counter has given a version to another shard
/// since, and a range would have it.
#[test]
fn a_shard_that_another_node_leads_on_with_all_of_its_records_leaves_no_range() {
    let mut node = leader();
    node.stamp(1, 1);
    node.stamp(1, 2);
    node.persist();
    node.adopt(1, lineage(70_001, &[(70_000, 1)]));
    assert_eq!(node.ledger.versions().ranges(), 0);
}

/// Needs the versions of each segment: without them a range goes only at a start.
#[test]
fn a_range_goes_while_the_node_runs_when_the_segment_with_its_records_is_free() {
    let mut node = leader();
    for (number, shard) in [(1, 1), (1, 1), (2, 2)] {
        node.stamp(number, shard);
    }
    node.persist();
    node.adopt(1, lineage(70_001, &[(70_000, 1)]));
    node.raise(1, at(70_000, 1));
    node.raise(2, at(5, 3));
    node.keep_ledger();
    let versions = node.ledger.versions();
    assert_eq!(
        (versions.settled(), versions.ranges()),
        (3, 1),
        "its record lies there"
    );
    node.free(1);
    node.keep_ledger();
    assert_eq!(node.ledger.versions().ranges(), 0);
    let look = node.look().unwrap();
    assert!(look.void.is_empty() && look.history.missing.is_none());
}
