//! Ways down a tree: to a key, and to a leaf of a range.

use stonecast_base::mutant;

use crate::shapes::item::{ItemRead, ItemReader};
use crate::shapes::root::{ROOT_LINE_SIZE, Root};
use crate::shapes::traversal::{Place, Stale, Step, Traversal};
use crate::wire::Pointer;

use super::node::{Node, Slot, Value};
use super::{BTree, LEVEL_MAX, TreePlace};

/// Nodes that one way down may read. A tree that grows all the time sends a reader to the right again and again.
const HOPS_MAX: u32 = 200;
/// Bytes that are read of a value in a block, at first.
const VALUE_HINT: usize = 4096;

/// The leaf that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The leaf that holds this key, if any does.
    At(Vec<u8>),
    /// The leaf with the highest keys below this one; `None`: with the highest of all.
    Below(Option<Vec<u8>>),
}

impl Seek {
    /// Whether a child whose keys begin with `separator` may hold what is wanted.
    fn may_begin_at(&self, separator: &[u8]) -> bool {
        match self {
            Self::At(key) => separator <= &**key,
            Self::Below(Some(key)) => separator < &**key || separator.is_empty(),
            Self::Below(None) => true,
        }
    }

    /// Whether what is wanted lies behind the right link of `node`.
    fn is_right_of(&self, node: &Node) -> bool {
        let Some(high) = &node.high else { return false };
        match self {
            Self::At(key) => !node.holds(key) && high <= key,
            Self::Below(Some(key)) => high < key,
            Self::Below(None) => true,
        }
    }
}

/// The way down to a leaf.
#[derive(Clone, Debug)]
pub(super) struct Descent {
    pub tree: BTree,
    seek: Seek,
    root: Option<Root>,
    /// The node that was asked for, and its level.
    wanted: Option<(Pointer, u32)>,
    hops: u32,
    path: Vec<Node>,
}

/// The end of a way down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub root: Root,
    /// The nodes from the topmost one to the leaf; one of each level.
    pub nodes: Vec<Node>,
}

impl Path {
    pub fn leaf(&self) -> &Node {
        self.nodes.last().expect("a tree has a leaf")
    }
}

impl Descent {
    pub fn new(tree: BTree, seek: Seek) -> Self {
        Self {
            tree,
            seek,
            root: None,
            wanted: None,
            hops: 0,
            path: Vec::new(),
        }
    }

    fn ask(&mut self, pointer: Pointer, level: u32) -> Step<Path> {
        self.hops += 1;
        let span = Node::place(pointer);
        if self.hops > HOPS_MAX || pointer.is_null() {
            let (place, what) = (span, "way to the key");
            return Step::Stale(Stale { place, what });
        }
        self.wanted = Some((pointer, level));
        Step::Read(vec![match level {
            0 if !self.tree.is_version() => Place::last(span),
            _ => Place::inner(span),
        }])
    }

    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<Path>, Stale> {
        let BTree {
            place,
            tags,
            geometry,
        } = self.tree;
        let Some((pointer, level)) = self.wanted else {
            let root = match (place, bytes.first()) {
                (TreePlace::Version(root, _), _) => root,
                (TreePlace::Line(anchor), None) => {
                    let line = anchor.span(ROOT_LINE_SIZE);
                    return Ok(Step::Read(vec![Place::inner(line)]));
                }
                (TreePlace::Line(anchor), Some(bytes)) => {
                    Root::parse(tags, anchor, LEVEL_MAX, bytes)?
                }
            };
            self.root = Some(root);
            return Ok(self.ask(root.top, root.level));
        };
        let node = Node::parse((geometry, tags), pointer, level, &bytes[0])?;
        if let TreePlace::Version(_, youngest) = place
            && node.birth > youngest
            && !mutant!(BirthNotChecked)
        {
            let (place, what) = (Node::place(pointer), "node of the version");
            return Err(Stale { place, what });
        }
        if self.seek.is_right_of(&node) {
            return Ok(self.ask(node.right, level));
        }
        let is_home = match &self.seek {
            Seek::At(key) => node.holds(key),
            Seek::Below(Some(key)) => node.low < *key || node.low.is_empty(),
            Seek::Below(None) => true,
        };
        if !is_home {
            let (place, what) = (Node::place(pointer), "node of the key");
            return Err(Stale { place, what });
        }
        let child = match level {
            0 => None,
            _ => Some(node.child(tags, |separator| self.seek.may_begin_at(separator))?),
        };
        self.path.push(node);
        Ok(match child {
            Some(child) => self.ask(child, level - 1),
            None => Step::Done(Path {
                root: self.root.expect("the root came first"),
                nodes: std::mem::take(&mut self.path),
            }),
        })
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
    key: Vec<u8>,
    block: Option<Pointer>,
}

/// Items of one leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Keys and values, by key.
    pub items: Vec<(Vec<u8>, Vec<u8>)>,
    /// The lowest key that the leaf may hold. The range goes on below it with [`Seek::Below`]; empty: it is the first leaf.
    pub low: Vec<u8>,
    /// Above all keys that the leaf may hold. The range goes on there with [`Seek::At`]; `None`: it is the last leaf.
    pub high: Option<Vec<u8>>,
}

