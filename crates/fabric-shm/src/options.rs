//! How a device is made.

use stonecast_base::Nanoseconds;

/// Options of a [`ShmDevice`](crate::ShmDevice). `Default` is what a server or client of one user wants.
#[derive(Clone, Debug)]
pub struct ShmOptions {
    /// Permissions of the socket files that the device listens at. 0o600 lets in the own user alone.
    pub socket_mode: u32,
    /// Treat every peer as another user: it gets no write access to files of this process, wakes this device through
    /// its control thread, and finds no multi-packet queue.
    pub copying_only: bool,
    /// How long [`Park::park`](stonecast_fabric::Park::park) goes on looking for work before it sleeps, in nanoseconds. 0
    /// where the executor has looked long enough already.
    pub park_spin_ns: Nanoseconds,
    /// How long [`poll_invalidate`](stonecast_fabric::Device::poll_invalidate) waits for a peer that is inside the memory
    /// before it reports the peer as not quiesced. Much longer than any copy; a peer that needs more was stopped.
    pub quiesce_timeout_ns: Nanoseconds,
}

impl Default for ShmOptions {
    fn default() -> Self {
        Self {
            socket_mode: 0o600,
            copying_only: false,
            park_spin_ns: 0,
            quiesce_timeout_ns: 200_000_000,
        }
    }
}
