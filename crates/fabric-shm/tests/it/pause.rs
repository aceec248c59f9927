//! The sleep of a thread that several devices share: no device may put the thread to sleep while another has work.

use std::rc::Rc;
use std::time::{Duration, Instant};

use stonecast_base::Nanoseconds;
use stonecast_fabric::Park;

/// Sleeps a little in every case.
pub struct Pause {
    start: Instant,
}

/// The longest sleep.
const PAUSE_NS: Nanoseconds = 20_000;

impl Pause {
    pub fn new() -> Rc<Self> {
        Rc::new(Self {
            start: Instant::now(),
        })
    }
}

impl Park for Pause {
    fn now(&self) -> Nanoseconds {
        self.start.elapsed().as_nanos() as Nanoseconds
    }

    fn park(&self, timeout: Nanoseconds) {
        std::thread::sleep(Duration::from_nanos(timeout.min(PAUSE_NS)));
    }
}
