//! The client: reads without the server, writes with one round trip.
//!
//! ```text
//!   get        record with its bucket           one batch of READs           read.rs, locations.rs
//!              first: bucket -> record          two one-sided READs
//!              where READs are loads, or come soon: the same without a turn of the executor     get.rs, at_once.rs
//!   multi_get  all buckets -> all records       one or two batches           multi_get.rs
//!   put        record + notice -> answer        one WRITE_WITH_IMM           write.rs
//!   overwrite  where the client publishes itself       READs, FAA, WRITE and CAS      publish.rs
//!   delete     request -> answer                one SEND                     write.rs
//!   entries    buckets, then records            one-sided READs              scan.rs
//! ```
//!
//! A client belongs to one thread and may have many operations in flight: each method is a future. Dropping a future
//! gives the operation up, not back: a write that was sent takes its course.

mod access;
mod at_once;
mod connect;
mod extents;
mod get;
mod in_call;
mod locations;
mod meter;
mod multi_get;
mod multi_put;
mod pending;
mod publish;
mod read;
mod read_room;
mod scan;
mod scratch;
mod token;
mod turns;
mod write;
mod yardstick;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_fabric::{
    LocalSpan, MemoryRegion, Port, QueuePair, ReceiveQueue, ReceiveRequest, Runtime,
};
use stonecast_log::LogFormat;

use crate::error::StoreError;
use crate::index::Generations;
use crate::metrics::{Metrics, PAGES};
use crate::stat::{COUNTERS, Stat};
use crate::wire::limits::{ANSWER_SIZE_MAX, IN_FLIGHT_MAX};
use crate::wire::{Accesses, Answer, Request, Welcome, next_answer};

use at_once::{AtOnce, Bytes};
use connect::Made;
use extents::Extents;
use in_call::InCall;
use locations::Locations;
use meter::Meter;
use pending::Pending;
use publish::Publishing;
use read_room::ReadRoom;
use scratch::Scratch;
use turns::Turns;

pub use connect::ClientOptions;
pub use multi_get::Values;
pub use multi_put::Pair;
pub use scan::{Entries, Entry};
pub use token::Token;
pub use write::Written;
pub use yardstick::Yardstick;

/// A connection to a server. Cloning gives another handle of the same connection.
#[derive(Clone)]
pub struct Client {
    inner: Rc<Inner>,
}

struct Inner {
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    qp: QueuePair,
    welcome: Welcome,
    format: LogFormat,
    /// What the server has opened to this client.
    access: Cell<Accesses>,
    /// One asks for a newer index at a time.
    adopting: Turns,
    /// Cloned by every posted read of the present index, so that the last one of an earlier index is known.
    index_in_use: RefCell<Rc<()>>,
    /// Memory for READs that the provider cannot execute at once.
    scratch: Scratch,
    /// Room for those in the send queue.
    read_room: ReadRoom,
    made: Made,
    locations: Locations,
    /// Which READs can be waited for in the call.
    at_once: AtOnce,
    /// Where a GET that needs nobody reads to.
    read_at_once_to: RefCell<Bytes>,
    in_call: InCall,
    /// The record that is being sent, kept for its memory.
    record: RefCell<Vec<u8>>,
    /// Receive buffers that are free and not posted.
    reposts: RefCell<Vec<ReceiveRequest>>,
    generations: Generations,
    pending: RefCell<Pending>,
    extents: RefCell<Extents>,
    publishing: RefCell<Publishing>,
    turns: Turns,
    meter: Meter,
    /// The latest version that the server has told.
    latest: Cell<u64>,
    tokens_made: Cell<u64>,
    closed: Cell<bool>,
}

/// Receive buffers of a client beyond one for each answer that may be due; as many are posted again at a time.
const RECEIVES_SPARE: usize = 32;

/// Entries of the completion queues that a client's port needs.
pub const CLIENT_COMPLETIONS: u32 = 4 * IN_FLIGHT_MAX as u32;

impl Client {
    /// The server's report of itself.
    pub async fn stat(&self) -> Result<Stat, StoreError> {
        self.page(0).await.map(|words| Stat::from_words(&words))
    }

    /// Everything that the server counts, what this client has done included.
    pub async fn metrics(&self) -> Result<Metrics, StoreError> {
        self.report().await?;
        let mut pages = [[0; COUNTERS]; PAGES as usize];
        for (number, page) in (0..).zip(&mut pages) {
            *page = self.page(number).await?;
        }
        Ok(Metrics::from_pages(&pages))
    }

    async fn page(&self, page: u8) -> Result<[u64; COUNTERS], StoreError> {
        match self.inner.request(Request::Stat { page }).await? {
            Answer::Stat(words) => Ok(words),
            _ => Err(StoreError::Protocol {
                what: "the answer to a stat request is no report",
            }),
        }
    }

    /// Gives back what the client holds and disconnects. Dropping the client disconnects too; what it held is then taken
    /// back by the server.
    pub async fn close(self) {
        // Where the server is gone nobody wants to know.
        let _ = self.report().await;
        let mut leases = self.inner.extents.borrow_mut().take_all();
        leases.extend(self.inner.take_published_extent());
        for slot in leases {
            // Where the server is gone there is nothing to give back to.
            if self.inner.release(slot).await.is_err() {
                return;
            }
        }
    }
}

fn receive_request(region: MemoryRegion, index: u64) -> ReceiveRequest {
    let size = ANSWER_SIZE_MAX as u32;
    ReceiveRequest {
        wr_id: index,
        local: LocalSpan {
            region,
            offset: index * u64::from(size),
            size,
        },
    }
}

impl Inner {
    fn take_message(&self, wr_id: u64, size: u32, bytes: &mut Vec<u8>) {
        let request = receive_request(self.made.receives, wr_id);
        bytes.resize(size.min(request.local.size) as usize, 0);
        self.port
            .device()
            .memory(self.made.receives)
            .read(request.local.offset, bytes);
        // Posted again some at a time: no answer waits for that, and there are so many more buffers than answers can be due
        // that none is missing meanwhile.
        let mut reposts = self.reposts.borrow_mut();
        reposts.push(request);
        if reposts.len() == RECEIVES_SPARE {
            if self
                .port
                .device()
                .post_receive(ReceiveQueue::Own(self.qp), &reposts)
                .is_err()
            {
                return self.end();
            }
            reposts.clear();
        }
        drop(reposts);
        let mut rest = bytes.as_slice();
        while let Some(answer) = next_answer(&mut rest) {
            if let Answer::Verdict { version, .. } = answer {
                self.latest.set(self.latest.get().max(version));
            }
            if !self.pending.borrow_mut().answer(answer) {
                return self.end();
            }
        }
        if !rest.is_empty() {
            self.end();
        }
    }

    /// The connection is over: every operation that waits is told.
    fn end(&self) {
        if !self.closed.replace(true) {
            // Disconnecting twice or too late is no harm. The queue pair goes too: a completion queue that overran delivers
            // nothing any more for who waits for a READ.
            let _ = self.port.device().disconnect(self.qp);
            let _ = self.port.destroy_queue_pair(self.qp);
            self.pending.borrow_mut().end();
        }
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.get() {
            Err(StoreError::Disconnected { unknown: false })
        } else {
            Ok(())
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.made.wake_listener();
    }
}
