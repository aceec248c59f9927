//! Writes take turns until they are sent, so that they are sent in the order in which they were asked for.
//!
//! A write may have to wait before it can be sent: for a lease, for room. A later and smaller one that would find room at
//! once waits behind it. Whoever imports a file with many puts in flight gets its lines committed in their order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use smallvec::SmallVec;

/// The queue of those who wait, the first of whom has the turn.
#[derive(Default)]
pub(super) struct Turns {
    next: Cell<u64>,
    queue: RefCell<VecDeque<(u64, Option<Waker>)>>,
}

/// A place in the queue. Dropping it leaves the queue, at whatever place.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Turns {
    /// Joins the queue and waits for the turn.
    pub async fn take(&self) -> Turn<'_> {
        let number = self.next.replace(self.next.get() + 1);
        self.queue.borrow_mut().push_back((number, None));
        let turn = Turn {
            turns: self,
            number,
        };
        poll_fn(|context| {
            let mut queue = self.queue.borrow_mut();
            if queue[0].0 == number {
                return Poll::Ready(());
            }
            let index = queue
                .binary_search_by_key(&number, |place| place.0)
                .expect("who waits is in the queue");
            queue[index].1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        turn
    }

    /// Whether somebody has the turn or waits for it.
    #[inline]
    pub fn are_taken(&self) -> bool {
        !self.queue.borrow().is_empty()
    }
}

impl Turn<'_> {
    /// Ends a turn whose write was done at once, and lets all who wait have theirs before whoever had this one writes again: as long
    /// as somebody waits, those who come join the queue, and of writes that are done at once nobody would ever find it empty.
    pub async fn end_for_all(self) {
        let turns = self.turns;
        drop(self);
        let wakers: SmallVec<[Waker; 32]> = turns
            .queue
            .borrow_mut()
            .iter_mut()
            .filter_map(|place| place.1.take())
            .collect();
        // The first was woken already.
        let mut yields = turns.are_taken();
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

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queue = self.turns.queue.borrow_mut();
        let index = queue
            .binary_search_by_key(&self.number, |place| place.0)
            .expect("who waits is in the queue");
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
    fn turns_come_in_the_order_of_asking_and_one_who_leaves_the_queue_holds_up_nobody() {
        let turns = Turns::default();
        let first = poll(pin!(turns.take())).expect("nobody is before");
        let mut second = Box::pin(turns.take());
        let mut third = Box::pin(turns.take());
        let mut fourth = Box::pin(turns.take());
        assert!(
            poll(second.as_mut()).is_none()
                && poll(third.as_mut()).is_none()
                && poll(fourth.as_mut()).is_none()
        );
        drop(third);
        drop(first);
        assert!(poll(fourth.as_mut()).is_none(), "the second is before");
        let turn = poll(second.as_mut()).expect("it is the second's turn");
        drop(turn);
        assert!(poll(fourth.as_mut()).is_some());
        drop((second, fourth));
        assert!(turns.queue.borrow().is_empty());
    }

    /// Needs the pause, and that all are woken: else whoever had the turn is back in the queue before those who wait have run, and of
    /// sixteen puts that could each be done in the call every one waits in the queue for ever.
    #[test]
    fn who_ends_a_turn_for_all_comes_back_after_everybody_who_waits() {
        let turns = Turns::default();
        let first = poll(pin!(turns.take())).expect("nobody is before");
        let mut second = Box::pin(turns.take());
        let mut third = Box::pin(turns.take());
        let woken = std::sync::Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        assert!(
            second.as_mut().poll(&mut context).is_pending()
                && third.as_mut().poll(&mut context).is_pending()
        );
        let mut end = Box::pin(first.end_for_all());
        assert!(poll(end.as_mut()).is_none(), "it pauses while others wait");
        assert_eq!(woken.0.load(std::sync::atomic::Ordering::Relaxed), 2);
        drop(poll(second.as_mut()).expect("it is the second's turn"));
        drop(poll(third.as_mut()).expect("and then the third's"));
        assert!(!turns.are_taken());
        assert!(poll(end.as_mut()).is_some());
        let alone = poll(pin!(turns.take())).expect("nobody is before");
        assert!(
            poll(pin!(alone.end_for_all())).is_some(),
            "it pauses for nobody"
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
