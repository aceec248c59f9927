//! The indexes that the server has opened to this client: one for each shard, opened at the first
//! use of the shard.
//!
//! ```text
//!   not open --a key of the shard is asked for--> open: one more round trip, once
//!   open     --a bucket is marked as moved------> open: the newer index; the old one is given back
//! ```
//!
//! The old index is given back once none of its reads is in flight. A READ names no index, but the era in which it was
//! posted, and a change of any index begins the next era. A READ of an index may be of any era before the change of
//! that index.
//!
//! ```text
//!   era 0 ---- shard 3 changes ---- era 1 ---- shard 5 changes ---- era 2
//!   READs of the old index of 3     |          |
//!   READs of the old index of 5 ---------------|
//! ```

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::{LINE_SIZE, mutant};
use stonecast_fabric::{Boxed, RemoteAddress, Rkey};
use stonecast_lineage::Term;

use super::ServerMemory;
use super::era::Era;
use crate::error::StoreError;
use crate::wire::limits::READ_RETRIES_MAX;
use crate::wire::{Accesses, Answer, Request, Verdict};

/// Pause before the client asks again for access that the server cannot give at the moment.
const BUSY_PAUSE_NS: u64 = 1_000_000;
/// Interval at which a client checks whether its reads of an old index have ended.
const LEAVE_LOOK_NS: u64 = 1_000_000;

/// The index of a shard, as the server has opened it.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct OpenIndex {
    /// Number of the shard.
    pub shard: u32,
    /// Number of the index; each index has its own.
    pub table: u32,
    /// log2 of the number of buckets.
    pub bits: u32,
    rkey: u32,
    address: u64,
}

pub(super) struct Indexes {
    of_shards: Box<[Cell<Option<OpenIndex>>]>,
}

impl Indexes {
    /// The indexes of this many shards, none open.
    pub fn new(shards: u32) -> Self {
        let of_shards = (0..shards).map(|_| Cell::new(None)).collect();
        Self { of_shards }
    }

    #[inline(always)]
    pub fn of(&self, shard: u32) -> Option<OpenIndex> {
        self.of_shards.get(shard as usize)?.get()
    }

    /// Notes that the server has opened the index of `shard`.
    pub fn note(&self, shard: u32, accesses: &Accesses) -> OpenIndex {
        let opened = OpenIndex {
            shard,
            table: accesses.table,
            bits: accesses.index_bits,
            rkey: accesses.index_rkey,
            address: accesses.index_address,
        };
        self.of_shards[shard as usize].set(Some(opened));
        opened
    }
}

impl OpenIndex {
    /// The remote address of a bucket.
    #[inline(always)]
    pub fn address(&self, bucket: u64) -> RemoteAddress {
        RemoteAddress {
            address: self.address + bucket * LINE_SIZE as u64,
            rkey: Rkey(self.rkey),
        }
    }
}

impl ServerMemory {
    /// The index of `shard`; `None` if this client has not asked for that index yet.
    #[inline(always)]
    pub fn index(&self, shard: u32) -> Option<OpenIndex> {
        self.indexes.of(shard)
    }

    /// The index of the first shard, which is open from the connect on unless the server is a node of a cluster.
    #[inline(always)]
    pub fn first_index(&self) -> OpenIndex {
        self.index(0).expect("open since the connect")
    }

    /// Whether this client reads its shard through `index`.
    #[inline(always)]
    pub fn reads(&self, index: &OpenIndex) -> bool {
        let present = self.index(index.shard);
        present.is_some_and(|present| present.table == index.table)
    }

    /// The index of `shard`, which the server opens if need be.
    #[inline]
    pub async fn open_index(&self, shard: u32) -> Result<OpenIndex, StoreError> {
        match self.index(shard) {
            Some(index) => Ok(index),
            None => self.ask_index(shard).await,
        }
    }

