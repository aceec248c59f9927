//! Who waits for a later value, and the thread that looks for one.
//!
//! Invariants:
//! - The thread looks only while somebody waits.
//! - Nobody sleeps through a value: whoever registers says what they have seen, and is not put to sleep where the thread has seen more.
//! - After a failure the thread pauses before it wakes anybody, so that nobody asks in a loop, whether the failure passes or has to be mended.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use futures_channel::oneshot;
use stonecast_cluster::Revision;

use crate::backend::Backend;

/// The shortest pause after a failure; each pause is twice the one before it.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What a waiter waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// A later revision.
    LaterThan(Option<Revision>),
    /// The thread's next look, whatever it finds.
    NextLook,
}

struct Waiter {
    until: Until,
    wake: oneshot::Sender<()>,
}

impl Waiter {
    fn wake(self) {
        // Its future may have been dropped.
        let _ = self.wake.send(());
    }
}

#[derive(Default)]
struct State {
    /// What the last look found.
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

    /// Waits. `false`: it did not, because waiting could miss something that is there already.
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
        // A thread that ended wakes everybody, too.
        let _ = woken.await;
        true
    }

    /// Ends the thread after its present look.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Sleeps until somebody waits. `false`: the store was closed.
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

    /// Wakes all whom a look that found `newest` concerns.
    fn found(&self, newest: Option<Revision>) {
        let mut state = self.lock();
        state.newest = newest;
        let woken = state.waiters.extract_if(.., |waiter| match waiter.until {
            Until::LaterThan(since) => newest > since,
            Until::NextLook => true,
        });
        woken.for_each(Waiter::wake);
    }

    /// Wakes all: their own look will tell them what is wrong.
    fn failed(&self) {
        let waiters = std::mem::take(&mut self.lock().waiters);
        waiters.into_iter().for_each(Waiter::wake);
    }

    /// Looks for later values as long as anybody waits, until the board is closed.
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
