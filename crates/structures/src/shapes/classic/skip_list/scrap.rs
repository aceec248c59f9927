//! The parts of a skip list that has ended.

use crate::shapes::classic::Sizes;
use crate::shapes::item::item_size;
use crate::shapes::root::Root;
use crate::shapes::scrap::{Part, Scrap};
use crate::shapes::traversal::Stale;
use crate::wire::Pointer;

use super::node::{Tower, tower_size};
use super::{LEVEL_MAX, SkipList};

/// The tower that a pointer names, as a part of an ended list.
fn tower_part(sizes: Sizes, pointer: Pointer) -> Option<Scrap> {
    let size = tower_size(sizes);
    (!pointer.is_null()).then(|| Scrap::new(pointer, Part::Tower { size }))
}

impl SkipList {
    /// The parts of the root line: the head.
    pub(in crate::shapes) fn parts_of_line(
        &self,
        scrap: Scrap,
        bytes: &[u8],
    ) -> Result<Vec<Scrap>, Stale> {
        let root = Root::parse(self.tags, scrap.pointer, LEVEL_MAX, bytes)?;
        Ok(tower_part(self.sizes, root.top).into_iter().collect())
    }

    /// The parts of a tower: the next one, and the value.
    pub(in crate::shapes) fn parts_of_tower(
        &self,
        scrap: Scrap,
        bytes: &[u8],
    ) -> Result<Vec<Scrap>, Stale> {
        let tower = Tower::parse((self.sizes, self.tags), scrap.pointer, bytes)?;
        let (item, value_size) = tower.item;
        let size = item_size(0, value_size);
        let item = (!item.is_null()).then(|| Scrap::new(item, Part::Block { size }));
        let next = tower_part(self.sizes, tower.links[0]);
        Ok(next.into_iter().chain(item).collect())
    }
}
