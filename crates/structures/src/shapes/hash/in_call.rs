//! Look-ups in a hash table whose memory is read in the call: straight-line code for the ordinary case.
//!
//! ```text
//!   root, word of the directory   remembered ──▶ bucket ──▶ item, and after it the looks that make the answer count
//!   anything else                 no answer: the traversal `Find` reads the table anew
//! ```
//!
//! The bucket shows whether the remembered root or word is too old, as it does for the traversal.

use crate::shapes::MemoryInCall;
use crate::shapes::item::ItemRead;
use crate::shapes::root::{ROOT_LINE_SIZE, Root};
use crate::wire::Pointer;

use super::bucket::{self, BUCKET_SIZE, Bucket};
use super::{DEPTH_MAX, HashTable, KeyHash};

/// Bytes of an item that are read without memory of the heap.
const ITEM_SIZE: usize = 512;

/// The directory of one table, as a reader has read it, and the root that names it.
#[derive(Debug, Default)]
pub struct Directory {
    size_max: u64,
    root: Option<Root>,
    /// The directory of the words.
    of: Option<(Pointer, u32)>,
    /// Words that were read; the others are null.
    words: Vec<Pointer>,
}

impl Directory {
    /// Room for a directory of at most `size` bytes. A larger one is read each time.
    pub fn new(size: u64) -> Self {
        Self {
            size_max: size,
            ..Self::default()
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::new(self.size_max);
    }

    /// Remembers a root, if its directory has room.
    fn put_root(&mut self, root: Root) {
        let words = 1 << root.level;
        if words * size_of::<Pointer>() as u64 > self.size_max {
            return;
        }
        self.root = Some(root);
        let of = Some((root.top, root.level));
        if self.of != of {
            self.of = of;
            self.words.clear();
            self.words.resize(words as usize, Pointer::NULL);
        }
    }

    /// The remembered word with this index.
    fn word(&self, index: u64) -> Option<Pointer> {
        let word = self.words.get(usize::try_from(index).ok()?)?;
        (self.root.is_some() && !word.is_null()).then_some(*word)
    }

    fn put_word(&mut self, index: u64, word: Pointer) {
        if self.root.is_some()
            && let Some(known) = self.words.get_mut(index as usize)
        {
            *known = word;
        }
    }

    /// Forgets the root and the word that have led to the wrong bucket.
    fn forget(&mut self, index: u64) {
        self.put_word(index, Pointer::NULL);
        self.root = None;
    }
}

impl HashTable {
    /// Looks an encoded key up, and leaves its value in `value`; `Some(false)`: the key has none. `None`:
    /// [`HashTable::find`] has to answer.
    pub fn find_in_call(
        &self,
        key: &[u8],
        directory: &mut Directory,
        memory: &mut impl MemoryInCall,
        value: &mut Vec<u8>,
    ) -> Option<bool> {
        let hash = self.hash_of(key);
        let bucket = self.bucket_in_call(hash, directory, memory)?;
        for word in bucket.words {
            if hash.may_be(word) && self.item_in_call((word, key), memory, value)? {
                return Some(true);
            }
        }
        memory.look()?;
        Some(false)
    }

    fn bucket_in_call(
        &self,
        hash: KeyHash,
        directory: &mut Directory,
        memory: &mut impl MemoryInCall,
    ) -> Option<Bucket> {
        let root = match directory.root {
            Some(root) => root,
            None => {
                let mut line = [0; ROOT_LINE_SIZE as usize];
                memory.read(self.anchor.span(ROOT_LINE_SIZE), &mut line)?;
                let root = Root::parse(self.tags, self.anchor, DEPTH_MAX, &line).ok()?;
                directory.put_root(root);
                root
            }
        };
        let index = hash.prefix(root.level);
        let segment = match directory.word(index) {
            Some(segment) => segment,
            None => {
                let mut word = [0; 8];
                memory.read(HashTable::directory_word(&root, hash), &mut word)?;
                let segment = Pointer::from_word(u64::from_le_bytes(word));
                directory.put_word(index, segment);
                segment
            }
        };
        let number = hash.bucket(bucket::width_of(segment));
        let mut bytes = [0; BUCKET_SIZE as usize];
        let read = memory.read(bucket::place(segment, number), &mut bytes);
        let bucket = read.and_then(|()| Bucket::parse(self.tags, segment, number, &bytes));
        let home = bucket.filter(|bucket| bucket.is_home_of(hash));
        if home.is_none() {
            directory.forget(index);
        }
        home
    }

    /// Whether the item behind a word belongs to the key. If so, `value` gets the value of the item.
    fn item_in_call(
        &self,
        (word, key): (Pointer, &[u8]),
        memory: &mut impl MemoryInCall,
        value: &mut Vec<u8>,
    ) -> Option<bool> {
        let items = self.items();
        let mut place = items.first(word);
        let (mut short, mut long) = ([0; ITEM_SIZE], Vec::new());
        loop {
            let size = place.size as usize;
            let bytes = match short.get_mut(..size) {
                Some(bytes) => bytes,
                None => {
                    long.resize(size, 0);
                    &mut long[..]
                }
            };
            memory.read_last(place, bytes)?;
            match items.view(word, bytes) {
                ItemRead::Whole(item) if item.key == key => {
                    value.clear();
                    value.extend_from_slice(item.value);
                    return Some(true);
                }
                ItemRead::Whole(_) => return Some(false),
                ItemRead::Longer(whole) => place = whole,
                ItemRead::Stale(_) => return None,
            }
        }
    }
}
