//! Services that protocol code may request from its executor: a clock, tasks, timers. The simulated world and the
//! busy-poll executor both provide them, and protocol code cannot tell the two apart.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use stonecast_base::Nanoseconds;

/// A future on the heap.
///
/// The compiler translates the body of an `async fn` in each crate that awaits it. The body behind this type is
/// translated once, in the crate of the function that returns it. The operations of a store that allocate nothing
/// return another type.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The services that protocol code may request.
///
/// A result that another thread produces reaches a task through a channel whose receiving end is a future; see
/// [`Park`](crate::Park).
pub trait Runtime {
    /// The clock: wall time or virtual time.
    fn now(&self) -> Nanoseconds;
    /// A time at or after the end of every earlier load of this thread, READs executed in the call among them. It is
    /// ahead of [`Runtime::now`] by a millisecond at most. A provider may read it without waiting for those loads,
    /// which `now` does: the end of a lease needs no more.
    fn now_at_most(&self) -> Nanoseconds {
        self.now()
    }
    /// The time of the machine's wall clock since the begin of 1970 in UTC. It may be wrong, and may be set back or
    /// ahead at any moment: only a server asks, to give a moment that outlives its process. All other code asks
    /// [`Runtime::now`].
    fn wall_clock(&self) -> Nanoseconds;
    /// Runs `task` beside the caller.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()>>>);
    /// Wakes `waker` once, at `deadline` or later, unless the wake-up is cancelled.
    fn wake_at(&self, deadline: Nanoseconds, waker: &Waker) -> Timer;
    /// Cancels a wake-up. It is not an error if the wake-up has already happened.
    fn cancel(&self, timer: Timer);
}

/// A wake-up that was requested from a [`Runtime`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer {
    /// The moment of the wake-up.
    pub deadline: Nanoseconds,
    /// Distinguishes timers with the same deadline; they fire in the order of their serials.
    pub serial: u64,
}

impl dyn Runtime {
    /// Waits until `deadline`.
    pub fn sleep_until(&self, deadline: Nanoseconds) -> Sleep<'_> {
        Sleep {
            runtime: self,
            deadline,
            registered: None,
        }
    }

    /// Waits for `duration` nanoseconds.
    pub fn sleep(&self, duration: Nanoseconds) -> Sleep<'_> {
        self.sleep_until(self.now().saturating_add(duration))
    }

    /// Runs `work` for at most `duration` nanoseconds, counted from the first poll that leaves it unfinished.
    ///
    /// Work that is ready at once costs neither a timer nor a clock reading. Late work is dropped; the work defines
    /// what its drop means.
    pub async fn within<T>(
        &self,
        duration: Nanoseconds,
        work: impl Future<Output = T>,
    ) -> Result<T, Elapsed> {
        let mut work = pin!(work);
        let mut late = None;
        poll_fn(|context| {
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            let late = late.get_or_insert_with(|| self.sleep(duration));
            Pin::new(late).poll(context).map(|()| Err(Elapsed))
        })
        .await
    }
}

/// The future that was ready first; see [`select`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selected<A, B> {
    /// The first one.
    First(A),
    /// The second one.
    Second(B),
}

/// Waits for one of two futures and drops the other. The first future wins if both are ready; in a loop, work that must
/// not starve comes first.
///
/// ```
/// # use stonecast_fabric::{select, Selected};
/// # futures_executor(async {
/// let ready = std::future::ready(1);
/// let never = std::future::pending::<()>();
/// assert_eq!(select(never, ready).await, Selected::Second(1));
/// # });
/// # fn futures_executor(future: impl Future<Output = ()>) {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
/// # }
/// ```
pub async fn select<A, B>(
    first: impl Future<Output = A>,
    second: impl Future<Output = B>,
) -> Selected<A, B> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|context| {
        if let Poll::Ready(output) = first.as_mut().poll(context) {
            return Poll::Ready(Selected::First(output));
        }
        second.as_mut().poll(context).map(Selected::Second)
    })
    .await
}

/// Lets the other tasks of the thread run once.
///
/// # Example
///
/// ```
/// # use std::{pin::pin, task::{Context, Waker}};
/// # let mut context = Context::from_waker(Waker::noop());
/// let mut giving_way = pin!(stonecast_fabric::give_way());
/// assert!(giving_way.as_mut().poll(&mut context).is_pending(), "the other tasks run");
/// assert!(giving_way.as_mut().poll(&mut context).is_ready());
/// ```
pub async fn give_way() {
    let mut has_given_way = false;
    poll_fn(
        |context| match std::mem::replace(&mut has_given_way, true) {
            true => Poll::Ready(()),
            false => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        },
    )
    .await;
}

/// Work that [`Runtime::within`](trait.Runtime.html#method.within) abandoned because its time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time is over")]
pub struct Elapsed;

/// Waits until a deadline. Leaves nothing when it is dropped, however often it was polled.
pub struct Sleep<'a> {
    runtime: &'a dyn Runtime,
    deadline: Nanoseconds,
    registered: Option<(Timer, Waker)>,
}

impl Sleep<'_> {
    fn cancel(&mut self) {
        if let Some((timer, _)) = self.registered.take() {
            self.runtime.cancel(timer);
        }
    }
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.runtime.now() >= self.deadline {
            self.cancel();
            return Poll::Ready(());
        }
        if !self
            .registered
            .as_ref()
            .is_some_and(|(_, waker)| waker.will_wake(context.waker()))
        {
            self.cancel();
            let timer = self.runtime.wake_at(self.deadline, context.waker());
            self.registered = Some((timer, context.waker().clone()));
        }
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        self.cancel();
    }
}
