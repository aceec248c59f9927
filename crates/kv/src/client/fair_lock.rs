//! A lock that the tasks of one thread get in the order of their requests.
//!
//! A write holds the lock until the write is sent, so that writes are sent in the order of the calls. A write may have
//! to wait for a lease or for room; a later and smaller write that would find room at once waits for the earlier
//! write. A program that imports a file with many puts in flight gets its lines committed in order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use smallvec::SmallVec;

/// The queue of the tasks that want the lock. The first task holds the lock.
#[derive(Default)]
pub(crate) struct FairLock {
    next: Cell<u64>,
    queue: RefCell<VecDeque<(u64, Option<Waker>)>>,
}

/// A place in the queue. Dropping it leaves the queue, from any position.
pub(crate) struct FairGuard<'a> {
    lock: &'a FairLock,
    number: u64,
}

impl FairLock {
    /// Joins the queue and waits for the lock.
    pub async fn lock(&self) -> FairGuard<'_> {
        let number = self.next.replace(self.next.get() + 1);
        self.queue.borrow_mut().push_back((number, None));
        let guard = FairGuard { lock: self, number };
        poll_fn(|context| {
            let mut queue = self.queue.borrow_mut();
            if queue[0].0 == number {
                return Poll::Ready(());
            }
            let index = queue
                .binary_search_by_key(&number, |place| place.0)
                .expect("a task that waits is in the queue");
            queue[index].1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        guard
    }

    /// Whether a task has the lock or waits for it.
    #[inline]
    pub fn is_locked(&self) -> bool {
        !self.queue.borrow().is_empty()
    }
}

impl FairGuard<'_> {
    /// Unlocks after a write that was done in the call, and lets all waiting tasks take the lock before the current
    /// task continues. New tasks join the queue as long as any task waits, so a task whose writes are done in the call
    /// would otherwise never find the queue empty.
    pub async fn unlock_for_all(self) {
        let lock = self.lock;
        drop(self);
        let wakers: SmallVec<[Waker; 32]> = lock
            .queue
            .borrow_mut()
            .iter_mut()
            .filter_map(|place| place.1.take())
            .collect();
        // The drop of the guard has woken the first task.
        let mut yields = lock.is_locked();
        wakers.into_iter().for_each(Waker::wake);
        poll_fn(|context| {
            if !std::mem::take(&mut yields) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

impl Drop for FairGuard<'_> {
    fn drop(&mut self) {
        let mut queue = self.lock.queue.borrow_mut();
        let index = queue
            .binary_search_by_key(&self.number, |place| place.0)
            .expect("a task that waits is in the queue");
        queue.remove(index);
        let waker = if index == 0 {
            queue.front_mut().and_then(|first| first.1.take())
        } else {
            None
        };
        drop(queue);
        waker.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::Context;

    use super::*;

    fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn tasks_get_the_lock_in_order_and_a_task_that_leaves_the_queue_delays_no_other() {
        let lock = FairLock::default();
        let first = poll(pin!(lock.lock())).expect("no task is before");
        let mut second = Box::pin(lock.lock());
        let mut third = Box::pin(lock.lock());
        let mut fourth = Box::pin(lock.lock());
        assert!(
            poll(second.as_mut()).is_none()
                && poll(third.as_mut()).is_none()
                && poll(fourth.as_mut()).is_none()
        );
        drop(third);
        drop(first);
        assert!(poll(fourth.as_mut()).is_none(), "the second is before");
        let guard = poll(second.as_mut()).expect("it is the second's turn");
        drop(guard);
        assert!(poll(fourth.as_mut()).is_some());
        drop((second, fourth));
        assert!(lock.queue.borrow().is_empty());
    }

    /// Fails without the pause and without the waking of all tasks: the task that held the lock is back in the queue
    /// before the waiting tasks have run, and each of sixteen puts that could be done in the call waits in the queue
    /// forever.
    #[test]
    fn a_task_that_unlocks_for_all_continues_after_every_waiting_task() {
        let lock = FairLock::default();
        let first = poll(pin!(lock.lock())).expect("no task is before");
        let mut second = Box::pin(lock.lock());
        let mut third = Box::pin(lock.lock());
        let woken = std::sync::Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        assert!(
            second.as_mut().poll(&mut context).is_pending()
                && third.as_mut().poll(&mut context).is_pending()
        );
        let mut end = Box::pin(first.unlock_for_all());
        assert!(
            poll(end.as_mut()).is_none(),
            "the task pauses while others wait"
        );
        assert_eq!(woken.0.load(std::sync::atomic::Ordering::Relaxed), 2);
        drop(poll(second.as_mut()).expect("it is the second's turn"));
        drop(poll(third.as_mut()).expect("and then the third's"));
        assert!(!lock.is_locked());
        assert!(poll(end.as_mut()).is_some());
        let alone = poll(pin!(lock.lock())).expect("no task is before");
        assert!(
            poll(pin!(alone.unlock_for_all())).is_some(),
            "without waiting tasks there is no pause"
        );
    }

    #[derive(Default)]
    struct Woken(std::sync::atomic::AtomicU32);

    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
