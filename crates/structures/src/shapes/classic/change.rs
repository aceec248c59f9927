//! Changes of a binary search tree.

use std::cmp::Reverse;

use stonecast_base::mutant;

use crate::shapes::item::{ItemRead, item_bytes, item_size};
use crate::shapes::key_change::{Effect, KeyChange};
use crate::shapes::root::Root;
use crate::shapes::traversal::{Answer, Place, Places, Stale, Step, Traversal};
use crate::space::{Draft, SpaceFault};
use crate::wire::{Pointer, Verb};

use super::node::{Node, Side};
use super::seek::{Descent, HOPS_MAX, Path, Way};
use super::{BinaryTree, TreePlace};
use crate::shapes::btree::Seek;

/// The walk before a change of one key.
#[derive(Clone, Debug)]
pub struct Change {
    descent: Descent,
    change: KeyChange,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Descent,
    /// The value of the key is read from this block.
    Value(ChangePlan, Pointer),
    /// The nodes below the removed node are read: the nodes on the seam of its two sides.
    Seam(ChangePlan, Seam),
}

/// The way on which the two sides below a removed node become one. The tops of both sides, as far as they are known.
#[derive(Clone, Debug)]
struct Seam {
    left: Top,
    right: Top,
}

/// The top of a side.
#[derive(Clone, Debug)]
enum Top {
    /// Behind this pointer, which may be null.
    Unread(Pointer),
    Read(Node),
}

impl Top {
    fn pointer(&self) -> Pointer {
        match self {
            Self::Unread(pointer) => *pointer,
            Self::Read(node) => node.pointer,
        }
    }
}

/// Everything that a change needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePlan {
    tree: BinaryTree,
    change: KeyChange,
    path: Path,
    /// The value of the key, if the change depends on it.
    current: Vec<u8>,
    /// Of a removal: the nodes on the seam, from the topmost one down, each with the side on which the seam goes on;
    /// and the subtree below the last one.
    seam: (Vec<Way>, Pointer),
}

impl Change {
    /// Changes an encoded key of a tree. `verb` is a verb for keys.
    ///
    /// # Panics
    /// Panics if the key or value is longer than the tree permits.
    pub fn new(tree: BinaryTree, verb: Verb, key: &[u8], value: &[u8]) -> Self {
        assert!(key.len() <= tree.sizes.key_size_max());
        Self {
            descent: Descent::new(tree, Seek::At(key.to_vec())),
            change: KeyChange::new(verb, key, value),
            stage: Stage::Descent,
        }
    }

    fn found(&mut self, path: Path) -> Step<ChangePlan> {
        let tree = self.descent.tree;
        let found = path.found.clone();
        let plan = ChangePlan {
            tree,
            change: self.change.clone(),
            path,
            current: Vec::new(),
            seam: (Vec::new(), Pointer::NULL),
        };
        let Some(node) = found else {
            return Step::Done(plan);
        };
        if self.change.compares() {
            let (block, _) = node.item;
            self.stage = Stage::Value(plan, block);
            return Step::one(Place::last(tree.values().first(block)));
        }
        match self.change.outcome(Some(&[])).1 {
            Effect::Remove => {
                let (left, right) = (Top::Unread(node.left), Top::Unread(node.right));
                self.seam(plan, Seam { left, right })
            }
            Effect::Nothing | Effect::Put(_) => Step::Done(plan),
        }
    }

