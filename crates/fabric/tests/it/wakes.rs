//! The executor above the plainest park: the thread's own.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use stonecast_base::Nanoseconds;
use stonecast_fabric::Park;

use crate::foreign_wakes::{
    answers_of_another_thread_end_the_pause, the_last_of_many_wakes_is_not_lost,
};

struct OfThread(Instant);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Park for OfThread {
    fn now(&self) -> Nanoseconds {
        self.0.elapsed().as_nanos() as Nanoseconds
    }

    fn park(&self, timeout: Nanoseconds) {
        thread::park_timeout(Duration::from_nanos(timeout));
    }

    fn unpark(&self) -> Option<Waker> {
        Some(Waker::from(Arc::new(Unpark(thread::current()))))
    }
}

fn park() -> Rc<dyn Park> {
    Rc::new(OfThread(Instant::now()))
}

#[test]
fn an_answer_of_another_thread_ends_the_pause() {
    answers_of_another_thread_end_the_pause("a parked thread", park(), 2_000);
}

#[test]
fn no_wake_of_another_thread_is_lost() {
    the_last_of_many_wakes_is_not_lost("a parked thread", park(), 5_000);
}
