//! The capacities of a queue pair.

use stonecast_fabric::{DeviceError, Port, QueuePair, QueuePairOptions, SharedReceiveQueue};

/// A queue pair as requested by a store. Its completion queues are those of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// The most outstanding work requests on the send queue.
    pub send_capacity: u32,
    /// The most outstanding receive buffers of its own queue; at least 1.
    pub receive_capacity: u32,
    /// The shared queue to take receive buffers from instead.
    pub shared_receive_queue: Option<SharedReceiveQueue>,
    /// Whether windows will be opened to its peer.
    pub windows: bool,
    /// Number of retries of a send while the peer has no receive buffer.
    pub rnr_retry_count: u32,
    /// Pause before each of these retries, in nanoseconds.
    pub rnr_retry_delay_ns: u64,
}

impl Queues {
    pub(crate) fn create(&self, port: &Port) -> Result<QueuePair, DeviceError> {
        port.device().create_queue_pair(QueuePairOptions {
            send_cq: port.send_cq(),
            receive_cq: port.receive_cq(),
            shared_receive_queue: self.shared_receive_queue,
            windows: self.windows,
            send_capacity: self.send_capacity,
            receive_capacity: self.receive_capacity,
            rnr_retry_count: self.rnr_retry_count,
            rnr_retry_delay_ns: self.rnr_retry_delay_ns,
        })
    }
}
