//! The limits of a client, and the time that it may be silent.

use std::time::Duration;

use super::ControlError;
use crate::path::Endpoint;

/// The grants of a server to each client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// Time for which either side may be silent before it counts as dead.
    pub duration: Duration,
    /// Time after the handshake in which a client may still connect.
    pub ticket_lifetime: Duration,
    /// Connections of one name at the same time.
    pub connections_max: u32,
    /// Outstanding work requests of one connection.
    pub send_capacity_max: u32,
    /// Concurrent READs and atomics of one connection.
    pub reads_max: u8,
}

impl Default for LeaseTerms {
    fn default() -> Self {
        Self {
            // A few times the silence of a machine under heavy load, or of a paused guest. The memory of a dead client
            // is reused only after this time.
            duration: Duration::from_secs(4),
            ticket_lifetime: Duration::from_secs(10),
            connections_max: 256,
            send_capacity_max: 16_384,
            reads_max: 16,
        }
    }
}

impl LeaseTerms {
    /// Time between two heartbeats: four may be lost.
    pub(super) fn heartbeat(&self) -> Duration {
        self.duration / 5
    }

    /// Whether `asked` stays within the lease, for a client that has `connections` others.
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
                "concurrent READs and atomics",
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
