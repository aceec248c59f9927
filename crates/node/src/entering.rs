//! Configurations, which give each shard its role.

use std::collections::BTreeSet;
use std::rc::Rc;

use stonecast_backup::Intake;
use stonecast_base::mutant;
use stonecast_cluster::{Configuration, Epoch, Group, NodeName, Term};
use stonecast_replication::{Lineage, Point, ShardCopy, Takeover};

use crate::node::Shared;
use crate::placed::Placed;
use crate::shard::{Joins, Role, Shard, TakesOver};
use crate::state::{State, number_of};
use crate::store::Store;

/// Changes over to `configuration`, whose epoch is durable.
pub fn enter<S: Store>(
    state: &mut State<S::Call>,
    shared: &Shared<S>,
    intake: &mut Intake,
    configuration: Rc<Configuration>,
) {
    let before = state.others();
    state.configuration = configuration.clone();
    state.placed = Placed::new(&configuration, &state.me);
    shared.post.enter(&configuration);
    let others = state.others();
    if !mutant!(DismissedNotFenced) {
        // A node that the configuration does not name leads nothing, and may not know that.
        before
            .difference(&others)
            .for_each(|peer| intake.fence(peer));
    }
    for peer in &others {
        if !state.fences.keep_out(peer) {
            intake.allow(peer.clone());
        }
    }
    state.peers.retain(|peer, _| others.contains(peer));
    // A dismissed node is among the nodes that no shard waits for any more.
    let known = &before | &others;
    for group in &configuration.groups {
        let Some(number) = number_of(&configuration, &group.subject) else {
            continue;
        };
        let begun = || Shard::new(number, group.subject.clone());
        let shard = state.shards.entry(number).or_insert_with(begun);
        shard.consents.enter(&group.primary, group.term);
        match group.joining.get(&state.me) {
            _ if group.in_sync.contains(&state.me) => {
                enter_as_copy(state, shared, intake, (number, group), &known);
            }
            Some(join) => enter_as_joiner(state, shared, intake, number, join.0),
            None => leave(state, shared, intake, number),
        }
    }
}

fn enter_as_copy<S: Store>(
    state: &mut State<S::Call>,
    shared: &Shared<S>,
    intake: &Intake,
    (number, group): (u32, &Group),
    known: &BTreeSet<NodeName>,
) {
    let nonce = state.configuration.nonce;
    let shard = state.shards.get_mut(&number).expect("it was entered");
    shard.joined();
    if matches!(shard.role, Role::Absent) {
        shard.copies(ShardCopy::new(number, Lineage::new(nonce)));
    }
    let leads_so = group.primary == state.me;
    let is_over = |term: Term| term != group.term || !leads_so;
    if shard.term().is_some_and(is_over)
        && let Some(ended) = shard.step_down()
    {
        shared.store.resigned(number, ended);
    }
    let gone = known.iter().filter(|&peer| !group.in_sync.contains(peer));
    match &mut shard.role {
        Role::Leads(leads) => {
            let joins = |peer: &NodeName| {
                let known = leads.joins.get(peer).map(|join| Epoch(join.number));
                known.is_some() && known.as_ref() == group.joining.get(peer)
            };
            let gone: Vec<_> = gone.filter(|&peer| !joins(peer)).collect();
            for peer in gone {
                leads.primary.removed(peer);
                leads.joins.remove(peer);
            }
            let named = group.in_sync.iter().filter(|&name| *name != state.me);
            named.for_each(|peer| leads.primary.named(peer));
        }
        Role::TakesOver(heir) => gone.for_each(|peer| heir.takeover.removed(peer)),
        Role::Copies(copies) => {
            let is_of_term = |term: Term| term == group.term;
            copies.following = copies
                .following
                .take()
                .filter(|following| is_of_term(following.history.term));
            if leads_so {
                stand(state, intake, number, group);
            }
        }
        // No primary names a joiner that has nothing. This joiner never leads.
        Role::Joins(_) => {}
        Role::Absent => unreachable!("it is a copy"),
    }
}

/// Begins to take over, in a term that is new to the copy.
fn stand<C>(state: &mut State<C>, intake: &Intake, number: u32, group: &Group) {
    let mut lost = state.others();
    if !mutant!(DismissedNotFenced) {
        // Among them is a primary that was dismissed: the entries that it appended before its
        // fence may be answered.
        lost.extend(intake.peers().cloned());
    }
    let shard = state.shards.get_mut(&number).expect("it was entered");
    let Role::Copies(copies) = &shard.role else {
        return;
    };
    let copy = copies.copy.clone();
    let in_sync = group.in_sync.clone();
    let begun = Takeover::new(group.term, &state.me, copy, in_sync, lost);
    // A node that has been in the term waits for another term: the configuration names an heir, or the start takes a
    // new term.
    if let Ok(takeover) = begun {
        shard.role = Role::TakesOver(Box::new(TakesOver {
            takeover,
            sent: Default::default(),
        }));
    }
}

fn enter_as_joiner<S: Store>(
    state: &mut State<S::Call>,
    shared: &Shared<S>,
    intake: &mut Intake,
    number: u32,
    join: u64,
) {
    let shard = &state.shards[&number];
    let is_begun = matches!(&shard.role, Role::Joins(joins) if joins.join == join);
    if !is_begun {
        leave(state, shared, intake, number);
        let shard = state.shards.get_mut(&number).expect("it was entered");
        let filling = None;
        shard.role = Role::Joins(Box::new(Joins { join, filling }));
    }
}

/// Ends the copy of a shard that the node no longer keeps.
fn leave<S: Store>(
    state: &mut State<S::Call>,
    shared: &Shared<S>,
    intake: &mut Intake,
    number: u32,
) {
    let shard = state.shards.get_mut(&number).expect("it was entered");
    if matches!(shard.role, Role::Absent) {
        return;
    }
    if let Some(ended) = shard.step_down() {
        shared.store.resigned(number, ended);
    }
    shard.close_streams(intake);
    shard.bodies.clear();
    shard.floor = Point::default();
    shard.role = Role::Absent;
    if intake.is_starved() {
        shared.memory.is_short.set(true);
    }
    if !mutant!(OldCopyKept) {
        shared.store.dropped(number);
    }
}
