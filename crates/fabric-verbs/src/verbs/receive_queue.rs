//! Receive buffers: posting, and the queue that many queue pairs share.

use std::io;
use std::ptr;
use std::rc::Rc;

use rdma_mummy_sys as ibv;

use super::memory::ProtectionDomain;
use super::outcome;
use super::zeroed::AllZero;

/// One receive buffer in the terms of the NIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawReceive {
    pub wr_id: u64,
    pub address: u64,
    pub size: u32,
    pub lkey: u32,
}

/// Buffers chained in the form that the library requires.
pub(super) struct Chain {
    requests: Vec<ibv::ibv_recv_wr>,
    /// Pointers in `requests` refer to these, so they must live and stay in place as long as `requests`.
    _entries: Vec<ibv::ibv_sge>,
}

impl Chain {
    /// `None` for no buffers.
    pub fn of(receives: &[RawReceive]) -> Option<Self> {
        let mut entries: Vec<_> = receives
            .iter()
            .map(|receive| ibv::ibv_sge {
                addr: receive.address,
                length: receive.size,
                lkey: receive.lkey,
            })
            .collect();
        let mut requests: Vec<_> = receives
            .iter()
            .zip(&mut entries)
            .map(|(receive, entry)| {
                let mut request = ibv::ibv_recv_wr::zeroed();
                request.wr_id = receive.wr_id;
                // An entry of zero bytes means 2 GiB to some NICs.
                request.num_sge = i32::from(receive.size > 0);
                request.sg_list = entry;
                request
            })
            .collect();
        let base = requests.as_mut_ptr();
        for (index, request) in requests.iter_mut().enumerate().rev().skip(1) {
            request.next = base.wrapping_add(index + 1);
        }
        (!requests.is_empty()).then_some(Self {
            requests,
            _entries: entries,
        })
    }

    /// The first of the chain.
    pub fn first(&mut self) -> *mut ibv::ibv_recv_wr {
        self.requests.as_mut_ptr()
    }
}

/// A receive queue that many queue pairs share.
pub(crate) struct SharedReceiveQueue {
    raw: *mut ibv::ibv_srq,
    _domain: Rc<ProtectionDomain>,
}

impl SharedReceiveQueue {
    /// A queue of at least `capacity` buffers.
    pub fn new(domain: &Rc<ProtectionDomain>, capacity: u32) -> io::Result<Rc<Self>> {
        let mut attributes = ibv::ibv_srq_init_attr::zeroed();
        attributes.attr.max_wr = capacity;
        attributes.attr.max_sge = 1;
        // SAFETY: the protection domain is alive; `attributes` is whole and outlives the call.
        let raw = unsafe { ibv::ibv_create_srq(domain.raw(), &mut attributes) };
        if raw.is_null() {
            Err(io::Error::last_os_error())
        } else {
            Ok(Rc::new(Self {
                raw,
                _domain: domain.clone(),
            }))
        }
    }

    /// Posts buffers, in order.
    pub fn post(&self, receives: &[RawReceive]) -> io::Result<()> {
        let Some(mut chain) = Chain::of(receives) else {
            return Ok(());
        };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue is alive; the chain is whole, ends with null and lives until the call has copied it. The
        // NIC checks address and key of each buffer itself.
        outcome(unsafe { ibv::ibv_post_srq_recv(self.raw, chain.first(), &mut bad) })
    }

    pub(super) fn raw(&self) -> *mut ibv::ibv_srq {
        self.raw
    }
}

impl Drop for SharedReceiveQueue {
    fn drop(&mut self) {
        // SAFETY: made by `ibv_create_srq`, freed once; queue pairs that use it hold the `Rc`.
        let _nothing_to_do = unsafe { ibv::ibv_destroy_srq(self.raw) };
    }
}
