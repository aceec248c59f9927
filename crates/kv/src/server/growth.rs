//! Growth of the index while clients read it; see `index`.

use stonecast_base::Nanoseconds;
use stonecast_fabric::{Access, DeviceError, MemoryRegion};
use stonecast_media::MediaError;

use super::{Server, State};
use crate::index::Step;
use crate::server::recovery::rebuild::index_memory;

/// A table of the index as clients reach it.
pub(super) struct SharedTable {
    pub number: u32,
    pub region: MemoryRegion,
}

/// Buckets that are copied for each operation of a batch: keys that come while the table is nearly full find it copied
/// long before it is full.
const BUCKETS_PER_OPERATION: u64 = 4;
/// Buckets that are copied at least in a step, also by an idle server: about 20 microseconds.
const BUCKETS_MIN: u64 = 128;
/// How long not to ask again for memory that there was none of.
const PAUSE_NS: Nanoseconds = 1_000_000_000;

/// Why an index cannot grow now.
#[derive(Debug, thiserror::Error)]
enum NoGrowth {
    #[error(transparent)]
    Memory(#[from] MediaError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl Server {
    /// Begins, goes on with or ends a growth of the index, in proportion to the `operations` of the batch before.
    pub(super) fn tend_index(&self, operations: usize) {
        let state = &mut *self.state.borrow_mut();
        if let Some(bits) = state.index.wants()
            && self.runtime.now() >= state.growth_pause_until
            && self.begin_growth(state, bits).is_err()
        {
            state.growth_pause_until = self.runtime.now() + PAUSE_NS;
        }
        if state.index.is_growing() {
            self.step(
                state,
                (operations as u64 * BUCKETS_PER_OPERATION).max(BUCKETS_MIN),
            );
        }
        if state.tables.len() > 1 {
            self.free_tables(state);
        }
    }

    /// Makes room for `more` keys now, if there is memory.
    pub(super) fn make_room(&self, state: &mut State, more: u64) {
        while state.index.len() + more >= state.index.capacity() {
            if !state.index.is_growing() {
                let Some(bits) = state.index.larger() else {
                    return;
                };
                if self.runtime.now() < state.growth_pause_until {
                    return;
                }
                if self.begin_growth(state, bits).is_err() {
                    state.growth_pause_until = self.runtime.now() + PAUSE_NS;
                    return;
                }
            }
            self.step(state, u64::MAX);
        }
    }

    fn begin_growth(&self, state: &mut State, bits: u32) -> Result<(), NoGrowth> {
        let memory = index_memory(&*self.pool.backing(), bits, self.options.publishes())?;
        let region = self.port.device().register(memory.clone(), Access::NONE)?;
        state.index.begin_growth(memory);
        let number = state
            .tables
            .last()
            .expect("there is always a table")
            .number
            .wrapping_add(1);
        // Told to clients once it is current; until then it waits in front of the current one.
        let before = state.tables.len() - 1;
        state.tables.insert(before, SharedTable { number, region });
        Ok(())
    }

    fn step(&self, state: &mut State, buckets: u64) {
        if let Step::Switched = state.index.step(buckets, &*self.log, self.format.tag_key) {
            let last = state.tables.len() - 1;
            state.tables.swap(last - 1, last);
            state.counters.index_growths += 1;
        }
    }

    /// Frees the tables that no client can read any more.
    fn free_tables(&self, state: &mut State) {
        // A right that is being taken away may still be one on such a table.
        if state.index.is_growing() || self.revocations.under_way() > 0 {
            return;
        }
        let State {
            tables, sessions, ..
        } = state;
        let current = tables.last().expect("there is always a table").number;
        tables.retain(|table| {
            let is_read = sessions
                .iter()
                .any(|session| session.windows.reads_index(table.number));
            let stays = table.number == current || is_read;
            if !stays {
                self.free(table.region);
            }
            stays
        });
    }

    /// Frees memory that no client can reach any more. Its own key opened nothing to any peer.
    fn free(&self, region: MemoryRegion) {
        let port = self.port.clone();
        self.runtime.spawn(Box::pin(async move {
            // What a provider cannot free now it frees when the device is dropped.
            if port.invalidate(region.rkey).await.is_ok() {
                let _ = port.device().deregister(region);
            }
        }));
    }
}
