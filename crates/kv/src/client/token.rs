//! Writes that can be retried: each takes effect once, however often its answer is lost.
//!
//! ```text
//!   first attempt      record with the token -> done, and the answer is lost
//!   connection ends, or the server is killed and started again
//!   next attempt       what became of the token?  done: the version       nothing is written
//!                                                 not done                written, with the same token
//!                                                 forgotten               an error that says so
//! ```
//!
//! The token lies in the record, so recovery finds it. Asking ends the connection of the attempt before, so that nothing of
//! it can take effect after the answer. What is bounded: the server remembers the latest [`crate::wire::limits::OUTCOMES_MAX`]
//! writes with tokens, of all clients together; a write that may be older than these is *forgotten*, never done twice.
//!
//! Only effects are remembered. A conditional write whose condition did not hold, or one for which there was no space, has
//! done nothing, and its next attempt is decided anew.

use stonecast_base::hash;
use stonecast_log::Condition;

use super::write::{Written, check_key};
use super::{Client, Inner};
use crate::error::StoreError;
use crate::wire::{Answer, Request, Verdict};

/// Names one write. Keep it until the outcome of the write is known, and pass it to each attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    number: u64,
    /// The latest version that the client knew before the first attempt.
    since: u64,
    /// The connection of the latest attempt.
    session: u64,
    attempted: bool,
}

impl Client {
    /// A name for a write that has not been sent yet. Costs nothing.
    pub fn token(&self) -> Token {
        let inner = &*self.inner;
        inner.tokens_made.set(inner.tokens_made.get() + 1);
        let session = inner.welcome.session.get();
        // Sessions cannot be guessed and do not come back, so neither do these numbers. 0 stands for none.
        let number = hash::xxh3_64(session, &inner.tokens_made.get().to_le_bytes()).max(1);
        Token {
            number,
            since: inner.latest.get(),
            session,
            attempted: false,
        }
    }

    /// Like [`Client::put_if`], and safe to retry: with the same token the write takes effect at most once, over any
    /// connection to this pool, also after a restart of its server. A retry of a write that was done returns its version.
    pub async fn put_with(
        &self,
        token: &mut Token,
        key: &[u8],
        value: &[u8],
        condition: Condition,
    ) -> Result<Written, StoreError> {
        self.check_sizes(key, value)?;
        if let Some(version) = self.inner.begin_attempt(token).await? {
            return Ok(Written::Done(version));
        }
        self.put_named(token.number, key, value, condition).await
    }

    /// Like [`Client::delete_if`], and safe to retry; see [`Client::put_with`].
    pub async fn delete_with(
        &self,
        token: &mut Token,
        key: &[u8],
        condition: Condition,
    ) -> Result<Option<Written>, StoreError> {
        check_key(key)?;
        if let Some(version) = self.inner.begin_attempt(token).await? {
            return Ok(Some(Written::Done(version)));
        }
        self.delete_named(token.number, key, condition).await
    }
}

impl Inner {
    /// Finds out what became of earlier attempts. `Some`: the version as which one was done. `None`: none was or will be;
    /// the next is to be sent now.
    async fn begin_attempt(&self, token: &mut Token) -> Result<Option<u64>, StoreError> {
        if token.attempted {
            let request = Request::Outcome {
                token: token.number,
                since: token.since,
                session: token.session,
            };
            match self.request(request).await? {
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
                        what: "the answer to a question for an outcome is none",
                    });
                }
            }
        }
        token.attempted = true;
        token.session = self.welcome.session.get();
        Ok(None)
    }
}
