//! What a member tells its store.

use std::rc::Rc;

use stonecast_cluster::{Configuration, Subject, Term};

/// What happened to a member. A store takes events in their order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MemberEvent {
    /// Another configuration is in force, and its epoch is durable here. The store ends what nodes may do that lost a copy; where this
    /// node leads a group in a term that is new to the store, it fences the predecessor and settles what it finds.
    Entered(Rc<Configuration>),
    /// The node has the lease of all copies in sync, so that of each predecessor is over. It serves once its store has settled.
    Leads {
        /// Which group.
        subject: Subject,
        /// In which term.
        term: Term,
    },
    /// The node leads no longer: its lease is over, or the configuration names another primary or term. It stays a copy if the
    /// configuration says so. The outcome of writes on their way is unknown.
    Resigned {
        /// Which group.
        subject: Subject,
        /// In which term.
        term: Term,
    },
    /// The configuration store does not answer, or holds what must not be followed. Leases and serving go on; nothing changes.
    StoreTrouble {
        /// What is wrong, for people.
        reason: String,
    },
    /// A peer refused this node, or was refused by it.
    PeerTrouble {
        /// Which peer and why, for people.
        reason: String,
    },
}
