//! Receiver-placed appends on ordinary shared receive queues: slots of one size, posted in ascending order, so that
//! messages of many senders fill persistent memory in the order of their arrival, without the receiver's processor.
//!
//! ```text
//!   slot        0        1        2        3     ...     (one area for each size; each is a shared receive queue)
//!            | freed  | arrived| arrived| posted | ...
//!                                        ^ the next message lands here
//!   record   | tag | epoch | sender | sequence | size | bytes ............ |
//! ```
//!
//! Multi-packet receive queues would pack messages closer; no NIC at hand offers them for reliable connections. A sender
//! has a queue pair for each size of slot.
//!
//! Invariants:
//! - A sender sends only against credits, and no more credits are out than slots are posted, so that an honest sender
//!   never meets an empty queue. One that cheats meets the retries of its own queue pair, which are counted.
//! - A slot is posted again only after its header was cleared and the clearing was made durable: what an earlier message
//!   left there is never taken for a record.
//! - A record proves itself: the keyed tag covers everything behind it. A torn or forged one is not found.
//!
//! A crash leaves in each slot the cleared header, a whole record, or a part of one that no tag fits. Positions are not
//! kept: the order of one sender's records is that of their sequence numbers.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_base::hash::siphash24;
use stonecast_fabric::{
    Device, DeviceError, LocalSpan, MemoryRegion, Opcode, QueuePair, ReceiveQueue, ReceiveRequest,
    SharedReceiveQueue, SharedReceiveQueueOptions, Status, WorkCompletion,
};
use stonecast_media::Region;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// How a record begins.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    tag: U64,
    epoch: U32,
    sender: U32,
    sequence: U64,
    size: U32,
    reserved: U32,
}

/// Bytes of a record before its content.
pub const RECORD_HEADER_SIZE: usize = size_of::<Header>();

/// Who wrote a record, and as his how manieth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordName {
    /// Changes with the membership; what an older one still sends is not taken.
    pub epoch: u32,
    /// Who.
    pub sender: u32,
    /// Counts his records.
    pub sequence: u64,
}

/// The bytes of a record. `key` is shared by senders and receiver, and by nobody whose bytes stand in records.
pub fn encode_record(key: [u64; 2], name: RecordName, content: &[u8]) -> Vec<u8> {
    let size = u32::try_from(content.len()).expect("records are shorter than 4 GiB");
    let mut header = Header {
        tag: U64::ZERO,
        epoch: U32::new(name.epoch),
        sender: U32::new(name.sender),
        sequence: U64::new(name.sequence),
        size: U32::new(size),
        reserved: U32::ZERO,
    };
    let covered = [&header.as_bytes()[size_of::<U64>()..], content].concat();
    header.tag = U64::new(siphash24(key, &covered));
    [header.as_bytes(), content].concat()
}

/// The record in the bytes of a slot, if there is one.
pub fn decode_record(key: [u64; 2], slot: &[u8]) -> Option<(RecordName, &[u8])> {
    let (header, rest) = Header::read_from_prefix(slot).ok()?;
    let content = rest.get(..usize::try_from(header.size.get()).ok()?)?;
    let covered = &slot[size_of::<U64>()..RECORD_HEADER_SIZE + content.len()];
    if header.tag.get() != siphash24(key, covered) || header.reserved.get() != 0 {
        return None;
    }
    let name = RecordName {
        epoch: header.epoch.get(),
        sender: header.sender.get(),
        sequence: header.sequence.get(),
    };
    Some((name, content))
}

/// The shape of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotClass {
    /// Offset of the first slot in its region, bytes.
    pub first: u64,
    /// Bytes of a slot; at least [`RECORD_HEADER_SIZE`], and a multiple of 64, so that slots share no cache line.
    pub slot_size: u32,
    /// How many slots.
    pub slot_count: u32,
}

