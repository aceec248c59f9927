//! Ways down a tree: to a key, and to a leaf of a range.

use std::ops::Range;

use stonecast_base::mutant;

use crate::shapes::item::{ItemRead, ItemReader};
use crate::shapes::root::{ROOT_LINE_SIZE, Root};
use crate::shapes::tag::TagKey;
use crate::shapes::traversal::{Place, Places, Stale, Step, Traversal};
use crate::wire::Pointer;

use super::aim::Aim;
use super::geometry::NODE_SIZE;
use super::inner_nodes::{InnerNode, Way};
use super::node::{Node, NodeView, SlotView, ValueView};
use super::{BTree, LEVEL_MAX, TreePlace};

/// The most nodes that one way down may read. A tree that keeps growing sends a reader to the right again and again.
pub(super) const HOPS_MAX: u32 = 200;
/// Bytes that are read of a value in a block, at first.
const VALUE_HINT: usize = 4096;

/// The leaf that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Seek {
    /// The leaf that holds this key, if any does.
    At(Vec<u8>),
    /// The leaf with the highest keys below this one; `None`: with the highest of all.
    Below(Option<Vec<u8>>),
}

impl Seek {
    pub(super) fn aim(&self) -> Aim<'_> {
        match self {
            Self::At(key) => Aim::At(key),
            Self::Below(key) => Aim::Below(key.as_deref()),
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
}

/// The next step of a way down.
pub(super) enum Down<'a> {
    Read(Places),
    /// The leaf that is wanted.
    Leaf(NodeView<'a>),
}

impl Descent {
    pub fn new(tree: BTree, seek: Seek) -> Self {
        Self {
            tree,
            seek,
            root: None,
            wanted: None,
            hops: 0,
        }
    }

    fn begin_again(&mut self) {
        (self.root, self.wanted, self.hops) = (None, None, 0);
    }

    fn ask(&mut self, pointer: Pointer, level: u32) -> Result<Down<'static>, Stale> {
        self.places_of(pointer, level).map(Down::Read)
    }

    fn places_of(&mut self, pointer: Pointer, level: u32) -> Result<Places, Stale> {
        self.hops += 1;
        let span = Node::place(pointer);
        if self.hops > HOPS_MAX || pointer.is_null() {
            let (place, what) = (span, "way to the key");
            return Err(Stale { place, what });
        }
        self.wanted = Some((pointer, level));
        Ok(Places::from_iter([match level {
            0 if !self.tree.is_version() => Place::last(span),
            _ => Place::inner(span),
        }]))
    }

    /// Takes the next step over the inner node that was asked for. `None`: the node is not on the way, so its bytes
    /// have to show why.
    fn advance_over(&mut self, node: &InnerNode) -> Option<Result<Places, Stale>> {
        let (_, level) = self
            .wanted
            .filter(|(pointer, _)| *pointer == node.pointer())?;
        Some(match node.way(level, self.seek.aim())? {
            Way::Right(right) => self.places_of(right, level),
            Way::Down(child) => self.places_of(child, level.checked_sub(1)?),
        })
    }

    /// Takes the next step. `inner` sees the nodes on the way, one of each level.
    pub fn advance<'a>(
        &mut self,
        bytes: &'a [Vec<u8>],
        inner: impl FnOnce(NodeView<'a>),
    ) -> Result<Down<'a>, Stale> {
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
                    return Ok(Down::Read(Places::from_iter([Place::inner(line)])));
                }
                (TreePlace::Line(anchor), Some(bytes)) => {
                    Root::parse(tags, anchor, LEVEL_MAX, bytes)?
                }
            };
            self.root = Some(root);
            return self.ask(root.top, root.level);
        };
        let node = NodeView::parse((geometry, tags), pointer, level, &bytes[0])?;
        if let TreePlace::Version(_, youngest) = place
            && node.birth > youngest
            && !mutant!(BirthNotChecked)
        {
            let (place, what) = (Node::place(pointer), "node of the version");
            return Err(Stale { place, what });
        }
        if self.seek.aim().is_right_of(&node.fences) {
            return self.ask(node.right, level);
        }
        if !self.seek.aim().is_at(&node.fences) {
            let (place, what) = (Node::place(pointer), "node of the key");
            return Err(Stale { place, what });
        }
        if level == 0 {
            return Ok(Down::Leaf(node));
        }
        let may_begin_at = |separator: &[u8]| self.seek.aim().may_begin_at(separator);
        let child = node.slots.child(tags, may_begin_at)?;
        inner(node);
        self.ask(child, level - 1)
    }
}

