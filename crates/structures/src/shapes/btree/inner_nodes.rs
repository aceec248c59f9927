//! Inner nodes that a reader remembers, checked as a whole and decoded for searches.
//!
//! A search compares the first eight bytes of all separators of a node, which lie side by side, with the wanted key:
//! the loads do not wait for each other, as those of a binary search do, and few of these lines are in the nearest
//! cache. The children lie after them. Everything else of a node is for keys at the edge of a node, and lies apart.

use std::hash::BuildHasherDefault;

use stonecast_base::Span;

use crate::shapes::root::Root;
use crate::shapes::tag::TagKey;
use crate::shapes::traversal::Stale;
use crate::space::{ClockMap, Mixer};
use crate::wire::Pointer;

use super::aim::{Aim, Fences};
use super::geometry::NODE_SIZE;
use super::node::{NodeView, ValueView, pointer_in};

/// An inner node.
#[derive(Clone, Debug)]
pub struct InnerNode {
    level: u32,
    /// The first eight bytes of both fences. A key whose head lies between them lies between the fences.
    heads: (u64, u64),
    branches: Branches,
    edges: Box<Edges>,
}

/// The parts of an inner node that few searches need.
#[derive(Clone, Debug)]
struct Edges {
    pointer: Pointer,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    right: Pointer,
    birth: u64,
    separators: Separators,
}

/// The next node of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The right neighbour.
    Right(Pointer),
    /// A child.
    Down(Pointer),
}

impl InnerNode {
    /// Decodes a node, all of whose slots are checked.
    pub(super) fn decode(node: &NodeView<'_>, tags: TagKey) -> Result<Self, Stale> {
        let count = node.slots.count();
        let mut separators = Separators::with_capacity(count);
        let (mut heads, mut children) = (Vec::with_capacity(count * 2), Vec::with_capacity(count));
        for slot in node.slots.all(tags) {
            let slot = slot?;
            separators.push(slot.key);
            heads.push(head_of(slot.key));
            children.push(match slot.value {
                ValueView::Inline(bytes) => pointer_in(bytes).word(),
                ValueView::Block(..) => Pointer::NULL.word(),
            });
        }
        heads.extend(children);
        Ok(Self {
            level: node.level,
            heads: (
                head_of(node.fences.low),
                node.fences.high.map_or(u64::MAX, head_of),
            ),
            branches: Branches(heads.into()),
            edges: Box::new(Edges {
                pointer: node.slots.pointer,
                low: node.fences.low.to_vec(),
                high: node.fences.high.map(<[u8]>::to_vec),
                right: node.right,
                birth: node.birth,
                separators,
            }),
        })
    }

    /// The way to `aim`; `None`: it does not lead through this node.
    #[inline]
    pub(super) fn way(&self, level: u32, aim: Aim<'_>) -> Option<Way> {
        if level != self.level {
            return None;
        }
        if !self.is_between_heads(aim) {
            let edges = &*self.edges;
            let fences = Fences {
                low: &edges.low,
                high: edges.high.as_deref(),
            };
            if aim.is_right_of(&fences) {
                return Some(Way::Right(edges.right));
            }
            if !aim.is_at(&fences) {
                return None;
            }
        }
        let index = self.branches.last_of(aim, &self.edges.separators)?;
        Some(Way::Down(self.branches.child(index)))
    }

    /// The pointer to the node.
    pub(super) fn pointer(&self) -> Pointer {
        self.edges.pointer
    }

    /// The record whose operation has made the node.
    #[inline]
    pub(super) fn birth(&self) -> u64 {
        self.edges.birth
    }

    /// The bytes of the pool that hold the node.
    pub(crate) fn span(&self) -> Span {
        self.edges.pointer.span(NODE_SIZE)
    }

    fn is_between_heads(&self, aim: Aim<'_>) -> bool {
        let Aim::At(key) = aim else { return false };
        let head = head_of(key);
        self.heads.0 < head && head < self.heads.1
    }
}

/// The heads of all separators, which are their first eight bytes as a number that compares as the bytes do, and after
/// them the words of as many pointers to children.
#[derive(Clone, Debug)]
struct Branches(Box<[u64]>);

