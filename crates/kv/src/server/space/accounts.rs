//! The accounts of each segment: its live records, its dead records, and the time of their deaths.

use stonecast_log::{Kind, RecordHeader, UNIT_SIZE};

use super::Space;
use super::occupancy::Occupancy;
use crate::wire::Word;

/// Bytes of records, over all segments.
#[derive(Default)]
pub(super) struct Flow {
    /// Bytes stamped since the last `take_appended`, without moved records.
    pub appended: u64,
    /// Bytes that died so far.
    pub died: u64,
}

impl Space {
    /// The occupancy of a segment.
    pub fn occupancy(&self, number: u32) -> &Occupancy {
        &self.segments[number as usize].occupancy
    }

    pub(super) fn occupancy_mut(&mut self, number: u32) -> &mut Occupancy {
        &mut self.segments[number as usize].occupancy
    }

    /// The occupancy of a word's segment, unless the segment was used again since.
    fn occupancy_of(&mut self, word: Word) -> Option<&mut Occupancy> {
        let (number, _) = self.format.locate(word.position());
        let segment = self.segments.get_mut(usize::try_from(number).ok()?)?;
        let generation = segment.used.as_ref()?.generation;
        word.is_of_generation(generation)
            .then_some(&mut segment.occupancy)
    }

    /// Notes a record of `size` bytes that was stamped in a segment as `sequence`.
    #[inline]
    pub fn note_stamped(&mut self, number: u32, size: u64, sequence: u64, is_tombstone: bool) {
        let occupancy = self.occupancy_mut(number);
        occupancy.written_at = sequence;
        if is_tombstone {
            occupancy.note_tombstone(size, sequence);
        }
        let segment = &mut self.segments[number as usize];
        segment.newest_own = sequence;
        segment.reach = (segment.reach.0.min(sequence), sequence);
        self.flow.appended += size;
    }

    /// Notes a record of `size` bytes that was moved to a segment when `next_sequence` was the next sequence.
    pub fn note_moved(
        &mut self,
        number: u32,
        size: u64,
        header: &RecordHeader,
        next_sequence: u64,
    ) {
        let occupancy = self.occupancy_mut(number);
        occupancy.written_at = next_sequence;
        if header.kind() == Kind::Delete && header.time_mark().is_none() {
            occupancy.note_tombstone(size, header.sequence());
        }
    }

    /// Notes a tombstone of `size` bytes that was written in place of the expired record `sequence`.
    pub fn note_buried(&mut self, number: u32, size: u64, sequence: u64, next_sequence: u64) {
        let occupancy = self.occupancy_mut(number);
        occupancy.written_at = next_sequence;
        occupancy.note_tombstone(size, sequence);
    }

    /// Notes a record of another node of `size` bytes that was stamped in a segment like a moved one. Its word comes
    /// later.
    pub fn note_arrived(&mut self, number: u32, size: u64) {
        self.segments[number as usize].awaited_words += 1;
        self.flow.appended += size;
    }

    /// Notes that a record of another node has got its word, or never gets one.
    pub fn note_word(&mut self, number: u32) {
        self.segments[number as usize].awaited_words -= 1;
    }

    /// Notes that the index names a record of `size` bytes in this segment.
    #[inline]
    pub fn note_live(&mut self, number: u32, size: u64) {
        self.occupancy_mut(number).live += size as i64;
    }

    /// Notes the death of a record of `size` bytes at `position`, which the index named until `sequence` was published.
    #[inline]
    pub fn note_death(&mut self, position: u64, size: u64, sequence: u64) {
        let (number, _) = self.format.locate(position);
        if let Some(segment) = self.segments.get_mut(number as usize) {
            segment.occupancy.note_death(size, sequence);
            self.flow.died += size;
        }
    }

    /// Notes that the record of `header` at `position` has expired, and counts as a tombstone of `size` bytes from now
    /// on.
    pub fn note_expired(&mut self, position: u64, header: &RecordHeader, size: u64) {
        let (number, _) = self.format.locate(position);
        if let Some(segment) = self.segments.get_mut(number as usize) {
            segment.occupancy.live -= header.size() as i64;
            segment.occupancy.note_tombstone(size, header.sequence());
            self.flow.died += header.size() - size.min(header.size());
        }
    }