    #[cold]
    async fn ask_index(&self, shard: u32) -> Result<OpenIndex, StoreError> {
        let _turn = self.asking.lock().await;
        if let Some(index) = self.index(shard) {
            // Another call was faster.
            return Ok(index);
        }
        let term = self.connection.terms.of(shard).unwrap_or_default();
        let accesses = self.connection.ask_access(shard, term).await?;
        Ok(self.indexes.note(shard, &accesses))
    }

    /// Enters `term` of `shard`, and opens the index that the server has of the shard in that term.
    pub fn enter<'a>(&'a self, shard: u32, term: Term) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let _turn = self.asking.lock().await;
            if self.connection.terms.of(shard) == Some(term) {
                // Another call was faster.
                return Ok(());
            }
            let accesses = self.connection.ask_access(shard, term).await?;
            self.switch(shard, &accesses);
            Ok(())
        })
    }

    /// Begins the next era, and returns the ended era.
    fn begin_era(&self) -> Rc<Era> {
        let mut era = self.era.borrow_mut();
        let next = era.next();
        std::mem::replace(&mut era, next)
    }

    /// Switches to the server's present index of a shard, because a bucket of the index `seen` was marked as moved.
    pub async fn adopt_index(&self, seen: OpenIndex) -> Result<(), StoreError> {
        let _turn = self.asking.lock().await;
        if !self.reads(&seen) {
            // Another read was faster.
            return Ok(());
        }
        let term = self.connection.terms.of(seen.shard).unwrap_or_default();
        let accesses = self.connection.ask_access(seen.shard, term).await?;
        if accesses.table == seen.table {
            return Err(StoreError::Protocol {
                what: "the server marks its index as moved, and names no newer one",
            });
        }
        self.switch(seen.shard, &accesses);
        Ok(())
    }

    /// Switches to the index of `shard` that the server has opened, and gives the earlier one back once none of its
    /// READs is in flight.
    fn switch(&self, shard: u32, accesses: &Accesses) {
        let earlier = self.index(shard);
        self.indexes.note(shard, accesses);
        let Some(table) = earlier
            .map(|index| index.table)
            .filter(|&it| it != accesses.table)
        else {
            return;
        };
        let ended = self.begin_era();
        let connection = self.connection.clone();
        self.connection.runtime.spawn(Box::pin(async move {
            while !ended.is_over() {
                connection.runtime.sleep(LEAVE_LOOK_NS).await;
            }
            drop(ended);
            // A server that is gone takes nothing back.
            let _ = connection.request(Request::LeaveIndex { table }).await;
        }));
    }
}

impl super::Connection {
    /// Enters `term` of `shard`: asks for access to the index of the shard, the log and staging memory, and checks the
    /// server's answer. The server enters the term when the request arrives. The client is in no term of the shard from
    /// the request to the answer, unless it is in `term` already: a lease that the server gives meanwhile belongs to
    /// the later term, and must not count for the earlier term.
    pub(super) async fn ask_access(&self, shard: u32, term: Term) -> Result<Accesses, StoreError> {
        if self.terms.of(shard) != Some(term) && !mutant!(StaysUntilEntered) {
            self.terms.leave(shard);
        }
        for _ in 0..READ_RETRIES_MAX {
            match self
                .request_of_primary(Request::Access { shard, term })
                .await?
            {
                Answer::Access(accesses) => {
                    let log_size = self.format.segment_size * u64::from(self.format.segment_count);
                    let staging_size = self.welcome.staging_size.get().into();
                    return match accesses.fault(log_size, staging_size) {
                        Some(what) => Err(StoreError::Protocol { what }),
                        None => {
                            self.terms.enter(shard, term, accesses.version);
                            Ok(accesses)
                        }
                    };
                }
                Answer::Verdict {
                    verdict: Verdict::Busy,
                    ..
                } => self.runtime.sleep(BUSY_PAUSE_NS).await,
                _ => break,
            }
        }
        Err(StoreError::Protocol {
            what: "the server gives no access",
        })
    }
}