impl SlotClass {
    fn span(&self, position: u64) -> Span {
        let slot = position % u64::from(self.slot_count);
        Span::new(
            self.first + slot * u64::from(self.slot_size),
            self.slot_size.into(),
        )
    }

    /// Every record in the area, by slot; for recovery.
    pub fn scan(&self, memory: &dyn Region, key: [u64; 2]) -> Vec<(RecordName, Vec<u8>)> {
        let mut bytes = vec![0; self.slot_size as usize];
        let mut found = Vec::new();
        for position in 0..u64::from(self.slot_count) {
            memory.read(self.span(position).offset, &mut bytes);
            found
                .extend(decode_record(key, &bytes).map(|(name, content)| (name, content.to_vec())));
        }
        found
    }
}

/// A message that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// To free it.
    pub position: u64,
    /// Where it lies in the region. Its bytes are as a stranger sent them, until they were decoded.
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Posted,
    Arrived,
    Freed,
}

/// The receiver's side of one size of slots. See the module documentation.
pub struct AppendArea {
    device: Rc<dyn Device>,
    region: MemoryRegion,
    class: SlotClass,
    queue: SharedReceiveQueue,
    /// Position of the oldest slot that is not free for posting.
    oldest: u64,
    /// From `oldest` on, in ascending order.
    slots: VecDeque<Slot>,
    /// Credits that are out, by sender.
    credits: BTreeMap<QueuePair, u32>,
    /// Cleared, and waiting until the clearing is durable.
    cleared: u32,
}

impl AppendArea {
    /// Clears all slots and makes their queue. Nothing is posted before [`AppendArea::post`] is told that the
    /// clearing is durable. What the slots held must have been taken over before.
    pub fn new(
        device: Rc<dyn Device>,
        region: MemoryRegion,
        class: SlotClass,
    ) -> Result<Self, DeviceError> {
        let slots = Span::new(
            class.first,
            u64::from(class.slot_size) * u64::from(class.slot_count),
        );
        if class.slot_count == 0
            || (class.slot_size as usize) < RECORD_HEADER_SIZE
            || !class.slot_size.is_multiple_of(64)
        {
            return Err(DeviceError::Malformed {
                reason: "an area without slots, or slots that are not multiples of 64 bytes",
            });
        }
        if !slots.fits(region.size) {
            return Err(DeviceError::Malformed {
                reason: "an area that leaves its region",
            });
        }
        let options = SharedReceiveQueueOptions {
            capacity: class.slot_count,
            multi_packet: None,
        };
        let queue = device.create_shared_receive_queue(options)?;
        let mut area = Self {
            device,
            region,
            class,
            queue,
            oldest: 0,
            slots: VecDeque::new(),
            credits: BTreeMap::new(),
            cleared: class.slot_count,
        };
        (0..u64::from(class.slot_count)).for_each(|position| area.clear(position));
        Ok(area)
    }

    /// The queue that the senders' queue pairs take from.
    pub fn queue(&self) -> SharedReceiveQueue {
        self.queue
    }

    fn clear(&mut self, position: u64) {
        let memory = self.device.memory(self.region);
        memory.write(self.class.span(position).offset, &[0; RECORD_HEADER_SIZE]);
    }

    /// Clears the headers of the oldest slots that were freed, and returns what must be made durable before
    /// [`AppendArea::post`].
    pub fn clear_freed(&mut self) -> Vec<Span> {
        let mut spans = Vec::new();
        while self.slots.front() == Some(&Slot::Freed) {
            self.slots.pop_front();
            self.clear(self.oldest);
            spans.push(Span::new(
                self.class.span(self.oldest).offset,
                RECORD_HEADER_SIZE as u64,
            ));
            self.oldest += 1;
            self.cleared += 1;
        }
        spans
    }

