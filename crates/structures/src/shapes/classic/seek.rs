//! Ways down a binary search tree.

use std::cmp::Ordering;

use stonecast_base::mutant;

use crate::shapes::btree::{Page, Seek};
use crate::shapes::item::ItemRead;
use crate::shapes::root::{ROOT_LINE_SIZE, Root};
use crate::shapes::traversal::{Place, Stale, Step, Traversal};
use crate::wire::Pointer;

use super::node::{Node, Side};
use super::{BinaryTree, TreePlace};

/// Nodes that one way down may read. A tree of a million keys has about 30 on the way to one of them.
pub(super) const HOPS_MAX: usize = 400;
/// The level of the root of a binary tree, which knows none.
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

/// The look-up of one key.
#[derive(Clone, Debug)]
pub struct Find {
    descent: Descent,
    block: Option<Pointer>,
}

/// The reading of one key of a range: the first one at or above a bound, or the last one below it.
#[derive(Clone, Debug)]
pub struct PageOf {
    descent: Descent,
    /// The key whose value is being read, and the block of the value.
    found: Option<(Vec<u8>, Pointer)>,
}

impl BinaryTree {
    /// Looks an encoded key up.
    pub fn find(&self, key: &[u8]) -> Find {
        Find {
            descent: Descent::new(*self, Seek::At(key.to_vec())),
            block: None,
        }
    }

    /// Reads the next key of a range. The page has one key, or none at the end.
    pub fn page(&self, seek: Seek) -> PageOf {
        PageOf {
            descent: Descent::new(*self, seek),
            found: None,
        }
    }
}

impl Traversal for Find {
    type End = Option<Vec<u8>>;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Self::End> {
        let tree = self.descent.tree;
        if let Some(block) = self.block {
            return match tree.values().judge(block, &bytes[0]) {
                ItemRead::Whole(item) => Step::Done(Some(item.value)),
                ItemRead::Longer(place) => Step::one(Place::last(place)),
                ItemRead::Stale(stale) => Step::Stale(stale),
            };
        }
        match self.descent.step(bytes) {
            Step::Read(places) => Step::Read(places),
            Step::Stale(stale) => Step::Stale(stale),
            Step::Done(Path { found: None, .. }) => Step::Done(None),
            Step::Done(Path {
                found: Some(node), ..
            }) => {
                let (block, _) = node.item;
                self.block = Some(block);
                Step::one(Place::last(tree.values().first(block)))
            }
        }
    }
}

/// The key directly above `key`.
fn above(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl PageOf {
    /// The node that was found at the end of the way, or the nearest one on the wanted side of it.
    fn nearest(&self, path: Path) -> Option<Node> {
        let side = match &self.descent.seek {
            Seek::At(_) => Side::Left,
            Seek::Below(_) => Side::Right,
        };
        let mut steps = path.steps.into_iter().rev();
        let nearest = steps.find(|way| way.side == side);
        path.found.or(nearest.map(|way| way.node))
    }

    /// The page behind the last key.
    fn nothing(&self) -> Page {
        let bounds = match &self.descent.seek {
            Seek::At(key) => (key.clone(), None),
            Seek::Below(key) => (Vec::new(), key.clone()),
        };
        Page::of_one(bounds, None)
    }
}

impl Traversal for PageOf {
    type End = Page;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Page> {
        let values = self.descent.tree.values();
        if let Some((key, block)) = self.found.take() {
            return match values.judge(block, &bytes[0]) {
                ItemRead::Stale(stale) => Step::Stale(stale),
                ItemRead::Longer(place) => {
                    self.found = Some((key, block));
                    Step::one(Place::last(place))
                }
                ItemRead::Whole(item) => {
                    let bounds = (key.clone(), Some(above(&key)));
                    Step::Done(Page::of_one(bounds, Some((&key, &item.value))))
                }
            };
        }
        match self.descent.step(bytes) {
            Step::Read(places) => Step::Read(places),
            Step::Stale(stale) => Step::Stale(stale),
            Step::Done(path) => match self.nearest(path) {
                None => Step::Done(self.nothing()),
                Some(node) => {
                    let (block, _) = node.item;
                    self.found = Some((node.key, block));
                    Step::one(Place::last(values.first(block)))
                }
            },
        }
    }
}
