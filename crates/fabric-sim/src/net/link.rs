//! Links between machines and the NICs at their ends, while something is wrong with them: partitions, slow and reset NICs.
//!
//! A message that meets a partition is sent again until the partition ends or the sender gives up, as reliable connections
//! do; so a short one is a delay and a long one ends the connection.

use stonecast_base::Nanoseconds;
use stonecast_fabric::{DisconnectCause, Status};

use super::{Net, Stage};
use crate::faults::Fault;
use crate::queue::Event;

/// Messages in one direction get nowhere for a while. `None`: any machine.
pub(super) struct Block {
    from: Option<u32>,
    to: Option<u32>,
    start: Nanoseconds,
    until: Nanoseconds,
}

/// Between two tries to send a message: a retransmission timeout of 67 ms, in steps that a simulation can tell apart.
const RETRANSMIT_NS: Nanoseconds = 1_000_000;

impl Net {
    /// Lets nothing through from one machine to another in a span of time.
    pub fn block(
        &mut self,
        from: Option<u32>,
        to: Option<u32>,
        start: Nanoseconds,
        until: Nanoseconds,
    ) {
        self.blocks.push(Block {
            from,
            to,
            start,
            until,
        });
    }

    /// Lets the NIC of `machine` take so many times as long for everything.
    pub fn slow_down(&mut self, machine: u32, factor: u64, until: Nanoseconds) {
        self.machines[machine as usize].slow = (factor.max(1), until);
    }

    /// How many times as long the NIC of `machine` takes now.
    pub(super) fn slowness(&self, machine: u32) -> u64 {
        let (factor, until) = self.machines[machine as usize].slow;
        if until > self.time.now() {
            self.faults.hit(Fault::SlowNic);
            factor
        } else {
            1
        }
    }

    /// Ends all partitions, and makes every NIC as fast as it was.
    pub fn heal(&mut self) {
        self.blocks.clear();
        for machine in &mut self.machines {
            machine.slow = (1, 0);
        }
    }

    /// When a message that is sent at `at` and would arrive at `arrival` does so; `None`: its sender gives up before.
    pub(super) fn passage(
        &mut self,
        from: u32,
        to: u32,
        at: Nanoseconds,
        arrival: Nanoseconds,
    ) -> Option<Nanoseconds> {
        if self.blocks.is_empty() {
            return Some(arrival);
        }
        let now = self.time.now();
        self.blocks.retain(|block| block.until > now);
        let [from, to] = [from, to].map(|context| self.contexts[context as usize].machine);
        let meets = |block: &&Block, at: Nanoseconds| {
            let matches = |side: Option<u32>, machine: u32| side.is_none_or(|side| side == machine);
            from != to
                && matches(block.from, from)
                && matches(block.to, to)
                && (block.start..block.until).contains(&at)
        };
        let mut sent = at;
        while let Some(block) = self.blocks.iter().find(|block| meets(block, sent)) {
            sent += (block.until - sent).next_multiple_of(RETRANSMIT_NS).max(1);
        }
        if sent > at {
            self.faults.hit(Fault::Partition);
        }
        let patience = self.machines[from as usize].profile.nic_give_up_ns;
        (sent - at < patience).then_some(arrival + (sent - at))
    }

    /// The sender of a message will hear nothing of it, and gives up in the end.
    pub(super) fn give_up_later(&mut self, index: u32) {
        let from = self.messages[index as usize].from;
        let Some(context) = self.qp(from).map(|qp| qp.context) else {
            return self.release_message(index);
        };
        let at = self.time.now() + self.profile_of(context).nic_give_up_ns;
        self.time.push(at, Event::GiveUp(index));
    }

    /// The sender of a message gives up.
    pub fn give_up(&mut self, index: u32) {
        let message = &self.messages[index as usize];
        let (number, sequence) = (message.from, message.sequence);
        let waits = self.qp(number).is_some_and(|qp| {
            let position = sequence
                .checked_sub(qp.base)
                .map(|position| position as usize);
            position
                .and_then(|position| qp.send.get(position))
                .is_some_and(|posted| posted.status.is_none())
        });
        if waits {
            self.fail(
                number,
                DisconnectCause::QueuePairError,
                Status::RetryExceeded,
            );
        }
        self.release_message(index);
    }

    /// Resets the NIC of `machine`: what it had taken and not placed is gone, and all its queue pairs are broken. Peers
    /// notice when nobody answers.
    pub fn reset(&mut self, machine: u32) {
        for number in 0..self.qps.len() as u32 {
            let Some(context) = self.qp(number).map(|qp| qp.context) else {
                continue;
            };
            let state = &self.contexts[context as usize];
            let stage = self.qps[number as usize]
                .as_ref()
                .map_or(Stage::Failed, |qp| qp.stage);
            if state.machine != machine || state.dead || stage == Stage::Failed {
                continue;
            }
            if self.forget_placing(number) {
                self.faults.hit(Fault::NicReset);
            }
            let peer = self.qp(number).and_then(|qp| qp.peer);
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

    /// Drops what was taken for queue pair `number` and not placed. Whether it was connected at all.
    pub(super) fn forget_placing(&mut self, number: u32) -> bool {
        let Some(qp) = self.qp(number) else {
            return false;
        };
        let connected = matches!(qp.stage, Stage::Accepted | Stage::Connected);
        let dropped = std::mem::take(&mut qp.placing);
        for index in dropped {
            let message = &mut self.messages[index as usize];
            message.settled = true;
            if let Some(key) = message.key.take() {
                self.leave_key(key);
            }
            self.undelay(index);
        }
        connected
    }

    /// A message that was kept inside the NIC is not any more.
    pub(super) fn undelay(&mut self, index: u32) {
        if std::mem::take(&mut self.messages[index as usize].delayed) {
            self.delayed -= 1;
        }
    }
}
