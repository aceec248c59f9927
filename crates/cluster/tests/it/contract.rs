//! The contract of stores: a store in memory keeps it, and breaks it with one fault at a time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_base::Nanoseconds;
use stonecast_cluster::contract::{Story, World, check};
use stonecast_cluster::{
    ConfigStore, Pending, Revision, StoreError, Stored, Swap, VALUE_SIZE_MAX, store_contract_tests,
};
use stonecast_fabric::{Runtime, Timer};

/// A promise that the store breaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    InventsAValue,
    IgnoresTheExpectedRevision,
    TakesAFirstValueTwice,
    RepeatsRevisions,
    EndsAtAZero,
    TakesLongValues,
    TellsBothThatTheyWon,
    StoresADroppedAttemptLater,
    NeverWakesAWatch,
    WatchesWhatIsThere,
    BringsTheNextValueOnly,
    HasOneWatchForEver,
}

/// The value, and all earlier values.
#[derive(Default)]
struct Shared {
    values: RefCell<Vec<Vec<u8>>>,
    dropped: RefCell<Option<Vec<u8>>>,
    watched: Cell<bool>,
}

struct Memory {
    shared: Rc<Shared>,
    fault: Fault,
}

impl Memory {
    fn newest(&self) -> Option<Stored> {
        let values = self.shared.values.borrow();
        let revision = match self.fault {
            Fault::RepeatsRevisions => values.len().min(2) as u64,
            _ => values.len() as u64,
        };
        let stored = values.last().map(|bytes| Stored {
            revision: Revision(revision),
            bytes: bytes.clone(),
        });
        match self.fault {
            Fault::InventsAValue => stored.or(Some(Stored {
                revision: Revision(0),
                bytes: Vec::new(),
            })),
            _ => stored,
        }
    }

    fn swap(&self, expected: Option<Revision>, bytes: &[u8]) -> Result<Swap, StoreError> {
        if bytes.len() > VALUE_SIZE_MAX && self.fault != Fault::TakesLongValues {
            return Err(StoreError::Refused {
                store: self.name().to_owned(),
                reason: "too long".to_owned(),
            });
        }
        let present = self.newest().map(|stored| stored.revision);
        let met = match self.fault {
            Fault::IgnoresTheExpectedRevision => expected.is_some() == present.is_some(),
            Fault::TakesAFirstValueTwice => expected.is_none() || present == expected,
            _ => present == expected,
        };
        if !met {
            return Ok(match (self.fault, present) {
                (Fault::TellsBothThatTheyWon, Some(present)) => Swap::Done(present),
                _ => Swap::Conflict,
            });
        }
        let mut bytes = bytes.to_vec();
        if self.fault == Fault::EndsAtAZero {
            bytes.truncate(
                bytes
                    .iter()
                    .position(|&byte| byte == 0)
                    .unwrap_or(bytes.len()),
            );
        }
        self.shared.values.borrow_mut().push(bytes);
        Ok(Swap::Done(self.newest().expect("it was stored").revision))
    }
}

impl ConfigStore for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn read(&self) -> Pending<'_, Result<Option<Stored>, StoreError>> {
        if let Some(bytes) = self.shared.dropped.take() {
            self.shared.values.borrow_mut().push(bytes);
        }
        Box::pin(ready(Ok(self.newest())))
    }

    fn compare_and_set(
        &self,
        expected: Option<Revision>,
        bytes: &[u8],
    ) -> Pending<'_, Result<Swap, StoreError>> {
        // The second poll stores, so an attempt that is dropped after its first poll never takes effect.
        let (bytes, mut polled) = (bytes.to_vec(), false);
        Box::pin(poll_fn(move |context| {
            if polled {
                return Poll::Ready(self.swap(expected, &bytes));
            }
            polled = true;
            if self.fault == Fault::StoresADroppedAttemptLater {
                let mut dropped = self.shared.dropped.borrow_mut();
                dropped.get_or_insert_with(|| bytes.clone());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }))
    }

    fn changed(&self, since: Option<Revision>) -> Pending<'_, Result<Stored, StoreError>> {
        let (mut polled, mut blocked) = (false, false);
        Box::pin(poll_fn(move |context| {
            let first = !std::mem::replace(&mut polled, true);
            let is_second = first && self.shared.watched.replace(true);
            blocked |= is_second && self.fault == Fault::HasOneWatchForEver;
            if blocked || (self.fault == Fault::NeverWakesAWatch && !first) {
                return Poll::Pending;
            }
            let at = since.map_or(0, |since| since.0 as usize);
            match self.newest() {
                Some(newest) if self.fault == Fault::BringsTheNextValueOnly => {
                    let values = self.shared.values.borrow();
                    let next = values.get(at).map(|bytes| Stored {
                        revision: Revision(at as u64 + 1),
                        bytes: bytes.clone(),
                    });
                    Poll::Ready(Ok(next.unwrap_or(newest)))
                }
                Some(newest)
                    if Some(newest.revision) > since || self.fault == Fault::WatchesWhatIsThere =>
                {
                    Poll::Ready(Ok(newest))
                }
                _ => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        }))
    }
}

