//! Changes of a tree.

use smallvec::SmallVec;

use crate::shapes::item::{ItemRead, item_bytes, item_size};
use crate::shapes::key_change::{Effect, KeyChange};
use crate::shapes::root::Root;
use crate::shapes::traversal::{Answer, Place, Stale, Step, Traversal};
use crate::space::{Draft, SpaceFault};
use crate::wire::{Pointer, Verb};

use super::BTree;
use super::geometry::NODE_SIZE;
use super::inner_nodes::InnerNode;
use super::node::{Node, Slot, SlotView, Value};
use super::seek::{Path, Seek, WayDown};

/// The walk before a change of one key.
#[derive(Clone, Debug)]
pub struct Change {
    way: WayDown,
    /// `None` once it was passed on.
    change: Option<KeyChange>,
    /// A plan whose value in a block is being read, and the block.
    compared: Option<(ChangePlan, Pointer)>,
}

/// Everything that a change needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePlan {
    tree: BTree,
    /// `None` once it was passed on.
    change: Option<KeyChange>,
    path: Path,
    slot: Option<Slot>,
    /// The value of the key, if it lies in a block and the change depends on it.
    current: Vec<u8>,
    /// Full nodes at the end of the path, whose slots were checked: from the leaf up, as far as nodes are full.
    full: usize,
}

impl BTree {
    /// Changes an encoded key. `verb` is a verb for keys.
    ///
    /// # Panics
    /// Panics if the key or value is longer than the tree permits.
    pub fn change(&self, verb: Verb, key: &[u8], value: &[u8]) -> Change {
        assert!(key.len() <= self.geometry.key_size_max());
        Change {
            way: WayDown::new(*self, Seek::At(key.to_vec())),
            change: Some(KeyChange::new(verb, key, value)),
            compared: None,
        }
    }

    /// The value as a slot holds it. A long value gets a block.
    pub(super) fn value_of(
        &self,
        draft: &mut Draft<'_>,
        leaf: &Node,
        value: &[u8],
    ) -> Result<Value, SpaceFault> {
        if leaf.takes_inline(value.len()) {
            return Ok(Value::Inline(value.to_vec()));
        }
        let block = draft.allocate(item_size(0, value.len()))?;
        let bytes = item_bytes(self.tags, block, &[], value);
        draft.write(block.offset(), &bytes);
        Ok(Value::Block(block, value.len()))
    }
}

impl Change {
    fn planned(&mut self, path: Path) -> Result<ChangePlan, Stale> {
        let tree = self.way.tree();
        let change = self.change.take();
        let key = change.as_ref().map(|change| &*change.key);
        let slot = path
            .leaf()
            .find(tree.tags, key.expect("a walk ends once"))?;
        let mut full = 0;
        for node in path.nodes.iter().rev().take_while(|node| node.is_full()) {
            let mut slots = node.view().all(tree.tags);
            slots.try_for_each(|slot| slot.map(drop))?;
            full += 1;
        }
        Ok(ChangePlan {
            tree,
            change,
            path,
            slot,
            current: Vec::new(),
            full,
        })
    }

    /// Takes the next step over the node that was asked for, in its decoded form. `None`: the step needs the bytes.
    pub(in crate::shapes) fn step_over(&mut self, node: &InnerNode) -> Option<Step<ChangePlan>> {
        let step = self.way.step_over(node)?;
        Some(self.after(step))
    }

    /// The inner node of the last step in its decoded form, if the way may lead over it again.
    pub(in crate::shapes) fn take_decoded(&mut self) -> Option<InnerNode> {
        self.way.take_decoded()
    }

    fn after(&mut self, step: Step<Path>) -> Step<ChangePlan> {
        match step {
            Step::Read(places) => Step::Read(places),
            Step::Stale(stale) => Step::Stale(stale),
            Step::Done(path) => self.compared(path).unwrap_or_else(Step::Stale),
        }
    }

    /// Reads the value of the key if the change depends on it.
    fn compared(&mut self, path: Path) -> Result<Step<ChangePlan>, Stale> {
        let plan = self.planned(path)?;
        if let Some(Slot {
            value: Value::Block(block, _),
            ..
        }) = plan.slot
            && plan.change.as_ref().is_some_and(KeyChange::compares)
        {
            let place = Place::last(plan.tree.values().first(block));
            self.compared = Some((plan, block));
            return Ok(Step::one(place));
        }
        Ok(Step::Done(plan))
    }
}

impl Traversal for Change {
    type End = ChangePlan;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<ChangePlan> {
        if let Some((mut plan, block)) = self.compared.take() {
            return match plan.tree.values().judge(block, &bytes[0]) {
                ItemRead::Stale(stale) => Step::Stale(stale),
                ItemRead::Longer(place) => {
                    self.compared = Some((plan, block));
                    Step::one(Place::last(place))
                }
                ItemRead::Whole(item) => {
                    plan.current = item.value;
                    Step::Done(plan)
                }
            };
        }
        let step = self.way.step(bytes);
        self.after(step)
    }
}

