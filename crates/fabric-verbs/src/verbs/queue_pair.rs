//! A queue pair of a reliable connection, and its states.
//!
//! ```text
//!   RESET --initialize--> INIT --receive_from--> RTR --send_to--> RTS --fail--> ERR
//!                            receives may be posted from INIT on
//! ```

use std::io;
use std::ptr;
use std::rc::Rc;

use rdma_mummy_sys as ibv;

use super::completion::CompletionQueue;
use super::memory::ProtectionDomain;
use super::outcome;
use super::port::Port;
use super::receive_queue::{Chain, RawReceive, SharedReceiveQueue};
use super::zeroed::AllZero;
use crate::path::{Endpoint, Transport};
use crate::retries::ReceiverNotReady;

/// The operations that a queue pair can post beyond the common ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtraOperations {
    pub windows: bool,
    pub flush: bool,
    pub atomic_write: bool,
}

/// The parameters of a new queue pair.
pub(crate) struct WantedQueuePair<'a> {
    pub domain: &'a Rc<ProtectionDomain>,
    pub send_cq: &'a Rc<CompletionQueue>,
    pub receive_cq: &'a Rc<CompletionQueue>,
    pub shared: Option<&'a Rc<SharedReceiveQueue>>,
    pub send_capacity: u32,
    pub receive_capacity: u32,
    pub extra: ExtraOperations,
}

/// The destination of a connection, and its terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub port: Port,
    pub peer: Endpoint,
    /// Packet sequence number of the first packet sent.
    pub first_packet: u32,
    /// The wait of the peer's sends for a buffer; the responder's side of it.
    pub peer_terms: ReceiverNotReady,
    /// The wait of sends for a buffer; the requester's side of it.
    pub own_terms: ReceiverNotReady,
    /// READs and atomics that this side may have outstanding.
    pub reads_out: u8,
    /// READs and atomics that the peer may have outstanding here.
    pub reads_in: u8,
    pub retransmission: Retransmission,
}

/// The retransmission of a packet without an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retransmission {
    /// 4.096 microseconds times two to the power of this value.
    pub timeout_code: u8,
    /// 1 to 6; 7 means forever on soft-RoCE.
    pub retry_count: u8,
}

/// A queue pair. Freed when dropped.
pub(crate) struct QueuePair {
    raw: *mut ibv::ibv_qp,
    extended: *mut ibv::ibv_qp_ex,
    number: u32,
    /// The operations that it may post beyond the common ones.
    pub extra: ExtraOperations,
    _parents: (
        Rc<ProtectionDomain>,
        Rc<CompletionQueue>,
        Rc<CompletionQueue>,
        Option<Rc<SharedReceiveQueue>>,
    ),
}

