//! The room in posted segments, and the sessions that hold it.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Waker;

use stonecast_fabric::append::{AppendOptions, AppendQueue, AppendTerms};
use stonecast_fabric::{
    Appended, Device, DeviceError, LocalSpan, QueuePair, Received, SharedReceiveQueue,
};
use stonecast_log::{Consumption, LogFormat, UNIT_SIZE};

use super::credit::{Debts, Window};
use super::holes::Holes;

/// The queue that senders append to, with the use of its room.
pub(super) struct Room {
    queue: AppendQueue,
    /// Whether the device packs messages, and makes no completions of arrivals.
    packs: bool,
    names_all: bool,
    /// Bytes of a segment that entries take.
    buffer_size: u32,
    /// The grains that found entries of sessions explain, for each segment that is posted and not settled.
    explained: BTreeMap<u32, u64>,
    debts: Debts,
    holes: Holes,
}

impl Room {
    pub fn new(device: &Rc<dyn Device>, options: AppendOptions) -> Result<Self, DeviceError> {
        let buffer_size = options.buffer_size_max;
        Ok(Self {
            buffer_size,
            queue: AppendQueue::new(device.clone(), options)?,
            packs: device.capabilities().multi_packet,
            names_all: false,
            explained: BTreeMap::new(),
            debts: Debts::default(),
            holes: Holes::default(),
        })
    }

    /// Whether the device reports no arrivals.
    pub fn is_silent(&self) -> bool {
        self.packs
    }

    pub fn terms(&self) -> AppendTerms {
        self.queue.terms()
    }

    /// The credits that a segment pays for entries of any sizes.
    pub fn room_of_buffer(&self) -> u64 {
        let terms = self.terms();
        let grains = u64::from(self.buffer_size / terms.grain);
        // At the end of a segment, less than the longest entry may stay empty.
        (grains + 1).saturating_sub(terms.cost(terms.message_size_max))
    }

    /// Whether the device completes each arrival.
    pub fn counts_arrivals(&self) -> bool {
        !self.packs
    }

    pub fn shared_queue(&self) -> SharedReceiveQueue {
        self.queue.shared_queue()
    }

    pub fn post(&mut self, number: u32, buffer: LocalSpan) -> Result<(), DeviceError> {
        self.queue.post(number.into(), buffer)?;
        self.explained.insert(number, 0);
        Ok(())
    }

    /// Whether this run has posted a segment that is not settled.
    pub fn holds(&self, number: u32) -> bool {
        self.explained.contains_key(&number)
    }

    /// Names a sender, whose arrivals count from here on.
    pub fn admit(&mut self, sender: QueuePair) {
        self.queue.grant(sender, 0);
    }

    /// Takes the completion of an arrival, from a device that does not pack. Returns whether the arrival has used a
    /// credit.
    pub fn note_arrival(&mut self, arrival: &Received) -> bool {
        self.queue.note_arrival(arrival)
    }

    /// Takes the messages that have arrived since the last call, as far as the device follows them, each with the
    /// number of its segment. The next message wakes `waiter`.
    pub fn take_appended(&mut self, waiter: Option<&Waker>) -> Vec<Appended> {
        let mut appended = Vec::new();
        self.names_all = self.queue.take_appended(waiter, &mut appended);
        appended
    }

    /// Whether the device has named all messages that had arrived at the last call of [`Room::take_appended`].
    pub fn names_all(&self) -> bool {
        self.names_all
    }

    /// The numbers of the segments in which nothing lands any more.
    pub fn take_consumed(&mut self) -> Vec<u32> {
        let mut consumed = Vec::new();
        self.queue.take_consumed(&mut consumed);
        consumed.into_iter().map(|number| number as u32).collect()
    }

    /// Notes that an entry of a session was found in a segment.
    pub fn explain(&mut self, number: u32, size: u32) {
        let cost = self.terms().cost(size);
        if let Some(explained) = self.explained.get_mut(&number) {
            *explained += cost;
        }
    }

    /// Notes that a segment is settled. A segment that an earlier run posted gives no credits back.
    pub fn settle(&mut self, format: &LogFormat, consumption: &Consumption) {
        let &Consumption { number, units, .. } = consumption;
        let Some(explained) = self.explained.remove(&number) else {
            return;
        };
        self.holes.note(format, self.terms().grain, consumption);
        let found = u64::from(units) * UNIT_SIZE / u64::from(self.terms().grain);
        // The device left the segment because a message did not fit into the rest, so at least this much is used.
        let taken = found.max(self.room_of_buffer());
        self.queue.settle(number.into(), taken);
        self.debts.note_settled(number, (taken, explained));
        self.queue.give_back(self.debts.take_unused());
    }

    /// Notes that an entry of `connection` was found, and that `open_units` below the last entries
    /// hold no entry.
    pub fn bound(&mut self, connection: u64, open_units: u64) {
        self.queue
            .give_back(self.debts.bound(connection, open_units));
    }

    /// Gives a session the credits that its window wants, as far as the room goes.
    pub fn refill(&mut self, sender: QueuePair, window: &mut Window) {
        let wanted = window.wanted();
        if wanted == 0 {
            return;
        }
        window.add(self.queue.grant(sender, wanted));
        if !window.pays_longest() && self.debts.held() > 0 {
            self.queue.give_back(self.debts.forgive());
            window.add(self.queue.grant(sender, window.wanted()));
        }
    }

    /// Forgets a quiet sender after `arrivals` completions of its messages; `newest` is the highest number of a
    /// connection. On a device that packs, credits without a found entry may be used or not, until all segments are
    /// settled that the sender may have written.
    pub fn forget(&mut self, (sender, newest): (QueuePair, u64), window: &Window, arrivals: u64) {
        let unsettled = self.explained.keys().copied().collect();
        if !self.packs {
            let dead = window.unexplained(arrivals);
            self.debts.lose(newest, dead, unsettled);
            return self.queue.forget(sender, arrivals);
        }
        self.queue.forget(sender, window.granted());
        self.debts.add(newest, window.held(), unsettled);
        self.queue.give_back(self.debts.take_unused());
    }

    /// The places without an entry in the segments that were settled.
    pub fn holes(&self) -> Holes {
        self.holes
    }

    /// The credits of ended sessions for which places after the last entry may stay empty.
    pub fn lost(&self) -> u64 {
        self.debts.lost()
    }
}
