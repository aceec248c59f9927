//! How a device is made.

use std::sync::Arc;

use stonecast_base::Nanoseconds;

/// Takes lines for whoever runs the program; called by the control thread.
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&str) + Send + Sync>);

/// Options of a [`ShmDevice`](crate::ShmDevice). `Default` is what a server or client of one user wants.
#[derive(Clone, Debug)]
pub struct ShmOptions {
    /// Permissions of the socket files that the device listens at. 0o600 lets in the own user alone; whoever may write the
    /// file may connect.
    pub socket_mode: u32,
    /// Number of the group that the socket files belong to; `None`: the own one.
    pub socket_group: Option<u32>,
    /// Treat every peer as another user: it gets no write access to files of this process, wakes this device through
    /// its control thread, and finds no multi-packet queue.
    pub copying_only: bool,
    /// How long [`Park::park`](stonecast_fabric::Park::park) goes on looking for work before it sleeps, in nanoseconds. 0
    /// where the executor has looked long enough already.
    pub park_spin_ns: Nanoseconds,
    /// How long [`poll_invalidate`](stonecast_fabric::Device::poll_invalidate) waits for a peer that is inside the memory
    /// before it reports the peer as not quiesced. Much longer than any copy; a peer that needs more was stopped.
    pub quiesce_timeout_ns: Nanoseconds,
    /// What the peers are told and the program does not hear: that some were turned away, at most once a minute.
    pub log: Log,
}

impl Log {
    /// Lines go to `take`.
    pub fn new(take: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    pub(crate) fn say(&self, line: &str) {
        (self.0)(line);
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Log")
    }
}

impl Default for ShmOptions {
    fn default() -> Self {
        Self {
            socket_mode: 0o600,
            socket_group: None,
            copying_only: false,
            park_spin_ns: 0,
            quiesce_timeout_ns: 200_000_000,
            log: Log::new(|_| {}),
        }
    }
}
