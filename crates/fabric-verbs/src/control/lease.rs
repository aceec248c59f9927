//! What a client may have, and for how long without a sign of life.

use std::time::Duration;

use super::ControlError;
use crate::path::Endpoint;

/// What a server grants each client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// How long either side may be silent before it counts as dead.
    pub duration: Duration,
    /// How long after the handshake a client may still connect.
    pub ticket_lifetime: Duration,
    /// Connections of one name at the same time.
    pub connections_max: u32,
    /// Outstanding work requests of one connection.
    pub send_capacity_max: u32,
    /// READs and atomics of one connection under way.
    pub reads_max: u8,
}

impl Default for LeaseTerms {
    fn default() -> Self {
        Self {
            // A few times what a machine under heavy load, or a paused guest, may be silent; and a dead client's memory is
            // given to others only after that.
            duration: Duration::from_secs(4),
            ticket_lifetime: Duration::from_secs(10),
            connections_max: 256,
            send_capacity_max: 16_384,
            reads_max: 16,
        }
    }
}

impl LeaseTerms {
    /// How often a sign of life is sent: four may be lost.
    pub(super) fn heartbeat(&self) -> Duration {
        self.duration / 5
    }

    /// Whether `asked` keeps to the lease, by a client that has `connections` others.
    pub(super) fn check(&self, asked: &Endpoint, connections: u32) -> Result<(), ControlError> {
        let granted = [
            (
                "connections",
                u64::from(connections) + 1,
                u64::from(self.connections_max),
            ),
            (
                "outstanding work requests",
                asked.send_capacity.into(),
                self.send_capacity_max.into(),
            ),
            (
                "READs and atomics under way",
                asked.reads_out.into(),
                self.reads_max.into(),
            ),
        ];
        match granted
            .into_iter()
            .find(|(_, asked, granted)| asked > granted)
        {
            Some((what, asked, granted)) => Err(ControlError::BeyondLease {
                what,
                asked,
                granted,
            }),
            None => Ok(()),
        }
    }
}
