//! Entries after all keys of a tree, added from the leaves up.
//!
//! ```text
//!   before   leaf ─▶ last leaf
//!   after    leaf ─▶ last leaf, filled ─▶ full leaf ─▶ full leaf ─▶ rest       their parents in the same way
//! ```
//!
//! Only the nodes at the right edge change. New nodes are written whole, when they are full. As with a split, a reader
//! that meets an old node at the edge finds by its fences that a key has moved, and follows the right link.
//!
//! A load into a multi-version tree copies the nodes at the right edge once, level by level, as a change copies those
//! of its way, and writes new ones when they are full. The nodes of the version before stay.

use stonecast_base::mutant;

use crate::shapes::root::Root;
use crate::shapes::traversal::{Answer, Stale, Step, Traversal};
use crate::space::{Draft, SpaceFault};
use crate::wire::{Pointer, Run};

use super::BTree;
use super::change::word_of;
use super::geometry::NODE_SIZE;
use super::mv::{new_place, write_node};
use super::node::{Node, Slot, Value};
use super::seek::{Path, Seek, WayDown};

/// The walk before a load.
#[derive(Clone, Debug)]
pub struct Load {
    way: WayDown,
    /// The value of the operation, which is a run.
    run: Vec<u8>,
}

/// Everything that a load needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadPlan {
    tree: BTree,
    run: Vec<u8>,
    path: Path,
    /// The highest key of the last leaf, if any.
    last: Option<Vec<u8>>,
    /// The slots of each node of the path, if the tree is a version, whose nodes are copied.
    slots: Vec<Vec<Slot>>,
}

/// The nodes at the right edge of a tree, one of each level, from the leaf up.
struct Edge {
    tree: BTree,
    root: Root,
    nodes: Vec<EdgeNode>,
}

struct EdgeNode {
    node: Node,
    /// The load has made the node and not yet written it.
    is_new: bool,
}

impl BTree {
    /// Adds the entries of a run, which the caller has checked, if they lie after all keys.
    pub(in crate::shapes) fn load(&self, run: &[u8]) -> Load {
        Load {
            way: WayDown::whole(*self, Seek::Below(None)),
            run: run.to_vec(),
        }
    }
}

impl Load {
    fn planned(&mut self, path: Path) -> Result<LoadPlan, Stale> {
        let tree = self.way.tree();
        let last = path.leaf().slots(tree.tags)?.pop();
        let copied = path.nodes.iter().filter(|_| tree.is_version());
        let slots = copied.map(|node| node.slots(tree.tags));
        Ok(LoadPlan {
            tree,
            run: std::mem::take(&mut self.run),
            slots: slots.collect::<Result<_, _>>()?,
            path,
            last: last.map(|slot| slot.key),
        })
    }
}

impl Traversal for Load {
    type End = LoadPlan;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<LoadPlan> {
        match self.way.step(bytes) {
            Step::Read(places) => Step::Read(places),
            Step::Stale(stale) => Step::Stale(stale),
            Step::Done(path) => self.planned(path).map_or_else(Step::Stale, Step::Done),
        }
    }
}

impl LoadPlan {
    /// Writes the change. Returns the root of the new version, if the tree is one.
    ///
    /// # Errors
    /// [`SpaceFault`]: the draft has to be dropped.
    pub(crate) fn apply(
        mut self,
        draft: &mut Draft<'_>,
    ) -> Result<(Answer, Option<Root>), SpaceFault> {
        let run = std::mem::take(&mut self.run);
        let entries = Run::parse(&run).unwrap_or_default();
        let low = &self.path.leaf().low;
        let is_behind = |key: &[u8]| match &self.last {
            Some(last) => **last < *key,
            None => **low <= *key,
        };
        if let Some((first, _)) = entries.first()
            && !is_behind(first)
            && !mutant!(LoadedAmongOthers)
        {
            return Ok((Answer::Changed(false), None));
        }
        let root = match (self.tree.is_version(), entries.is_empty()) {
            (_, true) => None,
            (true, _) => Some(self.extend_version(draft, &entries)?),
            (false, _) => {
                self.extend_in_place(draft, &entries)?;
                None
            }
        };
        Ok((Answer::Changed(true), root))
    }

    /// Copies the nodes at the right edge.
    fn extend_version(
        self,
        draft: &mut Draft<'_>,
        entries: &[(&[u8], &[u8])],
    ) -> Result<Root, SpaceFault> {
        let (tree, leaf) = (self.tree, self.path.leaf());
        let mut slots = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            slots.push(Slot {
                index: 0,
                key: key.to_vec(),
                value: tree.value_of(draft, leaf, value)?,
            });
        }
        let edge = self.path.nodes.into_iter().zip(self.slots).rev();
        extend(tree, draft, self.path.root, edge, slots)
    }

    /// Adds to the nodes at the right edge.
    fn extend_in_place(
        self,
        draft: &mut Draft<'_>,
        entries: &[(&[u8], &[u8])],
    ) -> Result<(), SpaceFault> {
        let nodes = self.path.nodes.into_iter().rev();
        let mut edge = Edge {
            tree: self.tree,
            root: self.path.root,
            nodes: nodes
                .map(|node| EdgeNode {
                    node,
                    is_new: false,
                })
                .collect(),
        };
        for (key, value) in entries {
            let leaf = &edge.nodes[0].node;
            let value = self.tree.value_of(draft, leaf, value)?;
            edge.add(draft, 0, key, &value)?;
        }
        edge.root.length += entries.len() as u64;
        edge.write(draft, self.path.root);
        Ok(())
    }
}

