//! The share of each connection in the memory for requests and replies.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of requests and replies of all connections of all threads.
pub struct Memory {
    requests: Part,
    replies: Part,
    /// The bytes of the requests' part that only the first in line may use.
    kept_for_first: usize,
    has_first: AtomicBool,
    /// The bytes of the replies' part that only the first in line may use: room for the longest value.
    kept_for_reply: usize,
}

/// A fixed amount of memory.
struct Part {
    used: AtomicUsize,
    max: usize,
}

/// The part of a connection in [`Memory`]; given back when dropped.
pub struct Account {
    memory: Arc<Memory>,
    requests: Cell<usize>,
    replies: Cell<usize>,
    is_first: Cell<bool>,
}

impl Part {
    /// Takes `more` bytes if they fit within `max`, or if nothing is used: the bound may be smaller than a reply.
    fn try_take(&self, more: usize, max: usize) -> bool {
        let fits = |used: usize| (used == 0 || used + more <= max).then_some(used + more);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .is_ok()
    }

    fn change(&self, before: usize, after: usize) {
        if after > before {
            self.used.fetch_add(after - before, Ordering::Relaxed);
        } else if after < before {
            self.used.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Memory {
    /// A bound of `max` bytes. A request takes at most `request_size` bytes, and the reply with the longest value
    /// `reply_size` bytes.
    pub fn new(max: usize, request_size: usize, reply_size: usize) -> Self {
        let part = || Part {
            used: AtomicUsize::new(0),
            max: max / 2,
        };
        Self {
            requests: part(),
            replies: part(),
            kept_for_first: request_size.min(max / 4),
            has_first: AtomicBool::new(false),
            kept_for_reply: reply_size.min(max / 4),
        }
    }

    /// The bytes in use.
    pub fn used(&self) -> usize {
        self.requests.used() + self.replies.used()
    }

    /// The most bytes that a request may take.
    pub fn request_max(&self) -> usize {
        self.requests.max
    }

    /// Returns whether memory is so scarce that connections with little content move the content to memory that is not
    /// counted.
    pub fn is_scarce(&self) -> bool {
        self.requests.used() > self.requests.max / 2 || self.replies.used() > self.replies.max / 2
    }

    /// Returns whether no room is left for more replies.
    pub fn has_no_room_for_replies(&self) -> bool {
        self.replies.used() >= self.replies.max - self.kept_for_reply
    }

    /// A connection's part, which is empty at first.
    pub fn account(self: &Arc<Self>) -> Account {
        Account {
            memory: self.clone(),
            requests: Cell::new(0),
            replies: Cell::new(0),
            is_first: Cell::new(false),
        }
    }
}

impl Account {
    /// Returns whether the connection has reserved `size` bytes for its request.
    pub fn has_requests(&self, size: usize) -> bool {
        self.requests.get() >= size
    }

    /// Reserves `size` bytes in all for the connection's request, if they are free.
    pub fn try_requests(&self, size: usize) -> bool {
        let memory = &self.memory;
        let max = match self.is_first.get() {
            true => memory.requests.max,
            false => memory.requests.max - memory.kept_for_first,
        };
        let more = size.saturating_sub(self.requests.get());
        let is_taken = more == 0 || memory.requests.try_take(more, max);
        if is_taken {
            self.requests.set(self.requests.get() + more);
        }
        is_taken
    }

    /// Reserves `size` bytes in all for the request of the first in line, which may use the part that is kept for
    /// the first until its request is complete.
    pub fn try_requests_as_first(&self, size: usize) -> bool {
        if !self.is_first.get() && !self.memory.has_first.swap(true, Ordering::Relaxed) {
            self.is_first.set(true);
        }
        self.try_requests(size)
    }

    /// Returns whether the connection may use the part that is kept for the first in line.
    pub fn is_first(&self) -> bool {
        self.is_first.get()
    }

    /// Sets the bytes of the connection's request.
    pub fn set_requests(&self, size: usize) {
        self.memory
            .requests
            .change(self.requests.replace(size), size);
        if size == 0 {
            self.note_request_done();
        }
    }

    /// Notes that the connection's request is complete: the next in line may be first, even if part of this
    /// connection's next request has already arrived.
    pub fn note_request_done(&self) {
        if self.is_first.replace(false) {
            self.memory.has_first.store(false, Ordering::Relaxed);
        }
    }

    /// Reserves `size` bytes in all for the connection's replies, if they are free.
    pub fn try_replies(&self, size: usize) -> bool {
        self.take_replies(size, self.memory.replies.max - self.memory.kept_for_reply)
    }

    /// Reserves `size` bytes in all for the replies of the first in line, which may use the part
    /// that is kept for one reply.
    pub fn try_replies_as_first(&self, size: usize) -> bool {
        self.take_replies(size, self.memory.replies.max)
    }

    fn take_replies(&self, size: usize, max: usize) -> bool {
        let more = size.saturating_sub(self.replies.get());
        let is_taken = more == 0 || self.memory.replies.try_take(more, max);
        if is_taken {
            self.replies.set(self.replies.get() + more);
        }
        is_taken
    }

    /// Sets the bytes of the connection's replies.
    pub fn set_replies(&self, size: usize) {
        self.memory.replies.change(self.replies.replace(size), size);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.set_requests(0);
        self.set_replies(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_connection_is_free_when_the_connection_is_gone() {
        let memory = Arc::new(Memory::new(100, 10, 0));
        let (one, other) = (memory.account(), memory.account());
        assert!(one.try_replies(40) && !other.try_replies(20) && other.try_replies(10));
        assert!(memory.has_no_room_for_replies());
        one.set_replies(5);
        assert!(one.try_requests(30) && memory.used() == 45);
        drop((one, other));
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_reply_that_is_larger_than_all_memory_gets_the_memory_alone() {
        let memory = Arc::new(Memory::new(100, 10, 0));
        let (one, other) = (memory.account(), memory.account());
        assert!(one.try_replies(70) && !other.try_replies(1));
        one.set_replies(0);
        assert!(other.try_replies(1) && !one.try_replies(70));
    }

    /// Needs the part that is kept: otherwise a reply that its client takes at once would wait for replies that are
    /// never taken.
    #[test]
    fn the_first_in_line_has_room_even_if_replies_take_all_room() {
        let memory = Arc::new(Memory::new(200, 10, 20));
        let (silent, active) = (memory.account(), memory.account());
        assert!(silent.try_replies(80) && memory.has_no_room_for_replies());
        assert!(!active.try_replies(20) && active.try_replies_as_first(20));
    }

    /// Needs the part that is kept: otherwise requests that have all begun would wait for each other.
    #[test]
    fn the_first_of_many_incomplete_requests_is_completed() {
        let memory = Arc::new(Memory::new(200, 40, 0));
        let accounts: Vec<Account> = (0..3).map(|_| memory.account()).collect();
        assert!(accounts.iter().all(|account| account.try_requests(20)));
        let [first, second, third] = &accounts[..] else {
            unreachable!("three")
        };
        assert!(!first.try_requests(40) && first.try_requests_as_first(40));
        assert!(!second.try_requests_as_first(40), "there is one already");
        assert!(first.try_requests(60));
        first.set_requests(0);
        assert!(second.try_requests_as_first(60) && !third.try_requests(60));
    }

    /// Needs the place to end with the request: a client that pipelines has always sent a part of its next request.
    #[test]
    fn the_first_in_line_is_first_only_until_its_request_is_complete() {
        let memory = Arc::new(Memory::new(200, 40, 0));
        let (loader, other) = (memory.account(), memory.account());
        assert!(loader.try_requests_as_first(60) && !other.try_requests_as_first(20));
        loader.set_requests(10);
        loader.note_request_done();
        assert!(!loader.is_first() && other.try_requests_as_first(60) && other.is_first());
    }
}
