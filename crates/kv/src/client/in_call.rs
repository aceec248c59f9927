//! READs that a client waits for in the call, where it waits for nothing else.
//!
//! They land in memory of their own, which is registered once and kept at hand.
//!
//! ```text
//!   ready --posted--> done: copied out                       ready
//!                 \-> late: the memory is the device's until a later READ of this client has completed
//! ```
//!
//! Invariants:
//! - The memory is not used while a READ that came late may still write to it: READs of a queue pair complete in the order of
//!   their posts, so the end of a later one says that it has ended.
//! - A late READ of the index holds the index open like any other that is on its way.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::LINE_SIZE;
use stonecast_fabric::{Access, LocalSpan, MemoryRegion, ReadInto, RemoteAddress, Rkey, Soon};
use stonecast_media::Region;

use super::Inner;
use super::at_once::SIZE_MAX;
use super::read_room::PostedReads;

/// A record and a bucket.
const MEMORY_SIZE: u64 = (SIZE_MAX + LINE_SIZE) as u64;
/// READs of one batch.
const TOGETHER_MAX: usize = 2;

/// See the module documentation.
#[derive(Default)]
pub(super) struct InCall {
    memory: RefCell<Option<(MemoryRegion, Rc<dyn Region>)>>,
    /// READs that came late, and what they keep open.
    late: RefCell<Option<(PostedReads, Rc<()>)>>,
}

impl Inner {
    /// Whether a READ could be waited for in the call now: seen before anything is done for it.
    #[inline]
    pub(super) fn may_read_in_call(&self) -> bool {
        // Where an answer is to come, who waits for it must not wait for READs.
        self.port.may_read_soon()
            && self.pending.borrow().is_empty()
            && self.in_call.late.borrow().is_none()
    }

    /// Executes READs with one doorbell, and waits for them in the call. `None`: they were not posted, or are late; nothing was
    /// read.
    #[inline]
    pub(super) fn read_in_call(&self, reads: &mut [ReadInto<'_>]) -> Option<()> {
        if !self.may_read_in_call() {
            return None;
        }
        let memory = self.in_call.memory.borrow();
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
        let outcome = self.port.read_soon(self.qp, &posted[..reads.len()]);
        if outcome == Soon::NotPosted {
            self.read_room.not_posted(room, reads.len());
            return None;
        }
        self.meter
            .note_reads(reads.iter().map(|read| read.into.len()).sum());
        if outcome == Soon::Late {
            self.in_call
                .late
                .replace(Some((room, self.index_in_use.borrow().clone())));
            return None;
        }
        self.read_room.completed(room);
        for ((local, _), read) in posted.iter().zip(reads) {
            bytes.read(local.offset, read.into);
        }
        Some(())
    }

    /// Makes the memory, for the next time.
    #[cold]
    fn make_memory(&self) -> Option<()> {
        // Where there is none, READs are not waited for in the call.
        let region = self
            .port
            .device()
            .allocate(MEMORY_SIZE, Access::NONE)
            .ok()?;
        self.made.regions.borrow_mut().push(region);
        let bytes = self.port.device().memory(region);
        self.in_call.memory.replace(Some((region, bytes)));
        None
    }

    /// Looks whether what was late has come; to be called when a READ has completed.
    #[inline]
    pub(super) fn note_late(&self) {
        let mut late = self.in_call.late.borrow_mut();
        if late
            .as_ref()
            .is_some_and(|(reads, _)| self.read_room.has_completed(reads))
        {
            *late = None;
        }
    }
}