    /// Posts what was cleared, in ascending order. The caller has made the clearing durable: a slot that is posted earlier may
    /// show its earlier record again after a crash.
    pub fn post(&mut self) -> Result<(), DeviceError> {
        let next = self.oldest + self.slots.len() as u64;
        let requests: Vec<_> = (next..next + u64::from(self.cleared))
            .map(|position| {
                let local = LocalSpan {
                    region: self.region,
                    offset: self.class.span(position).offset,
                    size: self.class.slot_size,
                };
                ReceiveRequest {
                    wr_id: position,
                    local,
                }
            })
            .collect();
        self.device
            .post_receive(ReceiveQueue::Shared(self.queue), &requests)?;
        self.slots.extend(requests.iter().map(|_| Slot::Posted));
        self.cleared = 0;
        Ok(())
    }

    /// Gives `sender` up to `wanted` credits, and says how many: he may send as many messages more.
    pub fn grant(&mut self, sender: QueuePair, wanted: u32) -> u32 {
        let posted = self
            .slots
            .iter()
            .filter(|slot| **slot == Slot::Posted)
            .count() as u32;
        let out: u32 = self.credits.values().sum();
        let granted = wanted.min(posted.saturating_sub(out));
        *self.credits.entry(sender).or_default() += granted;
        granted
    }

    /// Takes back the credits of a sender whose connection has ended.
    pub fn forget(&mut self, sender: QueuePair) {
        self.credits.remove(&sender);
    }

    /// Takes a completion of the senders' queue pairs. `None`: it carries no message.
    pub fn arrived(&mut self, completion: &WorkCompletion) -> Option<Appended> {
        let position = completion.wr_id;
        let slot = position
            .checked_sub(self.oldest)
            .and_then(|index| self.slots.get_mut(usize::try_from(index).ok()?))?;
        if *slot != Slot::Posted {
            return None;
        }
        if let Some(credits) = self.credits.get_mut(&completion.qp) {
            // A cheat may send more than he has; that costs slots, which come back, and nothing else.
            *credits = credits.saturating_sub(1);
        }
        if completion.status != Status::Success || completion.opcode != Opcode::Receive {
            *slot = Slot::Freed;
            return None;
        }
        *slot = Slot::Arrived;
        let span = Span::new(
            self.class.span(position).offset,
            completion.placement.size.into(),
        );
        Some(Appended { position, span })
    }

    /// Gives a slot back whose record was taken over.
    pub fn free(&mut self, appended: Appended) {
        let index = appended
            .position
            .checked_sub(self.oldest)
            .and_then(|index| usize::try_from(index).ok());
        let slot = index.and_then(|index| self.slots.get_mut(index));
        assert!(
            slot.as_deref() == Some(&Slot::Arrived),
            "a slot is freed once, after its message arrived"
        );
        if let Some(slot) = slot {
            *slot = Slot::Freed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u64; 2] = [1, 2];
    const NAME: RecordName = RecordName {
        epoch: 3,
        sender: 4,
        sequence: 5,
    };

    #[test]
    fn a_record_proves_itself_wherever_it_lies() {
        let mut slot = encode_record(KEY, NAME, b"content");
        slot.resize(128, 0xee);
        assert_eq!(
            decode_record(KEY, &slot),
            Some((NAME, b"content".as_slice()))
        );
        assert_eq!(
            decode_record([1, 3], &slot),
            None,
            "who has another key made none of these"
        );
    }

    /// Guard: the tag. Every byte of a record is covered, so a torn one is none.
    #[test]
    fn a_record_with_any_byte_changed_or_missing_is_none() {
        let whole = encode_record(KEY, NAME, &[7; 40]);
        for index in 0..whole.len() {
            let mut torn = whole.clone();
            torn[index] ^= 1;
            assert_eq!(decode_record(KEY, &torn), None, "byte {index}");
            assert_eq!(decode_record(KEY, &whole[..index]), None, "{index} bytes");
        }
        assert_eq!(
            decode_record(KEY, &[0; 128]),
            None,
            "a cleared slot holds nothing"
        );
    }
}
