//! A B+tree with fences and right links, as B-link trees have.
//!
//! ```text
//!   root line ─▶ inner node ─▶ leaf ─right─▶ leaf ─right─▶ leaf
//!
//!   node  | tag | sizes | right link | low fence | high fence | words | slots |
//!                                                              word: tag of a slot, its number, a fingerprint of the key
//! ```
//!
//! The tag of a node covers everything before its slots, and a word covers its slot. A reader therefore notices whether
//! one READ of a node returned a state that the node had at one moment. A slot is written before its word, and the
//! words before the tag, so an insert is three small entries. Words are in the order of their keys, and slots in no
//! order: a look-up halves the words of an inner node, and an insert moves words and no slot.
//!
//! On the way down, a reader checks the head of each node and the slot of each child. It does not check the separators
//! that lead there: the fences of the next node reveal a wrong way.
//!
//! A split writes the right half as a new node, then the left node without that half, then the parent. A reader that
//! arrives through an old parent, old inner nodes or an old root line sees by the fences that its key has moved, and
//! follows the right link. Inner nodes can therefore stay in a cache forever, and only the leaf is read each time.
//!
//! The multi-version tree has the same nodes without right links, and never changes a node that a reader may have: a
//! change copies the path from the leaf to the root, and the root stands in the table of structures. Within one
//! transaction a node is copied once.
//!
//! Removals leave empty slots. A leaf without keys stays, since a node that moves keys to the left would make readers
//! miss them.

mod addition;
mod aim;
mod at_hand;
mod change;
mod geometry;
mod in_call;
mod inner_nodes;
mod load;
mod mv;
mod node;
mod scrap;
mod seek;
mod walk;

use crate::space::{Draft, SpaceFault};
use crate::wire::Pointer;

use super::length::Length;
use super::root::{ROOT_LINE_SIZE, Root};
use super::tag::TagKey;
pub use change::{Change, ChangePlan};
pub use geometry::Geometry;
pub use inner_nodes::{InnerNode, InnerNodes};
pub use load::{Load, LoadPlan};
pub use mv::{MvBTree, MvChange, MvChangePlan};
pub use seek::{Find, Page, PageOf, Seek};
pub use walk::Walk;

use node::Node;

/// Levels above the leaves of the highest tree.
const LEVEL_MAX: u32 = 24;

/// A B+tree of a domain, or one version of a multi-version tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BTree {
    place: TreePlace,
    tags: TagKey,
    geometry: Geometry,
}

/// The start of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TreePlace {
    /// At the root line behind this anchor, which changes.
    Line(Pointer),
    /// At this root, whose nodes never change. No node of the version is younger than the number, which is that of a
    /// record.
    Version(Root, u64),
}

impl TreePlace {
    /// The root line; a version has none.
    fn line(&self) -> Option<(Pointer, u64)> {
        match self {
            Self::Line(anchor) => Some((*anchor, ROOT_LINE_SIZE)),
            Self::Version(..) => None,
        }
    }
}

impl BTree {
    /// The tree whose root line lies behind `anchor`.
    pub fn new(anchor: Pointer, tags: TagKey, geometry: Geometry) -> Self {
        Self {
            place: TreePlace::Line(anchor),
            tags,
            geometry,
        }
    }

    /// Reads the number of keys.
    pub fn length(&self) -> Length {
        match &self.place {
            TreePlace::Line(anchor) => Length::of_root(*anchor, self.tags),
            TreePlace::Version(root, _) => Length::of_version(root),
        }
    }

    /// Sizes in the nodes of the tree.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Whether nodes of the tree change.
    fn is_version(&self) -> bool {
        matches!(self.place, TreePlace::Version(..))
    }

    /// The anchor of a tree that changes.
    fn anchor(&self) -> Pointer {
        self.place
            .line()
            .map_or(Pointer::NULL, |(anchor, _)| anchor)
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
        new_root(draft, tags, geometry)?.create(draft, tags)
    }
}

/// Makes an empty leaf, which is the root of an empty tree.
fn new_root(draft: &mut Draft<'_>, tags: TagKey, geometry: Geometry) -> Result<Root, SpaceFault> {
    let top = draft.allocate(geometry::NODE_SIZE)?;
    let mut leaf = Node::new(geometry, top, 0, (Vec::new(), None), Pointer::NULL);
    leaf.birth = draft.lsn();
    leaf.write_whole(draft, tags);
    Ok(Root {
        top,
        level: 0,
        length: 0,
    })
}
