//! Memory of requests and replies: a stock of buffers that active connections share, and a bound on what all of them use.
//!
//! An idle connection has no buffer at all.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Buffers that wait for their next use.
#[derive(Default)]
pub struct Stock {
    free: RefCell<Vec<Vec<u8>>>,
}

/// Bytes of requests and replies of all connections of all threads.
pub struct Memory {
    used: AtomicUsize,
    max: usize,
}

/// One connection's part of [`Memory`]; given back when dropped.
pub struct Account {
    memory: Arc<Memory>,
    used: Cell<usize>,
}

/// Buffers kept, and their size at most: enough for every connection that is served in one round to find one.
const FREE_MAX: usize = 64;
const FREE_SIZE_MAX: usize = 256 << 10;

impl Stock {
    /// An empty buffer.
    pub fn take(&self) -> Vec<u8> {
        self.free.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub fn give(&self, mut buffer: Vec<u8>) {
        let mut free = self.free.borrow_mut();
        if (1..=FREE_SIZE_MAX).contains(&buffer.capacity()) && free.len() < FREE_MAX {
            buffer.clear();
            free.push(buffer);
        }
    }
}

impl Memory {
    /// At most `max` bytes.
    pub fn new(max: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            max,
        }
    }

    /// Bytes used now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether more is used than may be. The bound is kept by who waits then; a batch under way may go beyond it.
    pub fn is_exhausted(&self) -> bool {
        self.used() > self.max
    }

    /// A connection's part, nothing at first.
    pub fn account(self: &Arc<Self>) -> Account {
        Account {
            memory: self.clone(),
            used: Cell::new(0),
        }
    }
}

impl Account {
    /// Says how many bytes the connection uses now.
    pub fn set(&self, used: usize) {
        let before = self.used.replace(used);
        if used >= before {
            self.memory.used.fetch_add(used - before, Ordering::Relaxed);
        } else {
            self.memory.used.fetch_sub(before - used, Ordering::Relaxed);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_empty_and_large_ones_not_at_all() {
        let stock = Stock::default();
        stock.give(b"abc".to_vec());
        stock.give(Vec::with_capacity(FREE_SIZE_MAX + 1));
        stock.give(Vec::new());
        assert_eq!(stock.free.borrow().len(), 1);
        assert!(stock.take().is_empty());
    }

    #[test]
    fn what_a_connection_used_is_free_when_it_is_gone() {
        let memory = Arc::new(Memory::new(100));
        let account = memory.account();
        account.set(150);
        assert!(memory.is_exhausted());
        account.set(60);
        assert_eq!((memory.used(), memory.is_exhausted()), (60, false));
        drop(account);
        assert_eq!(memory.used(), 0);
    }
}
