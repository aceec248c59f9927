//! Ways along a skip list.

use crate::shapes::btree::Seek;
use crate::shapes::root::Root;
use crate::shapes::traversal::{Place, Stale, Step, Traversal};
use crate::wire::Pointer;

use super::node::{LEVELS, Tower, tower_place};
use super::{LEVEL_MAX, SkipList};

/// Towers that one way may read. A list of a million keys has about 25 on the way to one of them.
const HOPS_MAX: usize = 1000;

/// The way to the place of a key: along each level to the last tower below the key, and down.
#[derive(Clone, Debug)]
pub(super) struct Descent {
    pub list: SkipList,
    /// The way ends in front of this key; `None`: at the end of the list.
    bound: Option<Vec<u8>>,
    /// Whether the way may end at a tower of the key on any level, without the towers before it.
    ends_early: bool,
    stage: Stage,
    /// The head, and the towers below the bound on the way.
    towers: Vec<Tower>,
    /// For each level, the index of the last tower below the bound.
    before: [usize; LEVELS],
    level: usize,
    /// The nearest known tower that is not below the bound.
    behind: Option<Tower>,
    root: Root,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Begin,
    Line,
    Head,
    Tower(Pointer),
}

/// The end of a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub root: Root,
    /// The head, and the towers below the bound on the way.
    pub towers: Vec<Tower>,
    /// For each level, the index of the last tower below the bound.
    pub before: [usize; LEVELS],
    /// The first tower that is not below the bound.
    pub behind: Option<Tower>,
}

impl Way {
    /// The tower of the key to which the way led.
    pub fn tower_of(&self, key: &[u8]) -> Option<&Tower> {
        self.behind.as_ref().filter(|tower| tower.key == key)
    }
}

impl Descent {
    /// The way to a key, with the last tower below the key on each level.
    pub fn to(list: SkipList, key: &[u8]) -> Self {
        Self::new(list, Some(key.to_vec()))
    }

    fn new(list: SkipList, bound: Option<Vec<u8>>) -> Self {
        Self {
            list,
            bound,
            ends_early: false,
            stage: Stage::Begin,
            towers: Vec::new(),
            before: [0; LEVELS],
            level: LEVELS - 1,
            behind: None,
            root: Root::default(),
        }
    }

    fn stale(&self, pointer: Pointer, what: &'static str) -> Stale {
        let place = tower_place(self.list.sizes, pointer);
        Stale { place, what }
    }

    fn ask(&mut self, pointer: Pointer, stage: Stage) -> Step<Way> {
        self.stage = stage;
        Step::one(Place::last(tower_place(self.list.sizes, pointer)))
    }

    fn end(&mut self) -> Step<Way> {
        Step::Done(Way {
            root: self.root,
            towers: std::mem::take(&mut self.towers),
            before: self.before,
            behind: self.behind.take(),
        })
    }

    /// Goes on from the last tower below the bound, and down where the next one is not below it.
    fn go_on(&mut self) -> Result<Step<Way>, Stale> {
        loop {
            let here = self.towers.last().expect("the head came first");
            let next = here.links[self.level];
            let is_behind = |tower: &Tower| tower.pointer == next;
            if !next.is_null() && !self.behind.as_ref().is_some_and(is_behind) {
                if self.towers.len() == HOPS_MAX {
                    return Err(self.stale(next, "way to the key"));
                }
                return Ok(self.ask(next, Stage::Tower(next)));
            }
            self.before[self.level] = self.towers.len() - 1;
            let Some(below) = self.level.checked_sub(1) else {
                if next.is_null() {
                    self.behind = None;
                }
                return Ok(self.end());
            };
            self.level = below;
        }
    }

    fn arrive(&mut self, tower: Tower) -> Result<Step<Way>, Stale> {
        let here = self.towers.last().expect("the head came first");
        if tower.is_head() || !here.is_head() && tower.key <= here.key {
            return Err(self.stale(tower.pointer, "tower behind the one before it"));
        }
        if self.bound.as_ref().is_none_or(|bound| tower.key < *bound) {
            self.towers.push(tower);
            return self.go_on();
        }
        let is_found = self.ends_early && self.bound.as_ref() == Some(&tower.key);
        self.behind = Some(tower);
        match is_found {
            true => Ok(self.end()),
            false => self.go_on(),
        }
    }

    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<Way>, Stale> {
        let list = self.list;
        let of = (list.sizes, list.tags);
        match self.stage {
            Stage::Begin => {
                self.stage = Stage::Line;
                Ok(Step::one(list.line()))
            }
            Stage::Line => {
                self.root = Root::parse(list.tags, list.anchor, LEVEL_MAX, &bytes[0])?;
                Ok(self.ask(self.root.top, Stage::Head))
            }
            Stage::Head => {
                let head = Tower::parse(of, self.root.top, &bytes[0])?;
                if !head.is_head() {
                    return Err(self.stale(self.root.top, "head of a skip list"));
                }
                self.towers.push(head);
                self.go_on()
            }
            Stage::Tower(pointer) => self.arrive(Tower::parse(of, pointer, &bytes[0])?),
        }
    }
}

impl Traversal for Descent {
    type End = Way;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Way> {
        self.advance(bytes).unwrap_or_else(Step::Stale)
    }
}

/// The way to the item of a key.
#[derive(Clone, Debug)]
pub struct ItemOfKey(Descent);

impl ItemOfKey {
    pub(super) fn new(list: SkipList, key: &[u8]) -> Self {
        Self(Descent {
            ends_early: true,
            ..Descent::to(list, key)
        })
    }
}

impl Traversal for ItemOfKey {
    type End = Option<Pointer>;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Self::End> {
        let Self(descent) = self;
        let step = descent.step(bytes);
        let key = descent.bound.as_deref().unwrap_or_default();
        step.map(|way| way.tower_of(key).map(|tower| tower.item.0))
    }
}

/// The way to the first key at or above a bound, or to the last one below it.
#[derive(Clone, Debug)]
pub struct Neighbour {
    descent: Descent,
    is_below: bool,
}

impl Neighbour {
    pub(super) fn new(list: SkipList, seek: &Seek) -> Self {
        let (bound, is_below) = match seek {
            Seek::At(key) => (Some(key.clone()), false),
            Seek::Below(key) => (key.clone(), true),
        };
        Self {
            descent: Descent::new(list, bound),
            is_below,
        }
    }
}

impl Traversal for Neighbour {
    type End = Option<(Vec<u8>, Pointer)>;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Self::End> {
        let is_below = self.is_below;
        self.descent.step(bytes).map(|mut way| {
            let tower = match is_below {
                true => way.towers.pop().filter(|tower| !tower.is_head()),
                false => way.behind,
            };
            tower.map(|tower| (tower.key, tower.item.0))
        })
    }
}
