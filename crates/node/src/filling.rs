//! Primaries that fill joiners, and nodes that ask to be filled.

use std::rc::Rc;

use stonecast_backup::StreamName;
use stonecast_base::Nanoseconds;
use stonecast_cluster::{Configuration, Epoch, NodeName, Subject, Term};

use crate::join::Join;
use crate::letter::Says;
use crate::node::{Filling, Shared};
use crate::shard::{Role, Shard};
use crate::state::State;
use crate::store::Store;

/// Joiners of a primary that are filled at the same time. The others wait: each of them takes room for entries that are
/// not digested.
const FILLED_MAX: usize = 4;

/// Has the configuration place the shards, once there are enough nodes.
async fn place_shards<S: Store>(shared: Rc<Shared<S>>) {
    let decide = |present: &Configuration| match present.is_to_place_shards() {
        true => present.place_shards().map(Some),
        false => Ok(None),
    };
    let placed = shared.member.change(decide).await;
    shared.end_change(placed.is_ok()).await;
}

/// Asks the configuration to fill this node with the copies that shards lack.
async fn take_missing<S: Store>(shared: Rc<Shared<S>>) {
    let me = shared.member.name();
    let taken = shared
        .member
        .change(|present| present.take_missing(me))
        .await;
    // Others take their share in the pause.
    let is_done = taken.is_ok_and(|taken| !taken.lacks_copy_of(me));
    shared.end_change(is_done).await;
}

/// Has the configuration name `joiner`, which has everything.
async fn finish_join<S: Store>(
    shared: Rc<Shared<S>>,
    (subject, term): (Subject, Term),
    (joiner, join): (NodeName, u64),
) {
    let join = (&joiner, Epoch(join));
    let named = shared.member.finish_join(&subject, join, term).await;
    // A later attempt names a joiner that has not granted the lease yet.
    shared
        .end_change(named.is_ok_and(|is_named| is_named))
        .await;
}

impl<S: Store> Shared<S> {
    /// Notes that a change of the configuration has ended. A change that was not done is decided
    /// again after a pause.
    pub async fn end_change(&self, is_done: bool) {
        if !is_done {
            self.runtime.sleep(self.options.repeat_ns).await;
        }
        self.state.borrow_mut().is_changing = false;
        self.bells.turn.ring();
    }
}

/// Takes the steps of all joins that this node has a part in as a primary, asks to be filled where copies are lacking,
/// and places shards that are not placed yet.
pub fn step_fillings<S: Store>(state: &mut State<S::Call>, shared: &Rc<Shared<S>>) {
    for number in state.numbers() {
        let group = state.group(number);
        let joining = group.filter(|group| !group.joining.is_empty());
        let joining = joining.map(|group| group.joining.clone());
        for (joiner, join) in joining.into_iter().flatten() {
            fill(state, shared, number, (&joiner, join.0));
        }
    }
    if state.configuration.is_to_place_shards() && !state.is_changing {
        state.is_changing = true;
        let placing = place_shards(shared.clone());
        shared.runtime.spawn(Box::pin(placing));
    }
    // A copy that can take no entry would be awaited, and dropped, again and again.
    let may_ask = state.placed.lacks_copy() && !shared.memory.is_short.get();
    if may_ask && !state.is_changing {
        state.is_changing = true;
        let taking = take_missing(shared.clone());
        shared.runtime.spawn(Box::pin(taking));
    }
}

fn fill<S: Store>(
    state: &mut State<S::Call>,
    shared: &Rc<Shared<S>>,
    number: u32,
    (joiner, join): (&NodeName, u64),
) {
    let filled: usize = state.shards.values().map(filled).sum();
    let shard = state.shards.get_mut(&number).expect("it was listed");
    let Role::Leads(leads) = &mut shard.role else {
        return;
    };
    let (term, way) = (leads.primary.term(), state.peers.entry(joiner.clone()));
    let way = way.or_default();
    let is_begun = |known: &Join| known.number == join;
    if !leads.joins.get(joiner).is_some_and(is_begun) {
        if filled >= FILLED_MAX {
            return;
        }
        if way.has_followed(number, term) {
            // Reports of this connection may be of entries that the joiner drops.
            way.end("a joiner takes entries by a new connection".to_owned());
        }
        // An awaited joiner that was not named begins again.
        leads.primary.removed(joiner);
        let begun = leads.primary.fill(joiner, join);
        let begun = Join::new(join, begun, shared.runtime.now());
        leads.joins.insert(joiner.clone(), begun);
    }
    let stream = StreamName {
        shard: number,
        term,
        join,
    };
    if way.follows(stream).is_some() {
        leads.primary.dropped(joiner, join);
    }
    if leads.primary.admit(joiner) && !state.is_changing {
        state.is_changing = true;
        let led = (shard.subject.clone(), term);
        let naming = finish_join(shared.clone(), led, (joiner.clone(), join));
        shared.runtime.spawn(Box::pin(naming));
    }
}

/// Takes a joiner's ask for a page of published records, from `offset` on.
pub fn hear_ask<S: Store>(
    state: &mut State<S::Call>,
    shared: &Shared<S>,
    from: &NodeName,
    about: (u32, Term),
    (join, page, offset): (u64, u64, u64),
) {
    let now = shared.runtime.now();
    let Some(join) = join_of(state, about, (from, join), now) else {
        return;
    };
    for piece in join.pieces(&*shared.store, about.0, (page, offset)) {
        shared.say(state, from, about, Says::Piece(piece));
    }
}

/// Notes that a joiner has everything that was published, durably.
pub fn hear_pulled<C>(
    state: &mut State<C>,
    from: &NodeName,
    (number, term): (u32, Term),
    join: u64,
    now: Nanoseconds,
) {
    let Some(filled) = join_of(state, (number, term), (from, join), now) else {
        return;
    };
    filled.is_pulled = true;
    let shard = state.shards.get_mut(&number).expect("it is led");
    let leads = shard.leads().expect("a primary fills");
    leads.primary.pulled(from, join);
}

/// The join of this number in which this node fills `joiner`, as the primary of the term. The joiner is heard at `now`.
fn join_of<'s, C>(
    state: &'s mut State<C>,
    (number, term): (u32, Term),
    (joiner, join): (&NodeName, u64),
    now: Nanoseconds,
) -> Option<&'s mut Join> {
    let leads = state.shards.get_mut(&number)?.leads()?;
    let is_of_term = leads.primary.term() == term;
    let known = leads.joins.get_mut(joiner).filter(|_| is_of_term)?;
    known.heard_at = now;
    (known.number == join).then_some(known)
}

/// The joins of the term in which this node leads.
pub fn joins_led<C>(shard: &Shard<C>) -> Vec<Filling> {
    let Role::Leads(leads) = &shard.role else {
        return Vec::new();
    };
    let filling = |(joiner, join): (&NodeName, &Join)| {
        let (copied, left) = join.progress();
        Filling {
            shard: shard.number,
            joiner: joiner.clone(),
            copied,
            left,
        }
    };
    leads.joins.iter().map(filling).collect()
}

/// Joiners that this primary fills at this moment.
fn filled<C>(shard: &Shard<C>) -> usize {
    match &shard.role {
        Role::Leads(leads) => leads.joins.values().filter(|join| !join.is_pulled).count(),
        _ => 0,
    }
}
