//! A multi-version B+tree: changes copy the path from the leaf to the root.

use crate::shapes::item::{ItemRead, item_size};
use crate::shapes::key_change::{Effect, KeyChange};
use crate::shapes::root::Root;
use crate::shapes::tag::TagKey;
use crate::shapes::traversal::{Answer, Place, Stale, Step, Traversal};
use crate::space::{Draft, SpaceFault};
use crate::wire::{Pointer, Verb};

use super::change::word_of;
use super::geometry::{Geometry, NODE_SIZE};
use super::node::{BIRTH_BITS, Node, Slot, Value};
use super::seek::{Path, Seek, WayDown};
use super::{BTree, TreePlace, new_root};

/// One version of a multi-version B+tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MvBTree {
    root: Root,
    tree: BTree,
}

/// The walk before a change of one key.
#[derive(Clone, Debug)]
pub struct MvChange {
    way: WayDown,
    change: KeyChange,
    /// The way to the key, and the block of the key's value that is being read.
    compared: Option<(Path, Slot, Pointer)>,
}

/// Everything that a change needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MvChangePlan {
    tree: BTree,
    change: KeyChange,
    path: Path,
    slot: Option<Slot>,
    /// The value of the key, if it lies in a block and the change depends on it.
    current: Vec<u8>,
    /// The slots of each node of the path.
    slots: Vec<Vec<Slot>>,
}

/// The change of a child that its parent has to record.
enum Up {
    /// The node has kept its place.
    Same,
    Moved(Pointer),
    /// The node lies here, and its keys from this key on lie in a new node.
    Split(Pointer, Vec<u8>, Pointer),
}

impl MvBTree {
    /// The version with this root, none of whose nodes is younger than the record `youngest`.
    pub(crate) fn new(root: Root, youngest: u64, tags: TagKey, geometry: Geometry) -> Self {
        let tree = BTree {
            place: TreePlace::Version(root, youngest),
            tags,
            geometry,
        };
        Self { root, tree }
    }

    /// Makes an empty tree. Returns its root.
    pub(crate) fn create(
        draft: &mut Draft<'_>,
        tags: TagKey,
        geometry: Geometry,
    ) -> Result<Root, SpaceFault> {
        new_root(draft, tags, geometry)
    }

    /// The version as a tree to read: it never changes.
    pub fn tree(&self) -> &BTree {
        &self.tree
    }

    /// The number of keys.
    pub fn length(&self) -> u64 {
        self.root.length
    }

    /// Changes an encoded key. `verb` is one of those for keys.
    ///
    /// # Panics
    /// Panics if the key or value is longer than the tree permits.
    pub fn change(&self, verb: Verb, key: &[u8], value: &[u8]) -> MvChange {
        assert!(key.len() <= self.tree.geometry.key_size_max());
        MvChange {
            way: WayDown::new(self.tree, Seek::At(key.to_vec())),
            change: KeyChange::new(verb, key, value),
            compared: None,
        }
    }
}

impl MvChange {
    fn planned(
        &self,
        path: Path,
        slot: Option<Slot>,
        current: Vec<u8>,
    ) -> Result<MvChangePlan, Stale> {
        let tree = self.way.tree();
        let slots = path.nodes.iter().map(|node| node.slots(tree.tags));
        Ok(MvChangePlan {
            tree,
            change: self.change.clone(),
            slots: slots.collect::<Result<_, _>>()?,
            path,
            slot,
            current,
        })
    }

    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<MvChangePlan>, Stale> {
        let tree = self.way.tree();
        if let Some((path, slot, block)) = self.compared.take() {
            return match tree.values().judge(block, &bytes[0]) {
                ItemRead::Stale(stale) => Err(stale),
                ItemRead::Longer(place) => {
                    self.compared = Some((path, slot, block));
                    Ok(Step::one(Place::last(place)))
                }
                ItemRead::Whole(item) => self.planned(path, Some(slot), item.value).map(Step::Done),
            };
        }
        let path = match self.way.step(bytes) {
            Step::Read(places) => return Ok(Step::Read(places)),
            Step::Stale(stale) => return Err(stale),
            Step::Done(path) => path,
        };
        let slot = path.leaf().find(tree.tags, &self.change.key)?;
        match slot {
            Some(slot) if self.change.compares() => match slot.value {
                Value::Inline(ref value) => {
                    let value = value.clone();
                    self.planned(path, Some(slot), value).map(Step::Done)
                }
                Value::Block(block, _) => {
                    let place = Place::last(tree.values().first(block));
                    self.compared = Some((path, slot, block));
                    Ok(Step::one(place))
                }
            },
            slot => self.planned(path, slot, Vec::new()).map(Step::Done),
        }
    }
}

impl Traversal for MvChange {
    type End = MvChangePlan;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<MvChangePlan> {
        self.advance(bytes).unwrap_or_else(Step::Stale)
    }
}

