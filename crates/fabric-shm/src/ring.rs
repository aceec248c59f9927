//! A ring of messages between two parties: one producer and one consumer that do not trust each other.
//!
//! ```text
//!              head (consumer)                tail (producer)
//!                 |                              |
//!   ... taken ... | entry | entry     | entry | | free ...          positions count bytes and never wrap;
//!                                                                   the place of a position is position mod capacity
//!   entry:  0  kind (bits 0-7), size (bits 32-63)
//!           8  immediate (bits 0-31)
//!          16  payload, continuing at the start of the ring where it reaches the end
//!           padded to a multiple of 64
//! ```
//!
//! Invariants:
//! - Only the producer stores the tail, after the bytes below it (release); only the consumer stores the head, after it
//!   has copied the bytes below it (release). So head <= tail <= head + capacity for honest parties.
//! - Each party keeps its own position in private memory and reads only the other's position, which it checks against
//!   its own before use. Headers are read once.
//! - The head is the acknowledgement: entries below it have had their effect at the consumer.
//!
//! A producer that dies between writing an entry and publishing the tail leaves bytes that no one reads. A consumer
//! that dies leaves entries that stay in place until the memory is released.

use crate::primitive::Memory;

/// Entries begin at multiples of this size: one cache line, so that a small message costs one line.
pub(crate) const ENTRY_ALIGNMENT: u64 = 64;
/// Bytes before the payload.
pub(crate) const HEADER_SIZE: u64 = 16;

/// The place of a ring in its memory, in bytes. `capacity` is a power of two and a multiple of [`ENTRY_ALIGNMENT`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingLayout {
    pub(crate) tail: u64,
    pub(crate) head: u64,
    pub(crate) data: u64,
    pub(crate) capacity: u64,
    /// Longest payload.
    pub(crate) payload_max: u32,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A message with payload.
    Send,
    /// A WRITE_WITH_IMM whose bytes are already in place; no payload.
    WriteWithImmediate,
}

/// Header of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    /// Bytes of payload, or bytes that were written.
    pub(crate) size: u32,
    pub(crate) immediate: u32,
}

/// The other party wrote a value that no honest party writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hostile;

/// The producer's private side.
#[derive(Debug)]
pub(crate) struct Producer {
    layout: RingLayout,
    /// End of the written entries.
    tail: u64,
    /// End of the published entries.
    published: u64,
    /// The consumer's head at the last check.
    head: u64,
}

/// The consumer's private side.
#[derive(Debug)]
pub(crate) struct Consumer {
    layout: RingLayout,
    /// Start of the entries that were not taken yet.
    head: u64,
    /// The published head.
    published: u64,
    /// The producer's tail at the last check.
    tail: u64,
    /// The entry at `head`, once its header was read.
    entry: Option<Entry>,
}

impl Entry {
    /// Bytes that follow the header.
    pub(crate) fn payload_size(&self) -> u32 {
        match self.kind {
            EntryKind::Send => self.size,
            EntryKind::WriteWithImmediate => 0,
        }
    }

    fn length(&self) -> u64 {
        (HEADER_SIZE + u64::from(self.payload_size())).next_multiple_of(ENTRY_ALIGNMENT)
    }

    /// The header as it is stored. Words, not bytes: a header that is put together in memory and read again as a whole
    /// waits there for every store before it, those to lines of the peer's cache included.
    fn to_words(self) -> [u64; 2] {
        let kind = match self.kind {
            EntryKind::Send => 1,
            EntryKind::WriteWithImmediate => 2,
        };
        [kind | u64::from(self.size) << 32, u64::from(self.immediate)]
    }

    fn from_words([first, second]: [u64; 2], payload_max: u32) -> Result<Self, Hostile> {
        let kind = match first as u8 {
            1 => EntryKind::Send,
            2 => EntryKind::WriteWithImmediate,
            _ => return Err(Hostile),
        };
        let entry = Self {
            kind,
            size: (first >> 32) as u32,
            immediate: second as u32,
        };
        if entry.payload_size() > payload_max {
            Err(Hostile)
        } else {
            Ok(entry)
        }
    }
}

impl Producer {
    pub(crate) fn new(layout: RingLayout) -> Self {
        assert!(layout.capacity.is_power_of_two() && layout.capacity >= ENTRY_ALIGNMENT);
        assert!(
            HEADER_SIZE + u64::from(layout.payload_max) <= layout.capacity,
            "the longest entry fits"
        );
        Self {
            layout,
            tail: 0,
            published: 0,
            head: 0,
        }
    }

