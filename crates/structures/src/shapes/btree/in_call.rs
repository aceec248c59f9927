//! Reads of a tree whose memory is read in the call: straight-line code for the ordinary case.
//!
//! ```text
//!   inner nodes   remembered, decoded ──▶ pointer to the leaf
//!   value         head of the leaf ──▶ slot of the key, and after it the looks that make the answer count
//!   page          the leaf, and after it the same looks
//!   anything else no answer: the traversals `Find` and `PageOf` read the tree anew
//! ```
//!
//! A leaf of 2 KiB spans 32 lines, of which a look-up needs about five: the head names the slot, and the slot has a tag
//! of its own. A READ in the call costs less than these lines. Over a network it costs a round trip, so the traversals
//! read whole leaves.
//!
//! Both ways check the same: heads, slots, fences.

use stonecast_base::Span;

use crate::shapes::MemoryInCall;
use crate::shapes::item::ItemRead;
use crate::shapes::root::{ROOT_LINE_SIZE, Root};
use crate::wire::Pointer;

use super::aim::Aim;
use super::geometry::NODE_SIZE;
use super::inner_nodes::{InnerNode, InnerNodes, Way};
use super::node::{Node, NodeView, Slots, ValueView};
use super::seek::{HOPS_MAX, Page, Seek};
use super::{BTree, LEVEL_MAX, TreePlace};

impl BTree {
    /// Looks an encoded key up, and leaves its value in `value`; `Some(false)`: the key has none. `None`:
    /// [`BTree::find`] has to answer.
    pub fn find_in_call(
        &self,
        key: &[u8],
        nodes: &mut InnerNodes,
        memory: &mut impl MemoryInCall,
        value: &mut Vec<u8>,
    ) -> Option<bool> {
        let head_size = self.geometry.of_level(0).head_size();
        let mut bytes = [0; NODE_SIZE as usize];
        let leaf = self.leaf_in_call(Aim::At(key), nodes, memory, &mut bytes[..head_size])?;
        let mut from = 0;
        loop {
            let slots = Slots::of_leaf(self.geometry, leaf, &bytes);
            let Some((index, slot)) = slots.candidate(from, key) else {
                memory.look()?;
                return Some(false);
            };
            let place = Span::new(leaf.offset() + slot.start as u64, slot.len() as u64);
            memory.read_last(place, bytes.get_mut(slot)?)?;
            let slots = Slots::of_leaf(self.geometry, leaf, &bytes);
            let slot = slots.slot(self.tags, index).ok()?;
            if slot.key == key {
                return self.take_value(slot.value, memory, value);
            }
            from = index + 1;
        }
    }

    fn take_value(
        &self,
        found: ValueView<'_>,
        memory: &mut impl MemoryInCall,
        value: &mut Vec<u8>,
    ) -> Option<bool> {
        match found {
            ValueView::Inline(bytes) => {
                value.clear();
                value.extend_from_slice(bytes);
            }
            ValueView::Block(block, _) => {
                let place = self.values().first(block);
                let mut bytes = vec![0; place.size as usize];
                memory.read_last(place, &mut bytes)?;
                let ItemRead::Whole(item) = self.values().judge(block, &bytes) else {
                    return None;
                };
                *value = item.value;
            }
        }
        Some(true)
    }

    /// The leaf of `seek` as it was at one moment, in the memory of another page; `None`: [`BTree::page`] has to
    /// answer.
    pub fn page_in_call(
        &self,
        seek: &Seek,
        nodes: &mut InnerNodes,
        memory: &mut impl MemoryInCall,
        spare: Page,
    ) -> Option<Page> {
        let mut bytes = [0; NODE_SIZE as usize];
        let leaf = self.leaf_in_call(seek.aim(), nodes, memory, &mut bytes)?;
        let leaf = NodeView::parse((self.geometry, self.tags), leaf, 0, &bytes).ok()?;
        let mut blocks = Vec::new();
        let page = Page::of_leaf(&leaf, self.tags, &mut blocks, spare).ok()?;
        memory.look()?;
        blocks.is_empty().then_some(page)
    }

