//! Changes of a hash table: a look-up, and, if the bucket has no room, the reads that a split of the segment needs.

use crate::shapes::item::{ITEM_HEADER_SIZE, ItemReader, KEY_SIZE_MAX, item_bytes, item_size};
use crate::shapes::key_change::{Effect, KeyChange};
use crate::shapes::traversal::{Answer, Place, Stale, Step, Traversal};
use crate::space::{Draft, SpaceFault};
use crate::wire::{Pointer, Verb};

use super::bucket::{self, Bucket, SLOTS};
use super::find::{Find, Found};
use super::{BUCKET_SIZE, HashTable, KeyHash, WIDTH_MAX};
use crate::shapes::root::Root;

/// Bytes that are read of an item whose segment is split: enough for the header and a typical key.
const KEY_HINT: usize = 64;

/// The walk before a change of one key.
#[derive(Clone, Debug)]
pub struct Change {
    table: HashTable,
    change: KeyChange,
    find: Find,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Find,
    /// The segment is being read.
    Segment(Found),
    /// The keys of the items that these words name are being read; each with its bucket.
    Keys(Found, Vec<(u64, Pointer)>),
    Directory(Found, Split),
}

/// The items of a segment, and their new places.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Split {
    items: Vec<(KeyHash, Pointer)>,
    /// Bits of the hash that the new segment with the key's bucket has in common, and its width: one of them is larger
    /// than before.
    depth: u32,
    width: u32,
    /// All words of the directory; empty unless the directory grows.
    directory: Vec<Pointer>,
}

/// Everything that a change needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePlan {
    table: HashTable,
    change: KeyChange,
    found: Found,
    split: Option<Split>,
}

impl HashTable {
    /// Changes an encoded key. `verb` is a verb for keys.
    ///
    /// # Panics
    /// Panics if the key or value is longer than an item permits.
    pub fn change(&self, verb: Verb, key: &[u8], value: &[u8]) -> Change {
        Change {
            table: *self,
            change: KeyChange::new(verb, key, value),
            find: self.find(key),
            stage: Stage::Find,
        }
    }
}

impl Change {
    fn planned(&self, found: Found, split: Option<Split>) -> Step<ChangePlan> {
        Step::Done(ChangePlan {
            table: self.table,
            change: self.change.clone(),
            found,
            split,
        })
    }

    /// Whether the change needs a slot that the bucket does not have.
    fn needs_room(&self, found: &Found) -> bool {
        self.change.adds()
            && found.item.is_none()
            && !found.home.bucket.words.contains(&Pointer::NULL)
    }

    fn segment_read(&mut self, found: Found, bytes: &[u8]) -> Step<ChangePlan> {
        let (tags, segment) = (self.table.tags, found.home.segment);
        let mut words = Vec::new();
        for number in 0..bucket::buckets(bucket::width_of(segment)) {
            let start = (number * BUCKET_SIZE) as usize;
            let part = bytes.get(start..start + BUCKET_SIZE as usize);
            let read = part.and_then(|part| Bucket::parse(tags, segment, number, part));
            let Some(bucket) = read else {
                let (place, what) = (bucket::place(segment, number), "bucket");
                return Step::Stale(Stale { place, what });
            };
            let used = bucket.words.into_iter().filter(|word| !word.is_null());
            words.extend(used.map(|word| (number, word)));
        }
        let keys = self.keys();
        let places = words.iter().map(|(_, word)| Place::last(keys.first(*word)));
        let places = places.collect();
        self.stage = Stage::Keys(found, words);
        Step::Read(places)
    }

    fn keys(&self) -> ItemReader {
        let hint = KEY_HINT.max(ITEM_HEADER_SIZE + self.change.key.len());
        ItemReader {
            tags: self.table.tags,
            hint,
        }
    }

