//! Reads: the keys of many commands go to the store together, as far as there is memory for their values.
//!
//! ```text
//!   GET a, MGET b c d, STRLEN e        keys that go together: a b c d e
//!          |<- read: a b c ->|         as many as there was room for; they are answered, then d is next
//! ```
//!
//! Room for replies is reserved before values are read. Without room, keys are read one at a time, and only short
//! records: their replies are within the memory that every connection may hold. A long record waits for room. A long
//! record also waits for a turn if the thread has moved many bytes since it looked at the sockets, so that short
//! replies of other connections do not wait for the long one.

use std::ops::Range;

use smallvec::SmallVec;
use stonecast_kv::Values;

use super::batch::Run;
use super::error::CommandError;
use super::operation::Operation;
use super::reply::Reply;
use super::store::Store;
use super::value::{State, ValueCommand};
use crate::outlet::End;
use crate::sizes::{KEY_WORK, SMALL_REPLIES, VALUE_IN_CHUNKS_ROOM, VALUES_SIZE_MAX};

/// The most keys that are read together: enough to make each trip to the store cheap.
const KEYS_MAX: usize = 32;

type KeyList<'a> = SmallVec<[&'a [u8]; KEYS_MAX]>;

/// Progress of a step of reads.
struct Progress {
    /// The operation that is answered next, and its first key without an answer.
    operation: usize,
    key: usize,
    /// Keys of that operation that exist.
    count: i64,
    /// The position at which the reply of that operation begins.
    mark: u64,
    /// The number of keys that are read one by one, because a read of all together failed.
    alone: usize,
}

impl<'a> Run<'_, 'a> {
    /// Runs the operations of a step of reads.
    pub(super) async fn reads(&mut self, range: Range<usize>) -> Result<(), End> {
        let mut progress = Progress {
            operation: range.start,
            key: 0,
            count: 0,
            mark: self.outlet.mark(),
            alone: 0,
        };
        let operations = &self.operations[range.start..range.end];
        let mut room = 0;
        // The first key belongs to the operation in front, so an error of the first key is an error of that operation.
        while self.answer_keyless(&mut progress, range.end).await? {
            if room == 0 && self.outlet.try_room(VALUES_SIZE_MAX) {
                room = VALUES_SIZE_MAX;
            }
            let done = progress.operation - range.start;
            let keys = self.next_keys(&progress, &operations[done..], room > 0);
            // If other connections have waited long enough, only short values are read, and long values wait for a
            // turn.
            let is_late = self.context.thread.reactor.is_late();
            let size_max = if is_late { 0 } else { room };
            // No account counts this memory, which is therefore given back before any wait other than for the store.
            let mut values = self.context.take_values();
            let store = &self.context.store;
            let found = store.get_many(&keys, size_max, &mut values).await;
            let need_time = operations[done..].iter().any(needs_time);
            let found = match found {
                Ok(found) if need_time => times_of(store, &keys[..found], &values).await,
                Ok(found) => Ok((found, Times::new())),
                Err(error) => Err(error),
            };
            let written_before = self.outlet.mark();
            match found {
                Ok((0, _)) if is_late => {
                    // The reservation must not keep other connections from memory meanwhile.
                    self.outlet.relieve().await?;
                    self.context.thread.reactor.turn().await;
                    room = 0;
                    continue;
                }
                Ok((0, _)) => {
                    // The first value is longer than there was room for.
                    let wanted = match room {
                        0 => VALUES_SIZE_MAX,
                        _ => VALUE_IN_CHUNKS_ROOM,
                    };
                    room = match self.outlet.room(wanted).await? {
                        true => wanted,
                        false => {
                            self.fail(&mut progress, CommandError::NoRoomForReplies)?;
                            0
                        }
                    };
                    continue;
                }
                Ok((found, times)) => {
                    progress.alone = progress.alone.saturating_sub(found);
                    let values_found = (&values, found, times);
                    self.answer(&mut progress, range.end, values_found);
                    self.context.give_values(values);
                }
                // The failure of one key must not fail the others.
                Err(_) if keys.len() > 1 && !self.context.store.is_lost() => {
                    progress.alone = keys.len();
                    continue;
                }
                Err(error) => {
                    progress.alone = progress.alone.saturating_sub(1);
                    self.fail(&mut progress, error)?;
                }
            }
            let written = self.outlet.mark().saturating_sub(written_before);
            self.outlet
                .note_work(keys.len() * KEY_WORK + written as usize);
            self.outlet.relieve().await?;
            room = 0;
        }
        Ok(())
    }

    /// The keys that are read next, beginning with the key that is answered next.
    fn next_keys(
        &self,
        progress: &Progress,
        operations: &[Operation<'a>],
        has_room: bool,
    ) -> KeyList<'a> {
        // If memory is scarce, a connection holds one long value, so that as many connections as possible have one.
        let is_scarce = self.context.thread.shared.memory.is_scarce();
        let count = match has_room && progress.alone == 0 && !is_scarce {
            true => KEYS_MAX,
            false => 1,
        };
        let (front, behind) = operations.split_first().expect("one has a key");
        keys_of(front, progress.key)
            .chain(behind.iter().flat_map(|operation| keys_of(operation, 0)))
            .take(count)
            .collect()
    }

    /// Answers the operations in front that read no key. Returns false if no operation is left.
    async fn answer_keyless(&mut self, progress: &mut Progress, end: usize) -> Result<bool, End> {
        let mut relieved_at = self.outlet.mark();
        while progress.operation < end {
            let operation = &self.operations[progress.operation];
            if key_count(operation) > 0 {
                return Ok(true);
            }
            let size = operation.answer_size();
            if size > SMALL_REPLIES && !self.outlet.room(size).await? {
                self.fail(progress, CommandError::NoRoomForReplies)?;
                continue;
            }
            self.answer_nothing(operation);
            progress.next(self.outlet.mark());
            let written = self.outlet.mark().saturating_sub(relieved_at) as usize;
            if written > SMALL_REPLIES {
                self.outlet.note_work(written);
                self.outlet.relieve().await?;
                relieved_at = self.outlet.mark();
            }
        }
        Ok(false)
    }

    /// Answers operations with the first `found` values, as far as the values go. Operations that read no key are
    /// answered as long as their replies together are short.
    fn answer(
        &mut self,
        progress: &mut Progress,
        end: usize,
        (values, found, times): (&Values, usize, Times),
    ) {
        let (mut next, mut keyless) = (0, 0);
        while progress.operation < end {
            let operation = &self.operations[progress.operation];
            let key_count = key_count(operation);
            if key_count == 0 {
                if keyless + operation.answer_size() as u64 > SMALL_REPLIES as u64 {
                    break;
                }
                self.answer_nothing(operation);
                keyless += self.outlet.mark() - progress.mark;
                progress.next(self.outlet.mark());
                continue;
            }
            if next == found {
                break;
            }
            if progress.key == 0
                && let Operation::GetMany(keys) = operation
            {
                self.writer().array(keys.len());
            }
            let here = (key_count - progress.key).min(found - next);
            for index in next..next + here {
                let value = values.get(index).map(|(bytes, _)| bytes);
                progress.count += i64::from(value.is_some());
                match operation {
                    Operation::Value {
                        command: ValueCommand::Get,
                        ..
                    }
                    | Operation::GetMany(_) => self.writer().optional(value),
                    Operation::Value { command, .. } => {
                        let reply = command.apply(&mut State {
                            expires: values.expires(index),
                            now_ms: times.get(index).copied().unwrap_or(0),
                            ..State::of(value.map(Into::into))
                        });
                        self.reply(&reply);
                    }
                    _ => {}
                }
            }
            next += here;
            progress.key += here;
            if progress.key == key_count {
                if let Operation::CountMany(_) = operation {
                    self.writer().integer(progress.count);
                }
                progress.next(self.outlet.mark());
            }
        }
    }

    /// Answers an operation that reads no key.
    fn answer_nothing(&mut self, operation: &Operation<'a>) {
        match operation {
            Operation::Answer(reply) => self.reply(reply),
            other => unreachable!("{other:?} is not a read"),
        }
    }

    /// Answers an operation with an error, in place of the part of its reply that was written.
    fn fail(&mut self, progress: &mut Progress, error: CommandError) -> Result<(), End> {
        if !self.outlet.rewind(progress.mark) {
            // A reply that is partly sent cannot become an error.
            return Err(End::Store);
        }
        self.reply(&Reply::Error(error));
        progress.next(self.outlet.mark());
        Ok(())
    }
}

