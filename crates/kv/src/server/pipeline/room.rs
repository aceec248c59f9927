//! The room that a batch needs in the index of each shard that the batch touches.

use super::batch::Write;
use crate::server::shard::Shard;
use crate::server::shards::Shards;
use crate::server::state::State;

/// The room that a batch needs in the index of each shard.
#[derive(Default)]
pub(super) struct Room {
    /// Number of the batch's writes that are counted, from the first on.
    counted: usize,
    /// The shards of the counted writes.
    touched: Vec<u32>,
    /// The needs of each shard, by its number.
    needs: Vec<Need>,
}

/// The need of one shard.
#[derive(Clone, Copy, Default)]
struct Need {
    is_touched: bool,
    /// Writes of the batch, and puts before it that are not published.
    writes: u64,
    /// Keys that these puts and the decided writes add to the index, less the keys that they remove; an upper bound
    /// while there is room for all.
    inserted: i64,
    /// Whether the index has room for the keys of all counted writes, even if all of them are new.
    is_roomy: bool,
}

impl Room {
    /// Clears the counts for the next batch.
    pub fn clear(&mut self) {
        for shard in self.touched.drain(..) {
            self.needs[shard as usize] = Need::default();
        }
        self.counted = 0;
    }

    /// Makes room for all `writes` of the batch, in addition to writes that are stamped and not published, as far as
    /// memory permits.
    pub fn make(&mut self, writes: &[Write], state: &mut State) {
        let State { shards, node, .. } = state;
        self.needs.resize_with(shards.iter().len(), Need::default);
        for write in &writes[self.counted..] {
            let shard = write.route.shard;
            let need = &mut self.needs[shard as usize];
            if !std::mem::replace(&mut need.is_touched, true) {
                self.touched.push(shard);
                let calls = node.as_ref().map(|node| &node.calls);
                let unpublished = calls.map_or(0, |calls| calls.puts_of(shard));
                need.writes = unpublished;
                need.inserted = unpublished as i64;
            }
            need.writes += 1;
        }
        self.counted = writes.len();
        for &number in &self.touched {
            let (need, shard) = (&mut self.needs[number as usize], shards.of_mut(number));
            shard.make_room(need.writes);
            need.is_roomy = shard.is_roomy(need.writes);
        }
    }

    /// Whether the index of `shard` had room for all keys of the batch when room was made.
    pub fn is_for_all_of(&self, shard: u32) -> bool {
        self.needs[shard as usize].is_roomy
    }

    /// Whether the indexes of all touched shards have room for all keys of the batch now.
    pub fn is_roomy(&self, shards: &Shards) -> bool {
        let touched = self.touched.iter();
        touched
            .map(|&number| (shards.of(number), self.needs[number as usize]))
            .all(|(shard, need)| shard.is_roomy(need.writes))
    }

    /// Whether the index of shard `number` has room for one key in addition to the keys of the decided writes.
    pub fn has_place(&self, shard: &Shard, number: u32) -> bool {
        shard.has_place(self.needs[number as usize].inserted)
    }

    /// Whether the index of shard `number` has room for `more` keys in addition to the keys of the decided writes.
    pub fn has_places(&self, shard: &Shard, number: u32, more: i64) -> bool {
        shard.has_place(self.needs[number as usize].inserted + more - 1)
    }

    /// Notes a decided write that adds so many keys to `shard`.
    pub fn note(&mut self, shard: u32, added: i64) {
        self.needs[shard as usize].inserted += added;
    }
}
