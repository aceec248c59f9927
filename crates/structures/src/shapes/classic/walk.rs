//! A walk over a whole binary search tree.

use crate::shapes::contents::Contents;
use crate::shapes::item::{ItemRead, item_size};
use crate::shapes::root::{ROOT_LINE_SIZE, Root};
use crate::shapes::traversal::{Place, Places, Stale, Step, Traversal};
use crate::wire::Pointer;

use super::seek::LEVEL_MAX;
use super::{BinaryTree, TreePlace};

/// Levels of the highest tree. A tree with more is damaged.
const LEVELS_MAX: u32 = 400;

/// Reads everything of a tree: all nodes of a level at once, then all values.
#[derive(Clone, Debug)]
pub struct Walk {
    tree: BinaryTree,
    contents: Contents,
    /// Nodes that were read: key, bound of their keys, item.
    found: Vec<(Vec<u8>, Pointer)>,
    levels: u32,
    stage: Stage,
}

/// A node that is to be read, with the keys between which its keys lie.
#[derive(Clone, Debug)]
struct Wanted {
    pointer: Pointer,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
enum Stage {
    Begin,
    Root(Pointer),
    Nodes(Vec<Wanted>),
    /// Values that are read: the index of the item, and its block.
    Values(Vec<(usize, Pointer)>),
}

impl Walk {
    /// Reads a whole tree. Meant for trees that do not change meanwhile.
    pub fn new(tree: BinaryTree) -> Self {
        Self {
            tree,
            contents: Contents::default(),
            found: Vec::new(),
            levels: 0,
            stage: Stage::Begin,
        }
    }

    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<Contents>, Stale> {
        match std::mem::replace(&mut self.stage, Stage::Begin) {
            Stage::Begin => match self.tree.place {
                TreePlace::Line(anchor) => {
                    self.stage = Stage::Root(anchor);
                    Ok(Step::one(Place::last(anchor.span(ROOT_LINE_SIZE))))
                }
                TreePlace::Version(root, _) => Ok(self.begin(root)),
            },
            Stage::Root(anchor) => {
                let root = Root::parse(self.tree.tags, anchor, LEVEL_MAX, &bytes[0])?;
                Ok(self.begin(root))
            }
            Stage::Nodes(wanted) => self.nodes(wanted, bytes),
            Stage::Values(blocks) => self.values(blocks, bytes),
        }
    }

    fn begin(&mut self, root: Root) -> Step<Contents> {
        self.contents.length = root.length;
        self.contents.blocks.extend(self.tree.line());
        let top = Wanted {
            pointer: root.top,
            low: None,
            high: None,
        };
        self.read_nodes(vec![top])
    }

    fn read_nodes(&mut self, mut wanted: Vec<Wanted>) -> Step<Contents> {
        wanted.retain(|node| !node.pointer.is_null());
        if wanted.is_empty() {
            return self.read_values();
        }
        let places = wanted.iter().map(|node| self.tree.place_of(node.pointer));
        let places = places.collect();
        self.stage = Stage::Nodes(wanted);
        Step::Read(places)
    }

    fn nodes(&mut self, wanted: Vec<Wanted>, bytes: &[Vec<u8>]) -> Result<Step<Contents>, Stale> {
        self.levels += 1;
        let mut below = Vec::new();
        for (Wanted { pointer, low, high }, bytes) in wanted.into_iter().zip(bytes) {
            let node = self.tree.node(pointer, bytes)?;
            let is_above = low.as_ref().is_none_or(|low| *low < node.key);
            let is_below = high.as_ref().is_none_or(|high| node.key < *high);
            if !is_above || !is_below || self.levels > LEVELS_MAX {
                let place = self.tree.sizes.node_place(pointer);
                let what = "node between its neighbours";
                return Err(Stale { place, what });
            }
            let (item, value_size) = node.item;
            let size = self.tree.sizes.node_size();
            let blocks = [(pointer, size), (item, item_size(0, value_size))];
            self.contents.blocks.extend(blocks);
            let key = Some(node.key.clone());
            below.push(Wanted {
                pointer: node.left,
                low,
                high: key.clone(),
            });
            below.push(Wanted {
                pointer: node.right,
                low: key,
                high,
            });
            self.found.push((node.key, item));
        }
        Ok(self.read_nodes(below))
    }

    fn read_values(&mut self) -> Step<Contents> {
        self.found.sort();
        let mut blocks = Vec::new();
        for (index, (key, item)) in std::mem::take(&mut self.found).into_iter().enumerate() {
            self.contents.items.push((key, Vec::new()));
            blocks.push((index, item));
        }
        if blocks.is_empty() {
            return Step::Done(std::mem::take(&mut self.contents));
        }
        let values = self.tree.values();
        let places = blocks.iter().map(|(_, item)| values.first(*item));
        let places = places.map(Place::last).collect();
        self.stage = Stage::Values(blocks);
        Step::Read(places)
    }

    fn values(
        &mut self,
        blocks: Vec<(usize, Pointer)>,
        bytes: &[Vec<u8>],
    ) -> Result<Step<Contents>, Stale> {
        let values = self.tree.values();
        let (mut left, mut places) = (Vec::new(), Places::new());
        for ((index, block), bytes) in blocks.into_iter().zip(bytes) {
            match values.judge(block, bytes) {
                ItemRead::Stale(stale) => return Err(stale),
                ItemRead::Longer(place) => {
                    left.push((index, block));
                    places.push(Place::last(place));
                }
                ItemRead::Whole(item) => self.contents.items[index].1 = item.value,
            }
        }
        if left.is_empty() {
            return Ok(Step::Done(std::mem::take(&mut self.contents)));
        }
        self.stage = Stage::Values(left);
        Ok(Step::Read(places))
    }
}

impl Traversal for Walk {
    type End = Contents;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Contents> {
        self.advance(bytes).unwrap_or_else(Step::Stale)
    }
}