    fn keys_read(
        &mut self,
        found: Found,
        words: Vec<(u64, Pointer)>,
        bytes: &[Vec<u8>],
    ) -> Step<ChangePlan> {
        // A long key may need a second read, of as many bytes as keys may have.
        let most = (ITEM_HEADER_SIZE + KEY_SIZE_MAX) as u64;
        let place = |word: Pointer| word.span(word.block_size_max().min(most));
        let width = bucket::width_of(found.home.segment);
        let mut items = Vec::new();
        for (&(bucket, word), bytes) in words.iter().zip(bytes) {
            let Some(key) = ItemReader::key_of(bytes) else {
                if bytes.len() as u64 == place(word).size {
                    let (place, what) = (place(word), "item");
                    return Step::Stale(Stale { place, what });
                }
                let places = words.iter().map(|(_, word)| Place::last(place(*word)));
                let places = places.collect();
                self.stage = Stage::Keys(found, words);
                return Step::Read(places);
            };
            // The tag covers the value, too, which is not read. Bucket, fingerprint and prefix have to agree with the
            // hash instead.
            let hash = self.table.hash_of(key);
            let is_here = hash.bucket(width) == bucket && hash.may_be(word);
            if !is_here || !found.home.bucket.is_home_of(hash) {
                let (place, what) = (place(word), "item of the segment");
                return Step::Stale(Stale { place, what });
            }
            items.push((hash, word));
        }
        let part = (found.home.bucket.depth(), width);
        let room = part_with_room(&items, found.hash, part, self.table.depth_max);
        let Some((depth, width)) = room else {
            // Nothing separates these keys. The plan fails when it is applied.
            return self.planned(found, None);
        };
        let root = found.home.root;
        let split = Split {
            items,
            depth,
            width,
            directory: Vec::new(),
        };
        if depth <= root.level {
            return self.planned(found, Some(split));
        }
        self.stage = Stage::Directory(found, split);
        Step::one(Place::last(root.top.span(8 << root.level)))
    }
}

/// Depth and width of the first segment, deeper or wider than that of the items, in which the bucket of `hash` has a
/// free slot. While the directory can grow, it grows.
fn part_with_room(
    items: &[(KeyHash, Pointer)],
    hash: KeyHash,
    (depth, width): (u32, u32),
    depth_max: u32,
) -> Option<(u32, u32)> {
    let count = |depth, width| {
        let with = |&&(other, _): &&(KeyHash, Pointer)| {
            other.bucket(width) == hash.bucket(width) && other.prefix(depth) == hash.prefix(depth)
        };
        items.iter().filter(with).count()
    };
    let deeper = (depth + 1..=depth_max).map(|depth| (depth, width));
    let wider = (width + 1..=WIDTH_MAX).map(|width| (depth.max(depth_max), width));
    let mut parts = deeper.chain(wider);
    parts.find(|&(depth, width)| count(depth, width) < SLOTS)
}

impl Traversal for Change {
    type End = ChangePlan;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<ChangePlan> {
        match std::mem::replace(&mut self.stage, Stage::Find) {
            Stage::Find => match self.find.step(bytes) {
                Step::Read(places) => Step::Read(places),
                Step::Stale(stale) => Step::Stale(stale),
                Step::Done(found) if self.needs_room(&found) => {
                    let segment = found.home.segment;
                    let size = bucket::segment_size(bucket::width_of(segment));
                    let place = segment.span(size);
                    self.stage = Stage::Segment(found);
                    Step::one(Place::last(place))
                }
                Step::Done(found) => self.planned(found, None),
            },
            Stage::Segment(found) => self.segment_read(found, &bytes[0]),
            Stage::Keys(found, words) => self.keys_read(found, words, bytes),
            Stage::Directory(found, mut split) => {
                let words = bytes[0].as_chunks::<8>().0.iter();
                let words = words.map(|word| Pointer::from_word(u64::from_le_bytes(*word)));
                split.directory = words.collect();
                self.planned(found, Some(split))
            }
        }
    }
}

impl ChangePlan {
    /// Writes the change. The entries are in such an order that a reader never finds a block before it is written.
    ///
    /// # Errors
    /// [`SpaceFault`]: the draft has to be dropped.
    pub fn apply(mut self, draft: &mut Draft<'_>) -> Result<Answer, SpaceFault> {
        let (tags, anchor) = (self.table.tags, self.table.anchor);
        let change = self.change.clone();
        let item = self.found.item.take();
        let current = item.as_ref().map(|(_, item)| &*item.value);
        let (answer, effect) = change.outcome(current);
        let mut root = self.found.home.root;
        let value = match (effect, item) {
            (Effect::Nothing, _) | (Effect::Remove, None) => return Ok(answer),
            (Effect::Remove, Some((slot, item))) => {
                self.write_slot(draft, slot, Pointer::NULL);
                draft.free(item.pointer, item.size())?;
                root.length = root.length.saturating_sub(1);
                root.write_length(draft, tags, anchor);
                return Ok(answer);
            }
            (Effect::Put(value), Some((slot, old))) => {
                let pointer = self.write_item(draft, &change.key, value)?;
                self.write_slot(draft, slot, pointer);
                draft.free(old.pointer, old.size())?;
                return Ok(answer);
            }
            (Effect::Put(value), None) => value,
        };
        let pointer = self.write_item(draft, &change.key, value)?;
        root.length += 1;
        let words = &self.found.home.bucket.words;
        match (
            words.iter().position(|word| word.is_null()),
            self.split.take(),
        ) {
            (Some(slot), _) => {
                self.write_slot(draft, slot, pointer);
                root.write_length(draft, tags, anchor);
            }
            (None, Some(split)) => self.split(draft, root, split, pointer)?,
            (None, None) => {
                let size = bucket::segment_size(WIDTH_MAX);
                return Err(SpaceFault::NoSpace { size });
            }
        }
        Ok(answer)
    }

