//! Puts the device to sleep when there is nothing to do.
//!
//! The device announces that it sleeps, checks everything once more, and waits on its bell. Peers that put an entry
//! into a ring or take one out, and the control thread, ring the bell. Events without a ring bound the sleep: counting
//! refusals of messages that find no buffer, and peers that a revocation waits for.

use std::sync::Arc;
use std::task::Waker;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{Park, boot_time};

use crate::clock;
use crate::device::{ShmDevice, State};
use crate::doorbell;
use crate::shared_receive_queue::{Buffers, MultiPacket};

/// Longest sleep while a task waits for a revocation that waits for a peer to leave: such a wait is over in
/// microseconds, or not at all.
const REVOCATION_SLEEP_NS: Nanoseconds = 200_000;

impl Park for ShmDevice {
    fn now(&self) -> Nanoseconds {
        boot_time()
    }

    #[inline]
    fn now_at_most(&self) -> Nanoseconds {
        self.time_bound.read()
    }

    fn park(&self, timeout: Nanoseconds) {
        let state = self.state.borrow();
        let spin_until = clock::now().saturating_add(self.options.park_spin_ns.min(timeout));
        while self.options.park_spin_ns > 0 && clock::now() < spin_until {
            if state.has_work() {
                return;
            }
            std::hint::spin_loop();
        }
        let timeout = state
            .patience_ns()
            .map_or(timeout, |patience| patience.min(timeout));
        let waits = state
            .listed
            .iter()
            .filter_map(|&handle| state.qps.get(handle))
            .any(|qp| qp.waits_for_peer());
        let mut reasons = doorbell::ARRIVALS;
        if waits {
            reasons |= doorbell::ACKNOWLEDGEMENTS;
        }
        if state.multi_packet_queues().any(MultiPacket::wakes) {
            reasons |= doorbell::APPENDS;
        }
        state.bell.sleep(reasons, timeout, || state.has_work());
    }

    fn yield_processor(&self) {
        std::thread::yield_now();
    }

    fn unpark(&self) -> Option<Waker> {
        Some(Waker::from(Arc::new(self.state.borrow().bell.clone())))
    }
}

impl State {
    /// Whether polling would find something.
    fn has_work(&self) -> bool {
        self.control.has_events()
            || !self.around.events.is_empty()
            || self.around.cqs.table.iter().any(|(_, cq)| !cq.is_empty())
            || self
                .listed
                .iter()
                .filter_map(|&handle| self.qps.get(handle))
                .any(|qp| qp.has_work())
            || self
                .multi_packet_queues()
                .any(|queue| queue.wakes() && queue.has_arrivals())
    }

    fn multi_packet_queues(&self) -> impl Iterator<Item = &MultiPacket> {
        self.around
            .srqs
            .iter()
            .filter_map(|(_, srq)| match &srq.buffers {
                Buffers::Multi(multi) => Some(&**multi),
                Buffers::Single(_) => None,
            })
    }

    /// The time until the device must check again by itself.
    fn patience_ns(&self) -> Option<Nanoseconds> {
        let queue_pairs = self
            .listed
            .iter()
            .filter_map(|&handle| self.qps.get(handle)?.patience_ns())
            .min();
        let revocations = self.leaving.has_waiting().then_some(REVOCATION_SLEEP_NS);
        queue_pairs.into_iter().chain(revocations).min()
    }
}
