//! The end of leases and connections.
//!
//! ```text
//!   Ending --spawned--> disconnect -> windows for reading -> leases, in order -> queue pair -> memory
//!                                                              |
//!                                                              |          '--> arrivals not taken before \ taken by
//!                                                              '--> Ended { revoked, unquiesced }         / the store
//! ```
//!
//! A revocation waits for a peer that may be stopped in the middle of a write, so it runs beside the store's task, and
//! no other client waits with it. If the fabric cannot guarantee that nothing more arrives
//! ([`Unquiesced`](stonecast_fabric::DeviceError::Unquiesced)), the object of the lease is not returned: the peer may
//! still finish its write.
//!
//! Invariants:
//! - Only this module makes a [`Revoked`], after every window of its lease was revoked.
//! - Leases that end together are returned together: the store sees whether one of them is unquiesced before it reuses
//!   another.
//! - A connection's queue pair is destroyed before its memory is freed: its windows end with it.
//! - A shared receive buffer outlives the connection whose message it holds: the store takes the message, or gets it
//!   from this module.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_base::mutant;
use stonecast_fabric::{MemoryRegion, Port, QueuePair, Received, Rkey, Runtime};

use crate::Lease;

/// Memory that a peer had and can no longer reach.
#[derive(Debug)]
#[must_use = "the leased object may be used again"]
pub struct Revoked<O>(Lease<O>);

impl<O> Revoked<O> {
    /// The leased object.
    pub fn object(&self) -> &O {
        self.0.object()
    }

    /// The epoch of the lease.
    pub fn epoch(&self) -> u64 {
        self.0.epoch()
    }

    /// The leased object, to be used again.
    pub fn into_object(self) -> O {
        self.0.into_object()
    }
}

/// Memory that a peer may still be writing to.
#[derive(Debug)]
pub struct Unquiesced<O>(Lease<O>);

impl<O> Unquiesced<O> {
    /// The object of the lease, which must not be reused while the peer may exist; a restart of the store, for example,
    /// ends it.
    pub fn object(&self) -> &O {
        self.0.object()
    }
}

/// Connection, windows, leases and memory that end together.
#[derive(Debug)]
pub struct Ending<O> {
    /// The connection, if it ends as well.
    pub connection: Option<QueuePair>,
    /// Windows on memory that is not leased: for reading, or on memory that ends with the connection.
    pub windows: Vec<Rkey>,
    /// Leases, in the order of their ends.
    pub leases: Vec<Lease<O>>,
    /// Memory of this side that is freed at the end.
    pub regions: Vec<MemoryRegion>,
}

impl<O> Default for Ending<O> {
    fn default() -> Self {
        Self {
            connection: None,
            windows: Vec::new(),
            leases: Vec::new(),
            regions: Vec::new(),
        }
    }
}

/// Leases that have ended together.
#[derive(Debug)]
pub struct Ended<O> {
    /// Leases whose objects may be used again.
    pub revoked: Vec<Revoked<O>>,
    /// Leases whose objects may not be reused.
    pub unquiesced: Vec<Unquiesced<O>>,
}

/// Ends leases and connections beside the store's task.
pub struct Revocations<O> {
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    /// Rounds in which arrivals are collected before a queue pair is destroyed.
    pumps_max: u32,
    shared: Rc<Shared<O>>,
}

struct Shared<O> {
    under_way: Cell<usize>,
    /// Leases that began to end and were not taken.
    leases: Cell<usize>,
    ended: RefCell<Vec<Ended<O>>>,
    untaken: RefCell<Vec<Received>>,
}

impl<O: 'static> Revocations<O> {
    /// Revocations for the leases and connections of a server on `port`. Arrivals in transit when a connection ends
    /// hold shared receive buffers: they are collected in at most `pumps_max` rounds, so that their buffers can be
    /// posted again.
    pub fn new(port: Rc<Port>, runtime: Rc<dyn Runtime>, pumps_max: u32) -> Self {
        Self {
            port,
            runtime,
            pumps_max,
            shared: Rc::new(Shared {
                under_way: Cell::new(0),
                leases: Cell::new(0),
                ended: RefCell::default(),
                untaken: RefCell::default(),
            }),
        }
    }

    /// The number of endings in progress.
    pub fn under_way(&self) -> usize {
        self.shared.under_way.get()
    }

    /// The number of leases that are about to end, or have ended and were not taken yet: their objects may come back.
    pub fn leases_to_come(&self) -> usize {
        self.shared.leases.get()
    }

    /// Takes everything that has ended since the last call.
    pub fn take_ended(&self) -> Vec<Ended<O>> {
        let ended = self.shared.ended.take();
        let taken = |part: &Ended<O>| part.revoked.len() + part.unquiesced.len();
        let count: usize = ended.iter().map(taken).sum();
        self.shared.leases.set(self.shared.leases.get() - count);
        ended
    }

    /// Arrivals of connections that have ended since the last call, which the store did not take earlier. Each arrival
    /// of a shared receive queue holds one of its buffers, which is lost unless it is posted again.
    #[must_use = "the buffers of these arrivals must be posted again"]
    pub fn take_untaken(&self) -> Vec<Received> {
        self.shared.untaken.take()
    }

    /// Begins to end the objects that `ending` names.
    pub fn begin(&self, ending: Ending<O>) {
        let (port, shared, pumps_max) = (self.port.clone(), self.shared.clone(), self.pumps_max);
        shared.under_way.set(shared.under_way.get() + 1);
        shared.leases.set(shared.leases.get() + ending.leases.len());
        self.runtime.spawn(Box::pin(async move {
            let Ending {
                connection,
                windows,
                leases,
                regions,
            } = ending;
            if let Some(qp) = connection {
                let _ = port.device().disconnect(qp);
            }
            for rkey in windows {
                // A peer cannot delay the end of reading; memory that it may still write to is freed after its queue
                // pair.
                let _ = port.invalidate(rkey).await;
            }
            if !leases.is_empty() {
                let ended = end_leases(&port, leases).await;
                shared.ended.borrow_mut().push(ended);
            }
            if let Some(qp) = connection {
                for _ in 0..pumps_max {
                    if !port.pump() {
                        break;
                    }
                }
                // The port forgets its state of this queue pair: the number may be given to the next client.
                let untaken = port.destroy_queue_pair(qp).unwrap_or_default();
                shared.untaken.borrow_mut().extend(untaken);
            }
            for region in regions {
                // Memory that a provider cannot free at this moment is freed when the device is dropped.
                let _ = port.invalidate(region.rkey).await;
                let _ = port.device().deregister(region);
            }
            shared.under_way.set(shared.under_way.get() - 1);
        }));
    }
}

/// Closes the windows of `leases`, one after the other.
async fn end_leases<O>(port: &Port, leases: Vec<Lease<O>>) -> Ended<O> {
    let mut ended = Ended {
        revoked: Vec::new(),
        unquiesced: Vec::new(),
    };
    for lease in leases {
        let mut is_over = true;
        for &rkey in lease.windows() {
            is_over &= mutant!(LeaseNotRevoked) || port.invalidate(rkey).await.is_ok();
        }
        if is_over {
            ended.revoked.push(Revoked(lease));
        } else {
            ended.unquiesced.push(Unquiesced(lease));
        }
    }
    ended
}
