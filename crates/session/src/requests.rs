//! Requests that wait for an answer, and the memory that they were sent from.
//!
//! ```text
//!   id    7         8         9         10                 ids count the requests of a connection, on both sides
//!         waiting   answered  waiting   waiting            answers come in any order
//!         [ bytes ] [ bytes ] [ bytes ]                    freed in the order of ids, up to the first unanswered one
//! ```
//!
//! A connection keeps the order of messages, so a request carries no id: the server counts, too. If the server answers
//! in order, an answer carries no id either, and [`Requests::answer_next`] accepts it.
//!
//! The memory is a ring. Its start is reused as soon as it is free, so that a client with little in flight writes to
//! the same few lines, which its processor has cached, instead of going around the ring.
//!
//! Invariants:
//! - A request has one end: its answer, or the end of the connection. An answer without a request is detected.
//! - Bytes are given out again only when their request and every earlier one were answered.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

/// Bytes at the start of the ring that are reused while they suffice: the size of the caches next to a processor.
const HOT_SIZE: u64 = 32 << 10;

/// The number of a request on its connection; the first is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// The connection ended before the answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection ended before the answer came")]
pub struct Unanswered;

/// A request's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHandle {
    slot: u32,
    id: RequestId,
}

impl RequestHandle {
    /// The server's number of the request.
    pub fn id(self) -> RequestId {
        self.id
    }
}

/// The requests of one connection. `A` is an answer; `N` is a note that the caller attaches to a request and gets back
/// with its answer.
///
/// ```
/// # use std::task::{Poll, Waker};
/// # use stonecast_session::Requests;
/// let mut requests: Requests<&str, ()> = Requests::new(16, 4096);
/// let (put, _offset) = requests.begin(64).unwrap();
/// let (get, _offset) = requests.begin(0).unwrap();
/// requests.answer(get.id(), "absent");
/// requests.answer(put.id(), "done");
/// assert_eq!(requests.poll(put, Waker::noop()), Poll::Ready(Ok("done")));
/// assert_eq!(requests.answer(put.id(), "done again"), None, "it is answered");
/// # requests.forget(put);
/// # requests.forget(get);
/// ```
pub struct Requests<A, N> {
    /// The requests from the oldest unanswered one on.
    places: VecDeque<Place<N>>,
    /// Id of the first of these.
    first: u64,
    slots: Vec<Slot<A>>,
    free: Vec<u32>,
    /// Tasks that wait for room.
    crowd: Vec<Waker>,
    in_flight_max: usize,
    ring: Ring,
}

struct Place<N> {
    slot: u32,
    answered: bool,
    note: N,
    /// Position of the ring's tail when this request and all earlier ones are answered.
    ring_end: u64,
}

/// The state of a request for its caller.
enum Slot<A> {
    /// The request waits for its end, and the task with this waker for the request.
    Waiting(Option<Waker>),
    /// The request waits for its end, and no task waits for the request.
    Abandoned,
    /// The request has ended, and the caller has not asked for the end yet.
    Ended(Result<A, Unanswered>),
    /// The caller has the end, or the slot is free.
    Taken,
}

impl<A, N: Copy + Default> Requests<A, N> {
    /// Room for at most `in_flight_max` requests that wait, or follow one that waits; `ring_size` bytes to send from.
    pub fn new(in_flight_max: usize, ring_size: u64) -> Self {
        Self {
            places: VecDeque::new(),
            first: 0,
            slots: Vec::new(),
            free: Vec::new(),
            crowd: Vec::new(),
            in_flight_max,
            ring: Ring {
                size: ring_size,
                tail: 0,
                head: 0,
            },
        }
    }

