//! A walk over the segment of one hash: a table is read part by part while it changes.

use smallvec::SmallVec;

use crate::shapes::item::ItemRead;
use crate::shapes::root::{ROOT_LINE_SIZE, Root};
use crate::shapes::tag::word_at;
use crate::shapes::traversal::{Place, Stale, Step, Traversal};
use crate::wire::Pointer;

use super::bucket::{self, BUCKET_SIZE, Bucket};
use super::{DEPTH_MAX, HashTable, KeyHash};

/// The entries of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HashPart {
    /// Encoded keys, each with its value.
    pub items: Vec<(Vec<u8>, Vec<u8>)>,
    /// The first hash after the segment; `None`: it was the last one.
    pub next: Option<u64>,
}

/// Reads the segment of one hash: root line, word of the directory, segment, items. Each bucket is as it was at a
/// moment of the walk.
#[derive(Clone, Debug)]
pub struct PartWalk {
    table: HashTable,
    from: KeyHash,
    part: HashPart,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Begin,
    Root,
    Directory,
    Segment(Pointer),
    Items(Vec<Pointer>),
}

impl HashTable {
    /// Reads the entries of the segment of the hash `from`. Segments split and never merge, so walks from 0 on, each
    /// with the hash of [`HashPart::next`], meet a key that is there all the time once, and no key twice.
    pub fn part(&self, from: u64) -> PartWalk {
        PartWalk {
            table: *self,
            from: KeyHash(from),
            part: HashPart::default(),
            stage: Stage::Begin,
        }
    }
}

impl PartWalk {
    fn segment(&mut self, segment: Pointer, bytes: &[u8]) -> Step<HashPart> {
        let mut words = Vec::new();
        for number in 0..bucket::buckets(bucket::width_of(segment)) {
            let start = (number * BUCKET_SIZE) as usize;
            let part = bytes.get(start..start + BUCKET_SIZE as usize);
            let read = part.and_then(|part| Bucket::parse(self.table.tags, segment, number, part));
            let Some(bucket) = read.filter(|bucket| bucket.is_home_of(self.from)) else {
                let (place, what) = (bucket::place(segment, number), "bucket of the part");
                return Step::Stale(Stale { place, what });
            };
            self.part.next = self.from.behind(bucket.depth());
            words.extend(bucket.words.into_iter().filter(|word| !word.is_null()));
        }
        if words.is_empty() {
            return Step::Done(std::mem::take(&mut self.part));
        }
        let items = self.table.items();
        let places = words.iter().map(|word| Place::last(items.first(*word)));
        let places = places.collect();
        self.stage = Stage::Items(words);
        Step::Read(places)
    }

    fn items(&mut self, words: Vec<Pointer>, bytes: &[Vec<u8>]) -> Step<HashPart> {
        let mut longer: (Vec<Pointer>, SmallVec<_>) = Default::default();
        for (word, bytes) in words.into_iter().zip(bytes) {
            match self.table.items().judge(word, bytes) {
                ItemRead::Stale(stale) => return Step::Stale(stale),
                ItemRead::Longer(place) => {
                    longer.0.push(word);
                    longer.1.push(Place::last(place));
                }
                ItemRead::Whole(item) => self.part.items.push((item.key, item.value)),
            }
        }
        if longer.0.is_empty() {
            return Step::Done(std::mem::take(&mut self.part));
        }
        self.stage = Stage::Items(longer.0);
        Step::Read(longer.1)
    }
}

impl Traversal for PartWalk {
    type End = HashPart;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<HashPart> {
        let HashTable { anchor, tags, .. } = self.table;
        match std::mem::replace(&mut self.stage, Stage::Begin) {
            Stage::Begin => {
                self.stage = Stage::Root;
                Step::one(Place::inner(anchor.span(ROOT_LINE_SIZE)))
            }
            Stage::Root => {
                let root = match Root::parse(tags, anchor, DEPTH_MAX, &bytes[0]) {
                    Ok(root) => root,
                    Err(stale) => return Step::Stale(stale),
                };
                self.stage = Stage::Directory;
                Step::one(Place::inner(HashTable::directory_word(&root, self.from)))
            }
            Stage::Directory => {
                let segment = Pointer::from_word(word_at(&bytes[0], 0));
                let size = bucket::segment_size(bucket::width_of(segment));
                self.stage = Stage::Segment(segment);
                Step::one(Place::last(segment.span(size)))
            }
            Stage::Segment(segment) => self.segment(segment, &bytes[0]),
            Stage::Items(words) => self.items(words, bytes),
        }
    }
}
