//! Senders that give up, and NICs that are reset.

use stonecast_fabric::{DisconnectCause, Status};

use super::{Net, Stage};
use crate::faults::Fault;
use crate::queue::Event;

impl Net {
    /// Schedules the end of patience for a sender that will get no answer to a message.
    pub(super) fn give_up_later(&mut self, index: u32) {
        let from = self.messages[index].route.from;
        let Some(context) = self.qp(from).map(|qp| qp.context) else {
            return self.messages.release(index);
        };
        let at = self.time.now() + self.profile_of(context).nic_give_up_ns;
        self.time.push(at, Event::GiveUp(index));
    }

    /// Handles the moment at which the sender of a message gives up.
    pub fn give_up(&mut self, index: u32) {
        let message = &self.messages[index];
        let (number, sequence) = (message.route.from, message.route.sequence);
        let waits = self
            .qp(number)
            .is_some_and(|qp| qp.sends.waiting(sequence).is_some());
        if waits {
            self.fail(
                number,
                DisconnectCause::QueuePairError,
                Status::RetryExceeded,
            );
        }
        self.messages.release(index);
    }

    /// Resets the NIC of `machine`: messages that it had taken and not placed are gone, and all its queue pairs are
    /// broken. Peers notice the missing answers.
    pub fn reset(&mut self, machine: u32) {
        for number in 0..self.qps.len() as u32 {
            let Some(context) = self.qp(number).map(|qp| qp.context) else {
                continue;
            };
            let state = &self.contexts[context as usize];
            let stage = self.qps[number as usize]
                .as_ref()
                .map_or(Stage::Failed, |qp| qp.connection.stage);
            if state.machine != machine || state.dead || stage == Stage::Failed {
                continue;
            }
            if self.forget_placing(number) {
                self.faults.hit(Fault::NicReset);
            }
            let peer = self.qp(number).and_then(|qp| qp.connection.peer);
            self.fail(
                number,
                DisconnectCause::PeerDied,
                Status::WorkRequestFlushed,
            );
            if let (Some(peer), Stage::Accepted | Stage::Connected) = (peer, stage) {
                self.give_up_on(peer, number, context);
            }
        }
    }

    /// Drops the messages that were taken for queue pair `number` and not placed. Returns whether it was connected at
    /// all.
    pub(super) fn forget_placing(&mut self, number: u32) -> bool {
        let Some(qp) = self.qp(number) else {
            return false;
        };
        let connected = matches!(qp.connection.stage, Stage::Accepted | Stage::Connected);
        let dropped = std::mem::take(&mut qp.inbound.placing);
        for index in dropped {
            self.end_placing(number, index);
            self.messages.undelay(index);
        }
        self.note_quiet(number);
        connected
    }

    /// Ends the placing of message `index` at queue pair `number`, at any stage: the message leaves its key, and its
    /// landing completes as flushed.
    pub(super) fn end_placing(&mut self, number: u32, index: u32) {
        let message = &mut self.messages[index];
        message.progress.settled = true;
        let (key, landing) = (message.target.key.take(), message.landing.take());
        if let Some(key) = key {
            self.leave_key(key);
        }
        if let Some(landing) = landing {
            self.flush_landing(number, &landing);
        }
    }
}