/// The way down before a change, with the nodes on it.
#[derive(Clone, Debug)]
pub(super) struct WayDown {
    descent: Descent,
    nodes: Vec<Node>,
    keeps: Keeps,
    /// The last inner node on the way, for walks after this one.
    decoded: Option<InnerNode>,
}

/// The nodes of a way that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    /// The leaf. If the leaf is full, the way is walked once more: the other nodes change only if the leaf is split.
    Leaf,
    /// All nodes from the lowest one that has room.
    FromRoom,
    /// All nodes. A change copies them, or adds to each.
    All,
}

/// The end of a way down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub root: Root,
    /// The nodes from the topmost one that may change to the leaf; one of each level.
    pub nodes: Vec<Node>,
}

impl Path {
    pub fn leaf(&self) -> &Node {
        self.nodes.last().expect("a tree has a leaf")
    }
}

impl WayDown {
    pub fn new(tree: BTree, seek: Seek) -> Self {
        Self {
            descent: Descent::new(tree, seek),
            nodes: Vec::new(),
            decoded: None,
            keeps: match tree.is_version() {
                true => Keeps::All,
                false => Keeps::Leaf,
            },
        }
    }

    /// A way that keeps the nodes of all levels.
    pub fn whole(tree: BTree, seek: Seek) -> Self {
        Self {
            keeps: Keeps::All,
            ..Self::new(tree, seek)
        }
    }

    pub fn tree(&self) -> BTree {
        self.descent.tree
    }

    /// Takes the next step over the node that was asked for, in its decoded form. `None`: the step needs the bytes.
    pub fn step_over(&mut self, node: &InnerNode) -> Option<Step<Path>> {
        if self.keeps != Keeps::Leaf {
            return None;
        }
        Some(match self.descent.advance_over(node)? {
            Ok(places) => Step::Read(places),
            Err(stale) => Step::Stale(stale),
        })
    }

    /// The inner node of the last step in its decoded form, if the way may lead over it again.
    pub fn take_decoded(&mut self) -> Option<InnerNode> {
        self.decoded.take()
    }
}

impl Traversal for WayDown {
    type End = Path;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Path> {
        let (nodes, keeps) = (&mut self.nodes, self.keeps);
        let (tags, decoded) = (self.descent.tree.tags, &mut self.decoded);
        let mut keep = |node: NodeView<'_>| {
            if keeps == Keeps::FromRoom && !node.slots.is_full() {
                nodes.clear();
            }
            nodes.push(node.to_node());
        };
        let inner = |node: NodeView<'_>| match keeps {
            // A damaged slot concerns the walks that meet it.
            Keeps::Leaf => *decoded = InnerNode::decode(&node, tags).ok(),
            Keeps::FromRoom | Keeps::All => keep(node),
        };
        match self.descent.advance(bytes, inner) {
            Err(stale) => Step::Stale(stale),
            Ok(Down::Read(places)) => Step::Read(places),
            Ok(Down::Leaf(leaf)) if keeps == Keeps::Leaf && leaf.slots.is_full() => {
                self.keeps = Keeps::FromRoom;
                self.descent.begin_again();
                self.step(&[])
            }
            Ok(Down::Leaf(leaf)) => {
                keep(leaf);
                Step::Done(Path {
                    root: self.descent.root.expect("the root came first"),
                    nodes: std::mem::take(&mut self.nodes),
                })
            }
        }
    }
}

/// The look-up of one key.
#[derive(Clone, Debug)]
pub struct Find {
    descent: Descent,
    block: Option<Pointer>,
}

/// Items of one leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The bytes of keys and values.
    bytes: Vec<u8>,
    items: Vec<PageItem>,
    /// The lowest key that the leaf may hold. The range goes on below it with [`Seek::Below`]; empty: it is the first
    /// leaf.
    pub low: Vec<u8>,
    /// Above all keys that the leaf may hold. The range goes on there with [`Seek::At`]; `None`: it is the last leaf.
    pub high: Option<Vec<u8>>,
}

/// The places of key and value in the bytes of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PageItem {
    key: Range<usize>,
    value: Range<usize>,
}

impl Page {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Bytes of the keys and values.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the leaf has no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Key and value of the item with this index. Items are in the order of their keys.
    ///
    /// # Panics
    /// Panics if the page has fewer items.
    pub fn item(&self, index: usize) -> (&[u8], &[u8]) {
        let PageItem { key, value } = &self.items[index];
        (&self.bytes[key.clone()], &self.bytes[value.clone()])
    }

