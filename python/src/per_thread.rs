//! Values that belong to one thread, under numbers that any thread may have.
//!
//! ```text
//!   object of Python          thread 1                thread 2
//!     Key 7  ------------>  7: connection           7: another connection
//!     Key 8  ------------>  8: writer                  (none: the writer belongs to thread 1)
//! ```
//!
//! A value never leaves its thread. Code that has released the lock of the interpreter finds its value again by the
//! number, so no reference to the value crosses
//! that border, which only `Send` values may cross.
//!
//! A value ends when its key is closed or dropped: on the thread that does so at once, and on every other thread when
//! that thread keeps its next value, or ends.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

thread_local! {
    static VALUES: RefCell<BTreeMap<u64, Value>> = const { RefCell::new(BTreeMap::new()) };
}

struct Value {
    /// Whether the key is open; dangling once the key is dropped.
    is_open: Weak<AtomicBool>,
    value: Rc<dyn Any>,
}

impl Value {
    fn is_needed(&self) -> bool {
        let is_open = self.is_open.upgrade();
        is_open.is_some_and(|is_open| is_open.load(Ordering::Relaxed))
    }
}

/// The right to values: at most one in each thread.
pub struct Key {
    number: u64,
    is_open: Arc<AtomicBool>,
}

/// The name of a key, for code that may not borrow it.
#[derive(Clone, Copy)]
pub struct Number(u64);

/// The reason why a thread cannot use its value.
#[derive(Debug)]
pub enum Unavailable {
    /// The thread has no value under the number.
    Absent,
    /// A call that is under way in this thread uses the value.
    InUse,
}

impl Key {
    /// A key without values.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            is_open: Arc::new(AtomicBool::new(true)),
        }
    }

    pub fn number(&self) -> Number {
        Number(self.number)
    }

    /// Returns false once the key is closed.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Ends the values of all threads, those of other threads later.
    pub fn close(&self) {
        self.is_open.store(false, Ordering::Relaxed);
        self.number().end();
    }

    /// Keeps `value` for this thread, and ends those whose keys are gone.
    pub fn keep<T: 'static>(&self, value: T) {
        let is_open = Arc::downgrade(&self.is_open);
        let value: Rc<dyn Any> = Rc::new(RefCell::new(value));
        let ended = VALUES.with_borrow_mut(|values| {
            let ended: Vec<_> = values
                .extract_if(.., |_, value| !value.is_needed())
                .collect();
            values.insert(self.number, Value { is_open, value });
            ended
        });
        // Dropped when nothing is borrowed: the end of a connection takes a while.
        drop(ended);
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.number().end();
    }
}

impl Number {
    /// Runs `work` on this thread's value.
    pub fn lend<T: 'static, R>(self, work: impl FnOnce(&mut T) -> R) -> Result<R, Unavailable> {
        let value = VALUES.with_borrow(|values| values.get(&self.0).map(|one| one.value.clone()));
        let value = value.ok_or(Unavailable::Absent)?;
        let value = value.downcast_ref::<RefCell<T>>();
        let value = value.ok_or(Unavailable::Absent)?;
        let mut value = value.try_borrow_mut().map_err(|_| Unavailable::InUse)?;
        Ok(work(&mut value))
    }

    /// Returns whether this thread has a value.
    pub fn is_kept(self) -> bool {
        VALUES.with_borrow(|values| values.contains_key(&self.0))
    }

    /// Takes this thread's value out.
    pub fn take<T: 'static>(self) -> Result<T, Unavailable> {
        let value = VALUES.with_borrow_mut(|values| {
            let is_unused = |one: &mut Value| Rc::strong_count(&one.value) == 1;
            match values.get_mut(&self.0).map(is_unused) {
                None => Err(Unavailable::Absent),
                Some(false) => Err(Unavailable::InUse),
                Some(true) => values.remove(&self.0).ok_or(Unavailable::Absent),
            }
        })?;
        let value = value.value.downcast::<RefCell<T>>();
        let value = value.map_err(|_| Unavailable::Absent)?;
        let value = Rc::try_unwrap(value).map_err(|_| Unavailable::InUse)?;
        Ok(value.into_inner())
    }

    /// Ends this thread's value, or lets the call that uses the value end it.
    pub fn end(self) {
        // A thread that ends has dropped its values already.
        let ended = VALUES.try_with(|values| values.try_borrow_mut().ok()?.remove(&self.0));
        drop(ended);
    }
}

/// Forgets the values of this thread without ending them: they belong to the process from which this one was forked.
pub fn forget_all() {
    VALUES.with(|values| std::mem::forget(values.take()));
}
