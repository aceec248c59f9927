//! Reading, changing and writing one key: the tasks of a thread that want the same key at the same time share one
//! write.
//!
//! ```text
//!   task 1   turn: read v, apply -> v1, leave to task 2 ---------------------------.
//!   task 2                 turn: apply -> v2, leave to task 3 ---------------------+--> all answer
//!   task 3                                turn: apply -> v3, compare-and-put on v -'
//!   task 4                                             waits for the turn: reads the new value
//! ```
//!
//! Invariants:
//! - A task answers only after the write that contains its change is durable. Changes of earlier tasks that it saw are
//!   in the same write.
//! - A write is done as a whole or not at all, so its tasks share its outcome. If another client was faster, or the
//!   write was never sent, nothing was done and each task begins again. If the outcome is unknown, each task reports
//!   that, and no task tries again, so no change is applied twice.
//! - A value that was only read is not shared: each task answers from a write or a read that is later than the task's
//!   beginning.
//! - Only short values are shared. The write of a longer value may be refused for its size, which must not concern
//!   other tasks.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use stonecast_base::hash::xxh3_64;
use stonecast_kv::{Condition, Expiry, PutRules, StoreError, Written};

use super::error::CommandError;
use super::reply::Replies;
use super::store::Store;
use super::value::{State, Value};
use crate::fifo::{Share, Turns};

/// Longest value, in bytes, whose write several tasks may share.
const SHARED_SIZE_MAX: usize = 4 << 10;
/// The most tasks that share a write, so that the first task does not wait forever.
const SHARED_TASKS_MAX: usize = 256;

/// The value of a key after the tasks of one write so far. The group passes from turn to turn, and its last holder
/// writes the value.
pub struct SharedWrite {
    key: Vec<u8>,
    /// The version that was read; `None` if the key was absent.
    base: Option<u64>,
    value: Option<Vec<u8>>,
    expires: Option<Expiry>,
    is_changed: bool,
    tasks: usize,
    end: Rc<End>,
    _share: Option<Share>,
}

/// The outcome of a write, for which all its tasks wait.
#[derive(Default)]
struct End {
    outcome: RefCell<Option<Outcome>>,
    /// Whether the request may have reached the store.
    is_sent: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

type Outcome = Result<Ended, CommandError>;

/// The outcome of a write that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The write is durable.
    Done,
    /// Nothing was done, and each task begins again.
    Undone,
    /// Nothing was done, since the store has no room for the value of all tasks together. Each task begins again, on
    /// its own.
    Parted,
}

/// Turns of keys among the tasks of one thread that read, compute and write them. Without turns, all tasks would try at
/// once: one task would win, and the others would have written a record for nothing.
pub type KeyTurns = Turns<SharedWrite>;

/// The effect of commands on a key: their replies, and the new state.
pub type Applied<'a> = (Replies<'a>, State<'a>);

/// Lets `apply` change the value of `key`, and returns its replies when the change is durable. `apply` is called again
/// if another client was faster. If `apply` declines a value, nothing is done, and the call returns no replies.
pub async fn write<'a>(
    store: &Store,
    turns: &KeyTurns,
    key: &'a [u8],
    apply: impl Fn(State<'a>) -> Option<Applied<'a>>,
) -> Result<Option<Replies<'a>>, CommandError> {
    let mut is_alone = false;
    loop {
        let turn = turns.take(xxh3_64(0, key)).await;
        let mut group = match turn.take_left() {
            Some(group) if group.key == key && !is_alone => group,
            Some(of_others) => {
                of_others.write(store).await;
                SharedWrite::read(store, key).await?
            }
            None => SharedWrite::read(store, key).await?,
        };
        let mut applied = apply(group.share());
        let is_for_itself = |(_, state): &Applied<'a>| !is_short(&state.value);
        if group.tasks > 0 && applied.as_ref().is_none_or(is_for_itself) {
            group.write(store).await;
            group = SharedWrite::read(store, key).await?;
            applied = apply(group.share());
        }
        let Some((replies, state)) = applied else {
            return Ok(None);
        };
        group.value = state.value.map(Cow::into_owned);
        group.expires = state.expires;
        group.is_changed |= state.is_changed;
        group.tasks += 1;
        let end = group.end.clone();
        if turn.is_awaited() && group.may_grow() && !is_alone {
            turn.leave(group);
        } else {
            group.write(store).await;
            drop(turn);
        }
        match end.outcome().await? {
            Ended::Done => return Ok(Some(replies)),
            Ended::Undone => {}
            Ended::Parted => is_alone = true,
        }
    }
}

fn is_short(value: &Value<'_>) -> bool {
    value
        .as_ref()
        .is_none_or(|bytes| bytes.len() <= SHARED_SIZE_MAX)
}

