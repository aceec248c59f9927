//! The options of a device.

use std::sync::Arc;

use stonecast_base::Nanoseconds;

/// Takes lines for the operator; called by the control thread.
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&str) + Send + Sync>);

/// Options of a [`ShmDevice`](crate::ShmDevice). `Default` suits a server or client of one user.
#[derive(Clone, Debug)]
pub struct ShmOptions {
    /// Permissions of the socket files at which the device listens. 0o600 admits only the user of this process; a
    /// process that may write the file may connect.
    pub socket_mode: u32,
    /// Number of the group that owns the socket files; `None` for the group of this process.
    pub socket_group: Option<u32>,
    /// Whether every peer is treated as another user: such a peer gets no write access to files of this process, wakes
    /// this device through its control thread, and finds no multi-packet queue.
    pub copying_only: bool,
    /// Time for which [`Park::park`](stonecast_fabric::Park::park) continues to look for work before it sleeps, in
    /// nanoseconds. 0 if the executor has looked long enough already.
    pub park_spin_ns: Nanoseconds,
    /// Time for which [`poll_invalidate`](stonecast_fabric::Device::poll_invalidate) waits for a peer that is inside
    /// the memory before it reports the peer as not quiesced. Much longer than any copy; a peer that needs more was
    /// stopped.
    pub quiesce_timeout_ns: Nanoseconds,
    /// Receives reports of events that the program does not see: that some peers were turned away, at most once a
    /// minute.
    pub log: Log,
}

impl Log {
    /// Sends lines to `take`.
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
