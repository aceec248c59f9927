//! Structures that published systems measure, for comparison with the structures that a program should use.
//!
//! *Binary search tree*: a treap. Its shape follows from its keys alone, since a node's priority is a hash of its key.
//!
//! ```text
//!   root line ─▶ node ─▶ node ─▶ item          node | tag | sizes, birth | left | right | item | key |
//!                  └────▶ node ─▶ item         item: the value
//! ```
//!
//! A change writes fresh copies of the nodes that it rotates, and then stores *one* pointer, in a node that stays or in
//! the root line. Nodes change in nothing but their links, so a node that a reader has found holds what it held when
//! the node left the tree.
//!
//! - A node that stays has the same keys below it, but for the key of the operation. A reader on it misses no other
//!   key.
//! - A node that left the tree did so while the reader was on its way, and led to everything that the tree held at that
//!   moment.
//!
//! So a look-up that checks each node by itself is linearizable, although nodes have no fences. A node below a cached
//! node proves nothing, so a reader reads the whole way each time.
//!
//! The multi-version tree has the same nodes. A change copies the rest of the way up, too, and the root stands in the
//! table of structures. Nodes of the open transaction change in place.
//!
//! A [`SkipList`] is in a folder of its own.

mod change;
mod node;
mod scrap;
mod seek;
mod skip_list;
mod value;
mod walk;

use crate::space::{Draft, SpaceFault};
use crate::wire::Pointer;

use super::item::{ITEM_HEADER_SIZE, ItemReader, KEY_SIZE_MAX};
use super::length::Length;
use super::root::{ROOT_LINE_SIZE, Root};
use super::tag::TagKey;
pub use change::{Change, ChangePlan};
pub use seek::{ItemOfKey, Nearest};
pub use skip_list::{
    ItemOfKey as ItemOfListKey, ListChange, ListChangePlan, ListWalk, Neighbour, SkipList,
};
pub use value::{FindValue, OnePage};
pub use walk::Walk;

/// Bytes that are read of a value at first, at most.
const VALUE_HINT_MAX: usize = 4096;

/// Sizes in a tree or list. They follow from the longest key and the typical value, and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    key_size_max: usize,
    /// Bytes that are read of a value at first.
    value_hint: usize,
}

impl Sizes {
    /// A structure whose encoded keys have at most `key_size_max` bytes, and whose values typically have `value_size`.
    ///
    /// # Panics
    /// Panics if keys are longer than 256 bytes.
    pub fn new(key_size_max: usize, value_size: usize) -> Self {
        assert!((1..=KEY_SIZE_MAX).contains(&key_size_max));
        Self {
            key_size_max: key_size_max.next_multiple_of(8),
            value_hint: value_size.min(VALUE_HINT_MAX) + ITEM_HEADER_SIZE,
        }
    }

    /// Bytes of the longest encoded key.
    pub fn key_size_max(&self) -> usize {
        self.key_size_max
    }

    /// The reading of values.
    fn values(&self, tags: TagKey) -> ItemReader {
        let hint = self.value_hint;
        ItemReader { tags, hint }
    }
}

/// The start of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TreePlace {
    /// At the root line behind this anchor, which changes.
    Line(Pointer),
    /// At this root. No node of the version is younger than the number, which is that of a record.
    Version(Root, u64),
}

/// A binary search tree, or one version of a multi-version one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinaryTree {
    place: TreePlace,
    tags: TagKey,
    sizes: Sizes,
}

impl BinaryTree {
    /// The tree whose root line lies behind `anchor`.
    pub fn new(anchor: Pointer, tags: TagKey, sizes: Sizes) -> Self {
        let place = TreePlace::Line(anchor);
        Self { place, tags, sizes }
    }

    /// The version with this root, none of whose nodes is younger than the record `youngest`. The root of an empty tree
    /// names no node.
    pub(crate) fn version(root: Root, youngest: u64, tags: TagKey, sizes: Sizes) -> Self {
        let place = TreePlace::Version(root, youngest);
        Self { place, tags, sizes }
    }

    /// Reads the number of keys.
    pub fn length(&self) -> Length {
        match &self.place {
            TreePlace::Line(anchor) => Length::of_root(*anchor, self.tags),
            TreePlace::Version(root, _) => Length::of_version(root),
        }
    }

    /// Sizes in the tree.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn is_version(&self) -> bool {
        matches!(self.place, TreePlace::Version(..))
    }

    /// The root line; a version has none.
    fn line(&self) -> Option<(Pointer, u64)> {
        match self.place {
            TreePlace::Line(anchor) => Some((anchor, ROOT_LINE_SIZE)),
            TreePlace::Version(..) => None,
        }
    }

    fn values(&self) -> ItemReader {
        self.sizes.values(self.tags)
    }

    /// The priority of a key: a parent has a higher one than its children.
    fn priority<'a>(&self, key: &'a [u8]) -> (u64, &'a [u8]) {
        (self.tags.hash_of(key), key)
    }

    /// Makes an empty tree. Returns its anchor.
    ///
    /// # Errors
    /// [`SpaceFault`].
    pub fn create(draft: &mut Draft<'_>, tags: TagKey) -> Result<Pointer, SpaceFault> {
        Root::default().create(draft, tags)
    }
}
