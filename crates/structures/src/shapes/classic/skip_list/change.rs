//! Changes of a skip list.

use crate::shapes::item::{ItemRead, item_bytes, item_size};
use crate::shapes::key_change::{Effect, KeyChange};
use crate::shapes::traversal::{Answer, Place, Stale, Step, Traversal};
use crate::space::{Draft, SpaceFault};
use crate::wire::{Pointer, Verb};

use super::SkipList;
use super::node::{Tower, tower_size};
use super::seek::{Descent, Way};

/// The walk before a change of one key.
#[derive(Clone, Debug)]
pub struct ListChange {
    descent: Descent,
    change: KeyChange,
    /// The value of the key is read from this block.
    value: Option<(ListChangePlan, Pointer)>,
}

/// Everything that a change needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListChangePlan {
    list: SkipList,
    change: KeyChange,
    way: Way,
    /// The value of the key, if the change depends on it.
    current: Vec<u8>,
}

impl ListChange {
    /// Changes an encoded key of a list. `verb` is a verb for keys.
    ///
    /// # Panics
    /// Panics if the key or value is longer than the list permits.
    pub fn new(list: SkipList, verb: Verb, key: &[u8], value: &[u8]) -> Self {
        assert!(key.len() <= list.sizes.key_size_max());
        Self {
            descent: Descent::to(list, key),
            change: KeyChange::new(verb, key, value),
            value: None,
        }
    }

    fn arrived(&mut self, way: Way) -> Step<ListChangePlan> {
        let list = self.descent.list;
        let block = way.tower_of(&self.change.key).map(|tower| tower.item.0);
        let plan = ListChangePlan {
            list,
            change: self.change.clone(),
            way,
            current: Vec::new(),
        };
        match block.filter(|_| self.change.compares()) {
            None => Step::Done(plan),
            Some(block) => {
                self.value = Some((plan, block));
                Step::one(Place::last(list.values().first(block)))
            }
        }
    }

    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<ListChangePlan>, Stale> {
        let Some((mut plan, block)) = self.value.take() else {
            return Ok(match self.descent.step(bytes) {
                Step::Read(places) => Step::Read(places),
                Step::Stale(stale) => Step::Stale(stale),
                Step::Done(way) => self.arrived(way),
            });
        };
        match plan.list.values().judge(block, &bytes[0]) {
            ItemRead::Stale(stale) => Err(stale),
            ItemRead::Longer(place) => {
                self.value = Some((plan, block));
                Ok(Step::one(Place::last(place)))
            }
            ItemRead::Whole(item) => {
                plan.current = item.value;
                Ok(Step::Done(plan))
            }
        }
    }
}

impl Traversal for ListChange {
    type End = ListChangePlan;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<ListChangePlan> {
        self.advance(bytes).unwrap_or_else(Step::Stale)
    }
}

impl ListChangePlan {
    /// Writes the change.
    ///
    /// # Errors
    /// [`SpaceFault`]: the draft has to be dropped.
    pub(crate) fn apply(mut self, draft: &mut Draft<'_>) -> Result<Answer, SpaceFault> {
        let change = self.change.clone();
        let found = self.way.tower_of(&change.key).cloned();
        let current = found.as_ref().map(|_| &*self.current);
        let (answer, effect) = change.outcome(current);
        match (effect, found) {
            (Effect::Nothing, _) | (Effect::Remove, None) => {}
            (Effect::Remove, Some(tower)) => self.remove(draft, &tower)?,
            (Effect::Put(value), Some(tower)) => self.replace(draft, tower, value)?,
            (Effect::Put(value), None) => self.insert(draft, value)?,
        }
        Ok(answer)
    }

    fn new_item(
        &self,
        draft: &mut Draft<'_>,
        value: &[u8],
    ) -> Result<(Pointer, usize), SpaceFault> {
        let block = draft.allocate(item_size(0, value.len()))?;
        let bytes = item_bytes(self.list.tags, block, &[], value);
        draft.write(block.offset(), &bytes);
        Ok((block, value.len()))
    }

    fn free_item(&self, draft: &mut Draft<'_>, tower: &Tower) -> Result<(), SpaceFault> {
        let (block, value_size) = tower.item;
        draft.free(block, item_size(0, value_size))
    }

    fn replace(
        &self,
        draft: &mut Draft<'_>,
        mut tower: Tower,
        value: &[u8],
    ) -> Result<(), SpaceFault> {
        self.free_item(draft, &tower)?;
        tower.item = self.new_item(draft, value)?;
        tower.write_item(draft, (self.list.sizes, self.list.tags));
        Ok(())
    }

    /// Links the new tower from level 0 upwards.
    fn insert(&mut self, draft: &mut Draft<'_>, value: &[u8]) -> Result<(), SpaceFault> {
        let list = self.list;
        let key = self.change.key.clone();
        let height = list.height(&key);
        let mut tower = Tower {
            item: self.new_item(draft, value)?,
            key,
            ..Tower::head(draft.allocate(tower_size(list.sizes))?)
        };
        for (level, link) in tower.links.iter_mut().enumerate().take(height) {
            *link = self.way.towers[self.way.before[level]].links[level];
        }
        tower.write_whole(draft, (list.sizes, list.tags));
        for level in 0..height {
            self.link(draft, level, tower.pointer);
        }
        self.note_length(draft, self.way.root.length + 1);
        Ok(())
    }

    /// Unlinks a tower from the top down.
    fn remove(&mut self, draft: &mut Draft<'_>, tower: &Tower) -> Result<(), SpaceFault> {
        let list = self.list;
        for level in (0..list.height(&tower.key)).rev() {
            self.link(draft, level, tower.links[level]);
        }
        self.free_item(draft, tower)?;
        draft.free(tower.pointer, tower_size(list.sizes))?;
        self.note_length(draft, self.way.root.length.saturating_sub(1));
        Ok(())
    }

    /// Changes the link of a level that passes the key.
    fn link(&mut self, draft: &mut Draft<'_>, level: usize, next: Pointer) {
        let before = &mut self.way.towers[self.way.before[level]];
        before.links[level] = next;
        before.write_links(draft, (self.list.sizes, self.list.tags), level..level + 1);
    }

    fn note_length(&mut self, draft: &mut Draft<'_>, length: u64) {
        let root = &mut self.way.root;
        root.length = length;
        root.write_length(draft, self.list.tags, self.list.anchor);
    }
}
