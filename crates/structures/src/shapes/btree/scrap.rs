//! The parts of a tree that has ended.

use crate::shapes::item::item_size;
use crate::shapes::root::Root;
use crate::shapes::scrap::{Part, Scrap};
use crate::shapes::traversal::Stale;

use super::geometry::NODE_SIZE;
use super::node::{NodeView, Slot, SlotView, Value};
use super::{BTree, LEVEL_MAX};

impl BTree {
    /// The parts of the root line.
    pub(in crate::shapes) fn parts_of_line(
        &self,
        scrap: Scrap,
        bytes: &[u8],
    ) -> Result<Vec<Scrap>, Stale> {
        let root = Root::parse(self.tags, scrap.pointer, LEVEL_MAX, bytes)?;
        let part = Part::Node { level: root.level };
        Ok(vec![Scrap::new(root.top, part)])
    }

    /// The parts of a node: nodes of the level below, or values in blocks.
    pub(in crate::shapes) fn parts_of_node(
        &self,
        scrap: Scrap,
        level: u32,
        bytes: &[u8],
    ) -> Result<Vec<Scrap>, Stale> {
        let node = NodeView::parse((self.geometry, self.tags), scrap.pointer, level, bytes)?;
        let slots = node
            .slots
            .all(self.tags)
            .map(|slot| slot.map(SlotView::to_slot));
        let slots: Vec<Slot> = slots.collect::<Result<_, _>>()?;
        let parts = slots.iter().filter_map(|slot| match (level, &slot.value) {
            (0, Value::Inline(_)) => None,
            (0, Value::Block(block, size)) => {
                let size = item_size(0, *size);
                Some(Scrap::new(*block, Part::Block { size }))
            }
            _ => {
                let part = Part::Node { level: level - 1 };
                Some(Scrap::new(slot.child(), part))
            }
        });
        Ok(parts.collect())
    }

    /// Bytes of a node.
    pub(in crate::shapes) const fn node_size() -> u64 {
        NODE_SIZE
    }
}
