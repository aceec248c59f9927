//! The handle of a node, and the state that its tasks share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::{NodeName, ReaderOffer, Term};
use stonecast_fabric::{Bell, ConnectionRequest, DeviceError, Port, Runtime};
use stonecast_media::PersistentRegion;
use stonecast_member::Member;
use stonecast_replication::{AppendKey, LeaseSays};

use crate::error::NodeError;
use crate::filling::joins_led;
use crate::leading::primary_lease;
use crate::letter::{Letter, Says};
use crate::options::{EarlierWriters, Options};
use crate::peer::{Peer, PeerStatus};
use crate::post::{Hello, Post};
use crate::shard::{Role, Shard};
use crate::state::State;
use crate::store::{NotDurable, Store};

/// A join that a primary leads at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filling {
    /// The shard.
    pub shard: u32,
    /// The node that is filled.
    pub joiner: NodeName,
    /// Bytes of the earlier published records that the node has received.
    pub copied: u64,
    /// Bytes that are left, as an estimate.
    pub left: u64,
}

/// The work of a node since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Turns, short ones included. In each whole turn, the node takes all steps that it can.
    pub turns: u64,
    /// Looks at the memory that peers append to, in addition to the looks in turns.
    pub looks: u64,
    /// Copies, here or on other nodes, that were found to lack entries which had been on all copies. The configuration
    /// drops such a copy, and its node is filled again. The cause is a pool that went back to an earlier state, or a
    /// damaged pool.
    pub lost: u64,
    /// Copies on other nodes that took no entry for too long although their nodes were there. The configuration drops
    /// such a copy: the log of its node has no room.
    pub full: u64,
    /// Bytes of the entries that other nodes have appended here, with their headers.
    pub appended_bytes: u64,
}

/// A shard of which a node has a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardStatus {
    /// Number of the shard.
    pub shard: u32,
    /// The term in which the node leads the shard, and the nanoseconds that are left of its lease; `None`: the node is
    /// a copy, an heir on its way, or is being filled.
    pub leads: Option<(Term, Nanoseconds)>,
    /// Whether the node is being filled.
    pub joins: bool,
    /// For each other copy of a shard that the node leads, the entries that the copy has not reported yet.
    pub behind: BTreeMap<NodeName, u64>,
}

/// A node that is a member of its cluster, and keeps copies of shards. Dropping it ends its tasks and connections.
pub struct Node<S: Store> {
    pub(crate) shared: Rc<Shared<S>>,
}

pub(crate) struct Shared<S: Store> {
    pub port: Rc<Port>,
    pub runtime: Rc<dyn Runtime>,
    pub store: Rc<S>,
    pub options: Options,
    pub member: Member,
    pub post: Rc<Post>,
    pub memory: Memory,
    pub state: RefCell<State<S::Call>>,
    /// Requests to connect that are for the intake.
    pub requests: RefCell<Vec<(ConnectionRequest, Vec<u8>)>>,
    pub is_over: Cell<bool>,
    pub bells: Bells,
    pub told: Told,
}

/// The calls of tasks that wait.
#[derive(Default)]
pub(crate) struct Bells {
    /// Calls the task of the node to a turn.
    pub turn: Bell,
    /// Calls the task of the node to settle writes.
    pub batch: Bell,
    /// Calls the pipeline of the store when there is room for entries.
    pub room: Bell,
}

/// The facts that the node reports to its owner.
#[derive(Default)]
pub(crate) struct Told {
    pub counts: Cell<Counts>,
    /// The reason why the node has ended.
    pub end: RefCell<Option<NodeError>>,
    /// The reason why the device refused a segment; `None`: the device took the last one.
    pub segment_trouble: RefCell<Option<DeviceError>>,
}

/// The memory in which entries are found.
pub(crate) struct Memory {
    pub region: Rc<dyn PersistentRegion>,
    pub key: AppendKey,
    pub earlier_writers: EarlierWriters,
    /// Whether the node left a shard while peers could append nothing, and still can append nothing.
    pub is_short: Cell<bool>,
}

impl<S: Store> Node<S> {
    /// The node's name.
    pub fn name(&self) -> &NodeName {
        self.shared.member.name()
    }

    /// The membership of the node: leases, configuration and changes. The node takes the events itself.
    pub fn member(&self) -> &Member {
        &self.shared.member
    }

    /// Takes the request of a peer that said `private_data`, and returns true. Returns false if the
    /// peer is not a node: the request is still the caller's.
    pub fn take_request(&self, request: ConnectionRequest, private_data: &[u8]) -> bool {
        if self.shared.member.take_request(request, private_data) {
            return true;
        }
        if Hello::is_said(private_data) {
            self.shared.post.accept(request, private_data);
            self.shared.bells.turn.ring();
            return true;
        }
        let is_hello = stonecast_backup::Hello::is_said(private_data);
        if is_hello {
            let said = private_data.to_vec();
            self.shared.requests.borrow_mut().push((request, said));
            self.shared.bells.turn.ring();
        }
        is_hello
    }

    /// The term in which the node serves `shard` at this moment; `None`: the node does not serve
    /// the shard. A caller that depends on the answer asks again after everything else that the
    /// caller needs.
    pub fn serves(&self, shard: u32) -> Option<Term> {
        let shared = &self.shared;
        let mut state = shared.state.borrow_mut();
        let shard = state.shards.get_mut(&shard)?;
        let (term, subject) = (shard.leads()?.primary.term(), &shard.subject);
        let lease = primary_lease(&shared.member, subject, term, shared.runtime.now());
        (lease == LeaseSays::Holds).then_some(term)
    }