impl MvChangePlan {
    /// Writes the change: new nodes. Returns the root of the new version, if any.
    ///
    /// # Errors
    /// [`SpaceFault`]: the draft has to be dropped.
    pub(crate) fn apply(
        mut self,
        draft: &mut Draft<'_>,
    ) -> Result<(Answer, Option<Root>), SpaceFault> {
        let change = self.change.clone();
        let slot = self.slot.take();
        let current = slot.as_ref().map(|_| &*self.current);
        let (answer, effect) = change.outcome(current);
        let mut root = self.path.root;
        let new = match effect {
            Effect::Nothing => return Ok((answer, None)),
            Effect::Remove => None,
            Effect::Put(value) => Some(self.tree.value_of(draft, self.path.leaf(), value)?),
        };
        let mut leaf = self.slots.pop().expect("a tree has a leaf");
        let at = leaf.binary_search_by(|slot| slot.key.cmp(&change.key));
        match (at, new) {
            (Ok(index), Some(value)) => leaf[index].value = value,
            (Ok(index), None) => {
                leaf.remove(index);
                root.length = root.length.saturating_sub(1);
            }
            (Err(index), Some(value)) => {
                let key = change.key.clone();
                leaf.insert(index, Slot { index, key, value });
                root.length += 1;
            }
            (Err(_), None) => {}
        }
        if let Some(Slot {
            value: Value::Block(block, size),
            ..
        }) = slot
        {
            draft.retire(block, item_size(0, size))?;
        }
        let node = self.path.nodes.pop().expect("a tree has a leaf");
        let mut below = (node.pointer, self.replace(draft, &node, &leaf)?);
        while let Some(node) = self.path.nodes.pop() {
            let slots = self.slots.pop().expect("each node has slots");
            let up = self.note(draft, &node, slots, below)?;
            below = (node.pointer, up);
        }
        let level = root.level;
        match below.1 {
            Up::Same => {}
            Up::Moved(top) => root.top = top,
            Up::Split(left, separator, right) => {
                root.level = level + 1;
                let slot = |key, pointer| Slot {
                    index: 0,
                    key,
                    value: Value::Inline(word_of(pointer)),
                };
                let slots = [slot(Vec::new(), left), slot(separator, right)];
                root.top = draft.allocate(NODE_SIZE)?;
                self.write(draft, (root.top, root.level), (Vec::new(), None), &slots);
            }
        }
        Ok((answer, Some(root)))
    }

    /// Brings an inner node in line with its child.
    fn note(
        &self,
        draft: &mut Draft<'_>,
        node: &Node,
        mut slots: Vec<Slot>,
        (child, below): (Pointer, Up),
    ) -> Result<Up, SpaceFault> {
        let (moved, split) = match below {
            Up::Same => return Ok(Up::Same),
            Up::Moved(pointer) => (pointer, None),
            Up::Split(left, separator, right) => (left, Some((separator, right))),
        };
        let is_changed = moved != child || split.is_some();
        let at = slots.iter().position(|slot| slot.child() == child);
        let at = at.expect("the way led through the child");
        slots[at].value = Value::Inline(word_of(moved));
        if let Some((key, right)) = split {
            let value = Value::Inline(word_of(right));
            let index = at + 1;
            slots.insert(index, Slot { index, key, value });
        }
        match is_changed {
            true => self.replace(draft, node, &slots),
            false => Ok(Up::Same),
        }
    }

    /// Writes a node with other slots: in its place if no reader has the node, or otherwise in a new block.
    fn replace(
        &self,
        draft: &mut Draft<'_>,
        node: &Node,
        slots: &[Slot],
    ) -> Result<Up, SpaceFault> {
        let pointer = new_place(draft, node.pointer)?;
        let level = node.level;
        let (low, high) = (node.low.clone(), node.high.clone());
        if slots.len() <= node.capacity() {
            self.write(draft, (pointer, level), (low, high), slots);
            return Ok(match pointer == node.pointer {
                true => Up::Same,
                false => Up::Moved(pointer),
            });
        }
        // Keys that arrive in order leave full nodes behind.
        let is_last =
            high.is_none() && slots.last().is_some_and(|slot| slot.key == self.change.key);
        let middle = match is_last {
            true => slots.len() - 1,
            false => slots.len() / 2,
        };
        let separator = slots[middle].key.clone();
        let right = draft.allocate(NODE_SIZE)?;
        let fences = (low, Some(separator.clone()));
        self.write(draft, (pointer, level), fences, &slots[..middle]);
        let fences = (separator.clone(), high);
        self.write(draft, (right, level), fences, &slots[middle..]);
        Ok(Up::Split(pointer, separator, right))
    }

    fn write(
        &self,
        draft: &mut Draft<'_>,
        place: (Pointer, u32),
        fences: (Vec<u8>, Option<Vec<u8>>),
        slots: &[Slot],
    ) {
        write_node(self.tree, draft, place, fences, slots);
    }
}

/// The place for a node with other slots: that of the node if no reader has it, or else a new block.
pub(super) fn new_place(draft: &mut Draft<'_>, node: Pointer) -> Result<Pointer, SpaceFault> {
    if draft.is_fresh(node) {
        return Ok(node);
    }
    draft.retire(node, NODE_SIZE)?;
    draft.allocate(NODE_SIZE)
}

/// Writes a node that no reader has.
pub(super) fn write_node(
    BTree { tags, geometry, .. }: BTree,
    draft: &mut Draft<'_>,
    (pointer, level): (Pointer, u32),
    fences: (Vec<u8>, Option<Vec<u8>>),
    slots: &[Slot],
) {
    let mut node = Node::new(geometry, pointer, level, fences, Pointer::NULL);
    // A fresh node may be a little older than this operation: the pointer has its birth.
    let age = draft.lsn().wrapping_sub(pointer.generation()) % (1 << BIRTH_BITS);
    node.birth = draft.lsn() - age;
    for slot in slots {
        node.put(tags, None, &slot.key, &slot.value);
    }
    node.write_whole(draft, tags);
}