    /// Continues along the seam, as far as its nodes are known.
    fn seam(&mut self, mut plan: ChangePlan, mut seam: Seam) -> Step<ChangePlan> {
        let tree = plan.tree;
        loop {
            let (Top::Read(left), Top::Read(right)) = (&seam.left, &seam.right) else {
                let tops = [&seam.left, &seam.right];
                if let Some(end) = tops.iter().position(|top| top.pointer().is_null()) {
                    plan.seam.1 = tops[1 - end].pointer();
                    return Step::Done(plan);
                }
                let unread = tops.into_iter().filter(|top| matches!(top, Top::Unread(_)));
                let places = unread.map(|top| tree.place_of(top.pointer()));
                let places: Places = places.collect();
                if plan.seam.0.len() >= HOPS_MAX {
                    let (place, what) = (places[0].span, "seam below a removed node");
                    return Step::Stale(Stale { place, what });
                }
                self.stage = Stage::Seam(plan, seam);
                return Step::Read(places);
            };
            let is_left = tree.priority(&left.key) > tree.priority(&right.key);
            let (top, side) = match is_left {
                true => (&mut seam.left, Side::Right),
                false => (&mut seam.right, Side::Left),
            };
            let Top::Read(node) = top.clone() else {
                unreachable!("both tops are read")
            };
            *top = Top::Unread(node.child(side));
            plan.seam.0.push(Way { node, side });
        }
    }

    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<ChangePlan>, Stale> {
        let tree = self.descent.tree;
        match std::mem::replace(&mut self.stage, Stage::Descent) {
            Stage::Descent => Ok(match self.descent.step(bytes) {
                Step::Read(places) => Step::Read(places),
                Step::Stale(stale) => Step::Stale(stale),
                Step::Done(path) => self.found(path),
            }),
            Stage::Value(mut plan, block) => match tree.values().judge(block, &bytes[0]) {
                ItemRead::Stale(stale) => Err(stale),
                ItemRead::Longer(place) => {
                    self.stage = Stage::Value(plan, block);
                    Ok(Step::one(Place::last(place)))
                }
                ItemRead::Whole(item) => {
                    plan.current = item.value;
                    Ok(Step::Done(plan))
                }
            },
            Stage::Seam(plan, mut seam) => {
                let mut bytes = bytes.iter();
                for top in [&mut seam.left, &mut seam.right] {
                    if let Top::Unread(pointer) = *top {
                        let bytes = bytes.next().expect("it was asked for");
                        *top = Top::Read(tree.node(pointer, bytes)?);
                    }
                }
                Ok(self.seam(plan, seam))
            }
        }
    }
}

impl Traversal for Change {
    type End = ChangePlan;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<ChangePlan> {
        self.advance(bytes).unwrap_or_else(Step::Stale)
    }
}

impl ChangePlan {
    /// Writes the change: new nodes, and then the one pointer that leads to them. Returns the root of the new version
    /// of a multi-version tree, if there is one.
    ///
    /// # Errors
    /// [`SpaceFault`]: the draft has to be dropped.
    pub(crate) fn apply(
        mut self,
        draft: &mut Draft<'_>,
    ) -> Result<(Answer, Option<Root>), SpaceFault> {
        let change = self.change.clone();
        let before = self.path.root;
        let found = self.path.found.take();
        let current = found.as_ref().map(|_| &*self.current);
        let (answer, effect) = change.outcome(current);
        let root = match (effect, found) {
            (Effect::Nothing, _) | (Effect::Remove, None) => return Ok((answer, None)),
            (Effect::Remove, Some(node)) => self.remove(draft, &node)?,
            (Effect::Put(value), Some(node)) => self.replace(draft, node, value)?,
            (Effect::Put(value), None) => self.insert(draft, value)?,
        };
        match self.tree.place {
            TreePlace::Version(..) => Ok((answer, Some(root))),
            TreePlace::Line(anchor) => {
                if root.top != before.top {
                    root.write(draft, self.tree.tags, anchor);
                } else if root != before {
                    root.write_length(draft, self.tree.tags, anchor);
                }
                Ok((answer, None))
            }
        }
    }

    fn item(&self, draft: &mut Draft<'_>, value: &[u8]) -> Result<(Pointer, usize), SpaceFault> {
        let block = draft.allocate(item_size(0, value.len()))?;
        draft.write(
            block.offset(),
            &item_bytes(self.tree.tags, block, &[], value),
        );
        Ok((block, value.len()))
    }

