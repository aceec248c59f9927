//! Drives stores on the thread of a test.

use std::future::Future;
use std::rc::Rc;

use stonecast_config_store::executor;
use stonecast_fabric::{BusyPoll, Runtime};

/// The clock and timers of an executor that no thread drives: for changes that [`finish`] drives.
pub fn runtime() -> (BusyPoll, Rc<dyn Runtime>) {
    let executor = executor();
    let runtime = executor.runtime();
    (executor, runtime)
}

/// Drives `work` on this thread.
pub fn finish<T>(work: impl Future<Output = T>) -> T {
    executor().block_on(work)
}