    /// Notes that the index named a record at `position` until the copy was published. The original is dead like any
    /// other dead record, but the key has not changed.
    pub fn note_moved_away(&mut self, position: u64, size: u64, sequence: u64) {
        let (number, _) = self.format.locate(position);
        self.segments[number as usize]
            .occupancy
            .note_death(size, sequence);
    }

    /// Notes a copy of a record that was stamped in a segment and that no word names: the key has a later record.
    pub fn note_useless_copy(&mut self, number: u32, sequence: u64) {
        let occupancy = self.occupancy_mut(number);
        occupancy.first_death = occupancy.first_death.min(sequence);
    }

    /// Notes that a client is about to publish as `sequence` the record of `new` in place of `old`, each given by word
    /// and size.
    pub fn note_published(&mut self, old: (Word, u64), new: (Word, u64), sequence: u64) {
        if let Some(occupancy) = self.occupancy_of(old.0) {
            occupancy.note_death(old.1, sequence);
        }
        if let Some(occupancy) = self.occupancy_of(new.0) {
            occupancy.live += new.1 as i64;
            occupancy.written_at = occupancy.written_at.max(sequence);
        }
        self.flow.died += old.1;
        self.flow.appended += new.1;
    }

    /// Undoes `note_published`: the publication did not happen, the record of `new` is void, and the record of `old`
    /// lives or was replaced by another one.
    pub fn note_not_published(&mut self, old: (Word, u64), new: (Word, u64)) {
        for (word, change) in [(old.0, old.1 as i64), (new.0, -(new.1 as i64))] {
            if let Some(occupancy) = self.occupancy_of(word) {
                occupancy.live += change;
            }
        }
    }

    /// Sets the first sequence from which stamped records may exist that no word names and that are not void;
    /// `u64::MAX` if there are none. No tombstone above this sequence is dropped, since a scan would accept such a
    /// record.
    pub fn set_unsettled(&mut self, sequence: u64) {
        self.unsettled.by_clients = sequence;
    }

    /// Sets the version up to which the records of this node are settled, durably. Segments with later ones are not
    /// cleaned.
    pub fn set_settled(&mut self, version: u64) {
        self.unsettled.by_node = version + 1;
    }

    /// Notes a record that this node has stamped in an earlier run, and that is not settled.
    pub fn note_unsettled(&mut self, number: u32, version: u64) {
        let newest = &mut self.segments[number as usize].newest_own;
        *newest = (*newest).max(version);
    }

    /// Notes that an earlier run of this node stamped records in a segment, the first and the last with these versions.
    /// `None`: the versions are not known.
    pub fn note_reach(&mut self, number: u32, reach: Option<(u64, u64)>) {
        self.segments[number as usize].reach = reach.unwrap_or((0, u64::MAX));
    }

    /// Whether a segment may have a record that this node stamped with a version from `first` to `last`.
    pub fn reaches(&self, first: u64, last: u64) -> bool {
        let mut segments = self.segments.iter().map(|segment| segment.reach);
        segments.any(|(lowest, highest)| first <= highest && lowest <= last)
    }

    /// Sets the count of live bytes of a segment.
    pub fn set_live(&mut self, number: u32, live: u64) {
        self.occupancy_mut(number).live = live as i64;
    }

    /// Counts for reports: free, partial, taken, full.
    pub fn counts(&self) -> [u64; 4] {
        let used = self.used().count() as u64;
        let partial = self.shelves.partial_count();
        let (free, taken) = (self.shelves.free.len() as u64, u64::from(self.taken));
        [free, partial, taken, used - partial - taken]
    }

    /// Bytes of the log below the ends of all segments in use.
    pub fn used_bytes(&self) -> u64 {
        self.used()
            .map(|state| u64::from(state.end) * UNIT_SIZE)
            .sum()
    }

    /// Bytes of tombstones in the log.
    pub fn tombstone_bytes(&self) -> u64 {
        let all = self.segments.iter();
        all.map(|segment| segment.occupancy.tombstones).sum()
    }

    /// Takes the number of bytes stamped since the last call, without moved records.
    pub fn take_appended(&mut self) -> u64 {
        std::mem::take(&mut self.flow.appended)
    }

    /// Bytes of records that died since the opening.
    pub fn died(&self) -> u64 {
        self.flow.died
    }
}
