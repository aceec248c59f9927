//! Operations that wait for an answer, and the memory that their bytes were sent from.
//!
//! Answers come in the order of requests, so the operations form a queue. The staging memory is a ring: an operation's
//! bytes are freed when its answer has come, which is in the same order. Its start is used again as soon as it is free, so
//! that a client with little in flight writes to the same few lines, which its processor has, and not once around the ring.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

use crate::wire::Answer;
use crate::wire::limits::IN_FLIGHT_MAX;

/// Bytes from the start of the ring that are used as long as they do: what the caches next to a processor hold.
const HOT_SIZE: u64 = 32 << 10;

/// See the module documentation.
pub(super) struct Pending {
    queue: VecDeque<Waiting>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Tasks that wait for room in the queue or the ring.
    crowd: Vec<Waker>,
    ring_size: u64,
    /// Never-wrapping positions of the ring.
    ring_tail: u64,
    ring_head: u64,
    /// Puts among what waits.
    puts: usize,
    ended: bool,
}

struct Waiting {
    slot: u32,
    is_put: bool,
    /// Where the ring's tail goes when this operation is answered.
    ring_end: u64,
}

#[derive(Default)]
struct Slot {
    result: Option<Result<Answer, Ended>>,
    waker: Option<Waker>,
    abandoned: bool,
}

/// The connection ended before the answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended;

/// An operation's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u32);

impl Pending {
    pub fn new(ring_size: u64) -> Self {
        Self {
            queue: VecDeque::new(),
            slots: Vec::new(),
            free: Vec::new(),
            crowd: Vec::new(),
            ring_size,
            ring_tail: 0,
            ring_head: 0,
            puts: 0,
            ended: false,
        }
    }

    /// Takes a place in the queue and `size` contiguous bytes of the ring. `None`: no room now; wait with `wait_for_room`.
    pub fn begin(&mut self, size: u64) -> Option<(Ticket, u64)> {
        assert!(size <= self.ring_size, "{size} bytes fit the staging ring");
        if self.queue.len() == IN_FLIGHT_MAX {
            return None;
        }
        let start = self.start_of(size)?;
        if self.queue.is_empty() {
            self.ring_tail = start;
        }
        self.ring_head = start + size;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        self.queue.push_back(Waiting {
            slot,
            is_put: false,
            ring_end: self.ring_head,
        });
        Some((Ticket(slot), start % self.ring_size))
    }

    /// Whether no answer is waited for.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The latest `begin` is a put.
    pub fn note_put(&mut self) {
        let latest = self.queue.back_mut().expect("there is a latest");
        self.puts += usize::from(!std::mem::replace(&mut latest.is_put, true));
    }

    /// A put is being published without the server; counts as one until it has ended.
    pub fn begin_conclusion(&mut self) {
        self.puts += 1;
    }

    /// See `begin_conclusion`.
    pub fn end_conclusion(&mut self) {
        self.puts -= 1;
        self.crowd.drain(..).for_each(Waker::wake);
    }

    /// Whether a put waits for its answer.
    pub fn has_puts(&self) -> bool {
        self.puts > 0
    }

    /// Whether `size` bytes would find room now.
    pub fn has_room(&self, size: u64) -> bool {
        self.queue.len() < IN_FLIGHT_MAX && self.start_of(size).is_some()
    }

    /// Where the next `size` bytes go, if they are free.
    fn start_of(&self, size: u64) -> Option<u64> {
        let free = |start: u64| start + size - self.ring_tail <= self.ring_size;
        let offset = self.ring_head % self.ring_size;
        let next_lap = self.ring_head.next_multiple_of(self.ring_size);
        if self.queue.is_empty() || (offset + size > HOT_SIZE && free(next_lap)) {
            return Some(next_lap);
        }
        let start = if offset + size > self.ring_size {
            next_lap
        } else {
            self.ring_head
        };
        free(start).then_some(start)
    }

    /// Wakes `waker` when an operation was answered.
    pub fn wait_for_room(&mut self, waker: &Waker) {
        self.crowd.push(waker.clone());
    }

    /// Takes back the latest `begin`, whose request could not be sent.
    pub fn cancel(&mut self, ticket: Ticket) {
        let waiting = self.queue.pop_back().expect("there is a latest");
        assert_eq!(waiting.slot, ticket.0, "only the latest is cancelled");
        self.puts -= usize::from(waiting.is_put);
        self.ring_head = self
            .queue
            .back()
            .map_or(self.ring_tail, |waiting| waiting.ring_end);
        self.release(ticket);
    }