    /// The offer to a reader of `shard` at this moment: a lease of the term in which the node serves the shard, within
    /// the lease of the node. `None`: the node does not serve the shard, or hands it over. The node begins to drain a
    /// shard when the last lease that it offered is over.
    pub fn offer(&self, shard: u32) -> Option<(Term, ReaderOffer)> {
        let shared = &self.shared;
        let mut state = shared.state.borrow_mut();
        let timing = state.configuration.policy.lease;
        let shard = state.shards.get_mut(&shard)?;
        let subject = shard.subject.clone();
        let leads = shard.leads()?;
        if leads.handover.is_some() && !mutant!(ReadersNotAwaited) {
            return None;
        }
        let (term, offer) = shared.member.offer(&subject)?;
        if term != leads.primary.term() {
            return None;
        }
        let over_at = shared.runtime.now() + timing.awaited(offer.held_ns);
        leads.read_until = leads.read_until.max(over_at);
        Some((term, offer))
    }

    /// The work of the node so far: an idle node does little.
    pub fn counts(&self) -> Counts {
        self.shared.told.counts.get()
    }

    /// The state of the path to each peer that the node has to reach, for the operator.
    pub fn peers(&self) -> BTreeMap<NodeName, PeerStatus> {
        let state = self.shared.state.borrow();
        let status = |(name, peer): (&NodeName, &Peer)| {
            let status = PeerStatus {
                is_linked: peer.link.is_some(),
                link_trouble: peer.trouble.clone(),
                letter_trouble: self.shared.post.trouble(name),
                letters_waiting: self.shared.post.waiting(name),
            };
            (name.clone(), status)
        };
        state.peers.iter().map(status).collect()
    }

    /// The shards of which the node has copies, for the operator.
    pub fn shards(&self) -> Vec<ShardStatus> {
        let (member, now) = (&self.shared.member, self.shared.runtime.now());
        let state = &*self.shared.state.borrow();
        let shards = state.shards.iter();
        let shards = shards.filter(|(_, shard)| !matches!(shard.role, Role::Absent));
        let status = |(&number, shard): (&u32, &Shard<S::Call>)| {
            let led = match &shard.role {
                Role::Leads(leads) => Some(leads),
                _ => None,
            };
            let term = led.map(|leads| leads.primary.term());
            let lease = member
                .lease(&shard.subject)
                .filter(|(of, _)| Some(*of) == term);
            let left = lease.map_or(0, |(_, end)| end.saturating_sub(now));
            let behind = led.into_iter().flat_map(|leads| leads.primary.behind());
            let others = behind.filter(|(name, _)| **name != state.me);
            ShardStatus {
                shard: number,
                leads: term.map(|term| (term, left)),
                joins: matches!(shard.role, Role::Joins(_)),
                behind: others
                    .map(|(name, behind)| (name.clone(), behind))
                    .collect(),
            }
        };
        shards.map(status).collect()
    }

    /// Bytes of the entries of this node's shards that are stamped and not on all copies.
    pub fn unsettled(&self) -> u64 {
        self.shared.state.borrow().waiting.unsettled
    }

    /// The joins that the node leads as a primary.
    pub fn fillings(&self) -> Vec<Filling> {
        let state = self.shared.state.borrow();
        let led = state.shards.values().flat_map(joins_led);
        let joining = |filling: &Filling| {
            let group = state.group(filling.shard);
            group.is_some_and(|group| group.joining.contains_key(&filling.joiner))
        };
        led.filter(joining).collect()
    }

    /// The reason, in words for the operator, why the device takes no further segment for appends;
    /// `None`: the device takes them. Appends continue to fill the segments that the device has,
    /// and each turn offers the refused segment again.
    pub fn segment_trouble(&self) -> Option<String> {
        let trouble = self.shared.told.segment_trouble.borrow();
        trouble.as_ref().map(ToString::to_string)
    }

    /// Ends the node because the medium of the store has failed outside of a call of the node: others lead its shards
    /// then.
    pub fn fail(&self, failed: NotDurable) {
        self.shared.fail(failed.into());
    }

    /// The reason why the node has ended; `None`: the node runs, or its end was reported.
    pub fn take_end(&self) -> Option<NodeError> {
        self.shared.told.end.borrow_mut().take()
    }
}

impl<S: Store> Drop for Node<S> {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl<S: Store> Shared<S> {
    /// Ends the node: others lead its shards as soon as its leases have run out.
    pub fn fail(&self, error: NodeError) {
        self.stop();
        let state = &mut *self.state.borrow_mut();
        for (&number, shard) in &mut state.shards {
            if let Some(ended) = shard.step_down() {
                self.store.resigned(number, ended);
            }
        }
        state.peers.clear();
        state.waiting.unsettled = 0;
        self.told.end.borrow_mut().get_or_insert(error);
    }

    /// Takes no further turn, and keeps no lease alive, its own or that of another node.
    fn stop(&self) {
        self.is_over.set(true);
        self.bells.turn.ring();
        self.bells.room.ring();
        if !mutant!(FailedNodeGrants) {
            self.member.stop();
        }
    }

    /// Sends a letter. A letter that is too long is not sent, and the shard waits.
    pub fn write_to(&self, state: &State<S::Call>, to: &NodeName, letter: &Letter) {
        if let Ok(bytes) = letter.encode() {
            self.post.send(to, &state.addresses(to), bytes);
        }
    }

    /// Sends a letter about a shard.
    pub fn say(
        &self,
        state: &State<S::Call>,
        to: &NodeName,
        (shard, term): (u32, Term),
        says: Says,
    ) {
        self.write_to(state, to, &Letter { shard, term, says });
    }
}
