//! Puts the thread to sleep when there is nothing to do.
//!
//! The completion queues are armed and polled once more; then the thread sleeps on three descriptors: the completion
//! channel, the bell of the control plane, the events of the device.

use std::task::Waker;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{Park, boot_time};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{State, VerbsDevice};

impl Park for VerbsDevice {
    fn now(&self) -> Nanoseconds {
        boot_time()
    }

    fn park(&self, timeout: Nanoseconds) {
        if self.state.borrow_mut().has_work() {
            return;
        }
        let state = self.state.borrow();
        let timeout = Timespec {
            tv_sec: (timeout / 1_000_000_000) as i64,
            tv_nsec: (timeout % 1_000_000_000) as i64,
        };
        let mut sources = [
            PollFd::from_borrowed_fd(state.hardware.channel.descriptor(), PollFlags::IN),
            PollFd::from_borrowed_fd(state.control.bell(), PollFlags::IN),
            PollFd::from_borrowed_fd(state.hardware.context.event_descriptor(), PollFlags::IN),
        ];
        // An interrupted sleep is a short sleep, which a park allows.
        let _ = poll(&mut sources, Some(&timeout));
        let device_event = !sources[2].revents().is_empty();
        state.hardware.channel.drain();
        drop(state);
        if device_event {
            self.state.borrow_mut().hear_device();
        }
    }

    fn yield_processor(&self) {
        std::thread::yield_now();
    }

    fn unpark(&self) -> Option<Waker> {
        Some(self.state.borrow().control.waker())
    }
}

impl State {
    /// Arms every completion queue, and returns whether there is already work.
    fn has_work(&mut self) -> bool {
        if self.control.silence()
            || self.control.has_events()
            || !self.connections.events.is_empty()
        {
            return true;
        }
        let queues: Vec<u32> = self.cqs.iter().map(|(handle, _)| handle).collect();
        for &cq in &queues {
            let armed = self.cqs.get(cq).map(|queue| queue.hardware.arm());
            if !matches!(armed, Ok(Ok(()))) {
                // A queue that cannot announce itself must be polled.
                return true;
            }
        }
        // Polled after it was armed: earlier completions cause no announcement.
        for &cq in &queues {
            self.collect(cq, 1);
        }
        !self.connections.events.is_empty()
            || self.cqs.iter().any(|(_, queue)| !queue.taken.is_empty())
    }
}
