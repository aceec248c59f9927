//! The receiver's side of appends.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use stonecast_base::mutant;

use super::AppendTerms;
use crate::{
    Device, DeviceError, LocalSpan, MultiPacketOptions, Opcode, QueuePair, ReceiveQueue,
    ReceiveRequest, SharedReceiveQueue, SharedReceiveQueueOptions, WorkCompletion,
};

/// How to make an [`AppendQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendOptions {
    /// Most posted buffers.
    pub buffers: u32,
    /// Bytes of the longest buffer.
    pub buffer_size_max: u32,
    /// Bytes at multiples of which messages begin, where the device packs them.
    pub grain: u32,
    /// Bytes of the longest message; a multiple of `grain`.
    pub message_size_max: u32,
}

impl Default for AppendOptions {
    /// 16 buffers of up to 4 MiB, grains of 64 bytes, messages of up to 4096.
    fn default() -> Self {
        Self {
            buffers: 16,
            buffer_size_max: 4 << 20,
            grain: 64,
            message_size_max: 4096,
        }
    }
}

/// Memory that senders append to. See the [module documentation](super).
pub struct AppendQueue {
    device: Rc<dyn Device>,
    queue: SharedReceiveQueue,
    terms: AppendTerms,
    buffer_size_max: u32,
    /// `None` where the device packs messages and gives buffers back by itself.
    slots: Option<Slots>,
    credits: Credits,
    /// Buffers that were posted and not settled: their grains, and how many of them are granted beforehand.
    rooms: BTreeMap<u64, Room>,
}

#[derive(Clone, Copy)]
struct Room {
    grains: u64,
    granted: u64,
}

/// What was granted to each sender, and what there is to grant.
#[derive(Default)]
struct Credits {
    /// Grains that were taken in settled buffers, and those that the others take at least.
    room: u64,
    granted: u64,
    by_sender: BTreeMap<QueuePair, u64>,
}

/// Buffers that were cut into slots, oldest first.
struct Slots {
    buffers: VecDeque<Cut>,
    /// Number of the first one, counted from the first that was posted.
    first: u64,
    /// Slots that one buffer may have: what identifiers of slots are made of.
    per_buffer: u64,
}

struct Cut {
    wr_id: u64,
    /// Slots whose messages have not arrived.
    open: u32,
}

impl AppendQueue {
    /// An empty queue on `device`.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Malformed`] for a grain of no bytes, or messages that are not multiples of it; what the device says of a
    /// shared receive queue.
    pub fn new(device: Rc<dyn Device>, options: AppendOptions) -> Result<Self, DeviceError> {
        let AppendOptions {
            buffers,
            buffer_size_max,
            grain,
            message_size_max,
        } = options;
        if grain == 0 || message_size_max == 0 || !message_size_max.is_multiple_of(grain) {
            return Err(DeviceError::Malformed {
                reason: "a grain of no bytes, or messages that are not multiples of it",
            });
        }
        let packs = device.capabilities().multi_packet;
        let per_buffer = buffer_size_max / message_size_max;
        let (capacity, multi_packet, grain) = if packs {
            let strides = u64::from(buffers) * u64::from(buffer_size_max / grain);
            let packed = MultiPacketOptions::silent(grain).with_strides(strides);
            (buffers, Some(packed), grain)
        } else {
            (buffers.saturating_mul(per_buffer), None, message_size_max)
        };
        let queue = device.create_shared_receive_queue(SharedReceiveQueueOptions {
            capacity,
            multi_packet,
            in_order: true,
        })?;
        let slots = Slots {
            buffers: VecDeque::new(),
            first: 0,
            per_buffer: u64::from(per_buffer.max(1)),
        };
        Ok(Self {
            device,
            queue,
            terms: AppendTerms {
                grain,
                message_size_max,
            },
            buffer_size_max,
            slots: (!packs).then_some(slots),
            credits: Credits::default(),
            rooms: BTreeMap::new(),
        })
    }

    /// What the queue pairs of senders take their buffers from. Where the device does not pack messages, the completion queue
    /// of their arrivals holds one completion for each slot of all posted buffers.
    pub fn shared_queue(&self) -> SharedReceiveQueue {
        self.queue
    }

    /// What senders must know.
    pub fn terms(&self) -> AppendTerms {
        self.terms
    }

