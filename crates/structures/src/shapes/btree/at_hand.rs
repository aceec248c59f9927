//! An insert into a leaf that its writer knows, in the bytes at hand: without a walk, and without a copy of the node.
//!
//! ```text
//!   root line ─▶ inner nodes, decoded ─▶ leaf with room ─▶ slot, words, tag, length       all known: in the call
//!   anything unknown, full or in a block of its own                                       the walk does it (`change.rs`)
//! ```
//!
//! Both ways leave the same entries, since the back-end may go the other way when it executes the operation again.

use std::rc::Rc;

use smallvec::SmallVec;

use crate::shapes::root::{ROOT_LINE_SIZE, Root};
use crate::shapes::traversal::Answer;
use crate::space::Draft;
use crate::wire::Pointer;

use super::addition::Addition;
use super::aim::Aim;
use super::inner_nodes::{InnerNode, Way};
use super::node::{Node, NodeView, ValueView};
use super::seek::HOPS_MAX;
use super::{BTree, LEVEL_MAX, TreePlace};

impl BTree {
    /// Inserts an encoded key, if everything that the insert needs is known. `None`: nothing was changed.
    pub fn insert_at_hand(
        &self,
        draft: &mut Draft<'_>,
        (key, value): (&[u8], &[u8]),
    ) -> Option<Answer> {
        let (TreePlace::Line(anchor), tags) = (self.place, self.tags) else {
            return None;
        };
        if key.len() > self.geometry.key_size_max() || !self.geometry.takes_inline(value.len()) {
            return None;
        }
        let line = draft.known(anchor.span(ROOT_LINE_SIZE))?;
        let mut root = Root::parse(tags, anchor, LEVEL_MAX, line).ok()?;
        let pointer = self.leaf_at_hand(draft, &root, Aim::At(key))?;
        let bytes = draft.known(Node::place(pointer))?;
        let leaf = NodeView::parse((self.geometry, tags), pointer, 0, bytes).ok()?;
        if !leaf.fences.hold(key) || leaf.slots.is_full() {
            return None;
        }
        let found = leaf.slots.find(tags, key).ok()?;
        let index = match found {
            None => None,
            Some(slot) if matches!(slot.value, ValueView::Inline(_)) => Some(slot.index),
            Some(_) => return None,
        };
        let value = ValueView::Inline(value);
        let addition = Addition::new(&leaf.slots, tags, index, (key, value));
        let mut head: SmallVec<[u8; 256]> = SmallVec::from_slice(leaf.slots.head());
        addition.put_words(&mut head);
        Node::seal_head(tags, pointer, &mut head);

        let offset = pointer.offset();
        let (slot, words) = (addition.slot(), addition.words());
        draft.write(offset + slot.start as u64, addition.slot_bytes());
        draft.write(offset + words.start as u64, &head[words]);
        draft.write(offset, &head[..8]);
        if index.is_none() {
            root.length += 1;
            root.write_length(draft, tags, anchor);
        }
        Some(Answer::Existed(index.is_some()))
    }

    /// The leaf to which the decoded nodes lead.
    fn leaf_at_hand(&self, draft: &mut Draft<'_>, root: &Root, aim: Aim<'_>) -> Option<Pointer> {
        let (mut pointer, mut level) = (root.top, root.level);
        for _ in 0..HOPS_MAX {
            if level == 0 || pointer.is_null() {
                break;
            }
            let span = Node::place(pointer);
            let node = match draft.decoded::<InnerNode>(span) {
                Some(node) => node,
                None => self.decode_at_hand(draft, (pointer, level))?,
            };
            if node.pointer() != pointer {
                return None;
            }
            match node.way(level, aim)? {
                Way::Right(right) => pointer = right,
                Way::Down(child) => (pointer, level) = (child, level - 1),
            }
        }
        (level == 0 && !pointer.is_null()).then_some(pointer)
    }

    /// Decodes an inner node that was changed, or passed for the first time, and keeps it.
    fn decode_at_hand(
        &self,
        draft: &mut Draft<'_>,
        (pointer, level): (Pointer, u32),
    ) -> Option<Rc<InnerNode>> {
        let (span, tags) = (Node::place(pointer), self.tags);
        let bytes = draft.known(span)?;
        let node = NodeView::parse((self.geometry, tags), pointer, level, bytes).ok()?;
        let node = InnerNode::decode(&node, tags).ok()?;
        draft.keep_decoded(span, node);
        draft.decoded(span)
    }
}
