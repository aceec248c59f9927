//! The parts of a binary search tree that has ended.

use crate::shapes::item::item_size;
use crate::shapes::root::Root;
use crate::shapes::scrap::{Part, Scrap};
use crate::shapes::traversal::Stale;
use crate::wire::Pointer;

use super::node::Node;
use super::seek::LEVEL_MAX;
use super::{BinaryTree, Sizes};

impl Sizes {
    /// The node that a pointer names, as a part of an ended tree.
    pub(in crate::shapes) fn part(self, pointer: Pointer) -> Option<Scrap> {
        let size = self.node_size();
        (!pointer.is_null()).then(|| Scrap::new(pointer, Part::BinaryNode { size }))
    }
}

impl BinaryTree {
    /// The parts of the root line.
    pub(in crate::shapes) fn parts_of_line(
        &self,
        scrap: Scrap,
        bytes: &[u8],
    ) -> Result<Vec<Scrap>, Stale> {
        let root = Root::parse(self.tags, scrap.pointer, LEVEL_MAX, bytes)?;
        Ok(self.sizes.part(root.top).into_iter().collect())
    }

    /// The parts of a node: its children and its value.
    pub(in crate::shapes) fn parts_of_node(
        &self,
        scrap: Scrap,
        bytes: &[u8],
    ) -> Result<Vec<Scrap>, Stale> {
        let node = Node::parse((self.sizes, self.tags), scrap.pointer, bytes)?;
        let (item, value_size) = node.item;
        let size = item_size(0, value_size);
        let item = Scrap::new(item, Part::Block { size });
        let children = [node.left, node.right].map(|child| self.sizes.part(child));
        let parts = children.into_iter().flatten().chain([item]);
        Ok(parts.collect())
    }
}