impl Branches {
    fn heads(&self) -> &[u64] {
        &self.0[..self.0.len() / 2]
    }

    fn child(&self, index: usize) -> Pointer {
        Pointer::from_word(self.0[self.0.len() / 2 + index])
    }

    /// The index of the last separator at which the child of `aim` may begin.
    #[inline]
    fn last_of(&self, aim: Aim<'_>, separators: &Separators) -> Option<usize> {
        let heads = self.heads();
        let (Aim::At(key) | Aim::Below(Some(key))) = aim else {
            return heads.len().checked_sub(1);
        };
        let head = head_of(key);
        let is_low = |other: &u64| usize::from(*other <= head);
        let mut behind: usize = heads.iter().map(is_low).sum();
        // Heads in order are separators in order. Behind the same head the whole separator decides.
        while let Some(last) = behind.checked_sub(1) {
            if heads[last] < head || aim.may_begin_at(separators.at(last)) {
                return Some(last);
            }
            behind = last;
        }
        None
    }
}

/// Separators in the order of their keys.
#[derive(Clone, Debug, Default)]
struct Separators {
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Separators {
    fn with_capacity(count: usize) -> Self {
        Self {
            ends: Vec::with_capacity(count),
            bytes: Vec::with_capacity(count * size_of::<u64>()),
        }
    }

    fn push(&mut self, separator: &[u8]) {
        self.bytes.extend_from_slice(separator);
        self.ends.push(self.bytes.len());
    }

    fn at(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }
}

#[inline]
fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(head)
        }
    }
}

/// Inner nodes of one tree, and its root, as a reader has read them. The nodes may be old: the fences of the leaf show
/// their age.
#[derive(Clone, Debug)]
pub struct InnerNodes {
    pub(super) root: Option<Root>,
    nodes: ClockMap<u64, InnerNode, BuildHasherDefault<Mixer>>,
}

impl Default for InnerNodes {
    fn default() -> Self {
        Self::new(0)
    }
}

impl InnerNodes {
    /// Room for nodes of at most `size` bytes.
    pub fn new(size: u64) -> Self {
        Self {
            root: None,
            nodes: ClockMap::new(size),
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.root = None;
        self.nodes.clear();
    }

    pub(super) fn remembers(&self) -> bool {
        self.nodes.size_max() >= NODE_SIZE
    }

    #[inline]
    pub(super) fn get(&mut self, pointer: Pointer) -> Option<&InnerNode> {
        self.nodes.get(&pointer.word()).map(|node| &*node)
    }

    pub(super) fn put(&mut self, pointer: Pointer, node: InnerNode) {
        let _before = self.nodes.put(pointer.word(), node, NODE_SIZE);
    }

    /// Forgets what leads to a leaf: its parent, or the root if the leaf has none.
    pub(super) fn forget_above(&mut self, parent: Pointer) {
        match parent.is_null() {
            true => self.root = None,
            false => drop(self.nodes.remove(&parent.word())),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;
    use stonecast_base::random_from_seed;

    use super::*;

    /// Needs the comparison of whole keys behind equal heads.
    #[test]
    fn the_last_separator_of_a_key_is_the_one_that_whole_keys_give() {
        for seed in 0..200 {
            let mut random = random_from_seed(seed);
            let mut key = || -> Vec<u8> {
                let size = random.random_range(0..12);
                (0..size).map(|_| random.random_range(0..2)).collect()
            };
            let mut keys: Vec<Vec<u8>> = (0..60).map(|_| key()).collect();
            keys.sort();
            keys.dedup();
            let mut separators = Separators::default();
            keys.iter().for_each(|key| separators.push(key));
            let heads = keys.iter().map(|key| head_of(key));
            let children = std::iter::repeat_n(0, keys.len());
            let branches = Branches(heads.chain(children).collect());
            for _ in 0..100 {
                let key = key();
                for aim in [Aim::At(&key), Aim::Below(Some(&key)), Aim::Below(None)] {
                    let behind = keys.partition_point(|key| aim.may_begin_at(key));
                    let expected = behind.checked_sub(1);
                    assert_eq!(
                        branches.last_of(aim, &separators),
                        expected,
                        "seed {seed}: {aim:?}"
                    );
                }
            }
        }
    }
}
