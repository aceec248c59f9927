//! A walk over a whole table.

use crate::shapes::contents::Contents;
use crate::shapes::item::ItemRead;
use crate::shapes::traversal::{Place, Stale, Step, Traversal};
use crate::wire::Pointer;

use super::bucket::{self, BUCKET_SIZE, Bucket};
use super::{DEPTH_MAX, HashTable};
use crate::shapes::root::{ROOT_LINE_SIZE, Root};

/// Reads everything of a table: all segments at once, then all items.
#[derive(Clone, Debug)]
pub struct Walk {
    table: HashTable,
    contents: Contents,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Begin,
    Root,
    Directory,
    Segments(Vec<Pointer>),
    Items(Vec<Pointer>),
}

impl HashTable {
    /// Reads the whole table, which should not change during the walk.
    pub fn walk(&self) -> Walk {
        Walk {
            table: *self,
            contents: Contents::default(),
            stage: Stage::Begin,
        }
    }
}

impl Walk {
    fn root(&mut self, bytes: &[u8]) -> Step<Contents> {
        let HashTable { anchor, tags, .. } = self.table;
        let place = anchor.span(ROOT_LINE_SIZE);
        let root = match Root::parse(tags, anchor, DEPTH_MAX, bytes) {
            Ok(root) => root,
            Err(stale) => return Step::Stale(stale),
        };
        let directory = root.top.span(8 << root.level);
        self.contents.length = root.length;
        self.contents.blocks = vec![(anchor, place.size), (root.top, directory.size)];
        self.stage = Stage::Directory;
        Step::one(Place::last(directory))
    }

    fn directory(&mut self, bytes: &[u8]) -> Step<Contents> {
        let words = bytes.as_chunks::<8>().0.iter();
        let words = words.map(|word| Pointer::from_word(u64::from_le_bytes(*word)));
        let mut segments: Vec<Pointer> = words.collect();
        segments.dedup();
        let places = segments.iter();
        let size = |segment: &Pointer| bucket::segment_size(bucket::width_of(*segment));
        let places = places.map(|segment| Place::last(segment.span(size(segment))));
        let places = places.collect();
        let blocks = segments.iter().map(|segment| (*segment, size(segment)));
        self.contents.blocks.extend(blocks);
        self.stage = Stage::Segments(segments);
        Step::Read(places)
    }

    fn segments(&mut self, segments: &[Pointer], bytes: &[Vec<u8>]) -> Step<Contents> {
        let mut words = Vec::new();
        for (&segment, bytes) in segments.iter().zip(bytes) {
            for number in 0..bucket::buckets(bucket::width_of(segment)) {
                let start = (number * BUCKET_SIZE) as usize;
                let part = &bytes[start..start + BUCKET_SIZE as usize];
                let Some(bucket) = Bucket::parse(self.table.tags, segment, number, part) else {
                    let (place, what) = (bucket::place(segment, number), "bucket");
                    return Step::Stale(Stale { place, what });
                };
                words.extend(bucket.words.into_iter().filter(|word| !word.is_null()));
            }
        }
        let items = self.table.items();
        let places = words.iter().map(|word| Place::last(items.first(*word)));
        let places = places.collect();
        self.stage = Stage::Items(words);
        Step::Read(places)
    }

    fn items(&mut self, words: Vec<Pointer>, bytes: &[Vec<u8>]) -> Step<Contents> {
        let mut longer = Vec::new();
        for (&word, bytes) in words.iter().zip(bytes) {
            match self.table.items().judge(word, bytes) {
                ItemRead::Stale(stale) => return Step::Stale(stale),
                ItemRead::Longer(place) => longer.push((word, Place::last(place))),
                ItemRead::Whole(item) => {
                    self.contents.blocks.push((word, item.size()));
                    self.contents.items.push((item.key, item.value));
                }
            }
        }
        if longer.is_empty() {
            return Step::Done(std::mem::take(&mut self.contents));
        }
        let (words, places) = longer.into_iter().unzip();
        self.stage = Stage::Items(words);
        Step::Read(places)
    }
}

impl Traversal for Walk {
    type End = Contents;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Contents> {
        match std::mem::replace(&mut self.stage, Stage::Begin) {
            Stage::Begin => {
                self.stage = Stage::Root;
                Step::one(Place::last(self.table.anchor.span(ROOT_LINE_SIZE)))
            }
            Stage::Root => self.root(&bytes[0]),
            Stage::Directory => self.directory(&bytes[0]),
            Stage::Segments(segments) => self.segments(&segments, bytes),
            Stage::Items(words) => self.items(words, bytes),
        }
    }
}