impl QueuePair {
    /// A fresh queue pair. Fails if the library or the device lacks one of the operations.
    pub fn new(wanted: &WantedQueuePair<'_>) -> io::Result<Self> {
        use ibv::ibv_qp_create_send_ops_flags as operation;
        let extra = wanted.extra;
        let named = [
            (true, operation::IBV_QP_EX_WITH_RDMA_WRITE),
            (true, operation::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM),
            (true, operation::IBV_QP_EX_WITH_SEND),
            (true, operation::IBV_QP_EX_WITH_RDMA_READ),
            (true, operation::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP),
            (true, operation::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD),
            (extra.windows, operation::IBV_QP_EX_WITH_BIND_MW),
            (extra.flush, operation::IBV_QP_EX_WITH_FLUSH),
            (extra.atomic_write, operation::IBV_QP_EX_WITH_ATOMIC_WRITE),
        ];
        let mut attributes = ibv::ibv_qp_init_attr_ex::zeroed();
        attributes.qp_type = ibv::ibv_qp_type::IBV_QPT_RC;
        attributes.send_cq = wanted.send_cq.raw();
        attributes.recv_cq = wanted.receive_cq.raw();
        attributes.srq = wanted.shared.map_or(ptr::null_mut(), |shared| shared.raw());
        attributes.cap.max_send_wr = wanted.send_capacity;
        attributes.cap.max_recv_wr = if wanted.shared.is_some() {
            0
        } else {
            wanted.receive_capacity
        };
        attributes.cap.max_send_sge = 1;
        attributes.cap.max_recv_sge = u32::from(wanted.shared.is_none());
        attributes.pd = wanted.domain.raw();
        attributes.comp_mask = ibv::ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_PD.0
            | ibv::ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.0;
        let flags = named
            .iter()
            .filter(|(wanted, _)| *wanted)
            .fold(0, |flags, (_, bit)| flags | bit.0);
        attributes.send_ops_flags = flags.into();
        // SAFETY: context, protection domain and queues are alive, and kept by the value that is made here;
        // `attributes` is whole.
        let raw = unsafe { ibv::ibv_create_qp_ex(wanted.domain.context().raw(), &mut attributes) };
        if raw.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: not null (checked), so the queue pair is alive; its number never changes.
        let number = unsafe { (*raw).qp_num };
        // SAFETY: the queue pair was made with operations of the extended interface, as the call requires.
        let extended = unsafe { ibv::ibv_qp_to_qp_ex(raw) };
        let parents = (
            wanted.domain.clone(),
            wanted.send_cq.clone(),
            wanted.receive_cq.clone(),
            wanted.shared.cloned(),
        );
        let made = Self {
            raw,
            extended,
            number,
            extra,
            _parents: parents,
        };
        if extended.is_null() {
            Err(io::ErrorKind::Unsupported.into())
        } else {
            Ok(made)
        }
    }

    /// The number by which peers address it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// For posting. Valid while `self` lives.
    pub(super) fn extended(&self) -> *mut ibv::ibv_qp_ex {
        self.extended
    }

    /// RESET to INIT: receives may be posted.
    pub fn initialize(&self, port: &Port, flush_persistent: bool) -> io::Result<()> {
        use ibv::{ibv_access_flags as flag, ibv_qp_attr_mask as mask};
        let mut attributes = ibv::ibv_qp_attr::zeroed();
        attributes.qp_state = ibv::ibv_qp_state::IBV_QPS_INIT;
        attributes.port_num = port.number;
        let named = [
            (true, flag::IBV_ACCESS_REMOTE_READ),
            (true, flag::IBV_ACCESS_REMOTE_WRITE),
            (true, flag::IBV_ACCESS_REMOTE_ATOMIC),
            (self.extra.flush, flag::IBV_ACCESS_FLUSH_GLOBAL),
            (
                self.extra.flush && flush_persistent,
                flag::IBV_ACCESS_FLUSH_PERSISTENT,
            ),
        ];
        attributes.qp_access_flags = named
            .iter()
            .filter(|(set, _)| *set)
            .fold(0, |flags, (_, bit)| flags | bit.0);
        self.modify(
            &mut attributes,
            mask::IBV_QP_STATE
                | mask::IBV_QP_PKEY_INDEX
                | mask::IBV_QP_PORT
                | mask::IBV_QP_ACCESS_FLAGS,
        )
    }

    /// INIT to RTR: packets of the peer are accepted.
    pub fn receive_from(&self, route: &Route) -> io::Result<()> {
        use ibv::ibv_qp_attr_mask as mask;
        // A FLUSH to a queue pair without resources for READs makes some kernels write through a null pointer.
        assert!(
            route.reads_in >= 1,
            "a responder has resources for at least one READ"
        );
        let mut attributes = ibv::ibv_qp_attr::zeroed();
        attributes.qp_state = ibv::ibv_qp_state::IBV_QPS_RTR;
        attributes.path_mtu = route.port.mtu.min(route.peer.mtu).into();
        attributes.dest_qp_num = route.peer.queue_pair;
        attributes.rq_psn = route.peer.first_packet;
        attributes.max_dest_rd_atomic = route.reads_in;
        attributes.min_rnr_timer = route.peer_terms.timer_code;
        attributes.ah_attr.port_num = route.port.number;
        attributes.ah_attr.dlid = route.peer.lid;
        if route.port.transport == Transport::Roce {
            attributes.ah_attr.is_global = 1;
            attributes.ah_attr.grh.dgid = ibv::ibv_gid {
                raw: route.peer.gid.0,
            };
            attributes.ah_attr.grh.sgid_index = route.port.gid_index;
            attributes.ah_attr.grh.hop_limit = 64;
        }
        self.modify(
            &mut attributes,
            mask::IBV_QP_STATE
                | mask::IBV_QP_AV
                | mask::IBV_QP_PATH_MTU
                | mask::IBV_QP_DEST_QPN
                | mask::IBV_QP_RQ_PSN
                | mask::IBV_QP_MAX_DEST_RD_ATOMIC
                | mask::IBV_QP_MIN_RNR_TIMER,
        )
    }

