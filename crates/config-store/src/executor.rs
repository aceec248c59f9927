//! An executor for programs without a device.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use stonecast_base::Nanoseconds;
use stonecast_fabric::{BusyPoll, Park};

/// The sleep of a thread, ended by a timer or by a wake from another thread.
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

/// An executor of the calling thread, for tools that query a store and have no device to sleep on.
///
/// The executor sleeps until a timer is due or the store's thread has an answer.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// let store = stonecast_config_store::open(&format!("file:{}", folder.path().display()))?;
/// assert_eq!(stonecast_config_store::executor().block_on(store.read())?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn executor() -> BusyPoll {
    let sleeper = Sleeper {
        start: Instant::now(),
        thread: thread::current(),
    };
    BusyPoll::new(Rc::new(sleeper), 0)
}
