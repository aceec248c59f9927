//! Completion queues as programs see them, and the meaning of the NIC's completions.

use std::collections::VecDeque;
use std::rc::Rc;

use stonecast_fabric::{Opcode, Status, WorkCompletion};

use crate::verbs::completion::CompletionQueue;

/// A completion queue of the NIC, with completions that were taken from it or made here and not yet polled.
pub(super) struct CompletionQueueState {
    pub hardware: Rc<CompletionQueue>,
    pub taken: VecDeque<WorkCompletion>,
    /// Entries that may still be promised to queue pairs, if the device cannot make a queue as long as the program
    /// wanted.
    pub unpromised: Option<u32>,
    /// Shared receive queues whose buffers are already promised.
    pub promised_shared: Vec<u32>,
}

impl CompletionQueueState {
    /// Promises `count` entries; the error is the number of free entries.
    pub fn promise(&mut self, count: u32) -> Result<(), u32> {
        if let Some(unpromised) = &mut self.unpromised {
            *unpromised = unpromised.checked_sub(count).ok_or(*unpromised)?;
        }
        Ok(())
    }

    /// Takes back a promise.
    pub fn take_back(&mut self, count: u32) {
        if let Some(unpromised) = &mut self.unpromised {
            *unpromised += count;
        }
    }
}

/// The information in the identifier of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkId {
    /// Position of a send in its queue pair.
    Send(u64),
    /// Position of a receive in its queue pair.
    Receive(u64),
    /// Slot of a shared receive queue: the queue and the slot.
    Shared(u32, u32),
    /// A binding that the device itself posted.
    Binding,
}

const KIND_SHIFT: u32 = 62;
const POSITION: u64 = (1 << KIND_SHIFT) - 1;
/// Bits for the slots of one shared receive queue.
const SLOT_BITS: u32 = 24;

impl WorkId {
    /// The most slots of a shared receive queue.
    pub const SLOTS_MAX: u32 = 1 << SLOT_BITS;

    pub fn encode(self) -> u64 {
        match self {
            WorkId::Send(position) => position & POSITION,
            WorkId::Receive(position) => 1 << KIND_SHIFT | position & POSITION,
            WorkId::Shared(queue, slot) => {
                2 << KIND_SHIFT | u64::from(queue) << SLOT_BITS | u64::from(slot)
            }
            WorkId::Binding => 3 << KIND_SHIFT,
        }
    }

    pub fn decode(wr_id: u64) -> Self {
        let rest = wr_id & POSITION;
        match wr_id >> KIND_SHIFT {
            0 => WorkId::Send(rest),
            1 => WorkId::Receive(rest),
            2 => WorkId::Shared(
                (rest >> SLOT_BITS) as u32,
                (rest as u32) & (Self::SLOTS_MAX - 1),
            ),
            _ => WorkId::Binding,
        }
    }
}

/// The meaning of a status of the NIC.
pub(super) fn status_of(code: u32) -> Status {
    use rdma_mummy_sys::ibv_wc_status as status;
    match code {
        status::IBV_WC_SUCCESS => Status::Success,
        status::IBV_WC_LOC_LEN_ERR => Status::LocalLength,
        status::IBV_WC_LOC_PROT_ERR
        | status::IBV_WC_LOC_ACCESS_ERR
        | status::IBV_WC_LOC_QP_OP_ERR
        | status::IBV_WC_MW_BIND_ERR => Status::LocalProtection,
        status::IBV_WC_WR_FLUSH_ERR => Status::WorkRequestFlushed,
        status::IBV_WC_REM_INV_REQ_ERR | status::IBV_WC_REM_INV_RD_REQ_ERR => {
            Status::RemoteInvalidRequest
        }
        status::IBV_WC_REM_ACCESS_ERR => Status::RemoteAccess,
        status::IBV_WC_RETRY_EXC_ERR | status::IBV_WC_RESP_TIMEOUT_ERR => Status::RetryExceeded,
        status::IBV_WC_RNR_RETRY_EXC_ERR => Status::RnrRetryExceeded,
        _ => Status::RemoteOperation,
    }
}

/// The kind of an arrival, by the number that the NIC gives.
pub(super) fn arrival_of(code: u32) -> Opcode {
    if code == rdma_mummy_sys::ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM {
        Opcode::ReceiveWriteWithImmediate
    } else {
        Opcode::Receive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_survive_encoding_and_decoding() {
        for id in [
            WorkId::Send(0),
            WorkId::Send(POSITION),
            WorkId::Receive(7),
            WorkId::Shared(0, 0),
            WorkId::Shared(u32::MAX, WorkId::SLOTS_MAX - 1),
            WorkId::Binding,
        ] {
            assert_eq!(WorkId::decode(id.encode()), id);
        }
    }

    #[test]
    fn an_unknown_status_is_not_a_success() {
        for code in [1, 18, 19, 21, 99, u32::MAX] {
            assert_ne!(status_of(code), Status::Success);
        }
        assert_eq!(status_of(0), Status::Success);
    }
}
