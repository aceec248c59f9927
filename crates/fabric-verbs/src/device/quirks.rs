//! Deviations of devices from the specification, and their treatment.
//!
//! Soft-RoCE (Linux 6.12, rdma-core 56):
//! - treats a memory window as the whole registration that it is bound to, instead of its own bytes;
//! - flushes a request whose local bytes are not registered like the requests after it, instead of reporting the
//!   reason;
//! - answers a SEND that is longer than its buffer with *remote operation error*, and completes the buffer with *local
//!   operation error*, instead of *invalid request* and *length*;
//! - is software: the responder's processor copies arriving data.
//!
//! Any device may complete a receive that it fetched for a WRITE_WITH_IMM and then refused.

use stonecast_fabric::{Opcode, Placing, Status};

use super::completions::status_of;
use super::queue_pair::Posted;
use crate::verbs::context::Facts;

/// Whether a window must have a registration of exactly its own bytes.
pub(super) fn windows_need_own_registration(facts: &Facts) -> bool {
    facts.is_soft_roce
}

/// The agent that puts bytes into the memory of a device's own side.
pub(super) fn placing(facts: &Facts) -> Placing {
    if facts.is_soft_roce {
        Placing::ResponderProcessor
    } else {
        Placing::Nic
    }
}

/// The actual status of a send. `failed`: an earlier request had already failed.
pub(super) fn status_of_send(
    reported: Status,
    posted: &Posted,
    failed: bool,
    facts: &Facts,
) -> Status {
    match reported {
        Status::WorkRequestFlushed if posted.outside && !failed => Status::LocalProtection,
        Status::RemoteOperation if facts.is_soft_roce && posted.opcode == Opcode::Send => {
            Status::RemoteInvalidRequest
        }
        other => other,
    }
}

/// The actual status of a receive: with a message, for lack of room, or because its queue pair failed.
pub(super) fn status_of_receive(code: u32, facts: &Facts) -> Status {
    match status_of(code) {
        _ if facts.is_soft_roce && code == rdma_mummy_sys::ibv_wc_status::IBV_WC_LOC_QP_OP_ERR => {
            Status::LocalLength
        }
        status if takes_no_buffer(status) => Status::WorkRequestFlushed,
        status => status,
    }
}

/// Whether a receive with this status carries no message and no fault: the request that it was fetched for was refused.
pub(super) fn takes_no_buffer(status: Status) -> bool {
    matches!(
        status,
        Status::RemoteAccess | Status::RemoteInvalidRequest | Status::RemoteOperation
    )
}