    /// RTR to RTS: requests are sent.
    pub fn send_to(&self, route: &Route) -> io::Result<()> {
        use ibv::ibv_qp_attr_mask as mask;
        assert!(
            (1..=6).contains(&route.retransmission.retry_count),
            "there is a bounded number of retries, at least one"
        );
        let mut attributes = ibv::ibv_qp_attr::zeroed();
        attributes.qp_state = ibv::ibv_qp_state::IBV_QPS_RTS;
        attributes.sq_psn = route.first_packet;
        attributes.timeout = route.retransmission.timeout_code;
        attributes.retry_cnt = route.retransmission.retry_count;
        attributes.rnr_retry = route.own_terms.retry_count;
        attributes.max_rd_atomic = route.reads_out;
        self.modify(
            &mut attributes,
            mask::IBV_QP_STATE
                | mask::IBV_QP_SQ_PSN
                | mask::IBV_QP_TIMEOUT
                | mask::IBV_QP_RETRY_CNT
                | mask::IBV_QP_RNR_RETRY
                | mask::IBV_QP_MAX_QP_RD_ATOMIC,
        )
    }

    /// Any state to ERR. After this call has returned `Ok`, no request of the peer is executed, and outstanding
    /// requests will complete with an error.
    pub fn fail(&self) -> io::Result<()> {
        let mut attributes = ibv::ibv_qp_attr::zeroed();
        attributes.qp_state = ibv::ibv_qp_state::IBV_QPS_ERR;
        self.modify(&mut attributes, ibv::ibv_qp_attr_mask::IBV_QP_STATE)
    }

    /// Any state to RESET, as fresh; posted requests are forgotten.
    pub fn reset(&self) -> io::Result<()> {
        let mut attributes = ibv::ibv_qp_attr::zeroed();
        attributes.qp_state = ibv::ibv_qp_state::IBV_QPS_RESET;
        self.modify(&mut attributes, ibv::ibv_qp_attr_mask::IBV_QP_STATE)
    }

    fn modify(
        &self,
        attributes: &mut ibv::ibv_qp_attr,
        mask: ibv::ibv_qp_attr_mask,
    ) -> io::Result<()> {
        let mask = i32::try_from(mask.0).expect("the bits of the mask are few");
        // SAFETY: the queue pair is alive; `attributes` is whole, and `mask` selects the fields that are read.
        outcome(unsafe { ibv::ibv_modify_qp(self.raw, attributes, mask) })
    }

    /// Posts receive buffers to the receive queue of this queue pair, in order.
    pub fn post_receives(&self, receives: &[RawReceive]) -> io::Result<()> {
        let Some(mut chain) = Chain::of(receives) else {
            return Ok(());
        };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is alive; the chain is whole, ends with null and lives until the call has copied it.
        // The NIC checks address and key of each buffer itself.
        outcome(unsafe { ibv::ibv_post_recv(self.raw, chain.first(), &mut bad) })
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: made by `ibv_create_qp_ex`, freed once. Its parents go after it, because they are fields of `self`.
        let _nothing_to_do = unsafe { ibv::ibv_destroy_qp(self.raw) };
    }
}