    /// Whether [`Producer::push`] would take `entry` at this moment. An invalid head of the consumer counts as room, so
    /// that `push` finds it.
    pub(crate) fn has_room(&mut self, memory: &impl Memory, entry: Entry) -> bool {
        let is_short = |producer: &Self| {
            producer.layout.capacity - (producer.tail - producer.head) < entry.length()
        };
        !is_short(self) || self.taken(memory).is_err() || !is_short(self)
    }

    /// Whether the consumer has taken something since the last call of [`Producer::taken`].
    pub(crate) fn has_news(&self, memory: &impl Memory) -> bool {
        memory.load(self.layout.head) != self.head
    }

    /// Whether an honest consumer has taken everything up to `end`. Changes nothing.
    #[inline]
    pub(crate) fn has_taken(&self, memory: &impl Memory, end: u64) -> bool {
        self.head >= end || memory.load(self.layout.head) >= end
    }

    /// Writes an entry after the others, not yet visible. Returns the position of its end, or `None` if there is no
    /// room at this moment.
    pub(crate) fn push(
        &mut self,
        memory: &impl Memory,
        entry: Entry,
        payload: &[u8],
    ) -> Result<Option<u64>, Hostile> {
        assert_eq!(payload.len(), entry.payload_size() as usize);
        let length = entry.length();
        if self.layout.capacity - (self.tail - self.head) < length {
            self.taken(memory)?;
            if self.layout.capacity - (self.tail - self.head) < length {
                return Ok(None);
            }
        }
        let at = self.tail & (self.layout.capacity - 1);
        let [first, second] = entry.to_words();
        memory.store(self.layout.data + at, first);
        memory.store(self.layout.data + at + 8, second);
        crate::step::step("ring: header written");
        let at = at + HEADER_SIZE;
        let first = payload.len().min((self.layout.capacity - at) as usize);
        memory.copy_in(self.layout.data + at, &payload[..first]);
        memory.copy_in(self.layout.data, &payload[first..]);
        crate::step::step("ring: payload written");
        self.tail += length;
        Ok(Some(self.tail))
    }

    /// Shows the consumer every pushed entry. Returns whether there were new ones.
    pub(crate) fn publish(&mut self, memory: &impl Memory) -> bool {
        if self.published == self.tail {
            return false;
        }
        memory.store(self.layout.tail, self.tail);
        crate::step::step("ring: tail published");
        self.published = self.tail;
        true
    }

    /// The position up to which the consumer has taken everything.
    pub(crate) fn taken(&mut self, memory: &impl Memory) -> Result<u64, Hostile> {
        let head = memory.load(self.layout.head);
        if head < self.head || head > self.published {
            return Err(Hostile);
        }
        self.head = head;
        Ok(head)
    }
}

impl Consumer {
    pub(crate) fn new(layout: RingLayout) -> Self {
        Self {
            layout,
            head: 0,
            published: 0,
            tail: 0,
            entry: None,
        }
    }

    /// Whether the ring has no entry. Cheap: one load of the producer's tail.
    pub(crate) fn is_empty(&self, memory: &impl Memory) -> bool {
        memory.load(self.layout.tail) == self.head
    }

    /// The oldest entry.
    #[inline]
    pub(crate) fn peek(&mut self, memory: &impl Memory) -> Result<Option<Entry>, Hostile> {
        if self.entry.is_some() {
            return Ok(self.entry);
        }
        if self.head == self.tail {
            let tail = memory.load(self.layout.tail);
            let ahead = tail.wrapping_sub(self.head);
            if ahead > self.layout.capacity || !ahead.is_multiple_of(ENTRY_ALIGNMENT) {
                return Err(Hostile);
            }
            self.tail = tail;
            if ahead == 0 {
                return Ok(None);
            }
        }
        let at = self.layout.data + (self.head & (self.layout.capacity - 1));
        let words = [memory.load(at), memory.load(at + 8)];
        let entry = Entry::from_words(words, self.layout.payload_max)?;
        if entry.length() > self.tail - self.head {
            return Err(Hostile);
        }
        self.entry = Some(entry);
        Ok(self.entry)
    }

    /// Copies out the payload of the entry that `peek` returned.
    pub(crate) fn payload(&self, memory: &impl Memory, into: &mut [u8]) {
        let entry = self.entry.expect("peek comes before payload");
        assert_eq!(into.len(), entry.payload_size() as usize);
        let at = (self.head & (self.layout.capacity - 1)) + HEADER_SIZE;
        let first = into.len().min((self.layout.capacity - at) as usize);
        let (front, back) = into.split_at_mut(first);
        memory.copy_out(self.layout.data + at, front);
        memory.copy_out(self.layout.data, back);
    }

    /// Takes the entry that `peek` returned.
    #[inline]
    pub(crate) fn advance(&mut self) {
        let entry = self.entry.take().expect("peek comes before advance");
        self.head += entry.length();
    }

