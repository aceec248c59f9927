//! An operation of the store with its time limit.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use stonecast_fabric::{Runtime, Sleep};
use stonecast_kv::StoreError;

use crate::cluster::ClusterRead;
use crate::connector::nanoseconds;
use crate::error::{Error, Fault};

/// `work`, given up if the work takes longer than `limit` after its first poll. Work that is ready at its first poll
/// costs neither a timer nor a look at the clock: a GET over shared memory takes a few hundred instructions, and a
/// timer or a look at the clock takes as many.
#[must_use = "futures do nothing unless they are awaited"]
pub(crate) struct Timed<'a, Work> {
    work: Work,
    limit: Option<Duration>,
    runtime: &'a Rc<dyn Runtime>,
    late: Option<Sleep<'a>>,
}

impl<'a, Work> Timed<'a, Work> {
    #[inline(always)]
    pub fn new(work: Work, limit: Option<Duration>, runtime: &'a Rc<dyn Runtime>) -> Self {
        Self {
            work,
            limit,
            runtime,
            late: None,
        }
    }

    /// Ready with the limit once unfinished work is late.
    #[cold]
    fn poll_limit(&mut self, context: &mut Context<'_>) -> Poll<Duration> {
        let Some(limit) = self.limit else {
            return Poll::Pending;
        };
        let runtime = self.runtime;
        let late = self
            .late
            .get_or_insert_with(|| runtime.sleep(nanoseconds(limit)));
        ready!(Pin::new(late).poll(context));
        Poll::Ready(limit)
    }
}

impl<T, Work> Future for Timed<'_, Work>
where
    Work: Future<Output = Result<T, StoreError>> + Unpin,
{
    type Output = Result<T, Fault>;

    // Inlined, so that the limit costs nothing for work that is ready at its first poll.
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        match Pin::new(&mut this.work).poll(context) {
            Poll::Ready(result) => Poll::Ready(result.map_err(Fault::Store)),
            Poll::Pending => this
                .poll_limit(context)
                .map(|limit| Err(Fault::Late(limit))),
        }
    }
}

/// Work that changes nothing, so that its errors have no effect on the data.
#[must_use = "futures do nothing unless they are awaited"]
pub(crate) struct TimedRead<'a, Work>(pub Timed<'a, Work>);

impl<T, Work> Future for TimedRead<'_, Work>
where
    Work: Future<Output = Result<T, StoreError>> + Unpin,
{
    type Output = Result<T, Error>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let timed = Pin::new(&mut self.get_mut().0);
        timed.poll(context).map_err(Fault::of_read)
    }
}

/// A read of a server, or of a cluster, whose client limits its time.
#[must_use = "futures do nothing unless they are awaited"]
pub(crate) enum Reading<'a, Work> {
    Server(TimedRead<'a, Work>),
    Cluster(ClusterRead<'a>),
}

impl<Work> Future for Reading<'_, Work>
where
    Work: Future<Output = Result<Option<u64>, StoreError>> + Unpin,
{
    type Output = Result<Option<u64>, Error>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Server(read) => Pin::new(read).poll(context),
            Self::Cluster(read) => Pin::new(read).poll(context),
        }
    }
}