    /// Finds the leaf of `aim`, and reads its first bytes. Returns the pointer to the leaf.
    fn leaf_in_call(
        &self,
        aim: Aim<'_>,
        nodes: &mut InnerNodes,
        memory: &mut impl MemoryInCall,
        bytes: &mut [u8],
    ) -> Option<Pointer> {
        let (mut leaf, parent) = self.way_in_call(aim, nodes, memory)?;
        for hops in 0..HOPS_MAX {
            memory.read(Span::new(leaf.offset(), bytes.len() as u64), bytes)?;
            let node = NodeView::parse_head((self.geometry, self.tags), leaf, 0, bytes).ok()?;
            self.is_of_version(node.birth)?;
            if !aim.is_right_of(&node.fences) {
                return aim.is_at(&node.fences).then_some(leaf);
            }
            // The children of the parent have changed since it led here.
            if hops == 0 {
                nodes.forget_above(parent);
            }
            leaf = node.right;
        }
        None
    }

    /// The way to the leaf of `aim` over inner nodes that may be old. Returns the pointer to the leaf, and the pointer
    /// to its parent, if any.
    fn way_in_call(
        &self,
        aim: Aim<'_>,
        nodes: &mut InnerNodes,
        memory: &mut impl MemoryInCall,
    ) -> Option<(Pointer, Pointer)> {
        let root = self.root_in_call(nodes, memory)?;
        let (mut pointer, mut level, mut parent) = (root.top, root.level, Pointer::NULL);
        for _ in 0..HOPS_MAX {
            if level == 0 {
                return Some((pointer, parent));
            }
            let way = match nodes.get(pointer) {
                Some(node) => {
                    self.is_of_version(node.birth())?;
                    node.way(level, aim)?
                }
                None => self.read_inner(pointer, level, aim, nodes, memory)?,
            };
            match way {
                Way::Right(right) => {
                    if level == root.level {
                        nodes.root = None;
                    }
                    pointer = right;
                }
                Way::Down(child) => (pointer, level, parent) = (child, level - 1, pointer),
            }
        }
        None
    }

    fn root_in_call(&self, nodes: &mut InnerNodes, memory: &mut impl MemoryInCall) -> Option<Root> {
        let anchor = match self.place {
            TreePlace::Version(root, _) => return Some(root),
            TreePlace::Line(anchor) => anchor,
        };
        if let Some(root) = nodes.root {
            return Some(root);
        }
        let mut line = [0; ROOT_LINE_SIZE as usize];
        memory.read(anchor.span(ROOT_LINE_SIZE), &mut line)?;
        let root = Root::parse(self.tags, anchor, LEVEL_MAX, &line).ok()?;
        if nodes.remembers() {
            nodes.root = Some(root);
        }
        Some(root)
    }

    fn read_inner(
        &self,
        pointer: Pointer,
        level: u32,
        aim: Aim<'_>,
        nodes: &mut InnerNodes,
        memory: &mut impl MemoryInCall,
    ) -> Option<Way> {
        let mut bytes = [0; NODE_SIZE as usize];
        memory.read(Node::place(pointer), &mut bytes)?;
        let node = NodeView::parse((self.geometry, self.tags), pointer, level, &bytes).ok()?;
        self.is_of_version(node.birth)?;
        if nodes.remembers() {
            let node = InnerNode::decode(&node, self.tags).ok()?;
            let way = node.way(level, aim);
            nodes.put(pointer, node);
            return way;
        }
        if aim.is_right_of(&node.fences) {
            return Some(Way::Right(node.right));
        }
        let may_begin_at = |separator: &[u8]| aim.may_begin_at(separator);
        let child = node.slots.child(self.tags, may_begin_at).ok()?;
        aim.is_at(&node.fences).then_some(Way::Down(child))
    }

    /// `None`: the node is younger than the version.
    fn is_of_version(&self, birth: u64) -> Option<()> {
        match self.place {
            TreePlace::Line(_) => Some(()),
            TreePlace::Version(_, youngest) => (birth <= youngest).then_some(()),
        }
    }
}
