//! A walk over a whole tree.

use crate::shapes::contents::Contents;
use crate::shapes::item::ItemRead;
use crate::shapes::root::{ROOT_LINE_SIZE, Root};
use crate::shapes::traversal::{Place, Places, Stale, Step, Traversal};
use crate::wire::Pointer;

use super::geometry::NODE_SIZE;
use super::node::{Node, NodeView, Slot, SlotView, Value};
use super::{BTree, LEVEL_MAX, TreePlace};

/// Reads everything of a tree: all nodes of a level at once, then all values in blocks.
#[derive(Clone, Debug)]
pub struct Walk {
    tree: BTree,
    contents: Contents,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Begin,
    Root(Pointer),
    /// Nodes of this level.
    Nodes(u32, Vec<Pointer>),
    /// Items of the contents whose values are being read, with the blocks of the values.
    Values(Vec<(usize, Pointer)>),
}

impl BTree {
    /// Reads the whole tree, which should not change during the walk.
    pub fn walk(&self) -> Walk {
        Walk {
            tree: *self,
            contents: Contents::default(),
            stage: Stage::Begin,
        }
    }
}

impl Walk {
    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<Contents>, Stale> {
        let BTree { place, tags, .. } = self.tree;
        match std::mem::replace(&mut self.stage, Stage::Begin) {
            Stage::Begin => match place {
                TreePlace::Line(anchor) => {
                    self.stage = Stage::Root(anchor);
                    Ok(Step::one(Place::last(anchor.span(ROOT_LINE_SIZE))))
                }
                TreePlace::Version(root, _) => Ok(self.begin(root)),
            },
            Stage::Root(anchor) => {
                let root = Root::parse(tags, anchor, LEVEL_MAX, &bytes[0])?;
                Ok(self.begin(root))
            }
            Stage::Nodes(level, pointers) => self.nodes(level, &pointers, bytes),
            Stage::Values(blocks) => self.values(blocks, bytes),
        }
    }

    fn begin(&mut self, root: Root) -> Step<Contents> {
        self.contents.length = root.length;
        self.contents.blocks.extend(self.tree.place.line());
        self.read_nodes(root.level, vec![root.top])
    }

    fn read_nodes(&mut self, level: u32, pointers: Vec<Pointer>) -> Step<Contents> {
        let places = pointers.iter().map(|node| Place::last(Node::place(*node)));
        let places = places.collect();
        self.stage = Stage::Nodes(level, pointers);
        Step::Read(places)
    }

    fn nodes(
        &mut self,
        level: u32,
        pointers: &[Pointer],
        bytes: &[Vec<u8>],
    ) -> Result<Step<Contents>, Stale> {
        let BTree { tags, geometry, .. } = self.tree;
        let mut slots: Vec<Slot> = Vec::new();
        let mut before: Option<NodeView<'_>> = None;
        for (&pointer, bytes) in pointers.iter().zip(bytes) {
            let node = NodeView::parse((geometry, tags), pointer, level, bytes)?;
            let is_next = before.as_ref().is_none_or(|before| {
                let is_linked = before.right == pointer || self.tree.is_version();
                is_linked && before.fences.high == Some(node.fences.low)
            });
            let of_node = node.slots.all(tags).map(|slot| slot.map(SlotView::to_slot));
            let of_node: Vec<Slot> = of_node.collect::<Result<_, _>>()?;
            if !is_next || !of_node.iter().all(|slot| node.fences.hold(&slot.key)) {
                let (place, what) = (Node::place(pointer), "node between its neighbours");
                return Err(Stale { place, what });
            }
            self.contents.blocks.push((pointer, NODE_SIZE));
            slots.extend(of_node);
            before = Some(node);
        }
        if level > 0 {
            let children = slots.iter().map(Slot::child).collect();
            return Ok(self.read_nodes(level - 1, children));
        }
        let mut blocks = Vec::new();
        for slot in slots {
            let value = match slot.value {
                Value::Inline(value) => value,
                Value::Block(block, _) => {
                    blocks.push((self.contents.items.len(), block));
                    Vec::new()
                }
            };
            self.contents.items.push((slot.key, value));
        }
        let values = self.tree.values();
        let places = blocks
            .iter()
            .map(|(_, block)| Place::last(values.first(*block)));
        let places = places.collect();
        self.stage = Stage::Values(blocks);
        Ok(Step::Read(places))
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
                ItemRead::Whole(item) => {
                    self.contents.blocks.push((block, item.size()));
                    self.contents.items[index].1 = item.value;
                }
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
