//! Calls that wait: other threads of Python run meanwhile, and signals are looked after.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use pyo3::prelude::*;
use stonecast::{Error, local};
use stonecast_base::Nanoseconds;

use crate::per_thread::Unavailable;

/// The time between two looks for a signal, such as that of Ctrl-C, during a call that waits.
const SIGNALS_NS: Nanoseconds = 100_000_000;

/// The reason why a call that waited has no result.
pub enum Stopped {
    Failed(Error),
    /// A handler of a signal has raised this exception. An operation that was sent takes its course.
    Interrupted(PyErr),
    /// Nothing was begun.
    Unavailable(Unavailable),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Waits for `work` on `connection`, and has handlers of signals executed meanwhile. The caller has released the lock
/// of the interpreter.
pub fn run<T>(
    connection: &local::Connection,
    work: impl AsyncFnOnce(&local::Client) -> Result<T, Error>,
) -> Result<T, Stopped> {
    connection.run(async |client| {
        let mut work = pin!(work(client));
        loop {
            match client.runtime().within(SIGNALS_NS, work.as_mut()).await {
                Ok(result) => return Ok(result?),
                Err(_) => Python::attach(|py| py.check_signals()).map_err(Stopped::Interrupted)?,
            }
        }
    })
}

/// The result of `work` if it is ready at its first poll; otherwise `work` is given up, so that it must be a read.
pub async fn at_once<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