/// The reading of one leaf of a range.
#[derive(Clone, Debug)]
pub struct PageOf {
    descent: Descent,
    page: Option<Page>,
    /// Items whose values are being read: index in the page, and block.
    blocks: Vec<(usize, Pointer)>,
}

impl BTree {
    /// Looks an encoded key up.
    pub fn find(&self, key: &[u8]) -> Find {
        Find {
            descent: Descent::new(*self, Seek::At(key.to_vec())),
            key: key.to_vec(),
            block: None,
        }
    }

    /// Reads a leaf: its keys and values as they were at one moment.
    pub fn page(&self, seek: Seek) -> PageOf {
        PageOf {
            descent: Descent::new(*self, seek),
            page: None,
            blocks: Vec::new(),
        }
    }

    pub(super) fn values(&self) -> ItemReader {
        ItemReader {
            tags: self.tags,
            hint: VALUE_HINT,
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
                ItemRead::Longer(place) => Step::Read(vec![Place::last(place)]),
                ItemRead::Stale(stale) => Step::Stale(stale),
            };
        }
        let path = match self.descent.step(bytes) {
            Step::Read(places) => return Step::Read(places),
            Step::Stale(stale) => return Step::Stale(stale),
            Step::Done(path) => path,
        };
        match path.leaf().find(tree.tags, &self.key) {
            Err(stale) => Step::Stale(stale),
            Ok(None) => Step::Done(None),
            Ok(Some(Slot { value, .. })) => match value {
                Value::Inline(value) => Step::Done(Some(value)),
                Value::Block(block, _) => {
                    self.block = Some(block);
                    Step::Read(vec![Place::last(tree.values().first(block))])
                }
            },
        }
    }
}

impl PageOf {
    fn leaf(&mut self, path: &Path) -> Result<Step<Page>, Stale> {
        let leaf = path.leaf();
        let tree = self.descent.tree;
        let mut page = Page {
            items: Vec::new(),
            low: leaf.low.clone(),
            high: leaf.high.clone(),
        };
        for slot in leaf.slots(tree.tags)? {
            let value = match slot.value {
                Value::Inline(value) => value,
                Value::Block(block, _) => {
                    self.blocks.push((page.items.len(), block));
                    Vec::new()
                }
            };
            page.items.push((slot.key, value));
        }
        if self.blocks.is_empty() {
            return Ok(Step::Done(page));
        }
        self.page = Some(page);
        let blocks = self.blocks.iter();
        let places = blocks.map(|(_, block)| Place::last(tree.values().first(*block)));
        Ok(Step::Read(places.collect()))
    }

    fn values(&mut self, mut page: Page, bytes: &[Vec<u8>]) -> Step<Page> {
        let values = self.descent.tree.values();
        let mut longer = Vec::new();
        for ((index, block), bytes) in std::mem::take(&mut self.blocks).into_iter().zip(bytes) {
            match values.judge(block, bytes) {
                ItemRead::Whole(item) => page.items[index].1 = item.value,
                ItemRead::Stale(stale) => return Step::Stale(stale),
                ItemRead::Longer(place) => {
                    self.blocks.push((index, block));
                    longer.push(Place::last(place));
                }
            }
        }
        if longer.is_empty() {
            return Step::Done(page);
        }
        self.page = Some(page);
        Step::Read(longer)
    }
}

impl Traversal for PageOf {
    type End = Page;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Page> {
        if let Some(page) = self.page.take() {
            return self.values(page, bytes);
        }
        match self.descent.step(bytes) {
            Step::Read(places) => Step::Read(places),
            Step::Stale(stale) => Step::Stale(stale),
            Step::Done(path) => self.leaf(&path).unwrap_or_else(Step::Stale),
        }
    }
}