impl Edge {
    /// Adds a key after all others of a level.
    fn add(
        &mut self,
        draft: &mut Draft<'_>,
        level: usize,
        key: &[u8],
        value: &Value,
    ) -> Result<(), SpaceFault> {
        let BTree { tags, geometry, .. } = self.tree;
        let EdgeNode { node, is_new } = &mut self.nodes[level];
        if !node.is_full() {
            let placed = node.put(tags, None, key, value);
            if !*is_new {
                node.write_placed(draft, tags, &placed);
            }
            return Ok(());
        }
        let pointer = draft.allocate(NODE_SIZE)?;
        let fences = (key.to_vec(), None);
        let mut next = Node::new(geometry, pointer, node.level, fences, Pointer::NULL);
        next.put(tags, None, key, value);
        let mut full = std::mem::replace(node, next);
        full.high = Some(key.to_vec());
        full.right = pointer;
        match std::mem::replace(is_new, true) {
            true => full.write_whole(draft, tags),
            false => full.write_head(draft, tags),
        }
        if level + 1 == self.nodes.len() {
            self.grow(draft, &full)?;
        }
        self.add(draft, level + 1, key, &Value::Inline(word_of(pointer)))
    }

    /// Puts a new node above the topmost node, which was full.
    fn grow(&mut self, draft: &mut Draft<'_>, full: &Node) -> Result<(), SpaceFault> {
        let BTree { tags, geometry, .. } = self.tree;
        self.root.level += 1;
        self.root.top = draft.allocate(NODE_SIZE)?;
        let fences = (full.low.clone(), None);
        let (top, level) = (self.root.top, self.root.level);
        let mut node = Node::new(geometry, top, level, fences, Pointer::NULL);
        node.put(tags, None, &full.low, &Value::Inline(word_of(full.pointer)));
        self.nodes.push(EdgeNode { node, is_new: true });
        Ok(())
    }

    /// Writes the new nodes that are not full, and the root.
    fn write(mut self, draft: &mut Draft<'_>, before: Root) {
        let (tags, anchor) = (self.tree.tags, self.tree.anchor());
        for EdgeNode { node, .. } in self.nodes.iter_mut().filter(|edge| edge.is_new) {
            node.write_whole(draft, tags);
        }
        match self.root.top == before.top {
            true => self.root.write_length(draft, tags, anchor),
            false => self.root.write(draft, tags, anchor),
        }
    }
}

/// A node that was written: its lowest key and its place.
type Written = (Vec<u8>, Pointer);

/// Adds `slots`, whose keys lie after all others, to the leaf at the right edge. `edge`: the nodes there with their
/// slots, from the leaf up. Returns the root of the new version.
fn extend(
    tree: BTree,
    draft: &mut Draft<'_>,
    mut root: Root,
    edge: impl Iterator<Item = (Node, Vec<Slot>)>,
    slots: Vec<Slot>,
) -> Result<Root, SpaceFault> {
    root.length += slots.len() as u64;
    let (mut more, mut below) = (slots, None);
    for (node, mut slots) in edge {
        if let (Some(last), Some(below)) = (slots.last_mut(), below) {
            last.value = child(below);
        }
        slots.append(&mut more);
        let place = new_place(draft, node.pointer)?;
        let mut written = write_level(tree, draft, (place, node.level, node.low), &slots)?;
        if written.len() == 1 && place == node.pointer {
            return Ok(root);
        }
        let behind = written.split_off(1);
        more = behind.into_iter().map(as_slot).collect();
        below = Some(place);
    }
    root.top = below.expect("a tree has a leaf");
    while !more.is_empty() {
        more.insert(0, as_slot((Vec::new(), root.top)));
        root.level += 1;
        root.top = draft.allocate(NODE_SIZE)?;
        let top = (root.top, root.level, Vec::new());
        let behind = write_level(tree, draft, top, &more)?.split_off(1);
        more = behind.into_iter().map(as_slot).collect();
    }
    Ok(root)
}

/// Writes the slots of a level from the node at `place` on: this one in its place, and full ones behind it.
fn write_level(
    tree: BTree,
    draft: &mut Draft<'_>,
    (place, level, low): (Pointer, u32, Vec<u8>),
    slots: &[Slot],
) -> Result<Vec<Written>, SpaceFault> {
    let capacity = tree.geometry.of_level(level).slots();
    let mut written: Vec<Written> = Vec::new();
    let mut parts = slots.chunks(capacity).peekable();
    while let Some(part) = parts.next() {
        let (low, pointer) = match written.is_empty() {
            true => (low.clone(), place),
            false => (part[0].key.clone(), draft.allocate(NODE_SIZE)?),
        };
        let high = parts.peek().map(|next| next[0].key.clone());
        write_node(tree, draft, (pointer, level), (low.clone(), high), part);
        written.push((low, pointer));
    }
    Ok(written)
}

fn as_slot((key, pointer): Written) -> Slot {
    Slot {
        index: 0,
        key,
        value: child(pointer),
    }
}

fn child(pointer: Pointer) -> Value {
    Value::Inline(word_of(pointer))
}