    /// Takes a block out of the tree. Older versions may have it.
    fn free(&self, draft: &mut Draft<'_>, block: Pointer, size: u64) -> Result<(), SpaceFault> {
        match self.tree.is_version() {
            true => draft.retire(block, size),
            false => draft.free(block, size),
        }
    }

    fn free_item(&self, draft: &mut Draft<'_>, node: &Node) -> Result<(), SpaceFault> {
        let (block, value_size) = node.item;
        self.free(draft, block, item_size(0, value_size))
    }

    /// Replaces a node. A reader that has found the old node continues from its old content, so a node of a tree
    /// without versions gets another block even if the open transaction has made the node. No reader has a version
    /// before the version is whole.
    fn copied(&self, draft: &mut Draft<'_>, mut node: Node) -> Result<Pointer, SpaceFault> {
        let may_change = self.tree.is_version() || mutant!(NodeRotatedInPlace);
        if !may_change || !draft.is_fresh(node.pointer) {
            self.free(draft, node.pointer, self.tree.sizes.node_size())?;
            node.pointer = draft.allocate(self.tree.sizes.node_size())?;
            node.birth = draft.lsn();
        }
        node.write_whole(draft, self.tree.sizes, self.tree.tags);
        Ok(node.pointer)
    }

    fn insert(&mut self, draft: &mut Draft<'_>, value: &[u8]) -> Result<Root, SpaceFault> {
        let key = self.change.key.clone();
        let priority = Reverse(self.tree.priority(&key));
        let steps = &self.path.steps;
        // Priorities fall on the way down.
        let upper =
            steps.partition_point(|way| Reverse(self.tree.priority(&way.node.key)) < priority);
        let lower = self.path.steps.split_off(upper);
        let (mut left, mut right) = (Pointer::NULL, Pointer::NULL);
        for Way { node, side } in lower.into_iter().rev() {
            match side {
                Side::Right => left = self.copied(draft, node.with(side, left))?,
                Side::Left => right = self.copied(draft, node.with(side, right))?,
            }
        }
        let item = self.item(draft, value)?;
        let pointer = draft.allocate(self.tree.sizes.node_size())?;
        let birth = draft.lsn();
        let node = Node {
            pointer,
            left,
            right,
            item,
            birth,
            key,
        };
        node.write_whole(draft, self.tree.sizes, self.tree.tags);
        self.path.root.length += 1;
        self.link(draft, pointer)
    }

    fn replace(
        &mut self,
        draft: &mut Draft<'_>,
        mut node: Node,
        value: &[u8],
    ) -> Result<Root, SpaceFault> {
        self.free_item(draft, &node)?;
        node.item = self.item(draft, value)?;
        let pointer = self.copied(draft, node)?;
        self.link(draft, pointer)
    }

    fn remove(&mut self, draft: &mut Draft<'_>, node: &Node) -> Result<Root, SpaceFault> {
        let (ways, mut below) = std::mem::take(&mut self.seam);
        for Way { node, side } in ways.into_iter().rev() {
            below = self.copied(draft, node.with(side, below))?;
        }
        self.free_item(draft, node)?;
        self.free(draft, node.pointer, self.tree.sizes.node_size())?;
        self.path.root.length = self.path.root.length.saturating_sub(1);
        self.link(draft, below)
    }

    /// Puts a subtree below the last node of the path. In a tree with versions, the nodes above it are copied, too.
    fn link(&mut self, draft: &mut Draft<'_>, mut child: Pointer) -> Result<Root, SpaceFault> {
        let mut root = self.path.root;
        while let Some(Way { node, side }) = self.path.steps.pop() {
            if node.child(side) == child {
                return Ok(root);
            }
            let node = node.with(side, child);
            if !self.tree.is_version() {
                node.write_links(draft, self.tree.sizes, self.tree.tags);
                return Ok(root);
            }
            child = self.copied(draft, node)?;
        }
        root.top = child;
        Ok(root)
    }
}
