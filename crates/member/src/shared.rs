//! The state that the tasks of a member share.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use stonecast_base::{Nanoseconds, Random};
use stonecast_cluster::{ConfigStore, Configuration, NodeName, Revision, Writer};
use stonecast_fabric::{Port, QueuePair, Runtime};

use crate::agent::Agent;
use crate::bell::Bell;
use crate::error::MemberError;
use crate::event::MemberEvent;
use crate::hello::Identity;

/// The sessions of a node: one in each direction for each peer.
#[derive(Default)]
pub(crate) struct Sessions {
    /// Peers to which a task of this node connects.
    pub linked: RefCell<BTreeSet<NodeName>>,
    /// The last session that each start of a peer has asked for. A start that is not known takes no session away from
    /// the known start.
    pub accepted: RefCell<BTreeMap<(NodeName, u64), QueuePair>>,
}

/// The state that the tasks of a member share.
pub(crate) struct Shared {
    pub port: Rc<Port>,
    pub runtime: Rc<dyn Runtime>,
    pub store: Rc<dyn ConfigStore>,
    pub identity: Identity,
    pub agent: RefCell<Agent>,
    pub sessions: Sessions,
    /// The latest configuration that was brought and not entered.
    pub newest: Cell<Option<Configuration>>,
    /// Absent while this node's own change is on its way.
    pub writer: Cell<Option<Writer>>,
    pub random: RefCell<Random>,
    /// Rung when there is a configuration to enter, when one is in force, when a change is over, and at the end.
    pub changed: Bell,
    /// Rung when there is an event, and at the end.
    pub told: Bell,
    pub end: RefCell<Option<MemberError>>,
}

impl Shared {
    pub fn now(&self) -> Nanoseconds {
        self.runtime.now()
    }

    /// Returns whether the member has ended. Its tasks then end, too.
    pub fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// Ends the member. The first reason counts.
    pub fn end(&self, reason: MemberError) {
        self.end.borrow_mut().get_or_insert(reason);
        self.changed.ring();
        self.told.ring();
    }

    /// Wakes the store if there is an event for it.
    pub fn announce(&self) {
        if self.agent.borrow().has_event() {
            self.told.ring();
        }
    }

    /// Tells the store of something that went wrong elsewhere.
    pub fn tell(&self, event: MemberEvent) {
        self.agent.borrow_mut().tell(event);
        self.told.ring();
    }

    /// Takes a configuration from the store or from a peer.
    pub fn bring(&self, configuration: Configuration) {
        let known = self.newest.take();
        let newest = match known {
            Some(known)
                if known.nonce == configuration.nonce && known.epoch > configuration.epoch =>
            {
                known
            }
            _ => configuration,
        };
        self.newest.set(Some(newest));
        self.changed.ring();
    }

    /// Tells the writer that the store has `configuration` under `revision`. A writer that is under way finds out by
    /// itself.
    pub fn teach_writer(&self, revision: Revision, configuration: &Configuration) {
        if let Some(mut writer) = self.writer.take() {
            writer.learn(revision, configuration);
            self.writer.set(Some(writer));
        }
    }

    /// The configuration in force.
    pub fn configuration(&self) -> Rc<Configuration> {
        self.agent.borrow().configuration().clone()
    }

    /// The time limit for a peer: twice a lease. The lease of a later peer is lost, and its message is of no use.
    pub fn patience_ns(&self) -> Nanoseconds {
        2 * self.configuration().policy.lease.duration_ns
    }
}
