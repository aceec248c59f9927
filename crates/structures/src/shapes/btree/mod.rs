//! A B+tree with fences and right links, as B-link trees have.
//!
//! ```text
//!   root line ─▶ inner node ─▶ leaf ─right─▶ leaf ─right─▶ leaf
//!
//!   node  | tag | sizes | right link | low fence | high fence | words | slots |
//!                                                              word: tag of a slot, its number, a fingerprint of the key
//! ```
//!
//! The tag of a node covers everything before its slots, and a word covers its slot: one READ of a node gives a state that the node had at one
//! moment, or is noticed to give none. A slot is written before its word, and the word before the tag, so an insert is three small entries. Slots
//! are in no order.
//!
//! A split writes the right half as a new node, then the left node without it, then the parent. A reader that arrives through an old parent, old
//! inner nodes or an old root line sees by the fences that its key has moved, and follows the right link. So inner nodes are good in a cache for ever, and only the
//! leaf is read each time.
//!
//! Removals leave empty slots. A leaf without keys stays, since a node that moves keys to the left would make readers miss them.

mod change;
mod geometry;
mod node;
mod seek;
mod walk;

use crate::space::{Draft, SpaceFault};
use crate::wire::Pointer;

use super::root::Root;
use super::tag::TagKey;
pub use change::{Change, ChangePlan};
pub use geometry::Geometry;
pub use seek::{Find, Page, PageOf, Seek};
pub use walk::Walk;

use node::Node;

/// Levels above the leaves of the highest tree.
const LEVEL_MAX: u32 = 24;

/// A B+tree of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BTree {
    anchor: Pointer,
    tags: TagKey,
    geometry: Geometry,
}

impl BTree {
    /// The tree whose root line lies behind `anchor`.
    pub fn new(anchor: Pointer, tags: TagKey, geometry: Geometry) -> Self {
        Self {
            anchor,
            tags,
            geometry,
        }
    }

    /// Sizes in the nodes of the tree.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Makes an empty tree. Returns its anchor.
    ///
    /// # Errors
    /// [`SpaceFault`].
    pub fn create(
        draft: &mut Draft<'_>,
        tags: TagKey,
        geometry: Geometry,
    ) -> Result<Pointer, SpaceFault> {
        let top = draft.allocate(geometry::NODE_SIZE)?;
        let leaf = Node::new(geometry, top, 0, (Vec::new(), None), Pointer::NULL);
        leaf.write_whole(draft, tags);
        let root = Root {
            top,
            level: 0,
            length: 0,
        };
        root.create(draft, tags)
    }
}
