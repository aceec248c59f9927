//! The thread that drives the connection of a [`crate::Client`], and the queue of its work.
//!
//! ```text
//!   any thread                              the driver's thread
//!     job -> queue, wake                      takes all jobs -> one future each
//!     waits for the answer <---one-shot------ polled at once; jobs that are not ready stay, beside new ones
//! ```
//!
//! Jobs begin in the order in which they were queued. The thread ends when the last client is gone, or when a client
//! closes the queue: jobs that are queued by then are done, and later jobs are refused.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;

use futures_channel::oneshot;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use futures_util::task::AtomicWaker;

use crate::connector::Connector;
use crate::error::{Error, ErrorKind};
use crate::local;

/// Work on the driver's thread.
pub(crate) type Job = Box<dyn FnOnce(local::Client) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// The queue of a driver.
#[derive(Default)]
pub(crate) struct Queue {
    jobs: Mutex<Jobs>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Jobs {
    waiting: Vec<Job>,
    /// Whether the driver takes no more jobs.
    is_closed: bool,
}

impl Queue {
    /// Hands `job` to the driver. Returns false if the driver has ended; `job` is then dropped.
    pub fn push(&self, job: Job) -> bool {
        let mut jobs = self.jobs.lock().expect("no holder panics");
        if jobs.is_closed {
            return false;
        }
        jobs.waiting.push(job);
        let is_first = jobs.waiting.len() == 1;
        drop(jobs);
        // The first job of an empty queue wakes the driver, which takes all jobs that wait.
        if is_first {
            self.waker.wake();
        }
        true
    }

    /// Lets the driver end once it has done all queued jobs.
    pub fn close(&self) {
        self.jobs.lock().expect("no holder panics").is_closed = true;
        self.waker.wake();
    }

    /// Exchanges the jobs that wait with `taken`, which is empty. Pending while no job waits; `Ready(false)` with the
    /// last jobs, since nothing wakes the driver after those.
    fn poll_take(&self, context: &Context<'_>, taken: &mut Vec<Job>) -> Poll<bool> {
        self.waker.register(context.waker());
        let mut jobs = self.jobs.lock().expect("no holder panics");
        if !jobs.waiting.is_empty() {
            std::mem::swap(&mut jobs.waiting, taken);
            return Poll::Ready(!jobs.is_closed);
        }
        if jobs.is_closed {
            Poll::Ready(false)
        } else {
            Poll::Pending
        }
    }

    /// Closes the queue and drops the jobs that wait in it. The senders of the answers are dropped with the jobs, which
    /// tells the callers.
    fn abandon(&self) {
        let mut jobs = match self.jobs.lock() {
            Ok(jobs) => jobs,
            Err(poisoned) => poisoned.into_inner(),
        };
        jobs.is_closed = true;
        let abandoned = std::mem::take(&mut jobs.waiting);
        drop(jobs);
        drop(abandoned);
    }
}

/// A driver, which ends when this value is dropped.
#[derive(Default)]
pub(crate) struct Driver(Arc<Queue>);

impl Driver {
    /// Hands `job` to the driver; see [`Queue::push`].
    pub fn push(&self, job: Job) -> bool {
        self.0.push(job)
    }

    /// Lets the driver end once it has done all queued jobs; see [`Queue::close`].
    pub fn close(&self) {
        self.0.close();
    }

    /// Has the effect of the end of the driver's thread.
    #[cfg(test)]
    pub fn abandon(&self) {
        self.0.abandon();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Starts a driver and waits until it is connected. Dropping the future ends the driver.
pub(crate) async fn start(connector: Connector) -> Result<Driver, Error> {
    // Made before the thread, so that at every moment a value exists whose drop ends the thread.
    let driver = Driver::default();
    let (report, connected) = oneshot::channel();
    let theirs = driver.0.clone();
    thread::Builder::new()
        .name("stonecast-client".to_owned())
        .spawn(move || run(connector, &theirs, report))
        .map_err(|error| {
            ErrorKind::Setup(format!(
                "cannot start the thread that drives the connection: {error}"
            ))
        })?;
    match connected.await {
        Ok(result) => result.map(|()| driver),
        Err(_) => Err(ErrorKind::Closed.into()),
    }
}

fn run(connector: Connector, queue: &Queue, report: oneshot::Sender<Result<(), Error>>) {
    let _closed = ClosedAtTheEnd(queue);
    let connection = match connector.connect_local() {
        Ok(connection) => connection,
        Err(error) => {
            // The caller may have given up.
            let _ = report.send(Err(error));
            return;
        }
    };
    if report.send(Ok(())).is_err() {
        return connection.close();
    }
    connection.run(async |client| serve(client, queue).await);
    connection.close();
}

/// Runs queued jobs until the queue is closed and all of them are done.
async fn serve(client: &local::Client, queue: &Queue) {
    let mut taken: Vec<Job> = Vec::new();
    let mut under_way = FuturesUnordered::new();
    poll_fn(|context| {
        let is_open = match queue.poll_take(context, &mut taken) {
            Poll::Ready(is_open) => is_open,
            Poll::Pending => true,
        };
        for job in taken.drain(..) {
            let mut work = job(client.clone());
            // Most reads end here, and take no place among the futures under way.
            if work.as_mut().poll(context).is_pending() {
                under_way.push(work);
            }
        }
        while let Poll::Ready(Some(())) = under_way.poll_next_unpin(context) {}
        if is_open || !under_way.is_empty() {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
}

/// Abandons the queue however the driver ends, so that no caller waits for it afterwards.
struct ClosedAtTheEnd<'a>(&'a Queue);

impl Drop for ClosedAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Needs `poll_take` to report a close together with the jobs: a driver that then misses the close sleeps forever.
    #[test]
    fn a_close_is_seen_together_with_the_last_jobs() {
        let queue = Queue::default();
        assert!(queue.push(Box::new(|_| Box::pin(async {}))));
        queue.close();
        let mut taken = Vec::new();
        let context = Context::from_waker(Waker::noop());
        assert_eq!(queue.poll_take(&context, &mut taken), Poll::Ready(false));
        assert_eq!(taken.len(), 1);
    }
}
