//! The requester's ear, which takes the backup's notices out of receive buffers, and posts the buffers again at once.

use stonecast_fabric::{ConnectionEvent, QueuePair};
use stonecast_fabric::{DeviceError, DisconnectCause, Inbox, ReceiveQueue, Status};
use stonecast_session::{Endpoint, ReceiveBuffers};

use crate::notice::{NOTICE_SIZE, Notice};

/// Receive buffers for notices. A backup has one notice under way; the other buffers serve a program that stands
/// still.
pub(super) const NOTICES: u32 = 4;

/// The reason why a connection to a backup has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// The connection ended.
    #[error("the connection ended: {0:?}")]
    Disconnected(DisconnectCause),
    /// A message from the backup is no notice.
    #[error(
        "the backup sent {size} bytes that are no notice; use the same version of stonecast on both sides"
    )]
    NotANotice {
        /// Bytes of the message.
        size: usize,
    },
    /// A notice names another connection.
    #[error("a notice of connection {found} on connection {connection}")]
    OtherConnection {
        /// The number in the notice.
        found: u64,
        /// The number of this connection.
        connection: u64,
    },
    /// A total of credits fell.
    #[error("the backup had granted {granted} credits, and says {found}")]
    CreditsFell {
        /// The total in the notice.
        found: u64,
        /// The total before.
        granted: u64,
    },
    /// The backup answers for more streams than a node can lead.
    #[error("the backup answers for more than {limit} streams")]
    TooManyStreams {
        /// The most streams.
        limit: usize,
    },
    /// The device could not take or post a receive buffer.
    #[error("a receive buffer failed: {0}")]
    Receive(String),
    /// The appends failed.
    #[error("{0}")]
    Appends(String),
}

/// Takes the notices of one connection.
pub(super) struct Ears {
    buffers: ReceiveBuffers,
    qp: QueuePair,
    connection: u64,
    granted: u64,
    /// Whether the backup's store lacks room, by the last notice.
    pub lacks_room: bool,
}

impl Ears {
    /// Posts receive buffers on `endpoint`, which is not connected yet.
    pub fn open(endpoint: &Endpoint) -> Result<Self, DeviceError> {
        let size = u64::from(NOTICES) * NOTICE_SIZE as u64;
        let buffers = ReceiveBuffers::new(endpoint.allocate(size)?, NOTICE_SIZE as u32);
        let qp = endpoint.qp();
        let device = endpoint.port().device();
        buffers.post_all(&**device, ReceiveQueue::Own(qp), NOTICES)?;
        Ok(Self {
            buffers,
            qp,
            connection: 0,
            granted: 0,
            lacks_room: false,
        })
    }

    /// Takes the number that the backup gave the connection.
    pub fn connected(&mut self, connection: u64) {
        self.connection = connection;
    }

    /// The next notice, with the credits that are new in it; `None`: nothing has come.
    pub fn take(&mut self, inbox: &Inbox) -> Result<Option<(Notice, u64)>, Trouble> {
        let arrival = loop {
            match inbox.take_received() {
                // The end of the connection, which an event explains, flushes the unused buffers.
                Some(flushed) if flushed.status == Status::WorkRequestFlushed => {}
                Some(arrival) => break arrival,
                None => {
                    return match inbox.take_event() {
                        Some(ConnectionEvent::Disconnected { cause, .. }) => {
                            Err(Trouble::Disconnected(cause))
                        }
                        _ => Ok(None),
                    };
                }
            }
        };
        if arrival.status != Status::Success {
            return Err(Trouble::Receive(arrival.status.to_string()));
        }
        let device = inbox.port().device();
        let queue = ReceiveQueue::Own(self.qp);
        let taken = self.buffers.take(&**device, queue, &arrival);
        let bytes = taken.map_err(|error| Trouble::Receive(error.to_string()))?;
        let size = bytes.len();
        let notice = Notice::parse(&bytes).ok_or(Trouble::NotANotice { size })?;
        judge(&notice, self.connection, self.granted)?;
        let news = notice.granted - self.granted;
        (self.granted, self.lacks_room) = (notice.granted, notice.lacks_room);
        Ok(Some((notice, news)))
    }
}

/// Checks that a notice is of this connection, and that it lowers no grant.
fn judge(notice: &Notice, connection: u64, granted: u64) -> Result<(), Trouble> {
    if notice.connection != connection {
        let found = notice.connection;
        return Err(Trouble::OtherConnection { found, connection });
    }
    if notice.granted < granted {
        let found = notice.granted;
        return Err(Trouble::CreditsFell { found, granted });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_of_another_connection_or_with_falling_credits_ends_the_link() {
        let notice = |connection, granted| Notice {
            connection,
            granted,
            terms: None,
            lacks_room: false,
            told: Vec::new(),
        };
        assert_eq!(judge(&notice(4, 9), 4, 9), Ok(()));
        let (found, connection) = (3, 4);
        assert_eq!(
            judge(&notice(3, 9), 4, 9),
            Err(Trouble::OtherConnection { found, connection })
        );
        let (found, granted) = (8, 9);
        assert_eq!(
            judge(&notice(4, 8), 4, 9),
            Err(Trouble::CreditsFell { found, granted })
        );
    }
}
