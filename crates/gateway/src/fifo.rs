//! Turns, first come first served, among the tasks of one thread.
//!
//! [`Budget`] hands out parts of a fixed amount. [`Turns`] hands out one turn for each key and passes on the value that
//! the holder leaves. A later task never overtakes an earlier task, so writes reach the store in the order in which
//! they were requested. A waiting future that is dropped gives up its place.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// A line of waiting tasks.
#[derive(Default)]
struct Line {
    waiting: VecDeque<(u64, Option<Waker>)>,
    next: u64,
}

impl Line {
    fn enter(&mut self) -> u64 {
        self.next += 1;
        self.waiting.push_back((self.next, None));
        self.next
    }

    fn is_first(&self, ticket: u64) -> bool {
        self.waiting.front().is_some_and(|first| first.0 == ticket)
    }

    fn wait(&mut self, ticket: u64, waker: &Waker) {
        if let Ok(index) = self.place(ticket) {
            self.waiting[index].1 = Some(waker.clone());
        }
    }

    fn leave(&mut self, ticket: u64) {
        if let Ok(index) = self.place(ticket) {
            self.waiting.remove(index);
        }
        self.wake_first();
    }

    fn place(&self, ticket: u64) -> Result<usize, usize> {
        self.waiting.binary_search_by_key(&ticket, |place| place.0)
    }

    fn wake_first(&mut self) {
        if let Some(waker) = self.waiting.front_mut().and_then(|first| first.1.take()) {
            waker.wake();
        }
    }
}

/// A fixed number of operations and bytes that may be under way.
pub struct Budget {
    count: Cell<usize>,
    size: Cell<usize>,
    line: RefCell<Line>,
}

/// A part of a [`Budget`]; given back when dropped.
pub struct Share {
    budget: Rc<Budget>,
    size: usize,
}

impl Budget {
    /// A budget of `count` operations and `size` bytes. An operation with more bytes asks for the whole budget.
    pub fn new(count: usize, size: usize) -> Self {
        Self {
            count: Cell::new(count),
            size: Cell::new(size),
            line: RefCell::default(),
        }
    }

    /// Waits for one operation and `size` bytes, which must not exceed the whole budget.
    pub async fn take(self: &Rc<Self>, size: usize) -> Share {
        let fits = || self.count.get() > 0 && self.size.get() >= size;
        if !(fits() && self.line.borrow().waiting.is_empty()) {
            let place = Place::enter(&self.line);
            poll_fn(|context| {
                if fits() && self.line.borrow().is_first(place.ticket) {
                    return Poll::Ready(());
                }
                self.line.borrow_mut().wait(place.ticket, context.waker());
                Poll::Pending
            })
            .await;
            self.spend(size);
            // Leaving wakes the next task, which may fit as well.
            drop(place);
        } else {
            self.spend(size);
        }
        Share {
            budget: self.clone(),
            size,
        }
    }

    fn spend(&self, size: usize) {
        self.count.set(self.count.get() - 1);
        self.size.set(self.size.get() - size);
    }
}

impl Share {
    /// Gives back all but `size` bytes.
    pub fn shrink(&mut self, size: usize) {
        let budget = &self.budget;
        budget
            .size
            .set(budget.size.get() + self.size.saturating_sub(size));
        self.size = self.size.min(size);
        budget.line.borrow_mut().wake_first();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.count.set(self.budget.count.get() + 1);
        self.budget.size.set(self.budget.size.get() + self.size);
        self.budget.line.borrow_mut().wake_first();
    }
}

/// A line of tasks. The first task polls for its condition.
#[derive(Default)]
pub struct WaitingLine {
    line: RefCell<Line>,
}

impl WaitingLine {
    /// Takes a place at the end.
    pub fn enter(&self) -> Place<'_> {
        Place::enter(&self.line)
    }

    /// The number of tasks that have left the line.
    pub fn served(&self) -> u64 {
        let line = self.line.borrow();
        line.next - line.waiting.len() as u64
    }

    /// Returns whether no task waits.
    pub fn is_empty(&self) -> bool {
        self.line.borrow().waiting.is_empty()
    }
}

/// A place in a line; left when dropped.
pub struct Place<'a> {
    line: &'a RefCell<Line>,
    ticket: u64,
}

impl<'a> Place<'a> {
    fn enter(line: &'a RefCell<Line>) -> Self {
        let ticket = line.borrow_mut().enter();
        Self { line, ticket }
    }

    /// Returns whether no task came earlier.
    pub fn is_first(&self) -> bool {
        self.line.borrow().is_first(self.ticket)
    }

    /// Wakes `waker` when this is the first place.
    pub fn register(&self, waker: &Waker) {
        self.line.borrow_mut().wait(self.ticket, waker);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.line.borrow_mut().leave(self.ticket);
    }
}

/// One turn for each key, and the value that the holder leaves to the next task.
pub struct Turns<T> {
    lines: RefCell<HashMap<u64, KeyLine<T>>>,
}

/// The tasks that want one key.
struct KeyLine<T> {
    line: Line,
    left: Option<T>,
}

/// A key's turn; passed on when dropped.
pub struct KeyTurn<'a, T> {
    turns: &'a Turns<T>,
    key: u64,
    ticket: u64,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            lines: RefCell::default(),
        }
    }
}