impl ChangePlan {
    /// Writes the change. The entries are in such an order that a reader never finds a node before it is written, and
    /// never misses a key.
    ///
    /// # Errors
    /// [`SpaceFault`]: the draft has to be dropped.
    pub fn apply(mut self, draft: &mut Draft<'_>) -> Result<Answer, SpaceFault> {
        let (tags, anchor) = (self.tree.tags, self.tree.anchor());
        let change = self.change.take().expect("a plan is applied once");
        let slot = self.slot.take();
        let block = std::mem::take(&mut self.current);
        let current = slot.as_ref().map(|slot| match &slot.value {
            Value::Inline(value) => &**value,
            Value::Block(..) => &*block,
        });
        let (answer, effect) = change.outcome(current);
        match (effect, slot) {
            (Effect::Nothing, _) | (Effect::Remove, None) => {}
            (Effect::Remove, Some(slot)) => {
                let mut leaf = self.path.nodes.pop().expect("a tree has a leaf");
                let words = leaf.take(slot.index);
                leaf.write_words(draft, tags, words);
                free_value(draft, &slot)?;
                let mut root = self.path.root;
                root.length = root.length.saturating_sub(1);
                root.write_length(draft, tags, anchor);
            }
            (Effect::Put(value), Some(slot)) => {
                let value = self.tree.value_of(draft, self.path.leaf(), value)?;
                let leaf = self.path.nodes.last_mut().expect("a tree has a leaf");
                let placed = leaf.put(tags, Some(slot.index), &change.key, &value);
                leaf.write_placed(draft, tags, &placed);
                free_value(draft, &slot)?;
            }
            (Effect::Put(value), None) => {
                let value = self.tree.value_of(draft, self.path.leaf(), value)?;
                self.add(draft, change.key.clone(), value)?;
            }
        }
        Ok(answer)
    }

    /// Adds a key to the leaf, and splits full nodes, from the leaf up.
    fn add(&mut self, draft: &mut Draft<'_>, key: Vec<u8>, value: Value) -> Result<(), SpaceFault> {
        let (tags, anchor) = (self.tree.tags, self.tree.anchor());
        let mut root = self.path.root;
        root.length += 1;
        let (mut key, mut value) = (key, value);
        while let Some(mut node) = self.path.nodes.pop() {
            if self.full == 0 {
                let placed = node.put(tags, None, &key, &value);
                node.write_placed(draft, tags, &placed);
                root.write_length(draft, tags, anchor);
                return Ok(());
            }
            self.full -= 1;
            let right = self.split(draft, &mut node, (&key, &value))?;
            let left = (node.low.clone(), node.pointer);
            (key, value) = (right.low.clone(), Value::Inline(word_of(right.pointer)));
            if self.path.nodes.is_empty() {
                self.grow(draft, &mut root, left, (&key, &value))?;
                return Ok(());
            }
        }
        unreachable!("the topmost node has room or is split")
    }

    /// Moves the upper half of a full node to a new node, with another key. The new node is written first: a reader
    /// that finds the old node without these keys follows its link.
    fn split(
        &self,
        draft: &mut Draft<'_>,
        node: &mut Node,
        (key, value): (&[u8], &Value),
    ) -> Result<Node, SpaceFault> {
        let BTree { tags, geometry, .. } = self.tree;
        let slots: SmallVec<[SlotView<'_>; 64]> = node.view().checked().collect();
        let is_last = node.high.is_none() && slots.last().is_some_and(|slot| *slot.key < *key);
        // Keys that arrive in order leave full nodes behind.
        let middle = match is_last {
            true => slots.len(),
            false => slots.len() / 2,
        };
        let moved = &slots[middle..];
        let separator = moved.first().map_or(key, |slot| slot.key).to_vec();
        let pointer = draft.allocate(NODE_SIZE)?;
        let fences = (separator.clone(), node.high.clone());
        let mut right = Node::new(geometry, pointer, node.level, fences, node.right);
        for slot in moved {
            right.put_view(tags, None, (slot.key, slot.value));
        }
        drop(slots);
        node.truncate(middle);
        node.high = Some(separator.clone());
        node.right = pointer;
        match *key >= *separator {
            true => {
                right.put(tags, None, key, value);
                right.write_whole(draft, tags);
                node.write_head(draft, tags);
            }
            false => {
                right.write_whole(draft, tags);
                node.write_head(draft, tags);
                let placed = node.put(tags, None, key, value);
                node.write_placed(draft, tags, &placed);
            }
        }
        Ok(right)
    }

    /// Puts a new node above the topmost node, which was split.
    fn grow(
        &self,
        draft: &mut Draft<'_>,
        root: &mut Root,
        (low, left): (Vec<u8>, Pointer),
        (key, value): (&[u8], &Value),
    ) -> Result<(), SpaceFault> {
        let BTree { tags, geometry, .. } = self.tree;
        let anchor = self.tree.anchor();
        root.level += 1;
        root.top = draft.allocate(NODE_SIZE)?;
        let fences = (low.clone(), None);
        let mut top = Node::new(geometry, root.top, root.level, fences, Pointer::NULL);
        top.put(tags, None, &low, &Value::Inline(word_of(left)));
        top.put(tags, None, key, value);
        top.write_whole(draft, tags);
        root.write(draft, tags, anchor);
        Ok(())
    }
}

pub(super) fn word_of(pointer: Pointer) -> Vec<u8> {
    pointer.word().to_le_bytes().to_vec()
}

/// Frees the block of a value that is no longer reachable.
fn free_value(draft: &mut Draft<'_>, slot: &Slot) -> Result<(), SpaceFault> {
    match slot.value {
        Value::Inline(_) => Ok(()),
        Value::Block(block, size) => draft.free(block, item_size(0, size)),
    }
}