    fn write_item(
        &self,
        draft: &mut Draft<'_>,
        key: &[u8],
        value: &[u8],
    ) -> Result<Pointer, SpaceFault> {
        let block = draft.allocate(item_size(key.len(), value.len()))?;
        let pointer = self.found.hash.item_pointer(block);
        let bytes = item_bytes(self.table.tags, pointer, key, value);
        draft.write(pointer.offset(), &bytes);
        Ok(pointer)
    }

    fn write_slot(&mut self, draft: &mut Draft<'_>, slot: usize, word: Pointer) {
        let home = &mut self.found.home;
        let number = self.found.hash.bucket(bucket::width_of(home.segment));
        let place = (home.segment, number);
        let tags = self.table.tags;
        home.bucket.write_slot(draft, tags, place, slot, word);
    }

    /// Splits the segment until the key's bucket has room, and adds the item. New segments are written first, then the
    /// directory, then the old segment is marked as dead.
    fn split(
        &self,
        draft: &mut Draft<'_>,
        mut root: Root,
        split: Split,
        item: Pointer,
    ) -> Result<(), SpaceFault> {
        let (tags, anchor) = (self.table.tags, self.table.anchor);
        let (old, hash) = (self.found.home.segment, self.found.hash);
        let mut rest = split.items;
        let mut segments = Vec::new();
        for depth in self.found.home.bucket.depth() + 1..=split.depth {
            let home = hash.prefix(depth);
            let (here, sibling): (Vec<_>, Vec<_>) = rest
                .into_iter()
                .partition(|(other, _)| other.prefix(depth) == home);
            segments.push(((depth, home ^ 1), sibling));
            rest = here;
        }
        rest.push((hash, item));
        segments.push(((split.depth, hash.prefix(split.depth)), rest));
        let mut named = Vec::new();
        for (part, items) in &segments {
            let segment = bucket::new_segment(draft, split.width)?;
            bucket::write_segment(draft, tags, segment, *part, items);
            named.push((*part, segment));
        }
        if split.depth > root.level {
            let old_directory = (root.top, 8 << root.level);
            let times = 1 << (split.depth - root.level);
            let grown = split.directory.iter();
            let mut words: Vec<Pointer> = grown
                .flat_map(|word| std::iter::repeat_n(*word, times))
                .collect();
            name_segments(&named, split.depth, |index, segment| {
                words[index as usize] = segment
            });
            root.level = split.depth;
            root.top = draft.allocate(8 << root.level)?;
            let bytes: Vec<u8> = words
                .iter()
                .flat_map(|word| word.word().to_le_bytes())
                .collect();
            draft.write(root.top.offset(), &bytes);
            root.write(draft, tags, anchor);
            draft.free(old_directory.0, old_directory.1)?;
        } else {
            let offset = root.top.offset();
            name_segments(&named, root.level, |index, segment| {
                draft.write(offset + index * 8, &segment.word().to_le_bytes());
            });
            root.write_length(draft, tags, anchor);
        }
        bucket::kill_segment(draft, tags, old);
        draft.free(old, bucket::segment_size(bucket::width_of(old)))
    }
}

/// Calls `name` with each index of a directory of `depth` bits that names one of the segments.
fn name_segments(
    segments: &[((u32, u64), Pointer)],
    depth: u32,
    mut name: impl FnMut(u64, Pointer),
) {
    for &((of_segment, prefix), segment) in segments {
        let times = 1 << (depth - of_segment);
        (prefix * times..(prefix + 1) * times).for_each(|index| name(index, segment));
    }
}
