//! A walk over a whole binary search tree.

use crate::shapes::contents::Contents;
use crate::shapes::item::item_size;
use crate::shapes::root::{ROOT_LINE_SIZE, Root};
use crate::shapes::traversal::{Place, Stale, Step, Traversal};
use crate::wire::Pointer;

use super::seek::LEVEL_MAX;
use super::value::ValuesOf;
use super::{BinaryTree, TreePlace};

/// Levels of the highest tree. A tree with more is damaged.
const LEVELS_MAX: u32 = 400;

/// Reads everything of a tree: all nodes of a level at once, then all values.
#[derive(Clone, Debug)]
pub struct Walk {
    tree: BinaryTree,
    contents: Contents,
    /// Keys with the blocks of their values.
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
    Values(ValuesOf),
}

impl Walk {
    /// Reads a whole tree, which should not change during the walk.
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
                TreePlace::Version(root, _) => self.begin(root),
            },
            Stage::Root(anchor) => {
                let root = Root::parse(self.tree.tags, anchor, LEVEL_MAX, &bytes[0])?;
                self.begin(root)
            }
            Stage::Nodes(wanted) => self.nodes(wanted, bytes),
            Stage::Values(values) => self.read_values(values, bytes),
        }
    }

    fn begin(&mut self, root: Root) -> Result<Step<Contents>, Stale> {
        self.contents.length = root.length;
        self.contents.blocks.extend(self.tree.line());
        let top = Wanted {
            pointer: root.top,
            low: None,
            high: None,
        };
        self.read_nodes(vec![top])
    }

    fn read_nodes(&mut self, mut wanted: Vec<Wanted>) -> Result<Step<Contents>, Stale> {
        wanted.retain(|node| !node.pointer.is_null());
        if wanted.is_empty() {
            let values = ValuesOf::new(self.tree.values(), &mut self.contents, &mut self.found);
            return self.read_values(values, &[]);
        }
        let places = wanted.iter().map(|node| self.tree.place_of(node.pointer));
        let places = places.collect();
        self.stage = Stage::Nodes(wanted);
        Ok(Step::Read(places))
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
        self.read_nodes(below)
    }

    fn read_values(
        &mut self,
        mut values: ValuesOf,
        bytes: &[Vec<u8>],
    ) -> Result<Step<Contents>, Stale> {
        let places = values.step(&mut self.contents, bytes)?;
        if places.is_empty() {
            return Ok(Step::Done(std::mem::take(&mut self.contents)));
        }
        self.stage = Stage::Values(values);
        Ok(Step::Read(places))
    }
}

impl Traversal for Walk {
    type End = Contents;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Contents> {
        self.advance(bytes).unwrap_or_else(Step::Stale)
    }
}
