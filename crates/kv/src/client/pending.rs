//! Operations that wait for an answer, and the number of puts among them.

use std::task::{Poll, Waker};

use stonecast_session::Requests;
pub(super) use stonecast_session::{RequestHandle, Unanswered as Ended};

use crate::wire::Answer;
use crate::wire::limits::IN_FLIGHT_MAX;

/// The requests of a client. The server answers in order, so an answer names none of them.
pub(super) struct Pending {
    requests: Requests<Answer, IsPut>,
    /// Puts among the operations that wait, and puts that are published without the server.
    puts: usize,
    /// Uploads whose puts were given up, and whose chunks the server has to drop.
    given_up: Vec<Upload>,
}

/// The chunks of a value, as the server knows them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upload {
    /// The number that the names of the chunks have.
    pub number: u64,
    /// The hash of the key in all shards together.
    pub whole: u64,
}

type IsPut = bool;

impl Pending {
    pub fn new(ring_size: u64) -> Self {
        Self {
            requests: Requests::new(IN_FLIGHT_MAX, ring_size),
            puts: 0,
            given_up: Vec::new(),
        }
    }

    /// Takes a place in the queue and `size` contiguous bytes of the ring. Returns `None` without room; the caller
    /// waits with `wait_for_room`.
    pub fn begin(&mut self, size: u64) -> Option<(RequestHandle, u64)> {
        self.requests.begin(size)
    }

    /// Whether no operation waits for an answer.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Notes that the latest `begin` is a put.
    pub fn note_put(&mut self) {
        self.puts += usize::from(!std::mem::replace(self.requests.note(), true));
    }

    /// Notes a put that is being published without the server. The put counts as waiting until `end_conclusion`.
    pub fn begin_conclusion(&mut self) {
        self.puts += 1;
    }

    /// Ends the publication that [`Pending::begin_conclusion`] noted.
    pub fn end_conclusion(&mut self) {
        self.puts -= 1;
        self.requests.wake_crowd();
    }

    /// Whether a put waits for its answer.
    pub fn has_puts(&self) -> bool {
        self.puts > 0
    }

    /// Notes an upload whose put was given up.
    pub fn note_given_up(&mut self, upload: Upload) {
        self.given_up.push(upload);
    }

    /// Whether an upload was given up that [`Pending::take_given_up`] has not returned.
    pub fn has_given_up(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// The uploads that were given up since the last call.
    pub fn take_given_up(&mut self) -> Vec<Upload> {
        std::mem::take(&mut self.given_up)
    }

    /// Whether there is room for `size` bytes.
    pub fn has_room(&self, size: u64) -> bool {
        self.requests.has_room(size)
    }

    /// Wakes `waker` when an operation was answered.
    pub fn wait_for_room(&mut self, waker: &Waker) {
        self.requests.wait_for_room(waker);
    }

    /// Undoes the latest `begin`, whose request could not be sent.
    pub fn cancel(&mut self, handle: RequestHandle) {
        self.puts -= usize::from(self.requests.cancel(handle));
    }

    /// Hands `answer` to the oldest operation. Returns false if no operation waits: the server has sent one answer too
    /// many.
    pub fn answer(&mut self, answer: Answer) -> bool {
        let Some(is_put) = self.requests.answer_next(answer) else {
            return false;
        };
        self.puts -= usize::from(is_put);
        true
    }

    /// Ends all waits: no further answer will arrive.
    pub fn end(&mut self) {
        self.requests.end();
    }

    /// The answer of an operation, if it has arrived.
    pub fn poll(&mut self, handle: RequestHandle, waker: &Waker) -> Poll<Result<Answer, Ended>> {
        self.requests.poll(handle, waker)
    }

    /// Ends the wait of an operation that has its answer, or was given up.
    pub fn forget(&mut self, handle: RequestHandle) {
        self.requests.forget(handle);
    }
}
