//! Writes that can be retried: each takes effect once, even if its answers are lost.
//!
//! ```text
//!   first attempt      record with the token -> done, and the answer is lost
//!   connection ends, or the server is killed and started again
//!   next attempt       what became of the token?  done: the version       nothing is written
//!                                                 not done                written, with the same token
//!                                                 forgotten               an error that says so
//! ```
//!
//! The token lies in the record, so recovery finds it. A question for the outcome ends the connection of the earlier
//! attempt, so that this attempt cannot take effect after the answer. Memory is bounded: the server remembers the
//! latest [`crate::wire::limits::OUTCOMES_MAX`] writes with tokens of all clients together, and each of several shards
//! the latest of its part. A write that may be older than these is *forgotten*, never done twice.
//!
//! Only effects are remembered. A conditional write whose condition did not hold, or a write for which there was no
//! space, has done nothing, and its next attempt gets a new decision.

use stonecast_base::{hash, mutant};

use super::Writer;
use crate::client::connection::Connection;
use crate::error::{Effect, StoreError};
use crate::wire::{Answer, Request, Verdict};

/// The name of one write. Keep the token until the outcome of the write is known, and pass it to each attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    number: u64,
    /// Every attempt that was done has a later version: the lowest of the latest versions that the client knew of the
    /// key's shard before each attempt. Each node of a cluster counts versions of its own.
    since: u64,
    /// The connection of the latest attempt.
    session: u64,
    /// Whether an attempt may have been done, or was.
    may_be_done: bool,
}

impl Writer {
    /// A name for a write that has not been sent yet.
    pub fn token(&self) -> Token {
        // 0 means no token.
        Token {
            number: self.unique_number().max(1),
            since: self.connection.latest(),
            session: self.connection.welcome.session.get(),
            may_be_done: false,
        }
    }

    /// A number that no client of the pool has used for anything.
    pub(super) fn unique_number(&self) -> u64 {
        self.numbers_made.set(self.numbers_made.get() + 1);
        let session = self.connection.welcome.session.get();
        // Sessions cannot be guessed and do not repeat, so the same holds for these numbers.
        hash::xxh3_64(session, &self.numbers_made.get().to_le_bytes())
    }
}

impl Token {
    /// Whether an attempt at the write may have taken effect, or may still do so. A token that was not used yet names a
    /// write that was not done, and so does a token whose attempts were all refused.
    pub fn may_be_done(&self) -> bool {
        self.may_be_done
    }

    /// Notes the `end` of the attempt that has begun last. The attempts before it were not done, as the server has
    /// said.
    pub(in crate::client) fn end_attempt<T>(&mut self, end: &Result<T, StoreError>) {
        let was_refused = matches!(end, Err(error) if error.effect() == Effect::None);
        self.may_be_done = !was_refused;
    }

    /// The number that the record carries.
    pub(in crate::client) fn number(&self) -> u64 {
        self.number
    }

    /// Finds out the outcome of earlier attempts at the write to `key`. `Some`: the version of the attempt that was
    /// done. `None`: no attempt was done or will be, and the caller sends the next one.
    pub(in crate::client) async fn begin_attempt(
        &mut self,
        connection: &Connection,
        key: &[u8],
    ) -> Result<Option<u64>, StoreError> {
        let shard = connection.welcome.keys().route(key).shard;
        if self.may_be_done {
            let request = Request::Outcome {
                shard,
                token: self.number,
                since: self.since,
                session: self.session,
            };
            match connection.request_of_primary(request).await? {
                Answer::Verdict {
                    verdict: Verdict::Done,
                    version,
                } => return Ok(Some(version)),
                Answer::Verdict {
                    verdict: Verdict::NotDone,
                    ..
                } => {}
                Answer::Verdict {
                    verdict: Verdict::Forgotten,
                    ..
                } => return Err(StoreError::Forgotten),
                Answer::Verdict {
                    verdict: Verdict::Failed,
                    ..
                } => return Err(StoreError::NotPersisted),
                _ => {
                    return Err(StoreError::Protocol {
                        what: "the answer to a question for an outcome is no outcome",
                    });
                }
            }
        }
        if !mutant!(SinceOfConnection) {
            let known = connection.latest_of(shard);
            self.since = match self.may_be_done {
                true => self.since.min(known),
                false => known,
            };
        }
        self.may_be_done = true;
        self.session = connection.welcome.session.get();
        Ok(None)
    }
}
