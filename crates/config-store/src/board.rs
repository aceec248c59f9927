//! The tasks that wait for a later value, and the thread that polls for one.
//!
//! Invariants:
//! - The thread polls only while a task waits.
//! - No task sleeps through a value: a registering task states the value that it has seen, and is not put to sleep if
//!   the thread has seen a later one.
//! - After a failure the thread pauses before it wakes any task, so that no task asks in a loop, whether the failure
//!   passes or has to be repaired.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use futures_channel::oneshot;
use stonecast_cluster::Revision;

use crate::backend::Backend;

/// The shortest pause after a failure; each pause is twice as long as the previous one.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The event that a waiter waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// A later revision.
    LaterThan(Option<Revision>),
    /// The thread's next poll, whatever it finds.
    NextLook,
}

struct Waiter {
    until: Until,
    wake: oneshot::Sender<()>,
}

impl Waiter {
    fn wake(self) {
        // The future may have been dropped.
        let _ = self.wake.send(());
    }
}

#[derive(Default)]
struct State {
    /// The result of the last poll.
    newest: Option<Revision>,
    waiters: Vec<Waiter>,
    is_closed: bool,
}

/// Shared by the futures and the thread.
#[derive(Default)]
pub struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Waits. `false`: the call did not wait, because waiting could miss a value that is already there.
    pub async fn wait(&self, until: Until) -> bool {
        let (wake, woken) = oneshot::channel();
        {
            let mut state = self.lock();
            if matches!(until, Until::LaterThan(since) if state.newest > since) {
                return false;
            }
            state.waiters.push(Waiter { until, wake });
        }
        self.changed.notify_one();
        // A thread that ends wakes every waiter, too.
        let _ = woken.await;
        true
    }

    /// Ends the thread after its current poll.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Sleeps until a task waits. `false`: the store was closed.
    fn wait_for_waiters(&self) -> bool {
        let mut state = self.lock();
        loop {
            state.waiters.retain(|waiter| !waiter.wake.is_canceled());
            if state.is_closed {
                return false;
            }
            if !state.waiters.is_empty() {
                return true;
            }
            state = self.changed.wait(state).expect("no holder panics");
        }
    }

    /// Wakes all waiters that a poll with result `newest` concerns.
    fn found(&self, newest: Option<Revision>) {
        let mut state = self.lock();
        state.newest = newest;
        let woken = state.waiters.extract_if(.., |waiter| match waiter.until {
            Until::LaterThan(since) => newest > since,
            Until::NextLook => true,
        });
        woken.for_each(Waiter::wake);
    }

    /// Wakes all waiters: their own read reports the failure.
    fn failed(&self) {
        let waiters = std::mem::take(&mut self.lock().waiters);
        waiters.into_iter().for_each(Waiter::wake);
    }

    /// Polls for later values while any task waits, until the board is closed.
    pub fn run(&self, mut backend: impl Backend) {
        let (mut known, mut pause) = (None, PAUSE_MIN);
        while self.wait_for_waiters() {
            match backend.watch(known) {
                Ok(newest) => {
                    (known, pause) = (newest, PAUSE_MIN);
                    self.found(newest);
                }
                Err(_) => {
                    thread::sleep(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                    self.failed();
                }
            }
        }
    }
}
