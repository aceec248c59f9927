//! An executor on the real clock that sleeps until a timer or another thread wakes it.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use stonecast_base::Nanoseconds;
use stonecast_fabric::{BusyPoll, Park, Runtime};

struct Sleeper {
    start: Instant,
    thread: Thread,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Park for Sleeper {
    fn now(&self) -> Nanoseconds {
        self.start.elapsed().as_nanos() as Nanoseconds
    }

    fn park(&self, timeout: Nanoseconds) {
        thread::park_timeout(Duration::from_nanos(timeout));
    }

    fn unpark(&self) -> Option<Waker> {
        Some(Waker::from(Arc::new(Unpark(self.thread.clone()))))
    }
}

/// An executor of this thread.
pub fn executor() -> BusyPoll {
    let sleeper = Sleeper {
        start: Instant::now(),
        thread: thread::current(),
    };
    BusyPoll::new(Rc::new(sleeper), 0)
}

/// The clock and timers of an executor that nobody drives: for changes that [`finish`] drives.
pub fn runtime() -> (BusyPoll, Rc<dyn Runtime>) {
    let executor = executor();
    let runtime = executor.runtime();
    (executor, runtime)
}

/// Drives `work` on this thread.
pub fn finish<T>(work: impl Future<Output = T>) -> T {
    executor().block_on(work)
}
