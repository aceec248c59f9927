//! A walk over a whole skip list.

use crate::shapes::classic::value::ValuesOf;
use crate::shapes::contents::Contents;
use crate::shapes::item::item_size;
use crate::shapes::root::{ROOT_LINE_SIZE, Root};
use crate::shapes::traversal::{Place, Stale, Step, Traversal};
use crate::wire::Pointer;

use super::node::{LEVELS, Tower, tower_place, tower_size};
use super::{LEVEL_MAX, SkipList};

/// Reads everything of a list: the towers along level 0, and then all values.
#[derive(Clone, Debug)]
pub struct ListWalk {
    list: SkipList,
    contents: Contents,
    /// Keys with the blocks of their values.
    found: Vec<(Vec<u8>, Pointer)>,
    /// The links of the last tower that each level has reached.
    expected: [Pointer; LEVELS],
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Begin,
    Line,
    Tower(Pointer),
    Values(ValuesOf),
}

impl ListWalk {
    /// Reads a whole list, which should not change during the walk.
    pub fn new(list: SkipList) -> Self {
        Self {
            list,
            contents: Contents::default(),
            found: Vec::new(),
            expected: [Pointer::NULL; LEVELS],
            stage: Stage::Begin,
        }
    }

    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<Contents>, Stale> {
        let list = self.list;
        match std::mem::replace(&mut self.stage, Stage::Begin) {
            Stage::Begin => {
                self.stage = Stage::Line;
                Ok(Step::one(Place::last(list.line().span)))
            }
            Stage::Line => {
                let root = Root::parse(list.tags, list.anchor, LEVEL_MAX, &bytes[0])?;
                self.contents.length = root.length;
                self.contents.blocks.push((list.anchor, ROOT_LINE_SIZE));
                Ok(self.read_tower(root.top))
            }
            Stage::Tower(pointer) => {
                let tower = Tower::parse((list.sizes, list.tags), pointer, &bytes[0])?;
                self.note(tower)
            }
            Stage::Values(values) => self.read_values(values, bytes),
        }
    }

    fn read_tower(&mut self, pointer: Pointer) -> Step<Contents> {
        self.stage = Stage::Tower(pointer);
        Step::one(Place::last(tower_place(self.list.sizes, pointer)))
    }

    /// Notes a tower. Exactly the levels that the height of the tower reaches have to link it.
    fn note(&mut self, tower: Tower) -> Result<Step<Contents>, Stale> {
        let list = self.list;
        let place = tower_place(list.sizes, tower.pointer);
        let blocks = &mut self.contents.blocks;
        blocks.push((tower.pointer, tower_size(list.sizes)));
        let height = match tower.is_head() {
            true => LEVELS,
            false => list.height(&tower.key),
        };
        if !tower.is_head() {
            let (item, value_size) = tower.item;
            blocks.push((item, item_size(0, value_size)));
            let is_linked =
                |(level, link): (usize, &Pointer)| (*link == tower.pointer) == (level < height);
            let is_above = |(key, _): &(Vec<u8>, Pointer)| *key < tower.key;
            let is_next = self.found.last().is_none_or(is_above);
            if !is_next || !self.expected.iter().enumerate().all(is_linked) {
                let what = "tower between its neighbours";
                return Err(Stale { place, what });
            }
            self.found.push((tower.key, item));
        } else if !self.found.is_empty() {
            let what = "tower of a key";
            return Err(Stale { place, what });
        }
        self.expected[..height].copy_from_slice(&tower.links[..height]);
        let next = tower.links[0];
        match next.is_null() {
            false => Ok(self.read_tower(next)),
            true if self.expected.iter().any(|link| !link.is_null()) => {
                let what = "last tower of each level";
                Err(Stale { place, what })
            }
            true => {
                let values = ValuesOf::new(list.values(), &mut self.contents, &mut self.found);
                self.read_values(values, &[])
            }
        }
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

impl Traversal for ListWalk {
    type End = Contents;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Contents> {
        self.advance(bytes).unwrap_or_else(Step::Stale)
    }
}
