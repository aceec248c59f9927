//! The events that a member reports to its store.

use std::rc::Rc;

use stonecast_cluster::{Configuration, Subject, Term};

/// An event of a member. A store takes events in order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MemberEvent {
    /// Another configuration is in force, and its epoch is durable here. The store ends the rights of nodes that lost a
    /// copy. In each group that this node leads in a new term, the store fences the predecessor and settles the entries
    /// that it finds.
    Entered(Rc<Configuration>),
    /// The node has the lease of all copies in sync, so the lease of each predecessor is over. The node serves once its
    /// store has settled.
    Leads {
        /// The group.
        subject: Subject,
        /// The term.
        term: Term,
    },
    /// The node stopped leading: its lease is over, or the configuration names another primary or term. The node stays
    /// a copy if the configuration says so. The outcome of writes in flight is unknown.
    Resigned {
        /// The group.
        subject: Subject,
        /// The term.
        term: Term,
    },
    /// The configuration store does not answer, or holds a value that must not be followed. Leases and service continue
    /// unchanged.
    StoreTrouble {
        /// The fault, for people.
        reason: String,
    },
    /// A peer refused this node, or this node refused a peer.
    PeerTrouble {
        /// The peer and the reason, for people.
        reason: String,
    },
}
