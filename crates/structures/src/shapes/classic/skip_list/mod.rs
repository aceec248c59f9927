//! *Skip list*: towers of links in the order of their keys.
//!
//! ```text
//!   root line ─▶ head ─3────────────────────▶ tower ─▶        tower | tag | sizes | item | links, one for each level | key |
//!                     ─2────────▶ tower ────▶ tower ─▶        item: the value
//!                     ─1────────▶ tower ────▶ tower ─▶
//!                     ─0▶ tower ▶ tower ▶ ... tower ─▶
//! ```
//!
//! The height of a tower is a hash of its key, as the shape of a binary search tree is: a hostile program cannot choose
//! it, and the back-end makes the same tower as the writer when it executes an operation again. A quarter of the towers
//! of one level reach the next one.
//!
//! A key is in the list while level 0 links its tower. An insert links the tower at level 0 first and then upwards; a
//! removal unlinks it from the top down. So a tower that a higher level links is in the list, and a reader that checks
//! each tower by itself is linearizable:
//!
//! - A tower that a reader has found is in the list, or left it while the reader was on its way and links everything
//!   that followed it at that moment.
//! - Keys grow along the way. The absence of a key rests on one link of level 0, which was read at one moment.
//!
//! Links are stored in the order in which they change, also those of a tower that the open transaction has made
//! ([`Draft::write_in_order`]): a reader may have reached that tower by the first link to it.

mod change;
mod node;
mod scrap;
mod seek;
mod walk;

use super::Sizes;
use super::value::{FindValue, OnePage};
use crate::shapes::btree::Seek;
use crate::shapes::item::ItemReader;
use crate::shapes::length::Length;
use crate::shapes::root::{ROOT_LINE_SIZE, Root};
use crate::shapes::tag::TagKey;
use crate::shapes::traversal::Place;
use crate::space::{Draft, SpaceFault};
use crate::wire::Pointer;

pub use change::{ListChange, ListChangePlan};
use node::{LEVELS, Tower, tower_size};
pub use seek::{ItemOfKey, Neighbour};
pub use walk::ListWalk;

/// The level in the root line, which has no meaning in a list.
const LEVEL_MAX: u32 = 0;

/// A skip list of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkipList {
    anchor: Pointer,
    tags: TagKey,
    sizes: Sizes,
}

impl SkipList {
    /// The list whose root line lies behind `anchor`.
    pub fn new(anchor: Pointer, tags: TagKey, sizes: Sizes) -> Self {
        Self {
            anchor,
            tags,
            sizes,
        }
    }

    /// Sizes in the list.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Reads the number of keys.
    pub fn length(&self) -> Length {
        Length::of_root(self.anchor, self.tags)
    }

    /// Makes an empty list: a root line and a head. Returns its anchor.
    ///
    /// # Errors
    /// [`SpaceFault`].
    pub fn create(
        draft: &mut Draft<'_>,
        tags: TagKey,
        sizes: Sizes,
    ) -> Result<Pointer, SpaceFault> {
        let head = Tower::head(draft.allocate(tower_size(sizes))?);
        head.write_whole(draft, (sizes, tags));
        let root = Root {
            top: head.pointer,
            ..Root::default()
        };
        root.create(draft, tags)
    }

    /// Looks an encoded key up.
    pub fn find(&self, key: &[u8]) -> FindValue<ItemOfKey> {
        FindValue::new(ItemOfKey::new(*self, key), self.values())
    }

    /// Reads the next key of a range. The page has one key, or none at the end.
    pub fn page(&self, seek: Seek) -> OnePage<Neighbour> {
        OnePage::new(Neighbour::new(*self, &seek), self.values(), seek)
    }

    /// The root line. Its link to the head never changes, and a reader needs no other part of the line.
    fn line(&self) -> Place {
        Place::inner(self.anchor.span(ROOT_LINE_SIZE))
    }

    fn values(&self) -> ItemReader {
        self.sizes.values(self.tags)
    }

    /// Levels of the tower of a key.
    fn height(&self, key: &[u8]) -> usize {
        let quarters = self.tags.hash_of(key).trailing_zeros() as usize / 2;
        quarters.min(LEVELS - 1) + 1
    }
}
