//! Nodes that leave shards: they hand the lead over, and leave when other copies are complete.
//!
//! ```text
//!   leads, is to leave ──▶ no reader has a lease ──▶ drains ──▶ compare-and-set: another copy leads ──▶ ends ──▶ tells its consent to all copies
//!   copies, is to leave ──▶ compare-and-set: without this node
//! ```
//!
//! Between the drain and the first grant of the heir, no node takes a write. A node hands one shard over at a time: the
//! other shards take writes in the meantime. A drain or a compare-and-set that takes too long ends, and the primary
//! continues for longer than it has drained: when the compare-and-set succeeds later, the heir takes over in the
//! ordinary way.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::{Configuration, Epoch, Group, NodeName, Refusal, Subject, Term};

use crate::leading::settle;
use crate::letter::Says;
use crate::node::Shared;
use crate::shard::{Leads, Role};
use crate::state::{State, number_of};
use crate::store::{Ended, Store};
use crate::turn::Extent;

/// Repeats of a letter for which a primary drains, or waits for a compare-and-set, at most.
const PATIENCE: u64 = 8;
/// The length of the rest after a handover that was given up, in lengths of a drain.
const REST: u64 = 7;

/// A primary that hands its shard over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// No reader gets a lease. The primary takes writes until the last lease is over.
    EndsReads,
    /// The primary takes no write. The drain is given up at this time.
    Drains(Nanoseconds),
    /// A task has the configuration name the heir.
    Asks,
}

/// Has the configuration take this node out of a group that no longer needs it.
async fn leave<S: Store>(shared: Rc<Shared<S>>, subject: Subject) {
    let me = shared.member.name();
    let decide = |present: &Configuration| {
        let mut relieved = present.relieved(me);
        let may_go = relieved.any(|group| group.subject == subject && group.primary != *me);
        match may_go {
            true => present.leave(&subject, me).map(Some),
            false => Ok(None),
        }
    };
    let left = shared.member.change(decide).await;
    shared.end_change(left.is_ok()).await;
}

/// Has the configuration name `heir`, and tells all copies the consent of this node.
async fn hand_over<S: Store>(
    shared: Rc<Shared<S>>,
    number: u32,
    (subject, term): (Subject, Term),
    heir: NodeName,
) {
    let me = shared.member.name();
    let decided: Cell<Option<Epoch>> = Cell::new(None);
    let decide = |present: &Configuration| {
        let group = present.group(&subject);
        let leads_so = group.is_some_and(|group| group.primary == *me && group.term == term);
        let next = match leads_so {
            true => Some(present.take_lead(&subject, &heir)?),
            false => None,
        };
        decided.set(next.as_ref().map(|next| next.epoch));
        Ok::<_, Refusal>(next)
    };
    let patience_ns = PATIENCE * shared.options.repeat_ns;
    let changing = shared.member.change(decide);
    let came = shared.runtime.within(patience_ns, changing).await;
    // This node alone made the change: no other primary came between this node and the heir.
    let is_ours = |came: &Configuration| Some(came.epoch) == decided.get();
    let came = came.ok().and_then(Result::ok).filter(is_ours);
    let is_done = match came {
        Some(came) => consent(&shared, number, term, came.epoch),
        None => false,
    };
    let until = shared.runtime.now() + REST * patience_ns;
    go_on(&mut shared.state.borrow_mut(), (number, term), until);
    shared.end_change(is_done).await;
}

/// Takes the steps of all groups that this node is to leave.
pub fn step_leaving<S: Store>(state: &mut State<S::Call>, shared: &Rc<Shared<S>>) {
    let (configuration, me) = (state.configuration.clone(), state.me.clone());
    end_drains(state, shared);
    for group in configuration.relieved(&me) {
        let Some(number) = number_of(&configuration, &group.subject) else {
            continue;
        };
        match group.primary == me {
            true => step_handover(state, shared, number, group),
            false if !state.is_changing => {
                state.is_changing = true;
                let leaving = leave(shared.clone(), group.subject.clone());
                shared.runtime.spawn(Box::pin(leaving));
            }
            false => {}
        }
    }
}

/// Ends the drains that take too long, and the handovers of shards that this node no longer has to
/// leave.
fn end_drains<S: Store>(state: &mut State<S::Call>, shared: &Shared<S>) {
    let now = shared.runtime.now();
    for number in state.numbers() {
        let shard = state.shards.get_mut(&number).expect("it was listed");
        let handover = shard.leads().and_then(|leads| leads.handover);
        let is_over = match handover {
            Some(Handover::Drains(until)) => now >= until || !leaves(state, number),
            Some(Handover::EndsReads) => !leaves(state, number),
            Some(Handover::Asks) | None => false,
        };
        let shard = state.shards.get_mut(&number).expect("it was listed");
        if let Some(leads) = shard.leads().filter(|_| is_over) {
            leads.go_on(now + REST * PATIENCE * shared.options.repeat_ns);
        }
    }
}

/// Whether this node is to leave a shard, and others are complete.
fn leaves<C>(state: &State<C>, number: u32) -> bool {
    let mut relieved = state.configuration.relieved(&state.me);
    relieved.any(|group| number_of(&state.configuration, &group.subject) == Some(number))
}

