//! Nodes that leave shards: they hand the lead over, and go when others are complete.
//!
//! ```text
//!   leads, is to leave ──▶ drains ──▶ compare-and-set: another copy leads ──▶ ends ──▶ tells its consent to all copies
//!   copies, is to leave ──▶ compare-and-set: without this node
//! ```
//!
//! Between the drain and the first grant of the heir, no node takes a write. A drain or a
//! compare-and-set that takes too long ends, and the primary goes on:
//! when the compare-and-set succeeds later, the heir takes over in the ordinary way.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_cluster::{Configuration, Epoch, Group, NodeName, Refusal, Subject, Term};
use stonecast_replication::Point;

use crate::letter::Says;
use crate::node::Shared;
use crate::shard::Role;
use crate::state::{State, number_of};
use crate::store::{Ended, Store};

/// Repeats of a letter for which a primary drains, or waits for a compare-and-set, at most.
const PATIENCE: u64 = 8;

/// A primary that hands its shard over.
pub struct Handover {
    heir: NodeName,
    /// The time at which the drain is given up.
    until: Nanoseconds,
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
    // This node alone made the change: no primary was between this one and the heir.
    let is_ours = |came: &Configuration| Some(came.epoch) == decided.get();
    let came = came.ok().and_then(Result::ok).filter(is_ours);
    let is_done = match came {
        Some(came) => State::consent(&shared, number, term, came.epoch),
        None => false,
    };
    shared.state.borrow_mut().go_on(number, term);
    shared.end_change(is_done).await;
}

impl<C: 'static> State<C> {
    /// Takes the steps of all groups that this node is to leave.
    pub fn step_leaving<S: Store<Call = C>>(&mut self, shared: &Rc<Shared<S>>) {
        let (configuration, me) = (self.configuration.clone(), self.me.clone());
        for group in configuration.relieved(&me) {
            let Some(number) = number_of(&configuration, &group.subject) else {
                continue;
            };
            match group.primary == me {
                true => self.step_handover(shared, number, group),
                false if !self.is_changing => {
                    self.is_changing = true;
                    let leaving = leave(shared.clone(), group.subject.clone());
                    shared.runtime.spawn(Box::pin(leaving));
                }
                false => {}
            }
        }
    }

    fn step_handover<S: Store<Call = C>>(
        &mut self,
        shared: &Rc<Shared<S>>,
        number: u32,
        group: &Group,
    ) {
        let (now, is_changing) = (shared.runtime.now(), self.is_changing);
        let heir = self.heir_of(group);
        let shard = self.shards.get_mut(&number);
        let Some(Role::Leads(leads)) = shard.map(|shard| &mut shard.role) else {
            return;
        };
        match &leads.handover {
            // One shard after the other: the others go on meanwhile.
            None if is_changing => {}
            None => {
                let Some(heir) = heir else {
                    return;
                };
                let until = now + PATIENCE * shared.options.repeat_ns;
                leads.primary.drain(true);
                leads.handover = Some(Handover { heir, until });
            }
            Some(handover) if leads.primary.is_drained() && !is_changing => {
                self.is_changing = true;
                let led = (group.subject.clone(), group.term);
                let handing = hand_over(shared.clone(), number, led, handover.heir.clone());
                shared.runtime.spawn(Box::pin(handing));
            }
            Some(handover) if now >= handover.until && !is_changing => {
                self.is_changing = true;
                self.go_on(number, group.term);
                let pausing = pause(shared.clone());
                shared.runtime.spawn(Box::pin(pausing));
            }
            Some(_) => {}
        }
    }

    /// The copy that stays and leads the fewest groups.
    fn heir_of(&self, group: &Group) -> Option<NodeName> {
        let groups = &self.configuration.groups;
        let leads = |name: &NodeName| groups.iter().filter(|one| one.primary == *name).count();
        let staying = group.in_sync.difference(&group.leaving);
        let staying = staying.filter(|&name| *name != self.me);
        staying.min_by_key(|&name| leads(name)).cloned()
    }

    /// A handover is over, and the node leads on.
    fn go_on(&mut self, number: u32, term: Term) {
        let shard = self.shards.get_mut(&number);
        if let Some(Role::Leads(leads)) = shard.map(|shard| &mut shard.role)
            && leads.primary.term() == term
        {
            leads.primary.drain(false);
            leads.handover = None;
        }
    }

    /// Ends a primary that has drained, and tells all copies that its heir may lead from `to` on.
    /// Returns false if something waits, or if the node no longer leads.
    fn consent<S: Store<Call = C>>(shared: &Shared<S>, number: u32, term: Term, to: Term) -> bool {
        let state = &mut *shared.state.borrow_mut();
        // Answers that wait for nothing else go out before the end.
        state.settle(shared);
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
        shard.consent = Some((to, last));
        shared.store.resigned(number, Ended::nothing());
        for copy in copies.iter().filter(|&copy| *copy != state.me) {
            shared.say(state, copy, (number, to), Says::Consent { last });
        }
        true
    }

    /// The predecessor of the primary of that term has ended at that point, and consents.
    pub fn hear_consent(&mut self, number: u32, consent: (Term, Point)) {
        if let Some(shard) = self.shards.get_mut(&number) {
            shard.consent = shard.consent.max(Some(consent));
        }
    }

    /// Releases the grants of this node to predecessors that have consented.
    pub fn step_consents<S: Store<Call = C>>(&mut self, shared: &Shared<S>) {
        for number in self.numbers() {
            let Some(group) = self.group(number) else {
                continue;
            };
            let (heir, term) = (group.primary.clone(), group.term);
            let shard = self.shards.get_mut(&number).expect("it was listed");
            let consents = shard.consent.is_some_and(|(to, _)| to == term);
            if consents && shard.released != Some(term) {
                shard.released = Some(term);
                shared.member.consented(&shard.subject, &heir, term);
            }
        }
    }
}

/// The pause after a drain that was given up.
async fn pause<S: Store>(shared: Rc<Shared<S>>) {
    shared.end_change(false).await;
}
