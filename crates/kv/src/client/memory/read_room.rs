//! Counts the READs that are posted and not completed: the send queue has bounded room for READs beside the writes in
//! flight.
//!
//! ```text
//!   posted      ----------------------------|     READs of a queue pair complete in the order of their posts,
//!   completed   -----------------|                 so the end of one implies the end of all before it
//! ```
//!
//! The completion of a READ that was given up is not seen; the completion of a later READ implies it. If no later READ
//! is posted for want of room, a READ that has waited for long enough goes ahead: the queue has as much room again for
//! READs that go ahead.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Runtime;

use crate::wire::limits::IN_FLIGHT_MAX;

/// READs that may be posted and not completed. The send queue has room for as many writes, and for as many READs that
/// go ahead.
pub(super) const POSTED_READS_MAX: u64 = IN_FLIGHT_MAX as u64;
/// Pause between two looks for room.
const LOOK_NS: Nanoseconds = 2_000;
/// A READ that has waited for this long without any completion goes ahead. The other READs begin a new wait, since the
/// completion of that READ implies the completion of all earlier ones.
const PATIENCE_NS: Nanoseconds = 10_000_000;
/// Checks for room that a READ must have made before it goes ahead. The clock alone does not suffice: time passes while
/// this thread does not run and no completion is noticed.
const LOOKS_MIN: u32 = 64;

/// Counts the READs that are posted and not completed.
#[derive(Default)]
pub(super) struct ReadRoom {
    posted: Cell<u64>,
    completed: Cell<u64>,
}

/// The READs of one post.
#[must_use = "the room is free again after `completed` or `not_posted`"]
pub(super) struct PostedReads {
    end: u64,
}

impl ReadRoom {
    /// Waits for room for `count` READs, and takes that room. The caller posts the READs next, without waiting in
    /// between.
    pub async fn take(&self, runtime: &Rc<dyn Runtime>, count: usize) -> PostedReads {
        assert!(
            count as u64 <= POSTED_READS_MAX / 4,
            "a batch leaves room for others"
        );
        let (mut seen, mut since, mut looks) = (self.ends(), None, 0);
        loop {
            if let Some(posted) = self.take_now(count) {
                return posted;
            }
            let now = runtime.now();
            if self.ends() != seen {
                (seen, since, looks) = (self.ends(), None, 0);
            }
            if now - *since.get_or_insert(now) > PATIENCE_NS && looks >= LOOKS_MIN {
                return self.take_anyway(count);
            }
            looks += 1;
            runtime.sleep(LOOK_NS).await;
        }
    }

    /// Counters that change when any READ is posted or completes.
    fn ends(&self) -> (u64, u64) {
        (self.posted.get(), self.completed.get())
    }

    /// Takes room for READs that the caller posts next, if there is room.
    pub fn take_now(&self, count: usize) -> Option<PostedReads> {
        let has_room = self.posted.get() + count as u64 - self.completed.get() <= POSTED_READS_MAX;
        has_room.then(|| self.take_anyway(count))
    }

    fn take_anyway(&self, count: usize) -> PostedReads {
        self.posted.set(self.posted.get() + count as u64);
        PostedReads {
            end: self.posted.get(),
        }
    }

    /// Gives back the room taken last, whose READs were not posted.
    pub fn not_posted(&self, reads: PostedReads, count: usize) {
        assert_eq!(
            reads.end,
            self.posted.get(),
            "only the latest is taken back"
        );
        self.posted.set(reads.end - count as u64);
    }

    /// Whether READs have completed, as far as is known.
    pub fn has_completed(&self, reads: &PostedReads) -> bool {
        self.completed.get() >= reads.end
    }

    /// Notes that READs have completed, and with them all that were posted before.
    pub fn completed(&self, reads: PostedReads) {
        self.completed.set(self.completed.get().max(reads.end));
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};

    use stonecast_fabric::Timer;

    use super::*;

    /// A clock that stands until the test moves it, and wakes no task: the test polls.
    #[derive(Default)]
    struct Clock(Cell<Nanoseconds>);

    impl Runtime for Clock {
        fn now(&self) -> Nanoseconds {
            self.0.get()
        }

        fn wall_clock(&self) -> Nanoseconds {
            unreachable!("no server runs here")
        }

        fn spawn(&self, _: Pin<Box<dyn Future<Output = ()>>>) {
            unreachable!("nothing is spawned for room")
        }

        fn wake_at(&self, deadline: Nanoseconds, _: &Waker) -> Timer {
            Timer {
                deadline,
                serial: 0,
            }
        }

        fn cancel(&self, _: Timer) {}
    }

    /// Fails without `LOOKS_MIN`, and if the other READs do not begin a new wait when one goes ahead: the send queue
    /// would overflow on a machine on which a thread does not run for a while.
    #[test]
    fn a_read_that_waits_in_vain_goes_ahead_alone_and_not_because_the_clock_jumped() {
        let clock = Rc::new(Clock::default());
        let runtime: Rc<dyn Runtime> = clock.clone();
        let room = ReadRoom::default();
        let context = &mut Context::from_waker(Waker::noop());
        let _given_up = room
            .take_now(POSTED_READS_MAX as usize)
            .expect("all of the room");
        let (mut first, mut second) = (pin!(room.take(&runtime, 1)), pin!(room.take(&runtime, 1)));
        let mut round = || {
            clock.0.set(clock.0.get() + 2 * PATIENCE_NS);
            (
                first.as_mut().poll(context).is_ready(),
                second.as_mut().poll(context).is_ready(),
            )
        };
        for _ in 0..LOOKS_MIN / 2 {
            assert_eq!(round(), (false, false), "neither has checked often enough");
        }
        let gone = (0..2 * LOOKS_MIN)
            .map(|_| round())
            .find(|gone| gone.0 || gone.1);
        assert_eq!(gone, Some((true, false)));
    }
}
