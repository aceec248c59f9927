//! Ways down a binary search tree.

use std::cmp::Ordering;

use stonecast_base::mutant;

use crate::shapes::btree::Seek;
use crate::shapes::root::{ROOT_LINE_SIZE, Root};
use crate::shapes::traversal::{Place, Stale, Step, Traversal};
use crate::wire::Pointer;

use super::node::{Node, Side};
use super::value::{FindValue, OnePage};
use super::{BinaryTree, TreePlace};

/// Nodes that one way down may read. A tree of a million keys has about 30 on the way to one of them.
pub(super) const HOPS_MAX: usize = 400;
/// The level in the root line of a binary tree, which has no levels.
pub(super) const LEVEL_MAX: u32 = 0;

/// The way down to a key, or to the place where the key would be.
#[derive(Clone, Debug)]
pub(super) struct Descent {
    pub tree: BinaryTree,
    seek: Seek,
    root: Option<Root>,
    wanted: Pointer,
    steps: Vec<Way>,
}

/// A node on the way, and the side on which the way goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub node: Node,
    pub side: Side,
}

/// The end of a way down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub root: Root,
    /// The nodes above the key, or all to the end of the way if the tree does not hold the key.
    pub steps: Vec<Way>,
    /// The node of the key.
    pub found: Option<Node>,
}

impl BinaryTree {
    /// Checks a node that was read, and that it belongs to this version.
    pub(super) fn node(&self, pointer: Pointer, bytes: &[u8]) -> Result<Node, Stale> {
        let node = Node::parse((self.sizes, self.tags), pointer, bytes)?;
        if let TreePlace::Version(_, youngest) = self.place
            && node.birth > youngest
            && !mutant!(BirthNotChecked)
        {
            let (place, what) = (self.sizes.node_place(pointer), "node of the version");
            return Err(Stale { place, what });
        }
        Ok(node)
    }

    /// The place of a node. Only versions never change.
    pub(super) fn place_of(&self, pointer: Pointer) -> Place {
        let span = self.sizes.node_place(pointer);
        match self.is_version() {
            true => Place::inner(span),
            false => Place::last(span),
        }
    }
}

impl Descent {
    pub fn new(tree: BinaryTree, seek: Seek) -> Self {
        Self {
            tree,
            seek,
            root: None,
            wanted: Pointer::NULL,
            steps: Vec::new(),
        }
    }

    fn end(&mut self, found: Option<Node>) -> Step<Path> {
        Step::Done(Path {
            root: self.root.expect("the root came first"),
            steps: std::mem::take(&mut self.steps),
            found,
        })
    }

    fn ask(&mut self, pointer: Pointer) -> Step<Path> {
        if pointer.is_null() {
            return self.end(None);
        }
        let place = self.tree.place_of(pointer);
        if self.steps.len() == HOPS_MAX {
            let (place, what) = (place.span, "way to the key");
            return Step::Stale(Stale { place, what });
        }
        self.wanted = pointer;
        Step::one(place)
    }

    fn begin(&mut self, bytes: &[Vec<u8>]) -> Result<Step<Path>, Stale> {
        let root = match (self.tree.place, bytes.first()) {
            (TreePlace::Version(root, _), _) => root,
            (TreePlace::Line(anchor), None) => {
                let line = anchor.span(ROOT_LINE_SIZE);
                return Ok(Step::one(Place::last(line)));
            }
            (TreePlace::Line(anchor), Some(bytes)) => {
                Root::parse(self.tree.tags, anchor, LEVEL_MAX, bytes)?
            }
        };
        self.root = Some(root);
        Ok(self.ask(root.top))
    }

    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<Path>, Stale> {
        if self.root.is_none() {
            return self.begin(bytes);
        }
        let node = self.tree.node(self.wanted, &bytes[0])?;
        let side = match &self.seek {
            Seek::At(key) => match key.cmp(&node.key) {
                Ordering::Equal => return Ok(self.end(Some(node))),
                Ordering::Less => Side::Left,
                Ordering::Greater => Side::Right,
            },
            Seek::Below(Some(key)) if *key <= node.key => Side::Left,
            Seek::Below(_) => Side::Right,
        };
        let next = node.child(side);
        self.steps.push(Way { node, side });
        Ok(self.ask(next))
    }
}

impl Traversal for Descent {
    type End = Path;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Path> {
        self.advance(bytes).unwrap_or_else(Step::Stale)
    }
}

/// The way to the item of a key.
#[derive(Clone, Debug)]
pub struct ItemOfKey(Descent);

impl Traversal for ItemOfKey {
    type End = Option<Pointer>;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Self::End> {
        let step = self.0.step(bytes);
        step.map(|path| path.found.map(|node| node.item.0))
    }
}

/// The way to the first key at or above a bound, or to the last one below it.
#[derive(Clone, Debug)]
pub struct Nearest(Descent);

impl Nearest {
    /// The node at the end of the way, or the nearest node on the wanted side of it.
    fn nearest(&self, path: Path) -> Option<Node> {
        let side = match &self.0.seek {
            Seek::At(_) => Side::Left,
            Seek::Below(_) => Side::Right,
        };
        let mut steps = path.steps.into_iter().rev();
        let nearest = steps.find(|way| way.side == side);
        path.found.or(nearest.map(|way| way.node))
    }
}

impl Traversal for Nearest {
    type End = Option<(Vec<u8>, Pointer)>;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Self::End> {
        let step = self.0.step(bytes);
        step.map(|path| self.nearest(path).map(|node| (node.key, node.item.0)))
    }
}

impl BinaryTree {
    /// Looks an encoded key up.
    pub fn find(&self, key: &[u8]) -> FindValue<ItemOfKey> {
        let way = Descent::new(*self, Seek::At(key.to_vec()));
        FindValue::new(ItemOfKey(way), self.values())
    }

    /// Reads the next key of a range. The page has one key, or none at the end.
    pub fn page(&self, seek: Seek) -> OnePage<Nearest> {
        let way = Descent::new(*self, seek.clone());
        OnePage::new(Nearest(way), self.values(), seek)
    }
}
