//! READs and changes in the call: executed at once or not at all, from and into memory of the caller.
//!
//! Nothing here allocates or waits. Any unusual case is left to posted operations, which report its cause.

use stonecast_fabric::{Access, ChangeNow, ReadInto, Status};
use stonecast_media::Region;

use crate::connection::Connection;
use crate::peer_memory::PeerMemory;
use crate::primitive::Memory;
use crate::queue_pair::QueuePairState;

/// Whether all posts were executed and taken, so that operations in the call come after them.
#[inline]
fn has_nothing_under_way(qp: &QueuePairState) -> bool {
    let taken = |connection: &Connection| {
        connection
            .producer
            .has_taken(&*connection.area, qp.last_send_end)
    };
    qp.is_connected()
        && qp.sends.executed() == qp.sends.len()
        && qp.connection.as_deref().is_some_and(taken)
}

/// Executes READs.
///
/// All reads are looked up and prefetched first (a single read is not: its copy loads it), so that the memory works on
/// all of them concurrently; then they are copied; then their keys are checked once more.
#[inline]
pub(crate) fn read_now(qp: &QueuePairState, reads: &mut [ReadInto<'_>]) -> Option<Status> {
    if !has_nothing_under_way(qp) {
        return None;
    }
    let connection = qp.connection.as_deref()?;
    match reads {
        // The path of a GET, without loops.
        [one] => {
            let readable = connection.memory.readable(one.remote.rkey)?;
            readable.copy(one)?;
            connection.memory.page().read_fence();
            if readable.is_current() {
                Some(Status::Success)
            } else {
                None
            }
        }
        _ => read_all(&connection.memory, reads),
    }
}

/// Executes changes of the peer's memory.
///
/// All keys are checked between the announcement and its end, before anything is changed: a batch that cannot be
/// executed at this moment changes nothing.
#[inline]
pub(crate) fn change_now(qp: &mut QueuePairState, changes: &mut [ChangeNow<'_>]) -> bool {
    if !has_nothing_under_way(qp) {
        return false;
    }
    let Some(connection) = qp.connection.as_deref_mut() else {
        return false;
    };
    connection.announcement.enter(&*connection.area);
    let done = !connection.peer_has_closed() && change_all(&connection.memory, changes);
    connection.announcement.leave(&*connection.area);
    done
}

/// The most changes of one batch that are executed at once.
const CHANGES_AT_ONCE_MAX: usize = 4;

#[inline]
fn change_all(memory: &PeerMemory, changes: &mut [ChangeNow<'_>]) -> bool {
    let mut places = [None; CHANGES_AT_ONCE_MAX];
    let Some(places) = places.get_mut(..changes.len()) else {
        return false;
    };
    for (place, change) in places.iter_mut().zip(&*changes) {
        *place = match change {
            ChangeNow::Write { remote, from } => {
                memory.changeable(*remote, from.len() as u64, Access::REMOTE_WRITE)
            }
            ChangeNow::CompareAndSwap { remote, .. } | ChangeNow::FetchAndAdd { remote, .. } => {
                memory
                    .changeable(*remote, 8, Access::REMOTE_ATOMIC)
                    .filter(|(_, at)| at.is_multiple_of(8))
            }
        };
        if place.is_none() {
            return false;
        }
    }
    for (place, change) in places.iter().zip(changes) {
        let (region, at) = place.expect("each was looked up");
        match change {
            ChangeNow::Write { from, .. } => Region::write(region, at, from),
            ChangeNow::CompareAndSwap {
                expected,
                swap,
                found,
                ..
            } => {
                **found = Region::compare_exchange(region, at, *expected, *swap)
                    .unwrap_or_else(|found| found);
            }
            ChangeNow::FetchAndAdd { add, found, .. } => {
                **found = Region::fetch_add(region, at, *add)
            }
        }
        crate::step::step("requester: changed");
    }
    true
}

/// Executes any number of READs, at least one.
#[inline(never)]
fn read_all(memory: &PeerMemory, reads: &mut [ReadInto<'_>]) -> Option<Status> {
    // Reads of a batch mostly share a key, which is then looked up once per pass.
    let shares_key = |one: &ReadInto<'_>, next: &ReadInto<'_>| one.remote.rkey == next.remote.rkey;
    reads.first()?;
    for group in reads.chunk_by(shares_key) {
        let readable = memory.readable(group[0].remote.rkey)?;
        for read in group {
            readable.prefetch(read)?;
        }
    }
    for group in reads.chunk_by_mut(shares_key) {
        let readable = memory.readable(group[0].remote.rkey)?;
        for read in group {
            readable.copy(read)?;
        }
    }
    memory.page().read_fence();
    reads
        .chunk_by(shares_key)
        .all(|group| memory.is_current(group[0].remote.rkey))
        .then_some(Status::Success)
}
