//! The configuration of its cluster in which the node of a pool last was.

use std::rc::Rc;

use crate::pool::SharedHeader;
use crate::{Backing, MediaError};

/// The configuration in which a node last was, as plain numbers; another crate gives them a meaning. A node serves its
/// pool in no earlier configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The cluster.
    pub cluster: u128,
    /// The number of the configuration.
    pub epoch: u64,
    /// The number of the attempt that stored the configuration.
    pub attempt: u128,
    /// The longest lease that the node may have granted, in nanoseconds.
    pub lease_duration_ns: u64,
    /// Greatest age of the time that a clock shows, under that lease, in nanoseconds.
    pub lease_tick_ns: u64,
    /// Greatest deviation of a clock's rate, under that lease, in millionths.
    pub lease_drift_ppm: u32,
}

/// The place in the header of a pool that keeps the membership of its node, for a part of the program that does not own
/// the pool.
#[derive(Clone)]
pub struct MembershipCell {
    backing: Rc<dyn Backing>,
    header: SharedHeader,
}

impl MembershipCell {
    pub(super) fn new(backing: Rc<dyn Backing>, header: SharedHeader) -> Self {
        Self { backing, header }
    }

    /// The membership; `None`: the pool belongs to no node.
    pub fn load(&self) -> Option<Membership> {
        self.header.read(|header| header.membership())
    }

    /// Keeps `membership`, durably. A crash during the call leaves the earlier or the new membership.
    ///
    /// # Errors
    /// The medium failed. The next opening finds one of the two.
    pub fn store(&self, membership: Membership) -> Result<(), MediaError> {
        self.header
            .change(&*self.backing, |header| header.member(membership))
    }
}
