//! READs that complete soon: posted, and waited for in the call by a client that waits for nothing else.
//!
//! These READs have memory of their own, which is registered once and kept.
//!
//! ```text
//!   ready --posted--> done: copied out                       ready
//!                 \-> late: the memory is the device's until a later READ of this client has completed
//! ```
//!
//! Invariants:
//! - The memory is not used while a late READ may still write to it. READs of a queue pair complete in the order of
//!   their posts, so the completion of a later READ shows that the late READ has ended.
//! - A late READ of the index keeps the index open, like any other READ in flight.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::LINE_SIZE;
use stonecast_fabric::{LocalSpan, MemoryRegion, ReadInto, RemoteAddress, Rkey, Soon};
use stonecast_media::Region;

use super::ServerMemory;
use super::era::Era;
use super::read_room::{PostedReads, ReadRoom};
use crate::wire::FIRST_READ_SIZE_MAX;

/// A record and a bucket.
const MEMORY_SIZE: u64 = (FIRST_READ_SIZE_MAX + LINE_SIZE) as u64;
/// READs of one batch.
const TOGETHER_MAX: usize = 2;

/// READs that complete soon, for which the client waits in the call.
#[derive(Default)]
pub(super) struct SoonReads {
    memory: RefCell<Option<(MemoryRegion, Rc<dyn Region>)>>,
    /// Late READs, and the index that they keep open.
    late: RefCell<Option<(PostedReads, Rc<Era>)>>,
}

impl SoonReads {
    /// Checks whether late READs have completed. Called when a READ has completed.
    #[inline]
    pub fn note_completed(&self, room: &ReadRoom) {
        let mut late = self.late.borrow_mut();
        if late
            .as_ref()
            .is_some_and(|(reads, _)| room.has_completed(reads))
        {
            *late = None;
        }
    }
}

impl ServerMemory {
    /// Whether the client could wait for a READ in the call at the moment. The decision comes before any work for the
    /// READ.
    #[inline]
    pub fn may_read_soon(&self) -> bool {
        // An answer that is due would wait for the READs.
        self.connection.port.may_read_soon()
            && !self.connection.awaits_answer()
            && self.soon.late.borrow().is_none()
    }

    /// Executes READs with one doorbell, and waits for them in the call. Returns `None` if the READs were not posted or
    /// are late; nothing was read.
    #[inline]
    pub fn read_soon(&self, reads: &mut [ReadInto<'_>]) -> Option<()> {
        if !self.may_read_soon() {
            return None;
        }
        let memory = self.soon.memory.borrow();
        let Some((region, bytes)) = &*memory else {
            drop(memory);
            return self.make_memory();
        };
        let none = (
            LocalSpan {
                region: *region,
                offset: 0,
                size: 0,
            },
            RemoteAddress {
                address: 0,
                rkey: Rkey(0),
            },
        );
        let mut posted = [none; TOGETHER_MAX];
        let mut end = 0;
        for (post, read) in posted.iter_mut().zip(reads.iter()) {
            let size = read.into.len() as u32;
            *post = (
                LocalSpan {
                    region: *region,
                    offset: end,
                    size,
                },
                read.remote,
            );
            end += u64::from(size).next_multiple_of(8);
        }
        assert!(
            reads.len() <= TOGETHER_MAX && end <= MEMORY_SIZE,
            "a record and a bucket are read at the most"
        );
        let room = self.read_room.take_now(reads.len())?;
        let connection = &*self.connection;
        let outcome = connection
            .port
            .read_soon(connection.qp, &posted[..reads.len()]);
        if outcome == Soon::NotPosted {
            self.read_room.not_posted(room, reads.len());
            return None;
        }
        connection
            .meter
            .note_reads(reads.iter().map(|read| read.into.len()).sum());
        if outcome == Soon::Late {
            self.soon
                .late
                .replace(Some((room, self.era.borrow().clone())));
            return None;
        }
        self.read_room.completed(room);
        for ((local, _), read) in posted.iter().zip(reads) {
            bytes.read(local.offset, read.into);
        }
        Some(())
    }

    /// Allocates the memory for the next READ.
    #[cold]
    fn make_memory(&self) -> Option<()> {
        // Without this memory, READs are not waited for in the call.
        let region = self.connection.resources.allocate(MEMORY_SIZE).ok()?;
        let bytes = self.connection.port.device().memory(region);
        self.soon.memory.replace(Some((region, bytes)));
        None
    }
}