    /// Takes the next id and `size` contiguous bytes of the ring, and returns their offset. `None` without room at this
    /// moment; wait with [`Requests::wait_for_room`].
    ///
    /// On a connection that has ended a request would wait forever: the caller must check for the end first.
    pub fn begin(&mut self, size: u64) -> Option<(RequestHandle, u64)> {
        assert!(size <= self.ring.size, "{size} bytes fit the ring");
        if self.places.len() == self.in_flight_max {
            return None;
        }
        let start = self.ring.start_of(size, self.places.is_empty())?;
        if self.places.is_empty() {
            self.ring.tail = start;
        }
        self.ring.head = start + size;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::Taken);
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = Slot::Waiting(None);
        let id = RequestId(self.first + self.places.len() as u64);
        self.places.push_back(Place {
            slot,
            answered: false,
            note: N::default(),
            ring_end: self.ring.head,
        });
        Some((RequestHandle { slot, id }, start % self.ring.size))
    }

    /// The note of the latest request.
    pub fn note(&mut self) -> &mut N {
        let latest = self.places.back_mut().expect("there is a latest request");
        &mut latest.note
    }

    /// Whether no request waits for an answer.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether `size` bytes would find room at this moment.
    pub fn has_room(&self, size: u64) -> bool {
        self.places.len() < self.in_flight_max
            && self.ring.start_of(size, self.places.is_empty()).is_some()
    }

    /// Wakes `waker` when a request was answered, or [`Requests::wake_crowd`] is called.
    pub fn wait_for_room(&mut self, waker: &Waker) {
        self.crowd.push(waker.clone());
    }

    /// Wakes every task that waits for room: another condition that it waits for may have changed.
    pub fn wake_crowd(&mut self) {
        self.crowd.drain(..).for_each(Waker::wake);
    }

    /// Takes back the latest request, which could not be sent, and its id. Returns its note.
    pub fn cancel(&mut self, handle: RequestHandle) -> N {
        let place = self.places.pop_back().expect("there is a latest request");
        assert_eq!(
            place.slot, handle.slot,
            "only the latest request can be cancelled"
        );
        self.ring.head = self
            .places
            .back()
            .map_or(self.ring.tail, |place| place.ring_end);
        self.release(handle.slot);
        place.note
    }

    /// Hands `answer` to the oldest request, for a server that answers in order. Returns the note of that request;
    /// `None` if no request waits, and the server sent too many answers.
    pub fn answer_next(&mut self, answer: A) -> Option<N> {
        self.answer(RequestId(self.first), answer)
    }

    /// Hands `answer` to the request with this `id`. Returns its note; `None` if no such request waits.
    pub fn answer(&mut self, id: RequestId, answer: A) -> Option<N> {
        let index = usize::try_from(id.0.checked_sub(self.first)?).ok()?;
        let place = self.places.get_mut(index).filter(|place| !place.answered)?;
        place.answered = true;
        let (slot, note) = (place.slot, place.note);
        while let Some(Place { ring_end, .. }) = self.places.pop_front_if(|place| place.answered) {
            self.ring.tail = ring_end;
            self.first += 1;
        }
        self.finish(slot, Ok(answer));
        self.wake_crowd();
        Some(note)
    }

    /// Ends all requests, which will get no answer. The caller begins no further request: it would wait until `end` is
    /// called again.
    pub fn end(&mut self) {
        while let Some(place) = self.places.pop_front() {
            self.first += 1;
            if !place.answered {
                self.finish(place.slot, Err(Unanswered));
            }
        }
        self.wake_crowd();
    }

    /// The end of a request, if it has come.
    ///
    /// # Panics
    /// If an earlier call has returned the end.
    pub fn poll(&mut self, handle: RequestHandle, waker: &Waker) -> Poll<Result<A, Unanswered>> {
        let slot = &mut self.slots[handle.slot as usize];
        if let Slot::Waiting(waiting) = slot {
            *waiting = Some(waker.clone());
            return Poll::Pending;
        }
        match std::mem::replace(slot, Slot::Taken) {
            Slot::Ended(end) => Poll::Ready(end),
            _ => panic!("the end of a request is asked for once"),
        }
    }

    /// Forgets a request whose answer the caller has, or that the caller abandons. An abandoned request continues on
    /// its own.
    pub fn forget(&mut self, handle: RequestHandle) {
        let slot = &mut self.slots[handle.slot as usize];
        match slot {
            Slot::Waiting(_) => *slot = Slot::Abandoned,
            _ => self.release(handle.slot),
        }
    }

    fn finish(&mut self, index: u32, end: Result<A, Unanswered>) {
        let slot = &mut self.slots[index as usize];
        match slot {
            Slot::Waiting(waiting) => {
                let waker = waiting.take();
                *slot = Slot::Ended(end);
                waker.into_iter().for_each(Waker::wake);
            }
            _ => self.release(index),
        }
    }

    fn release(&mut self, index: u32) {
        self.slots[index as usize] = Slot::Taken;
        self.free.push(index);
    }
}

/// Never-wrapping positions of a ring.
struct Ring {
    size: u64,
    tail: u64,
    head: u64,
}

