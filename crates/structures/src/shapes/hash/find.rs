//! The look-up of a key.

use stonecast_base::Span;

use crate::shapes::item::{Item, ItemRead, ItemReader};
use crate::shapes::traversal::{Place, Stale, Step, Traversal};
use crate::wire::Pointer;

use super::bucket::{self, Bucket, SLOTS};
use super::{DEPTH_MAX, HashTable, KeyHash};
use crate::shapes::root::{ROOT_LINE_SIZE, Root};

/// The look-up of one key: root line, word of the directory, bucket, item.
#[derive(Clone, Debug)]
pub struct Find {
    table: HashTable,
    key: Vec<u8>,
    hash: KeyHash,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Begin,
    Root,
    Directory(Root),
    Bucket(Root, Pointer),
    /// The item that the word in a slot of a bucket names.
    Item(Home, usize),
}

/// The bucket of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Home {
    pub root: Root,
    pub segment: Pointer,
    pub bucket: Bucket,
}

/// The place of a key, and the key's item, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub(super) home: Home,
    pub(super) hash: KeyHash,
    /// The slot of the key's word, and the item.
    pub(super) item: Option<(usize, Item)>,
}

impl Found {
    /// The value of the key.
    pub fn value(&self) -> Option<&[u8]> {
        self.item.as_ref().map(|(_, item)| &*item.value)
    }

    /// The value of the key.
    pub fn into_value(self) -> Option<Vec<u8>> {
        self.item.map(|(_, item)| item.value)
    }
}

impl HashTable {
    /// Looks an encoded key up.
    pub fn find(&self, key: &[u8]) -> Find {
        Find {
            table: *self,
            key: key.to_vec(),
            hash: self.hash_of(key),
            stage: Stage::Begin,
        }
    }

    /// The place of the word of a directory that names the segment of a hash.
    pub(super) fn directory_word(root: &Root, hash: KeyHash) -> Span {
        let index = hash.prefix(root.level);
        Span::new(root.top.offset() + index * 8, 8)
    }

    pub(super) fn items(&self) -> ItemReader {
        ItemReader {
            tags: self.tags,
            hint: self.item_hint,
        }
    }
}

impl Find {
    /// Follows the next word from `slot` on that may belong to the key, or ends.
    fn follow(&mut self, home: Home, slot: usize) -> Step<Found> {
        let next = (slot..SLOTS).find(|&slot| self.hash.may_be(home.bucket.words[slot]));
        let Some(slot) = next else {
            return Step::Done(Found {
                home,
                hash: self.hash,
                item: None,
            });
        };
        self.stage = Stage::Item(home, slot);
        let word = home.bucket.words[slot];
        Step::one(Place::last(self.table.items().first(word)))
    }
}

impl Traversal for Find {
    type End = Found;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Found> {
        let HashTable { anchor, tags, .. } = self.table;
        let line = anchor.span(ROOT_LINE_SIZE);
        match self.stage {
            Stage::Begin => {
                self.stage = Stage::Root;
                Step::one(Place::inner(line))
            }
            Stage::Root => {
                let root = match Root::parse(tags, anchor, DEPTH_MAX, &bytes[0]) {
                    Ok(root) => root,
                    Err(stale) => return Step::Stale(stale),
                };
                self.stage = Stage::Directory(root);
                Step::one(Place::inner(HashTable::directory_word(&root, self.hash)))
            }
            Stage::Directory(root) => {
                let segment = Pointer::from_word(crate::shapes::tag::word_at(&bytes[0], 0));
                self.stage = Stage::Bucket(root, segment);
                let number = self.hash.bucket(bucket::width_of(segment));
                let place = bucket::place(segment, number);
                Step::one(Place::last(place))
            }
            Stage::Bucket(root, segment) => {
                let number = self.hash.bucket(bucket::width_of(segment));
                let read = Bucket::parse(tags, segment, number, &bytes[0]);
                let Some(bucket) = read.filter(|bucket| bucket.is_home_of(self.hash)) else {
                    let (place, what) = (bucket::place(segment, number), "bucket of the key");
                    return Step::Stale(Stale { place, what });
                };
                let home = Home {
                    root,
                    segment,
                    bucket,
                };
                self.follow(home, 0)
            }
            Stage::Item(home, slot) => {
                match self.table.items().judge(home.bucket.words[slot], &bytes[0]) {
                    ItemRead::Stale(stale) => Step::Stale(stale),
                    ItemRead::Longer(place) => Step::one(Place::last(place)),
                    ItemRead::Whole(item) if item.key == self.key => Step::Done(Found {
                        home,
                        hash: self.hash,
                        item: Some((slot, item)),
                    }),
                    ItemRead::Whole(_) => self.follow(home, slot + 1),
                }
            }
        }
    }
}