impl Progress {
    /// Moves on to the next operation, whose reply begins at `mark`.
    fn next(&mut self, mark: u64) {
        self.operation += 1;
        (self.key, self.count, self.mark) = (0, 0, mark);
    }
}

/// Returns whether an operation needs the server's time.
/// The time by which each of the first keys expires; 0 for a key that does not.
type Times = SmallVec<[u64; 8]>;

/// The number of `keys`, whose `values` were read, and their times.
async fn times_of(
    store: &Store,
    keys: &[&[u8]],
    values: &Values,
) -> Result<(usize, Times), CommandError> {
    let mut times = Times::with_capacity(keys.len());
    for (index, key) in keys.iter().enumerate() {
        times.push(match values.expires(index) {
            Some(_) => store.time_ms(key).await?,
            None => 0,
        });
    }
    Ok((keys.len(), times))
}

fn needs_time(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Value { command, .. } if command.needs_time())
}

fn key_count(operation: &Operation<'_>) -> usize {
    match operation {
        Operation::Value { .. } => 1,
        Operation::GetMany(keys) | Operation::CountMany(keys) => keys.len(),
        _ => 0,
    }
}

/// Keys of an operation from number `start` on.
fn keys_of<'a>(
    operation: &Operation<'a>,
    start: usize,
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let (one, many) = match operation {
        Operation::Value { key, .. } => (Some(*key), None),
        Operation::GetMany(keys) | Operation::CountMany(keys) => {
            (None, Some(keys.from(start).iter()))
        }
        _ => (None, None),
    };
    one.into_iter().chain(many.into_iter().flatten())
}
