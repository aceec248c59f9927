//! Values of structures whose nodes have one key each: they are items of their own, which are read after the node.

use crate::shapes::btree::{Page, Seek};
use crate::shapes::contents::Contents;
use crate::shapes::item::{ItemRead, ItemReader};
use crate::shapes::traversal::{Place, Places, Stale, Step, Traversal};
use crate::wire::Pointer;

/// The look-up of one key: the way to its item, and then the item.
#[derive(Clone, Debug)]
pub struct FindValue<W> {
    way: W,
    values: ItemReader,
    block: Option<Pointer>,
}

impl<W: Traversal<End = Option<Pointer>>> FindValue<W> {
    pub(super) fn new(way: W, values: ItemReader) -> Self {
        Self {
            way,
            values,
            block: None,
        }
    }
}

impl<W: Traversal<End = Option<Pointer>>> Traversal for FindValue<W> {
    type End = Option<Vec<u8>>;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Self::End> {
        if let Some(block) = self.block {
            return match self.values.judge(block, &bytes[0]) {
                ItemRead::Whole(item) => Step::Done(Some(item.value)),
                ItemRead::Longer(place) => Step::one(Place::last(place)),
                ItemRead::Stale(stale) => Step::Stale(stale),
            };
        }
        match self.way.step(bytes) {
            Step::Read(places) => Step::Read(places),
            Step::Stale(stale) => Step::Stale(stale),
            Step::Done(None) => Step::Done(None),
            Step::Done(Some(block)) => {
                self.block = Some(block);
                Step::one(Place::last(self.values.first(block)))
            }
        }
    }
}

/// The reading of one key of a range: the first one at or above a bound, or the last one below it. `W` is the way to
/// the key and its item.
#[derive(Clone, Debug)]
pub struct OnePage<W> {
    way: W,
    values: ItemReader,
    seek: Seek,
    /// The key whose value is being read, and the block of the value.
    found: Option<(Vec<u8>, Pointer)>,
}

/// The key directly above `key`.
fn above(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl<W: Traversal<End = Option<(Vec<u8>, Pointer)>>> OnePage<W> {
    pub(super) fn new(way: W, values: ItemReader, seek: Seek) -> Self {
        Self {
            way,
            values,
            seek,
            found: None,
        }
    }

    /// The page after the last key.
    fn nothing(&self) -> Page {
        let bounds = match &self.seek {
            Seek::At(key) => (key.clone(), None),
            Seek::Below(key) => (Vec::new(), key.clone()),
        };
        Page::of_one(bounds, None)
    }
}

impl<W: Traversal<End = Option<(Vec<u8>, Pointer)>>> Traversal for OnePage<W> {
    type End = Page;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Page> {
        if let Some((key, block)) = self.found.take() {
            return match self.values.judge(block, &bytes[0]) {
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
        match self.way.step(bytes) {
            Step::Read(places) => Step::Read(places),
            Step::Stale(stale) => Step::Stale(stale),
            Step::Done(None) => Step::Done(self.nothing()),
            Step::Done(Some((key, block))) => {
                self.found = Some((key, block));
                Step::one(Place::last(self.values.first(block)))
            }
        }
    }
}

/// The reading of all values of a structure, after its nodes.
#[derive(Clone, Debug)]
pub(super) struct ValuesOf {
    values: ItemReader,
    /// Values that are read: the index of the item, and its block.
    blocks: Vec<(usize, Pointer)>,
    has_begun: bool,
}

impl ValuesOf {
    /// Puts the keys of `found` among the contents, in order. [`ValuesOf::step`] reads their values.
    pub fn new(
        values: ItemReader,
        contents: &mut Contents,
        found: &mut Vec<(Vec<u8>, Pointer)>,
    ) -> Self {
        found.sort();
        let mut blocks = Vec::new();
        for (index, (key, block)) in found.drain(..).enumerate() {
            contents.items.push((key, Vec::new()));
            blocks.push((index, block));
        }
        Self {
            values,
            blocks,
            has_begun: false,
        }
    }

    /// Takes the bytes that were read. Returns the places to read next; none at the end.
    pub fn step(&mut self, contents: &mut Contents, bytes: &[Vec<u8>]) -> Result<Places, Stale> {
        if !std::mem::replace(&mut self.has_begun, true) {
            let places = self
                .blocks
                .iter()
                .map(|(_, block)| self.values.first(*block));
            return Ok(places.map(Place::last).collect());
        }
        let (mut left, mut places) = (Vec::new(), Places::new());
        for ((index, block), bytes) in std::mem::take(&mut self.blocks).into_iter().zip(bytes) {
            match self.values.judge(block, bytes) {
                ItemRead::Stale(stale) => return Err(stale),
                ItemRead::Longer(place) => {
                    left.push((index, block));
                    places.push(Place::last(place));
                }
                ItemRead::Whole(item) => contents.items[index].1 = item.value,
            }
        }
        self.blocks = left;
        Ok(places)
    }
}
