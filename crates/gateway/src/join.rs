//! Runs many futures of one task at once and passes on their results in order.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// The most futures that one task has in flight at a time: as many as the store takes at once.
pub const WINDOW: usize = 256;

/// Runs `futures`, a window of them at a time, and hands each result to `take`, in the order of the futures.
pub async fn in_order<F: Future>(
    futures: impl IntoIterator<Item = F>,
    mut take: impl FnMut(F::Output),
) {
    let mut futures = futures.into_iter();
    let Some(first) = futures.next() else { return };
    let Some(second) = futures.next() else {
        return take(first.await);
    };
    let mut window: VecDeque<Slot<F>> = [first, second]
        .into_iter()
        .map(|future| Slot::Running(Box::pin(future)))
        .collect();
    poll_fn(|context| {
        loop {
            while window.len() < WINDOW
                && let Some(future) = futures.next()
            {
                window.push_back(Slot::Running(Box::pin(future)));
            }
            for slot in &mut window {
                if let Slot::Running(future) = slot
                    && let Poll::Ready(output) = future.as_mut().poll(context)
                {
                    *slot = Slot::Done(output);
                }
            }
            let mut taken = 0;
            while let Some(Slot::Done(_)) = window.front() {
                if let Some(Slot::Done(output)) = window.pop_front() {
                    take(output);
                    taken += 1;
                }
            }
            if window.is_empty() && taken == 0 {
                return Poll::Ready(());
            }
            // The window has room again: futures that enter it must be polled before the task sleeps.
            if taken == 0 {
                return Poll::Pending;
            }
        }
    })
    .await;
}

enum Slot<F: Future> {
    Running(Pin<Box<F>>),
    Done(F::Output),
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// Is ready when `gate` is at or above `level`.
    async fn wait(gate: &Cell<usize>, level: usize, started: &Cell<usize>) -> usize {
        started.set(started.get() + 1);
        poll_fn(|_| {
            if gate.get() >= level {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        level
    }

    #[test]
    fn results_come_in_order_whichever_is_done_first_and_no_more_futures_run_than_the_window_holds()
    {
        let (gate, started) = (Cell::new(0), Cell::new(0));
        let results = std::cell::RefCell::new(Vec::new());
        let levels = [2, 1, 3].into_iter().chain(4..=1000);
        let futures = levels.clone().map(|level| wait(&gate, level, &started));
        let mut all = pin!(in_order(futures, |level| results.borrow_mut().push(level)));
        let mut poll = || all.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        assert_eq!(started.get(), WINDOW);
        gate.set(1);
        assert!(poll().is_pending());
        assert!(
            results.borrow().is_empty(),
            "the second is done, the first is not"
        );
        gate.set(3);
        assert!(poll().is_pending());
        assert_eq!(*results.borrow(), [2, 1, 3]);
        assert_eq!(started.get(), WINDOW + 3);
        gate.set(1000);
        assert!(poll().is_ready());
        assert_eq!(*results.borrow(), levels.collect::<Vec<_>>());
    }

    #[test]
    fn none_and_one_are_done_like_many() {
        for count in 0..3 {
            let mut results = Vec::new();
            let mut all = Box::pin(in_order((0..count).map(std::future::ready), |result| {
                results.push(result)
            }));
            assert!(
                all.as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()))
                    .is_ready()
            );
            drop(all);
            assert_eq!(results, (0..count).collect::<Vec<_>>());
        }
    }
}
