//! Writing many keys at once.
//!
//! ```text
//!   a client that publishes, a provider that reads and changes in the call
//!     all buckets -> all old records      fetched together, so that the memory works on all of them at the same time
//!     one put after the other             as it would be alone, and what it reads is near by now
//!   any other client
//!     all puts under way together
//! ```
//!
//! Invariants: what is fetched together is a hint, from which nothing is concluded; puts are begun in the order of the pairs, so
//! those of one key are committed in it, unless the server sends one back for want of staging memory (see [`Client::put`]).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use smallvec::SmallVec;
use stonecast_base::LINE_SIZE;
use stonecast_fabric::ReadInto;

use super::meter::Call;
use super::{Client, Inner};
use crate::error::StoreError;
use crate::wire::{Bucket, KeyHash};

/// Puts whose buckets and records are fetched together: as many misses as a processor has under way, and no more than its nearest
/// cache keeps until they are done.
const TOGETHER: usize = 16;
/// Bytes from the start of an old record: those of its header and of most keys.
const START_SIZE: usize = 2 * LINE_SIZE;

/// A key and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

type Underway<'a> = SmallVec<
    [(
        usize,
        Pin<Box<dyn Future<Output = Result<u64, StoreError>> + 'a>>,
    ); TOGETHER],
>;

impl Client {
    /// Stores all `pairs`, and leaves in `outcomes`, in their order, the version of each, or why it was not stored. Each is a put as
    /// by [`Client::put`], those of one key in the order of the pairs, as long as the server does not send one back for want of staging
    /// memory (copying clients of a pool that is nearly full): that one comes again, and those behind it may overtake it. Together they
    /// are no transaction, so a crash may leave any of those that were not answered. Where the future is dropped, so many of them may have been done.
    pub async fn multi_put(&self, pairs: &[Pair<'_>], outcomes: &mut Vec<Result<u64, StoreError>>) {
        outcomes.clear();
        outcomes.reserve(pairs.len());
        let mut underway = Underway::new();
        for pairs in pairs.chunks(TOGETHER) {
            self.inner.fetch_for_overwrites(pairs);
            for &(key, value) in pairs {
                let start = self.inner.begin_call();
                if let Some(version) = self.inner.publish_at_once(key, value) {
                    self.inner.end_call(Call::Write, start);
                    outcomes.push(Ok(version));
                    continue;
                }
                let mut put = Box::pin(self.put(key, value));
                // Begun now, so that what comes behind it comes after it.
                match poll_fn(|context| Poll::Ready(put.as_mut().poll(context))).await {
                    Poll::Ready(outcome) => outcomes.push(outcome),
                    Poll::Pending => {
                        underway.push((outcomes.len(), put));
                        // Nobody sees this before it is known.
                        outcomes.push(Err(StoreError::Disconnected { unknown: true }));
                    }
                }
            }
        }
        self.inner.port.take_turn().await;
        poll_fn(|context| {
            underway.retain(|(place, put)| match put.as_mut().poll(context) {
                Poll::Ready(outcome) => {
                    outcomes[*place] = outcome;
                    false
                }
                Poll::Pending => true,
            });
            if underway.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

impl Inner {
    /// Brings near what the puts of `pairs` will read, where this client publishes them in the call.
    fn fetch_for_overwrites(&self, pairs: &[Pair<'_>]) {
        if pairs.len() < 2 || !self.publishes_in_call() {
            return;
        }
        let hashes: SmallVec<[KeyHash; TOGETHER]> = pairs
            .iter()
            .map(|(key, _)| KeyHash::of(self.format.tag_key, key))
            .collect();
        let index_bits = self.access.get().index_bits;
        let mut buckets = [[0; LINE_SIZE]; TOGETHER];
        let mut reads: SmallVec<[ReadInto<'_>; TOGETHER]> = hashes
            .iter()
            .zip(&mut buckets)
            .map(|(hash, into)| ReadInto {
                remote: self.index_address(hash.bucket(index_bits)),
                into,
            })
            .collect();
        if self.read_now(&mut reads).is_none() {
            return;
        }
        drop(reads);
        let mut starts = [[0; START_SIZE]; TOGETHER];
        let mut reads: SmallVec<[ReadInto<'_>; TOGETHER]> = SmallVec::new();
        for ((hash, bucket), into) in hashes.iter().zip(&buckets).zip(&mut starts) {
            let bucket = Bucket::parse(bucket);
            let Some((_, word)) = bucket.next_of(&mut bucket.candidates(*hash)) else {
                continue;
            };
            let size = self.first_read_size(word).min(START_SIZE);
            if size > 0 {
                reads.push(ReadInto {
                    remote: self.log_address(word.position()),
                    into: &mut into[..size],
                });
            }
        }
        if !reads.is_empty() {
            self.read_now(&mut reads);
        }
    }
}
