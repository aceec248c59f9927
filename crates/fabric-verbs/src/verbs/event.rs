//! Unsolicited events of a device: a completion queue that overran, a queue pair that failed, a device that is gone.

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr;

use rdma_mummy_sys as ibv;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::context::Context;

/// The event, in numbers that outlive the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceEvent {
    /// A completion queue lost completions; the number is the one given at its creation.
    CompletionQueueOverrun(u32),
    /// A queue pair failed as a responder, or without a reason that a completion could carry.
    QueuePairFailed(u32),
    /// A failed queue pair takes no more buffers from its shared receive queue, and the buffers that it took have
    /// completed.
    LastReceive(u32),
    /// The device is gone.
    DeviceGone,
    /// Any other event, which needs no action.
    Other,
}

// Numbers of `enum ibv_event_type`; compared as numbers, because newer libraries report newer ones.
const CQ_ERR: u32 = ibv::ibv_event_type::IBV_EVENT_CQ_ERR as u32;
const QP_FATAL: u32 = ibv::ibv_event_type::IBV_EVENT_QP_FATAL as u32;
const QP_REQ_ERR: u32 = ibv::ibv_event_type::IBV_EVENT_QP_REQ_ERR as u32;
const QP_ACCESS_ERR: u32 = ibv::ibv_event_type::IBV_EVENT_QP_ACCESS_ERR as u32;
const QP_LAST_WQE: u32 = ibv::ibv_event_type::IBV_EVENT_QP_LAST_WQE_REACHED as u32;
const DEVICE_FATAL: u32 = ibv::ibv_event_type::IBV_EVENT_DEVICE_FATAL as u32;

/// Takes one event, if there is one. Never blocks.
pub(crate) fn next_event(context: &Context) -> Option<DeviceEvent> {
    let mut ready = [PollFd::from_borrowed_fd(
        context.event_descriptor(),
        PollFlags::IN,
    )];
    if poll(
        &mut ready,
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    ) != Ok(1)
    {
        return None;
    }
    let mut event = RawEvent {
        element: ptr::null_mut(),
        kind: u32::MAX,
    };
    let place = (&raw mut event).cast::<ibv::ibv_async_event>();
    // SAFETY: the context is open, and `event` has the layout of the library's structure (asserted). Only one thread
    // takes events, so an announced event is available.
    if unsafe { ibv::ibv_get_async_event(context.raw(), place) } != 0 {
        return None;
    }
    let found = match event.kind {
        CQ_ERR => DeviceEvent::CompletionQueueOverrun(completion_queue_number(&event)),
        QP_FATAL | QP_REQ_ERR | QP_ACCESS_ERR => {
            DeviceEvent::QueuePairFailed(queue_pair_number(&event))
        }
        QP_LAST_WQE => DeviceEvent::LastReceive(queue_pair_number(&event)),
        DEVICE_FATAL => DeviceEvent::DeviceGone,
        _ => DeviceEvent::Other,
    };
    // SAFETY: an event that was just taken and is acknowledged once; its object cannot be freed earlier (manual page of
    // `ibv_destroy_qp`), so it could be read above.
    unsafe { ibv::ibv_ack_async_event(place) };
    Some(found)
}

/// An event with its type as a number, because a type unknown to this library must not become a Rust `enum`.
#[repr(C)]
struct RawEvent {
    /// The object of the event; its kind follows from the type.
    element: *mut c_void,
    kind: u32,
}

const _: () = assert!(size_of::<RawEvent>() == size_of::<ibv::ibv_async_event>());
const _: () = assert!(offset_of!(RawEvent, kind) == offset_of!(ibv::ibv_async_event, event_type));

fn completion_queue_number(event: &RawEvent) -> u32 {
    let cq = event.element.cast::<ibv::ibv_cq>();
    // SAFETY: events of this type are about a completion queue, which lives until the event is acknowledged.
    let number = unsafe { (*cq).cq_context };
    number.addr() as u32
}

fn queue_pair_number(event: &RawEvent) -> u32 {
    let qp = event.element.cast::<ibv::ibv_qp>();
    // SAFETY: events of these types are about a queue pair, which lives until the event is acknowledged.
    unsafe { (*qp).qp_num }
}