    /// Keys and values, by key.
    pub fn items(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        (0..self.len()).map(|index| self.item(index))
    }

    /// The number of items whose keys are below a bound. Once `is_below` does not hold for a key, it holds for no later
    /// key.
    pub fn partition_point(&self, is_below: impl Fn(&[u8]) -> bool) -> usize {
        let key = |item: &PageItem| is_below(&self.bytes[item.key.clone()]);
        self.items.partition_point(key)
    }

    /// A page between two bounds, with at most one item.
    pub(in crate::shapes) fn of_one(
        (low, high): (Vec<u8>, Option<Vec<u8>>),
        item: Option<(&[u8], &[u8])>,
    ) -> Self {
        let mut page = Self {
            bytes: Vec::new(),
            items: Vec::new(),
            low,
            high,
        };
        if let Some((key, value)) = item {
            let (key, value) = (page.add(key), page.add(value));
            page.items.push(PageItem { key, value });
        }
        page
    }

    /// The items of a leaf, in the memory of another page. Items whose values lie in blocks are left empty; `blocks`
    /// gets their indices and blocks.
    pub(super) fn of_leaf(
        leaf: &NodeView<'_>,
        tags: TagKey,
        blocks: &mut Vec<(usize, Pointer)>,
        mut page: Self,
    ) -> Result<Self, Stale> {
        page.bytes.clear();
        page.bytes.reserve(NODE_SIZE as usize);
        page.items.clear();
        page.items.reserve(leaf.slots.count());
        page.low.clear();
        page.low.extend_from_slice(leaf.fences.low);
        page.high = leaf.fences.high.map(|high| {
            let mut bytes = page.high.take().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(high);
            bytes
        });
        for slot in leaf.slots.all(tags) {
            let SlotView { key, value, .. } = slot?;
            let value = match value {
                ValueView::Inline(value) => value,
                ValueView::Block(block, _) => {
                    blocks.push((page.items.len(), block));
                    &[]
                }
            };
            let (key, value) = (page.add(key), page.add(value));
            page.items.push(PageItem { key, value });
        }
        Ok(page)
    }

    fn add(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
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

impl Find {
    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<Option<Vec<u8>>>, Stale> {
        let tree = self.descent.tree;
        if let Some(block) = self.block {
            return Ok(match tree.values().judge(block, &bytes[0]) {
                ItemRead::Whole(item) => Step::Done(Some(item.value)),
                ItemRead::Longer(place) => Step::one(Place::last(place)),
                ItemRead::Stale(stale) => Step::Stale(stale),
            });
        }
        let leaf = match self.descent.advance(bytes, |_| {})? {
            Down::Read(places) => return Ok(Step::Read(places)),
            Down::Leaf(leaf) => leaf,
        };
        let Seek::At(key) = &self.descent.seek else {
            unreachable!("a look-up has a key")
        };
        let slot = leaf.slots.find(tree.tags, key)?;
        Ok(match slot.map(|slot| slot.value) {
            None => Step::Done(None),
            Some(ValueView::Inline(value)) => Step::Done(Some(value.to_vec())),
            Some(ValueView::Block(block, _)) => {
                self.block = Some(block);
                Step::one(Place::last(tree.values().first(block)))
            }
        })
    }
}

impl Traversal for Find {
    type End = Option<Vec<u8>>;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Self::End> {
        self.advance(bytes).unwrap_or_else(Step::Stale)
    }
}

impl PageOf {
    fn leaf(&mut self, leaf: &NodeView<'_>) -> Result<Step<Page>, Stale> {
        let tree = self.descent.tree;
        let page = Page::of_leaf(leaf, tree.tags, &mut self.blocks, Page::default())?;
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
        let mut longer = Places::new();
        for ((index, block), bytes) in std::mem::take(&mut self.blocks).into_iter().zip(bytes) {
            match values.judge(block, bytes) {
                ItemRead::Whole(item) => page.items[index].value = page.add(&item.value),
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
        match self.descent.advance(bytes, |_| {}) {
            Err(stale) => Step::Stale(stale),
            Ok(Down::Read(places)) => Step::Read(places),
            Ok(Down::Leaf(leaf)) => self.leaf(&leaf).unwrap_or_else(Step::Stale),
        }
    }
}