    /// Hands `answer` to the oldest operation. False if nobody waits: the server said too much.
    pub fn answer(&mut self, answer: Answer) -> bool {
        let Some(waiting) = self.queue.pop_front() else {
            return false;
        };
        self.ring_tail = waiting.ring_end;
        self.puts -= usize::from(waiting.is_put);
        self.finish(waiting.slot, Ok(answer));
        self.crowd.drain(..).for_each(Waker::wake);
        true
    }

    /// No answer will come any more.
    pub fn end(&mut self) {
        self.ended = true;
        while let Some(waiting) = self.queue.pop_front() {
            self.finish(waiting.slot, Err(Ended));
        }
        self.crowd.drain(..).for_each(Waker::wake);
    }

    /// The answer of an operation, if it has come.
    pub fn poll(&mut self, ticket: Ticket, waker: &Waker) -> Poll<Result<Answer, Ended>> {
        let slot = &mut self.slots[ticket.0 as usize];
        match slot.result {
            Some(result) => Poll::Ready(result),
            None => {
                slot.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    /// Whoever waited has its answer, or does not want it any more.
    pub fn forget(&mut self, ticket: Ticket) {
        if self.slots[ticket.0 as usize].result.is_some() {
            self.release(ticket);
        } else {
            self.slots[ticket.0 as usize].abandoned = true;
        }
    }

    fn finish(&mut self, index: u32, result: Result<Answer, Ended>) {
        let slot = &mut self.slots[index as usize];
        slot.result = Some(result);
        if slot.abandoned {
            self.release(Ticket(index));
        } else if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }

    fn release(&mut self, ticket: Ticket) {
        self.slots[ticket.0 as usize] = Slot::default();
        self.free.push(ticket.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Verdict;

    const DONE: Answer = Answer::Verdict {
        verdict: Verdict::Done,
        version: 1,
    };

    #[test]
    fn answers_go_to_operations_in_order_even_when_one_was_given_up() {
        let mut pending = Pending::new(1024);
        let (first, _) = pending.begin(64).unwrap();
        let (second, _) = pending.begin(64).unwrap();
        pending.forget(first);
        assert!(pending.answer(DONE));
        assert!(pending.poll(second, Waker::noop()).is_pending());
        let version = Answer::Verdict {
            verdict: Verdict::Done,
            version: 2,
        };
        assert!(pending.answer(version));
        assert_eq!(
            pending.poll(second, Waker::noop()),
            Poll::Ready(Ok(version))
        );
        pending.forget(second);
        assert!(
            !pending.answer(DONE),
            "an answer that nobody asked for is noticed"
        );
    }

    #[test]
    fn bytes_in_flight_are_never_given_out_twice() {
        use rand::RngExt as _;
        // Rings below and above what is used as long as it does.
        for unit in [64, HOT_SIZE / 8] {
            let ring_size = 16 * unit;
            let mut pending = Pending::new(ring_size);
            let mut random = stonecast_base::random_from_seed(3);
            let mut live: VecDeque<(u64, u64)> = VecDeque::new();
            for round in 0..20_000 {
                let size = random.random_range(0..=8u64) * unit;
                assert_eq!(pending.has_room(size), {
                    let begun = pending.begin(size);
                    if let Some((_, offset)) = begun {
                        assert!(offset + size <= ring_size);
                        assert!(
                            live.iter()
                                .all(|&(o, s)| offset + size <= o || o + s <= offset),
                            "no overlap"
                        );
                        live.push_back((offset, size));
                    }
                    begun.is_some()
                });
                // Nearly full for a while, nearly empty for a while.
                let answers = if round % 1000 < 500 { 0.6 } else { 1.0 };
                if random.random_bool(answers) && !live.is_empty() {
                    live.pop_front();
                    assert!(pending.answer(DONE));
                }
            }
        }
    }

    /// Needs the tail moved with the head of an empty ring: else what was skipped counts as in use.
    #[test]
    fn an_empty_ring_has_room_for_all_of_its_bytes() {
        let mut pending = Pending::new(1024);
        pending.begin(64).unwrap();
        assert!(pending.answer(DONE));
        pending.begin(512).unwrap();
        assert!(pending.has_room(512) && !pending.has_room(513));
    }

    /// Needs the start used again: else the ring is written once around, every line of it cold.
    #[test]
    fn little_in_flight_uses_the_start_of_the_ring_alone() {
        let mut pending = Pending::new(1 << 20);
        for _ in 0..1000 {
            let (_, first) = pending.begin(192).unwrap();
            let (_, second) = pending.begin(192).unwrap();
            assert_eq!((first, second), (0, 192));
            assert!(pending.answer(DONE) && pending.answer(DONE));
        }
        pending.begin(64).unwrap();
        for _ in 0..10_000 {
            let (_, offset) = pending.begin(192).unwrap();
            assert!(offset + 192 <= HOT_SIZE, "{offset}");
            assert!(pending.answer(DONE));
        }
    }
}
