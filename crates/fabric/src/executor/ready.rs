//! Woken tasks, and the handshake between a thread that wakes a task and an executor that goes to sleep.
//!
//! ```text
//!   waker, any thread                     executor
//!     task queued already? done             take `queued` back, then poll the task
//!     queue the task; any := true           parked := true
//!     full fence                            full fence
//!     parked? end the park                  any? do not park
//! ```
//!
//! One of two full fences comes first: either the executor sees the task, or the waker sees that the executor parks.
//! `queued` changes only by exchanges. So a wake that finds the task queued happens before the pending poll, and that
//! poll sees everything that the waking thread did before.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Wake, Waker};

#[cfg(all(test, loom))]
use loom::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering, fence},
};
#[cfg(not(all(test, loom)))]
use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering, fence},
};

/// The tasks to poll, in the order of their wakes.
pub(super) struct ReadyQueue {
    indexes: Mutex<VecDeque<usize>>,
    any: AtomicBool,
    parked: AtomicBool,
    unpark: Option<Waker>,
}

/// The waker of a task. It may outlive the task; a wake-up of a finished task finds an empty or another slot and costs
/// one spurious poll.
pub(super) struct Handle {
    index: usize,
    queued: AtomicBool,
    ready: Arc<ReadyQueue>,
}

impl ReadyQueue {
    /// A queue whose executor is woken by `unpark` while it parks.
    pub fn new(unpark: Option<Waker>) -> Arc<Self> {
        Arc::new(Self {
            indexes: Mutex::default(),
            any: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            unpark,
        })
    }

    /// The index of the next task.
    pub fn pop(&self) -> Option<usize> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut indexes = self.indexes.lock().expect("no holder panics");
        let index = indexes.pop_front();
        if indexes.is_empty() {
            self.any.store(false, Ordering::Release);
        }
        index
    }

    /// Calls `park` unless a task is ready, including a task that another thread wakes at this moment.
    pub fn unless_ready(&self, park: impl FnOnce()) {
        self.parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !self.any.load(Ordering::Acquire) {
            park();
        }
        self.parked.store(false, Ordering::Relaxed);
    }
}

impl Handle {
    /// The handle of the task at `index`, which is not queued.
    pub fn new(index: usize, ready: &Arc<ReadyQueue>) -> Arc<Self> {
        Arc::new(Self {
            index,
            queued: AtomicBool::new(false),
            ready: ready.clone(),
        })
    }

    /// Must be called before each poll: later wakes queue the task again.
    pub fn begin_poll(&self) {
        self.queued.swap(false, Ordering::AcqRel);
    }
}

impl Wake for Handle {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        self.ready
            .indexes
            .lock()
            .expect("no holder panics")
            .push_back(self.index);
        self.ready.any.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if let Some(unpark) = &self.ready.unpark
            && self.ready.parked.load(Ordering::Relaxed)
        {
            unpark.wake_by_ref();
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Condvar;

    /// A park that only its waker ends.
    #[derive(Default)]
    struct Bed {
        rung: Mutex<bool>,
        ring: Condvar,
    }

    impl Bed {
        fn sleep(&self) {
            let mut rung = self.rung.lock().unwrap();
            while !*rung {
                rung = self.ring.wait(rung).unwrap();
            }
            *rung = false;
        }
    }

    impl Wake for Bed {
        fn wake(self: Arc<Self>) {
            *self.rung.lock().unwrap() = true;
            self.ring.notify_one();
        }
    }

    /// Polls one task until `is_done`, as an executor does.
    fn run(ready: &ReadyQueue, handle: &Handle, bed: &Bed, is_done: impl Fn() -> bool) {
        loop {
            handle.begin_poll();
            if is_done() {
                return;
            }
            while ready.pop().is_none() {
                ready.unless_ready(|| bed.sleep());
            }
        }
    }

    /// A thread that wakes the task `wakes` times and produces the result before the last wake. Loom reports the
    /// deadlock of an executor that sleeps through the wake. The task reads the result without any ordering of its own.
    fn woken_by_another_thread(wakes: usize) {
        let mut model = loom::model::Builder::new();
        // Both bugs show with a bound of two; without a bound the second model takes more than minutes.
        model.preemption_bound = Some(3);
        model.check(move || {
            let bed = Arc::new(Bed::default());
            let ready = ReadyQueue::new(Some(Waker::from(bed.clone())));
            let handle = Handle::new(0, &ready);
            let result = Arc::new(AtomicBool::new(false));
            let (waker, theirs) = (Waker::from(handle.clone()), result.clone());
            let thread = loom::thread::spawn(move || {
                for wake in 1..=wakes {
                    if wake == wakes {
                        theirs.store(true, Ordering::Relaxed);
                    }
                    waker.wake_by_ref();
                }
            });
            run(&ready, &handle, &bed, || result.load(Ordering::Relaxed));
            thread.join().unwrap();
        });
    }

    /// Needs both fences.
    #[test]
    fn loom_a_wake_that_meets_a_park_is_not_lost() {
        woken_by_another_thread(1);
    }

    /// Needs the exchange in `begin_poll`: with a store, the second wake finds the task queued, and the poll misses the
    /// result.
    #[test]
    fn loom_a_wake_that_finds_the_task_queued_is_not_lost() {
        woken_by_another_thread(2);
    }
}