impl<T> Turns<T> {
    /// Waits for the turn of the key with this hash. Keys with equal hashes share one turn.
    pub async fn take(&self, key: u64) -> KeyTurn<'_, T> {
        let turn = KeyTurn {
            turns: self,
            key,
            ticket: self.enter(key),
        };
        poll_fn(|context| {
            self.with(key, |of_key| {
                if of_key.line.is_first(turn.ticket) {
                    return Poll::Ready(());
                }
                of_key.line.wait(turn.ticket, context.waker());
                Poll::Pending
            })
        })
        .await;
        turn
    }

    fn enter(&self, key: u64) -> u64 {
        let mut lines = self.lines.borrow_mut();
        let of_key = lines.entry(key).or_insert_with(|| KeyLine {
            line: Line::default(),
            left: None,
        });
        of_key.line.enter()
    }

    fn with<R>(&self, key: u64, work: impl FnOnce(&mut KeyLine<T>) -> R) -> R {
        let mut lines = self.lines.borrow_mut();
        work(
            lines
                .get_mut(&key)
                .expect("a line lasts as long as a task is in it"),
        )
    }
}

impl<T> KeyTurn<'_, T> {
    /// Returns whether another task waits for the end of this turn.
    pub fn is_awaited(&self) -> bool {
        self.turns
            .with(self.key, |of_key| of_key.line.waiting.len() > 1)
    }

    /// Takes the value that the previous task left, if any.
    pub fn take_left(&self) -> Option<T> {
        self.turns.with(self.key, |of_key| of_key.left.take())
    }

    /// Ends the turn and leaves a value to the next task. The value is dropped if no task waits, or if no task lives
    /// until its turn.
    pub fn leave(self, left: T) {
        self.turns.with(self.key, |of_key| of_key.left = Some(left));
    }
}

impl<T> Drop for KeyTurn<'_, T> {
    fn drop(&mut self) {
        let mut lines = self.turns.lines.borrow_mut();
        let of_key = lines
            .get_mut(&self.key)
            .expect("a line lasts as long as a task is in it");
        of_key.line.leave(self.ticket);
        let ended = match of_key.line.waiting.is_empty() {
            true => lines.remove(&self.key),
            false => None,
        };
        // The value is dropped after the borrow of the lines ends, because its drop may wake tasks.
        drop(lines);
        drop(ended);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    /// Needs the line: without the line, small shares overtake the large one for as long as small ones come.
    #[test]
    fn a_large_share_is_not_overtaken_by_small_ones() {
        let budget = Rc::new(Budget::new(10, 100));
        let first = poll(pin!(budget.take(60))).unwrap();
        let mut large = pin!(budget.take(80));
        assert!(poll(large.as_mut()).is_none());
        let mut small = pin!(budget.take(10));
        assert!(
            poll(small.as_mut()).is_none(),
            "it would fit, but another task was first"
        );
        drop(first);
        assert!(poll(small.as_mut()).is_none());
        let large = poll(large.as_mut()).unwrap();
        let small = poll(small.as_mut()).unwrap();
        drop((large, small));
        assert_eq!((budget.count.get(), budget.size.get()), (10, 100));
    }

    #[test]
    fn a_place_that_is_given_up_holds_no_task_back() {
        let budget = Rc::new(Budget::new(1, 100));
        let first = poll(pin!(budget.take(1))).unwrap();
        {
            let mut given_up = pin!(budget.take(1));
            assert!(poll(given_up.as_mut()).is_none());
        }
        let mut next = pin!(budget.take(1));
        assert!(poll(next.as_mut()).is_none());
        drop(first);
        assert!(poll(next.as_mut()).is_some());
    }

    #[test]
    fn turns_of_one_key_come_in_order_and_keys_do_not_wait_for_each_other() {
        let turns = Turns::<()>::default();
        let first = poll(pin!(turns.take(1))).unwrap();
        let mut second = pin!(turns.take(1));
        let mut third = pin!(turns.take(1));
        assert!(poll(second.as_mut()).is_none() && poll(third.as_mut()).is_none());
        let other = poll(pin!(turns.take(2))).unwrap();
        drop(first);
        assert!(poll(third.as_mut()).is_none());
        let second = poll(second.as_mut()).unwrap();
        drop(second);
        let third = poll(third.as_mut()).unwrap();
        drop((third, other));
        assert!(
            turns.lines.borrow().is_empty(),
            "nothing is kept about a key that no task wants"
        );
    }

    #[test]
    fn a_value_that_a_turn_leaves_goes_to_the_next_turn_or_is_dropped_with_the_line() {
        let turns = Turns::<Rc<()>>::default();
        let left = Rc::new(());
        let first = poll(pin!(turns.take(1))).unwrap();
        assert!(!first.is_awaited());
        let mut second = pin!(turns.take(1));
        assert!(poll(second.as_mut()).is_none() && first.is_awaited());
        first.leave(left.clone());
        let second = poll(second.as_mut()).unwrap();
        assert!(second.take_left().is_some());
        {
            let mut given_up = pin!(turns.take(1));
            assert!(poll(given_up.as_mut()).is_none() && second.is_awaited());
            second.leave(left.clone());
        }
        assert_eq!(Rc::strong_count(&left), 1, "no task came to its turn");
        assert!(turns.lines.borrow().is_empty());
    }
}
