//! The receiver's side of appends.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::Waker;

use stonecast_base::mutant;

use super::AppendTerms;
use crate::{
    Appended, Device, DeviceError, LocalSpan, MultiPacketOptions, Opcode, QueuePair, ReceiveQueue,
    ReceiveRequest, SharedReceiveQueue, SharedReceiveQueueOptions, WorkCompletion,
};

/// Options of an [`AppendQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendOptions {
    /// The most posted buffers.
    pub buffers: u32,
    /// Bytes of the longest buffer.
    pub buffer_size_max: u32,
    /// Messages begin at multiples of this many bytes if the device packs them.
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

/// Memory to which senders append, and the credits of each sender.
pub struct AppendQueue {
    device: Rc<dyn Device>,
    queue: SharedReceiveQueue,
    terms: AppendTerms,
    buffer_size_max: u32,
    /// `None` if the device packs messages and gives buffers back by itself.
    slots: Option<Slots>,
    credits: Credits,
    /// Buffers that were posted and not settled: their grains, and the number of grains that are granted in advance.
    rooms: BTreeMap<u64, Room>,
}

#[derive(Clone, Copy)]
struct Room {
    grains: u64,
    granted: u64,
}

/// The credits granted to each sender, and the room that credits are granted from.
#[derive(Default)]
struct Credits {
    /// Grains that were taken in settled buffers, plus the grains that the other buffers take at least.
    room: u64,
    granted: u64,
    by_sender: BTreeMap<QueuePair, u64>,
}

/// Buffers that were cut into slots, oldest first.
struct Slots {
    buffers: VecDeque<Cut>,
    /// Number of the first buffer, counted from the first buffer ever posted.
    first: u64,
    /// The most slots of one buffer. The identifiers of slots are computed from this number.
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
    /// [`DeviceError::Malformed`] for a grain of no bytes, or messages that are not multiples of a grain; the device's
    /// errors for a shared receive queue.
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

    /// The queue from which the queue pairs of senders take their buffers. If the device does not pack messages, the
    /// completion queue of their arrivals needs one completion for each slot of all posted buffers.
    pub fn shared_queue(&self) -> SharedReceiveQueue {
        self.queue
    }

    /// The terms that senders must know.
    pub fn terms(&self) -> AppendTerms {
        self.terms
    }

    /// Gives the queue memory to fill. [`AppendQueue::take_consumed`] returns `wr_id`, which names no other buffer
    /// until [`AppendQueue::settle`] is called.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Malformed`] if the memory takes no message, is longer than the options allow, or has the name of
    /// another buffer; [`DeviceError::QueueFull`].
    pub fn post(&mut self, wr_id: u64, local: LocalSpan) -> Result<(), DeviceError> {
        if local.size > self.buffer_size_max {
            return Err(DeviceError::Malformed {
                reason: "a buffer that is longer than the options allow",
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
                reason: "a buffer with the name of a buffer that is not settled",
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

    /// Takes the completion of an arrival, with any status: a slot that a dying sender left half-filled is also used
    /// up. The caller needs this if the device does not pack messages; otherwise there are no such completions. Returns
    /// true if the completion belongs to this queue.
    ///
    /// Senders are known by their queue pairs, from the first [`AppendQueue::grant`], which may grant no credits, until
    /// [`AppendQueue::forget`]. An identifier alone proves nothing: receive buffers of other queue pairs may have the
    /// same identifiers.
    ///
    /// The destruction of a queue pair discards its unpolled completions, and their slots with them: poll after
    /// [`Device::poll_quiesce`] and before the destruction.
    pub fn note_arrival(&mut self, completion: &WorkCompletion) -> bool {
        let arrival = matches!(completion.opcode, Opcode::Receive)
            && self.credits.by_sender.contains_key(&completion.qp);
        let slots = self.slots.as_mut().filter(|_| arrival);
        slots.is_some_and(|slots| slots.close(completion.wr_id))
    }

    /// Appends to `into` the messages that have arrived since the last call, and returns whether these are all; see
    /// [`Device::poll_appended`]. Never all of them if the device does not pack messages: it completes each of them.
    pub fn take_appended(&self, waiter: Option<&Waker>, into: &mut Vec<Appended>) -> bool {
        self.slots.is_none() && self.device.poll_appended(self.queue, waiter, into)
    }

    /// Appends to `into` the `wr_id` of each buffer that has taken its last message, oldest first. No further message
    /// lands there. An entry of several messages may begin in such a buffer and end in a later buffer.
    pub fn take_consumed(&mut self, into: &mut Vec<u64>) {
        match &mut self.slots {
            None => {
                self.device.poll_consumed(self.queue, into);
            }
            Some(slots) => into.extend(std::iter::from_fn(|| slots.pop_done())),
        }
    }

    /// Reports the number of grains that a returned buffer took: up to the end of its last message, including places
    /// that dead senders left empty. Grains beyond the guaranteed minimum become credit; otherwise credits would run
    /// out while buffers have room. A number that no buffer of its size can have is replaced by the nearest possible
    /// number.
    ///
    /// # Panics
    ///
    /// If no buffer has the name `wr_id`.
    pub fn settle(&mut self, wr_id: u64, taken: u64) {
        let Room { grains, granted } = self.rooms.remove(&wr_id).expect("a buffer of this queue");
        self.credits.room += taken.clamp(granted, grains) - granted;
    }

    /// Grants `sender` up to `wanted` credits, and returns their number. Makes the sender known to the queue, even if
    /// it grants none.
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

    /// Takes back the credits that a sender did not use: all that it was granted, less `used`, the cost of its messages
    /// and of the places that it left empty. Only for a sender that is quiet ([`Device::poll_quiesce`]), because any
    /// other may still use its credits, and only after its arrivals were noted, because the queue ignores later ones.
    pub fn forget(&mut self, sender: QueuePair, used: u64) {
        let granted = self.credits.by_sender.remove(&sender).unwrap_or(0);
        self.credits.granted -= granted.saturating_sub(used);
    }

    /// Takes back credits of forgotten senders that turned out unused. Their use was unknown when the senders were
    /// forgotten.
    ///
    /// # Panics
    ///
    /// If fewer were granted.
    pub fn give_back(&mut self, credits: u64) {
        let granted = &mut self.credits.granted;
        *granted = granted.checked_sub(credits).expect("they were granted");
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

    /// Notes that a message has arrived in the slot with this identifier. Returns false if the slot does not exist.
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
