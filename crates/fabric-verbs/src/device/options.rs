//! The options of a device.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};

use crate::control::{BackOff, KeyRing, LeaseTerms, Log};

/// Options of a [`VerbsDevice`](crate::VerbsDevice). `Default` opens the first device of the machine, knows no keys and
/// logs nothing.
#[derive(Clone)]
pub struct VerbsOptions {
    /// Name of the device, as shown by `rdma link` and `ibv_devices`; `None` for the first device.
    pub device: Option<String>,
    /// Number of its port, from 1.
    pub port: u8,
    /// Index into the port's table of GIDs; `None` for the best entry (RoCE v2, IPv4 first).
    pub gid_index: Option<u8>,
    /// Keys of the clients that may connect here; the first is the key that this process shows on outgoing connections.
    pub keys: KeyRing,
    /// The grants to clients.
    pub terms: LeaseTerms,
    /// The operator's declaration of this machine's platform.
    pub platform: DeclaredPlatform,
    /// Retries while a server does not answer.
    pub back_off: BackOff,
    /// Time that a peer may take to prove its identity.
    pub handshake_patience: Duration,
    /// The most peers that may be proving their identity at the same time.
    pub strangers_max: usize,
    /// Time that a packet waits for its answer before it is sent again: 4.096 microseconds times two to the power of
    /// this value, at most 31.
    pub retransmission_timeout: u8,
    /// Number of these retransmissions, 1 to 6. They detect only a dead path: dead peers are detected by their lease.
    pub retransmission_count: u8,
    /// Treats the device as one without memory windows, whose windows are made of protection domains. Meant for tests
    /// on devices that have windows.
    pub without_windows: bool,
    /// The receiver of log lines about refused and lost peers.
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
            // 134 ms: longer than a busy virtual machine loses its processor, so that such a pause causes no
            // retransmission.
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