    /// Gives the queue memory to fill. `wr_id` comes back from [`AppendQueue::take_consumed`], and names no other buffer until
    /// [`AppendQueue::settle`] was called.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Malformed`] where the memory takes no message, is longer than the options say, or has the name of another;
    /// [`DeviceError::QueueFull`].
    pub fn post(&mut self, wr_id: u64, local: LocalSpan) -> Result<(), DeviceError> {
        if local.size > self.buffer_size_max {
            return Err(DeviceError::Malformed {
                reason: "a buffer that is longer than the options say",
            });
        }
        let room = self.terms.room(local.size);
        if room == 0 {
            return Err(DeviceError::Malformed {
                reason: "a buffer that may take no message",
            });
        }
        if self.rooms.contains_key(&wr_id) {
            return Err(DeviceError::Malformed {
                reason: "a buffer with the name of one that is not settled",
            });
        }
        let requests = match &self.slots {
            None => vec![ReceiveRequest { wr_id, local }],
            Some(slots) => slots.cut(local, self.terms.message_size_max),
        };
        let queue = ReceiveQueue::Shared(self.queue);
        self.device.post_receive(queue, &requests)?;
        if let Some(slots) = &mut self.slots {
            let open = requests.len() as u32;
            slots.buffers.push_back(Cut { wr_id, open });
        }
        let grains = u64::from(local.size / self.terms.grain);
        let granted = room;
        self.rooms.insert(wr_id, Room { grains, granted });
        self.credits.room += room;
        Ok(())
    }

    /// Takes the completion of an arrival, whatever its status: a slot that a dying sender left half-filled is used up, too.
    /// Needed where the device does not pack messages; elsewhere there is none. True if it was one of this queue.
    ///
    /// Senders are known by their queue pairs, from the first [`AppendQueue::grant`], which may be of no credits, until
    /// [`AppendQueue::forget`]. An identifier alone says nothing: receive buffers of other queue pairs may have the same.
    ///
    /// A queue pair takes the completions that nobody has polled with it when it is destroyed, and their slots with them: poll
    /// after [`Device::poll_quiesce`] and before.
    pub fn note_arrival(&mut self, completion: &WorkCompletion) -> bool {
        let arrival = matches!(completion.opcode, Opcode::Receive)
            && self.credits.by_sender.contains_key(&completion.qp);
        let slots = self.slots.as_mut().filter(|_| arrival);
        slots.is_some_and(|slots| slots.close(completion.wr_id))
    }

    /// Appends to `into` the `wr_id` of each buffer that has taken its last message, oldest first. Nothing lands there any
    /// more. An entry of several messages may begin in it and end in a later one.
    pub fn take_consumed(&mut self, into: &mut Vec<u64>) {
        match &mut self.slots {
            None => {
                self.device.poll_consumed(self.queue, into);
            }
            Some(slots) => into.extend(std::iter::from_fn(|| slots.pop_done())),
        }
    }

    /// Says how many grains of a buffer that has come back were taken: up to the end of its last message, places that dead
    /// senders left empty included. More than the buffer had to take at least becomes credit, without which credits would
    /// run out while buffers have room. A number that no buffer of its size can have is taken for the nearest that can.
    ///
    /// # Panics
    ///
    /// Where no buffer is called `wr_id`.
    pub fn settle(&mut self, wr_id: u64, taken: u64) {
        let Room { grains, granted } = self.rooms.remove(&wr_id).expect("a buffer of this queue");
        self.credits.room += taken.clamp(granted, grains) - granted;
    }

    /// Grants `sender` up to `wanted` credits, and says how many. Names the sender to the queue, also when it grants none.
    pub fn grant(&mut self, sender: QueuePair, wanted: u64) -> u64 {
        let credits = &mut self.credits;
        let granted = match mutant!(CreditWithoutRoom) {
            true => wanted,
            false => wanted.min(credits.room - credits.granted),
        };
        credits.granted += granted;
        *credits.by_sender.entry(sender).or_default() += granted;
        granted
    }

    /// Takes back what a sender did not use: all that it was granted, less `used`, what its messages and the places that it
    /// left empty cost. Only of a sender that is quiet ([`Device::poll_quiesce`]), because one that is not may still use it, and
    /// after its arrivals were noted, because no later one is taken for its own.
    pub fn forget(&mut self, sender: QueuePair, used: u64) {
        let granted = self.credits.by_sender.remove(&sender).unwrap_or(0);
        self.credits.granted -= granted.saturating_sub(used);
    }
}

impl Slots {
    /// A receive buffer for each slot of `local`, which is no longer than the longest buffer.
    fn cut(&self, local: LocalSpan, slot_size: u32) -> Vec<ReceiveRequest> {
        let count = u64::from(local.size / slot_size);
        let buffer = self.first + self.buffers.len() as u64;
        let slot = |index: u64| ReceiveRequest {
            wr_id: buffer * self.per_buffer + index,
            local: LocalSpan {
                region: local.region,
                offset: local.offset + index * u64::from(slot_size),
                size: slot_size,
            },
        };
        (0..count).map(slot).collect()
    }

    /// A message has arrived in the slot that its receive buffer was called. False where there is none.
    fn close(&mut self, slot: u64) -> bool {
        let buffer = (slot / self.per_buffer).checked_sub(self.first);
        let cut = buffer.and_then(|buffer| self.buffers.get_mut(usize::try_from(buffer).ok()?));
        let Some(cut) = cut.filter(|cut| cut.open > 0) else {
            return false;
        };
        cut.open -= 1;
        true
    }

    fn pop_done(&mut self) -> Option<u64> {
        self.buffers.front().filter(|cut| cut.open == 0)?;
        self.first += 1;
        self.buffers.pop_front().map(|cut| cut.wr_id)
    }
}
