//! Writing many keys at once.
//!
//! ```text
//!   a client that publishes, a provider that reads and changes in the call
//!     all buckets -> all old records      fetched together, so that the memory works on all of them at the same time
//!     one put after the other             as it would be alone, with the lines that it reads in the cache by now
//!   any other client
//!     all puts in flight together
//! ```
//!
//! Invariants: bytes fetched together are a hint and decide nothing. Puts are begun in the order of the pairs, so puts
//! of one key are committed in that order, unless the server sends a put back for want of staging memory (see
//! `Client::put`).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use smallvec::SmallVec;
use stonecast_fabric::Boxed;

use super::Writer;
use crate::client::meter::TimedCall;
use crate::client::publisher::{TOGETHER, plain_put};
use crate::error::StoreError;

/// A key and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

type Underway<'a> = SmallVec<
    [(
        usize,
        Pin<Box<dyn Future<Output = Result<u64, StoreError>> + 'a>>,
    ); TOGETHER],
>;

impl Writer {
    /// Puts all `pairs`; see `Client::multi_put`.
    pub fn put_many<'a>(
        &'a self,
        pairs: &'a [Pair<'a>],
        outcomes: &'a mut Vec<Result<u64, StoreError>>,
    ) -> Boxed<'a, ()> {
        Box::pin(async move {
            outcomes.clear();
            outcomes.reserve(pairs.len());
            let mut underway = Underway::new();
            for pairs in pairs.chunks(TOGETHER) {
                if let Some(publisher) = self.publisher.as_ref().filter(|_| pairs.len() > 1) {
                    publisher.fetch(pairs.iter().map(|(key, _)| *key));
                }
                for &(key, value) in pairs {
                    let start = self.connection.begin_call();
                    if let Some(version) = self.put_in_call(key, value) {
                        self.connection.end_call(TimedCall::Write, start);
                        outcomes.push(Ok(version));
                        continue;
                    }
                    if !self.fits_record(&plain_put(key, value)) {
                        // Later pairs may name the same key, and this put is not sent at once.
                        finish(&mut underway, outcomes).await;
                        let outcome = self.put(key, value).await;
                        self.connection.end_call(TimedCall::Write, start);
                        outcomes.push(outcome);
                        continue;
                    }
                    let mut put: Pin<Box<dyn Future<Output = _> + '_>> = Box::pin(async move {
                        let outcome = self.put(key, value).await;
                        self.connection.end_call(TimedCall::Write, start);
                        outcome
                    });
                    // The first poll begins the put, so that later pairs come after it.
                    match poll_fn(|context| Poll::Ready(put.as_mut().poll(context))).await {
                        Poll::Ready(outcome) => outcomes.push(outcome),
                        Poll::Pending => {
                            underway.push((outcomes.len(), put));
                            // A placeholder, replaced before the caller sees it.
                            outcomes.push(Err(StoreError::Disconnected { unknown: true }));
                        }
                    }
                }
            }
            self.connection.port.take_turn().await;
            finish(&mut underway, outcomes).await;
        })
    }
}

/// Waits for the ends of all puts that are under way, and leaves their outcomes in `outcomes`.
async fn finish(underway: &mut Underway<'_>, outcomes: &mut [Result<u64, StoreError>]) {
    poll_fn(|context| {
        underway.retain(|(place, put)| match put.as_mut().poll(context) {
            Poll::Ready(outcome) => {
                outcomes[*place] = outcome;
                false
            }
            Poll::Pending => true,
        });
        match underway.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}