    /// Shows the producer the entries that were taken. Returns whether there were new ones.
    pub(crate) fn publish(&mut self, memory: &impl Memory) -> bool {
        if self.published == self.head {
            return false;
        }
        memory.store(self.layout.head, self.head);
        crate::step::step("ring: head published");
        self.published = self.head;
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::primitive::testing::Words;

    const LAYOUT: RingLayout = RingLayout {
        tail: 0,
        head: 8,
        data: 64,
        capacity: 512,
        payload_max: 200,
    };

    fn ring() -> (Words, Producer, Consumer) {
        (
            Words::new(64 + 512),
            Producer::new(LAYOUT),
            Consumer::new(LAYOUT),
        )
    }

    fn send(size: usize) -> Entry {
        Entry {
            kind: EntryKind::Send,
            size: size as u32,
            immediate: 0,
        }
    }

    #[test]
    fn messages_of_all_sizes_arrive_whole_and_in_order_across_the_end_of_the_ring() {
        let (memory, mut producer, mut consumer) = ring();
        for round in 0..600usize {
            let payload: Vec<u8> = (0..round % 201)
                .map(|index| (index + round) as u8)
                .collect();
            producer
                .push(&memory, send(payload.len()), &payload)
                .unwrap()
                .expect("there is room");
            producer.publish(&memory);
            let entry = consumer.peek(&memory).unwrap().expect("it is visible");
            let mut found = vec![0; entry.size as usize];
            consumer.payload(&memory, &mut found);
            assert_eq!(found, payload);
            consumer.advance();
            consumer.publish(&memory);
        }
        assert!(consumer.is_empty(&memory));
    }

    #[test]
    fn a_full_ring_takes_nothing_until_the_consumer_has_taken_something() {
        let (memory, mut producer, mut consumer) = ring();
        for _ in 0..4 {
            assert!(
                producer
                    .push(&memory, send(100), &[1; 100])
                    .unwrap()
                    .is_some()
            );
        }
        assert_eq!(producer.push(&memory, send(0), &[]), Ok(None));
        producer.publish(&memory);
        consumer.peek(&memory).unwrap().unwrap();
        consumer.advance();
        assert_eq!(
            producer.push(&memory, send(0), &[]),
            Ok(None),
            "taken, but not yet published"
        );
        consumer.publish(&memory);
        assert!(
            producer
                .push(&memory, send(100), &[1; 100])
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn nothing_is_visible_before_it_is_published() {
        let (memory, mut producer, mut consumer) = ring();
        producer.push(&memory, send(8), &[1; 8]).unwrap();
        assert_eq!(consumer.peek(&memory), Ok(None));
        assert!(producer.publish(&memory));
        assert!(
            !producer.publish(&memory),
            "a second time there is nothing new"
        );
        assert_eq!(consumer.peek(&memory), Ok(Some(send(8))));
    }

    /// Needs each of the checks in `peek` and `from_words`: without one of them, the line for that check panics or
    /// finds an entry.
    #[test]
    fn a_hostile_producer_is_detected() {
        let hostile = |tail: u64, [first, second]: [u64; 2]| {
            let (memory, _, mut consumer) = ring();
            memory.store(64, first);
            memory.store(72, second);
            memory.store(0, tail);
            consumer.peek(&memory)
        };
        let header = |kind: u8, size: u32| {
            let entry = Entry {
                kind: EntryKind::Send,
                size,
                immediate: 0,
            };
            let [first, second] = entry.to_words();
            [first & !0xff | u64::from(kind), second]
        };
        assert_eq!(
            hostile(64, header(1, 8)),
            Ok(Some(send(8))),
            "a valid entry passes"
        );
        assert_eq!(
            hostile(63, header(1, 8)),
            Err(Hostile),
            "a tail between entries"
        );
        assert_eq!(
            hostile(1024, header(1, 8)),
            Err(Hostile),
            "a tail further ahead than the ring is long"
        );
        assert_eq!(
            hostile(0u64.wrapping_sub(64), header(1, 8)),
            Err(Hostile),
            "a tail that goes back"
        );
        assert_eq!(hostile(64, header(7, 8)), Err(Hostile), "an unknown kind");
        assert_eq!(
            hostile(512, header(1, 201)),
            Err(Hostile),
            "a payload longer than may be"
        );
        assert_eq!(
            hostile(64, header(1, 100)),
            Err(Hostile),
            "an entry that ends beyond the tail"
        );
    }

    /// Needs the check in `taken`.
    #[test]
    fn a_hostile_consumer_is_detected() {
        let (memory, mut producer, _) = ring();
        producer.push(&memory, send(8), &[1; 8]).unwrap();
        producer.publish(&memory);
        memory.store(8, 128);
        assert_eq!(
            producer.taken(&memory),
            Err(Hostile),
            "a head beyond the tail"
        );
        memory.store(8, 64);
        assert_eq!(producer.taken(&memory), Ok(64));
        memory.store(8, 0);
        assert_eq!(
            producer.taken(&memory),
            Err(Hostile),
            "a head that goes back"
        );
    }
}

#[cfg(all(test, loom))]
mod models {
    //! Model checks of every interleaving of a producer and a consumer on a ring of two lines. Each weakened twin
    //! fails, which shows that the model sees the purpose of the ordering.

    use super::*;
    use crate::primitive::testing::{Weakness, Words};
    use loom::sync::Arc;

    const LAYOUT: RingLayout = RingLayout {
        tail: 0,
        head: 8,
        data: 64,
        capacity: 128,
        payload_max: 16,
    };

    fn transfer(weakness: Weakness) {
        loom::model(move || {
            let memory = Arc::new(Words::weakened(64 + 128, weakness));
            let theirs = memory.clone();
            let producer = loom::thread::spawn(move || {
                let mut producer = Producer::new(LAYOUT);
                for number in 1..=3u64 {
                    let entry = Entry {
                        kind: EntryKind::Send,
                        size: 8,
                        immediate: number as u32,
                    };
                    while producer
                        .push(&*theirs, entry, &number.to_le_bytes())
                        .unwrap()
                        .is_none()
                    {
                        loom::thread::yield_now();
                    }
                    producer.publish(&*theirs);
                }
            });
            let mut consumer = Consumer::new(LAYOUT);
            for number in 1..=3u64 {
                let entry = loop {
                    match consumer.peek(&*memory).expect("both are honest") {
                        Some(entry) => break entry,
                        None => loom::thread::yield_now(),
                    }
                };
                assert_eq!(entry.immediate, number as u32);
                let mut payload = [0; 8];
                consumer.payload(&*memory, &mut payload);
                assert_eq!(u64::from_le_bytes(payload), number);
                consumer.advance();
                consumer.publish(&*memory);
            }
            producer.join().unwrap();
        });
    }

    #[test]
    fn loom_ring_delivers_each_message_once_and_whole() {
        transfer(Weakness::None);
    }

    /// A tail published without release order shows entries before their bytes.
    #[test]
    #[should_panic]
    fn loom_ring_needs_the_release_of_the_tail() {
        transfer(Weakness::Store(LAYOUT.tail));
    }

    #[test]
    #[should_panic]
    fn loom_ring_needs_the_acquire_of_the_tail() {
        transfer(Weakness::Load(LAYOUT.tail));
    }

    /// The head is an acknowledgement: a producer that sees the head must see the consumer's work on the message.
    fn acknowledgement(weakness: Weakness) {
        loom::model(move || {
            const PLACED: u64 = 16;
            let memory = Arc::new(Words::weakened(64 + 128, weakness));
            let theirs = memory.clone();
            let consumer = loom::thread::spawn(move || {
                let mut consumer = Consumer::new(LAYOUT);
                while consumer.peek(&*theirs).expect("both are honest").is_none() {
                    loom::thread::yield_now();
                }
                let mut payload = [0; 8];
                consumer.payload(&*theirs, &mut payload);
                theirs.copy_in(PLACED, &payload);
                consumer.advance();
                consumer.publish(&*theirs);
            });
            let mut producer = Producer::new(LAYOUT);
            let entry = Entry {
                kind: EntryKind::Send,
                size: 8,
                immediate: 0,
            };
            let end = producer
                .push(&*memory, entry, &[9; 8])
                .unwrap()
                .expect("there is room");
            producer.publish(&*memory);
            while producer.taken(&*memory).expect("both are honest") < end {
                loom::thread::yield_now();
            }
            let mut placed = [0; 8];
            memory.copy_out(PLACED, &mut placed);
            assert_eq!(placed, [9; 8], "acknowledged and not placed");
            consumer.join().unwrap();
        });
    }

    #[test]
    fn loom_ring_acknowledges_only_placed_messages() {
        acknowledgement(Weakness::None);
    }

    #[test]
    #[should_panic(expected = "acknowledged and not placed")]
    fn loom_ring_needs_the_release_of_the_head() {
        acknowledgement(Weakness::Store(LAYOUT.head));
    }

    #[test]
    #[should_panic(expected = "acknowledged and not placed")]
    fn loom_ring_needs_the_acquire_of_the_head() {
        acknowledgement(Weakness::Load(LAYOUT.head));
    }
}