/// A clock that jumps to its first timer after many polls in which no request ended.
#[derive(Default)]
struct Clock {
    now: Cell<Nanoseconds>,
    timers: RefCell<BTreeMap<Timer, Waker>>,
    serial: Cell<u64>,
}

impl Runtime for Clock {
    fn now(&self) -> Nanoseconds {
        self.now.get()
    }

    fn wall_clock(&self) -> Nanoseconds {
        unreachable!("no server runs here")
    }

    fn spawn(&self, _: Pin<Box<dyn Future<Output = ()>>>) {
        unreachable!("stories are one task each")
    }

    fn wake_at(&self, deadline: Nanoseconds, waker: &Waker) -> Timer {
        self.serial.set(self.serial.get() + 1);
        let timer = Timer {
            deadline,
            serial: self.serial.get(),
        };
        self.timers.borrow_mut().insert(timer, waker.clone());
        timer
    }

    fn cancel(&self, timer: Timer) {
        self.timers.borrow_mut().remove(&timer);
    }
}

/// One store in memory.
struct InMemory {
    shared: Rc<Shared>,
    clock: Rc<Clock>,
    fault: Fault,
}

fn in_memory(fault: Fault) -> Rc<dyn World> {
    Rc::new(InMemory {
        shared: Rc::default(),
        clock: Rc::default(),
        fault,
    })
}

impl World for InMemory {
    fn store(&self) -> Rc<dyn ConfigStore> {
        Rc::new(Memory {
            shared: self.shared.clone(),
            fault: self.fault,
        })
    }

    fn runtime(&self) -> Rc<dyn Runtime> {
        self.clock.clone()
    }

    fn run(&self, mut story: Story) {
        const POLLS_PER_JUMP: u32 = 16;
        for polls in 1.. {
            let mut context = Context::from_waker(Waker::noop());
            if story.as_mut().poll(&mut context).is_ready() {
                return;
            }
            if polls % POLLS_PER_JUMP == 0 {
                let first = self.clock.timers.borrow_mut().pop_first();
                let (timer, waker) = first.expect("somebody waits for something");
                self.clock.now.set(timer.deadline);
                waker.wake();
            }
        }
    }
}

store_contract_tests!("memory", |_| Ok(in_memory(Fault::None)));

#[test]
fn every_broken_promise_is_noticed_by_its_story() {
    for (fault, story) in [
        (
            Fault::InventsAValue,
            "a_store_to_which_nobody_wrote_is_empty",
        ),
        (
            Fault::TakesAFirstValueTwice,
            "the_first_value_needs_an_empty_store",
        ),
        (
            Fault::TakesAFirstValueTwice,
            "of_two_first_values_one_is_stored",
        ),
        (
            Fault::RepeatsRevisions,
            "each_value_has_a_higher_revision_and_every_handle_reads_it",
        ),
        (
            Fault::EndsAtAZero,
            "any_bytes_come_back_as_they_were_stored",
        ),
        (
            Fault::TakesLongValues,
            "the_longest_value_is_stored_and_a_longer_one_is_refused",
        ),
        (
            Fault::TellsBothThatTheyWon,
            "of_two_writers_that_expect_the_same_revision_one_wins_each_time",
        ),
        (
            Fault::IgnoresTheExpectedRevision,
            "a_revision_that_was_overtaken_stores_nothing",
        ),
        (
            Fault::StoresADroppedAttemptLater,
            "an_attempt_that_was_dropped_is_found_by_its_number",
        ),
        (
            Fault::IgnoresTheExpectedRevision,
            "two_changes_of_a_configuration_both_come_about",
        ),
        (
            Fault::NeverWakesAWatch,
            "a_watch_of_an_empty_store_sees_the_first_value",
        ),
        (
            Fault::WatchesWhatIsThere,
            "a_watch_sees_the_next_value_or_a_later_one",
        ),
        (
            Fault::BringsTheNextValueOnly,
            "a_watch_of_an_old_revision_brings_the_newest_value_at_once",
        ),
        (
            Fault::HasOneWatchForEver,
            "a_watch_that_was_dropped_is_harmless",
        ),
        (
            Fault::BringsTheNextValueOnly,
            "a_watched_value_is_not_older_than_a_value_that_this_handle_stored",
        ),
    ] {
        let told = catch_unwind(AssertUnwindSafe(|| check(story, in_memory(fault))));
        assert!(told.is_err(), "{story} does not notice");
    }
}
