//! How a device is opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};

use crate::control::{BackOff, KeyRing, LeaseTerms, Log};

/// How a [`VerbsDevice`](crate::VerbsDevice) is opened. `Default` opens the first device of the machine, knows no keys and
/// says nothing.
#[derive(Clone)]
pub struct VerbsOptions {
    /// Name of the device, as `rdma link` and `ibv_devices` show it; none: the first.
    pub device: Option<String>,
    /// Number of its port, from 1.
    pub port: u8,
    /// Index into the port's table of GIDs; none: the best entry (RoCE v2, IPv4 first).
    pub gid_index: Option<u8>,
    /// Keys of the clients that may connect here; the first is the own one when connecting.
    pub keys: KeyRing,
    /// What clients are granted.
    pub terms: LeaseTerms,
    /// What the operator declares of this machine's platform.
    pub platform: DeclaredPlatform,
    /// How a server that does not answer is tried again.
    pub back_off: BackOff,
    /// How long a peer may take to prove who it is.
    pub handshake_patience: Duration,
    /// How many may try to prove it at the same time.
    pub strangers_max: usize,
    /// How long a packet waits for its answer before it is sent again: 4.096 microseconds times two to the power of this,
    /// at most 31.
    pub retransmission_timeout: u8,
    /// How often that is tried, 1 to 6. What it finds dead is only the path: dead peers are found by their lease.
    pub retransmission_count: u8,
    /// Takes the device for one without memory windows: what its windows would do is done by protection domains. For tests on
    /// devices that have them.
    pub without_windows: bool,
    /// Where sentences about refused and lost peers go.
    pub log: Log,
}

impl Default for VerbsOptions {
    fn default() -> Self {
        Self {
            device: None,
            port: 1,
            gid_index: None,
            keys: KeyRing::default(),
            terms: LeaseTerms::default(),
            platform: DeclaredPlatform {
                persistence_domain: PersistenceDomain::Volatile,
                ddio: Ddio::On,
                receive_buffers: ReceiveBuffers::Dram,
            },
            back_off: BackOff::default(),
            handshake_patience: Duration::from_secs(5),
            strangers_max: 64,
            // 134 ms: longer than a busy virtual machine is off its processor, so that nothing is sent twice for that.
            retransmission_timeout: 15,
            retransmission_count: 6,
            without_windows: false,
            log: Arc::new(|_| {}),
        }
    }
}

impl fmt::Debug for VerbsOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("VerbsOptions")
            .field("device", &self.device)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}