impl Ring {
    /// The start of the next `size` bytes, if they are free.
    fn start_of(&self, size: u64, is_empty: bool) -> Option<u64> {
        let free = |start: u64| start + size - self.tail <= self.size;
        let offset = self.head % self.size;
        let next_lap = self.head.next_multiple_of(self.size);
        if is_empty || (offset + size > HOT_SIZE && free(next_lap)) {
            return Some(next_lap);
        }
        let start = if offset + size > self.size {
            next_lap
        } else {
            self.head
        };
        free(start).then_some(start)
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;

    fn requests(ring_size: u64) -> Requests<u32, ()> {
        Requests::new(256, ring_size)
    }

    #[test]
    fn answers_go_to_requests_in_order_even_if_one_was_abandoned() {
        let mut requests = requests(1024);
        let (first, _) = requests.begin(64).unwrap();
        let (second, _) = requests.begin(64).unwrap();
        requests.forget(first);
        assert!(requests.answer_next(1).is_some());
        assert!(requests.poll(second, Waker::noop()).is_pending());
        assert!(requests.answer_next(2).is_some());
        assert_eq!(requests.poll(second, Waker::noop()), Poll::Ready(Ok(2)));
        requests.forget(second);
        let unasked = requests.answer_next(3);
        assert_eq!(unasked, None, "an answer to no request is noticed");
    }

    /// Needs the prefix: freed at once, the bytes of an answered request would be given out around a request that still
    /// waits.
    #[test]
    fn answers_come_in_any_order_and_bytes_are_freed_behind_the_oldest_waiting_request() {
        let mut requests = requests(256);
        let handles: Vec<RequestHandle> = (0..4).map(|_| requests.begin(64).unwrap().0).collect();
        let ids: Vec<u64> = handles.iter().map(|handle| handle.id().0).collect();
        assert_eq!(ids, [0, 1, 2, 3]);
        for late in [3, 1] {
            assert!(requests.answer(RequestId(late), late as u32 * 10).is_some());
            let unasked = requests.answer(RequestId(late), 0);
            assert_eq!(unasked, None, "a second answer is noticed");
        }
        assert!(requests.answer(RequestId(4), 0).is_none());
        assert!(!requests.has_room(1), "the oldest request waits");
        assert!(requests.answer(RequestId(0), 0).is_some());
        assert!(requests.has_room(128) && !requests.has_room(129));
        assert!(
            requests.answer_next(20).is_some(),
            "the next request is the third"
        );
        for (handle, expected) in handles.into_iter().zip([0, 10, 20, 30]) {
            let answer = requests.poll(handle, Waker::noop());
            assert_eq!(answer, Poll::Ready(Ok(expected)));
            requests.forget(handle);
        }
        assert!(requests.is_empty());
    }

    #[test]
    fn the_end_of_the_connection_reaches_waiting_requests_and_no_answered_ones() {
        let mut requests = requests(256);
        let (first, _) = requests.begin(0).unwrap();
        let (second, _) = requests.begin(0).unwrap();
        assert!(requests.answer(second.id(), 2).is_some());
        requests.end();
        assert_eq!(
            requests.poll(first, Waker::noop()),
            Poll::Ready(Err(Unanswered))
        );
        assert_eq!(requests.poll(second, Waker::noop()), Poll::Ready(Ok(2)));
    }

    #[test]
    fn bytes_in_flight_are_never_given_out_twice() {
        const SEED: u64 = 3;
        // Rings below and above the size that is reused while it suffices; answers in order, and in any order.
        for (unit, in_order) in [64, HOT_SIZE / 8]
            .into_iter()
            .flat_map(|unit| [(unit, true), (unit, false)])
        {
            let ring_size = 16 * unit;
            let mut requests = requests(ring_size);
            let mut random = stonecast_base::random_from_seed(SEED);
            let mut live: Vec<(RequestHandle, u64, u64)> = Vec::new();
            for round in 0..20_000 {
                let size = random.random_range(0..=8u64) * unit;
                let had_room = requests.has_room(size);
                let begun = requests.begin(size);
                assert_eq!(had_room, begun.is_some(), "seed {SEED}, round {round}");
                if let Some((handle, offset)) = begun {
                    assert!(offset + size <= ring_size);
                    let apart = |&(_, start, length): &(RequestHandle, u64, u64)| {
                        offset + size <= start || start + length <= offset
                    };
                    assert!(live.iter().all(apart), "seed {SEED}, round {round}");
                    live.push((handle, offset, size));
                }
                // Nearly full for a while, then nearly empty for a while.
                let answers = if round % 1000 < 500 { 0.6 } else { 1.0 };
                if random.random_bool(answers) && !live.is_empty() {
                    let chosen = if in_order {
                        0
                    } else {
                        random.random_range(0..live.len())
                    };
                    let (handle, _, _) = live.remove(chosen);
                    assert!(requests.answer(handle.id(), 0).is_some());
                    requests.forget(handle);
                }
            }
        }
    }

    /// Needs the tail to move with the head of an empty ring: otherwise skipped bytes count as in use.
    #[test]
    fn an_empty_ring_has_room_for_all_of_its_bytes() {
        let mut requests = requests(1024);
        requests.begin(64).unwrap();
        assert!(requests.answer_next(0).is_some());
        requests.begin(512).unwrap();
        assert!(requests.has_room(512) && !requests.has_room(513));
    }

    /// Needs the reuse of the start: otherwise the whole ring is written, every line of it cold.
    #[test]
    fn a_client_with_little_in_flight_uses_only_the_start_of_the_ring() {
        let mut requests = requests(1 << 20);
        let answer = |requests: &mut Requests<u32, ()>| assert!(requests.answer_next(0).is_some());
        for _ in 0..1000 {
            let (_, first) = requests.begin(192).unwrap();
            let (_, second) = requests.begin(192).unwrap();
            assert_eq!((first, second), (0, 192));
            answer(&mut requests);
            answer(&mut requests);
        }
        requests.begin(64).unwrap();
        for _ in 0..10_000 {
            let (_, offset) = requests.begin(192).unwrap();
            assert!(offset + 192 <= HOT_SIZE, "{offset}");
            answer(&mut requests);
        }
    }
}