fn step_handover<S: Store>(
    state: &mut State<S::Call>,
    shared: &Rc<Shared<S>>,
    number: u32,
    group: &Group,
) {
    let now = shared.runtime.now();
    let heir = heir_of(state, number, group);
    let others = state.shards.iter().filter(|(other, _)| **other != number);
    let mut others = others.map(|(_, shard)| &shard.role);
    let hands_over =
        |role: &Role<S::Call>| matches!(role, Role::Leads(leads) if leads.handover.is_some());
    let is_busy = state.is_changing || others.any(hands_over);
    let shard = state.shards.get_mut(&number);
    let Some(Role::Leads(leads)) = shard.map(|shard| &mut shard.role) else {
        return;
    };
    let Some(heir) = heir else {
        if matches!(
            leads.handover,
            Some(Handover::EndsReads | Handover::Drains(_))
        ) {
            leads.go_on(now + REST * PATIENCE * shared.options.repeat_ns);
        }
        return;
    };
    if leads.handover.is_none() && !is_busy && now >= leads.goes_on_until {
        leads.handover = Some(Handover::EndsReads);
    }
    let has_readers = now < leads.read_until && !mutant!(ReadersNotAwaited);
    if leads.handover == Some(Handover::EndsReads) && !has_readers {
        leads.primary.drain(true);
        let until = now + PATIENCE * shared.options.repeat_ns;
        leads.handover = Some(Handover::Drains(until));
    }
    let drains = matches!(leads.handover, Some(Handover::Drains(_)));
    if drains && leads.primary.is_drained() && !state.is_changing {
        leads.handover = Some(Handover::Asks);
        state.is_changing = true;
        let led = (group.subject.clone(), group.term);
        let handing = hand_over(shared.clone(), number, led, heir);
        shared.runtime.spawn(Box::pin(handing));
    }
}

/// The copy that stays and leads the fewest groups. `None` if one of the copies cannot be reached: an heir waits for
/// all of them, so this node goes on.
fn heir_of<C>(state: &State<C>, number: u32, group: &Group) -> Option<NodeName> {
    let groups = &state.configuration.groups;
    let leads = |name: &NodeName| groups.iter().filter(|one| one.primary == *name).count();
    let mut copies = group.in_sync.iter().filter(|&name| *name != state.me);
    let shard = state.shards.get(&number)?;
    let follows = |name: &NodeName| {
        let peer = state.peers.get(name);
        peer.is_some_and(|peer| peer.follows(shard.stream_to(name, group.term)).is_some())
    };
    if !copies.all(follows) {
        return None;
    }
    let staying = group.in_sync.difference(&group.leaving);
    let staying = staying.filter(|&name| *name != state.me);
    staying.min_by_key(|&name| leads(name)).cloned()
}

/// Ends a handover without an heir, if the node still leads the shard in `term`.
fn go_on<C>(state: &mut State<C>, (number, term): (u32, Term), until: Nanoseconds) {
    let shard = state.shards.get_mut(&number);
    if let Some(Role::Leads(leads)) = shard.map(|shard| &mut shard.role)
        && leads.primary.term() == term
    {
        leads.go_on(until);
    }
}

/// Ends a primary that has drained, and tells all copies that its heir may lead from `to` on.
/// Returns false if something waits, or if the node no longer leads.
fn consent<S: Store>(shared: &Shared<S>, number: u32, term: Term, to: Term) -> bool {
    let state = &mut *shared.state.borrow_mut();
    // Answers that wait for nothing else go out before the end.
    settle(state, shared, Extent::Whole);
    let Some(group) = state.group(number) else {
        return false;
    };
    let copies: Vec<_> = group.in_sync.iter().cloned().collect();
    let shard = state.shards.get_mut(&number).expect("its group is known");
    let role = std::mem::replace(&mut shard.role, Role::Absent);
    let copy = match role {
        Role::Leads(leads) if leads.primary.term() == term && leads.primary.is_drained() => {
            leads.primary.hand_over()
        }
        other => {
            shard.role = other;
            return false;
        }
    };
    let last = copy.end();
    shard.copies(copy);
    shard.consents.hear(&state.me, (to, last));
    shared.store.resigned(number, Ended::nothing());
    for copy in copies.iter().filter(|&copy| *copy != state.me) {
        shared.say(state, copy, (number, to), Says::Consent { last });
    }
    true
}

/// Releases the grants of this node to predecessors that have consented.
pub fn step_consents<S: Store>(state: &mut State<S::Call>, shared: &Shared<S>) {
    for number in state.numbers() {
        let Some(group) = state.group(number) else {
            continue;
        };
        let heir = group.primary.clone();
        let shard = state.shards.get_mut(&number).expect("it was listed");
        if let Some(term) = shard.consents.release() {
            shared.member.consented(&shard.subject, &heir, term);
        }
    }
}

impl<C> Leads<C> {
    /// Ends a handover without an heir: the primary takes writes, and hands nothing over before `until`.
    fn go_on(&mut self, until: Nanoseconds) {
        self.primary.drain(false);
        self.handover = None;
        self.goes_on_until = match mutant!(DrainsAtOnce) {
            true => 0,
            false => until,
        };
    }
}