impl SharedWrite {
    async fn read(store: &Store, key: &[u8]) -> Result<Self, CommandError> {
        let mut bytes = Vec::new();
        let (found, share) = store.get(key, &mut bytes).await?;
        Ok(Self {
            key: key.to_vec(),
            base: found.map(|found| found.version),
            value: found.map(|_| bytes),
            expires: found.and_then(|found| found.expires),
            is_changed: false,
            tasks: 0,
            end: Rc::default(),
            _share: Some(share),
        })
    }

    /// The state for the next task; the group keeps the value if other tasks depend on it.
    fn share<'a>(&mut self) -> State<'a> {
        let value = match self.tasks {
            0 => self.value.take(),
            _ => self.value.clone(),
        };
        State {
            expires: self.expires,
            ..State::of(value.map(Cow::Owned))
        }
    }

    /// Returns whether the next task may continue with the group. A group with nothing to write may not grow: no
    /// condition of a write would check that the value is still current when a later task begins.
    fn may_grow(&self) -> bool {
        let is_short = self
            .value
            .as_ref()
            .is_none_or(|bytes| bytes.len() <= SHARED_SIZE_MAX);
        self.is_changed && is_short && self.tasks < SHARED_TASKS_MAX
    }

    /// Writes the result of the tasks' changes, and tells the tasks the outcome.
    async fn write(self, store: &Store) {
        self.end
            .is_sent
            .set(self.is_changed && (self.value.is_some() || self.base.is_some()));
        let outcome = match (&self.value, self.base) {
            _ if !self.is_changed => Ok(Ended::Done),
            (Some(bytes), base) => {
                let rules = PutRules {
                    condition: base.map_or(Condition::Absent, Condition::Version),
                    expires: self.expires,
                };
                let written = store.put(&self.key, bytes, rules).await;
                written.map(|written| Ended::of(matches!(written, Written::Done(_))))
            }
            (None, Some(base)) => {
                let deleted = store.delete(&self.key, Condition::Version(base)).await;
                deleted.map(|written| Ended::of(matches!(written, Some(Written::Done(_)))))
            }
            // The tasks created the key and deleted it again. No client has seen the key, but the later tasks depend on
            // its absence until then.
            (None, None) if self.tasks > 1 => {
                let found = store.get(&self.key, &mut Vec::new()).await;
                found.map(|(found, _)| Ended::of(found.is_none()))
            }
            (None, None) => Ok(Ended::Done),
        };
        self.end.tell(match outcome {
            // A task that needs room must not fail the tasks that need none.
            Err(error) if self.tasks > 1 && error.is_want_of_room() => Ok(Ended::Parted),
            outcome => outcome,
        });
    }
}

impl Drop for SharedWrite {
    /// Tells the tasks if the write was abandoned: nothing was done, or the outcome is unknown.
    fn drop(&mut self) {
        if self.end.outcome.borrow().is_none() {
            self.end.tell(match self.end.is_sent.get() {
                false => Ok(Ended::Undone),
                true => Err(StoreError::Disconnected { unknown: true }.into()),
            });
        }
    }
}

impl Ended {
    fn of(is_done: bool) -> Self {
        match is_done {
            true => Self::Done,
            false => Self::Undone,
        }
    }
}

impl End {
    fn tell(&self, outcome: Outcome) {
        *self.outcome.borrow_mut() = Some(outcome);
        self.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }

    async fn outcome(&self) -> Outcome {
        poll_fn(|context| match &*self.outcome.borrow() {
            Some(outcome) => Poll::Ready(outcome.clone()),
            None => {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> SharedWrite {
        SharedWrite {
            key: b"k".to_vec(),
            base: Some(1),
            value: None,
            expires: None,
            is_changed: true,
            tasks: 1,
            end: Rc::default(),
            _share: None,
        }
    }

    /// Needs the drop to tell the tasks, which would otherwise wait forever. Whether they may begin again depends on
    /// whether the request may have reached the store.
    #[test]
    fn a_group_that_is_dropped_was_not_done_unless_it_was_being_written() {
        let (unsent, sent) = (group(), group());
        let ends = [unsent.end.clone(), sent.end.clone()];
        sent.end.is_sent.set(true);
        drop((unsent, sent));
        let [unsent, sent] = ends.map(|end| end.outcome.borrow_mut().take().unwrap());
        assert_eq!(unsent.unwrap(), Ended::Undone);
        assert!(sent.unwrap_err().to_string().starts_with("UNKNOWN "));
    }

    #[test]
    fn long_values_large_groups_and_values_that_were_only_read_are_not_left_to_the_next_task() {
        let mut long = group();
        long.value = Some(vec![0; SHARED_SIZE_MAX + 1]);
        let mut large = group();
        large.tasks = SHARED_TASKS_MAX;
        let mut read = group();
        read.is_changed = false;
        assert!(!long.may_grow() && !large.may_grow() && !read.may_grow());
        assert!(group().may_grow());
    }
}
