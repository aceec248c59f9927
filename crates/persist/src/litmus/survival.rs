//! The possible remains of a state after a power cut.
//!
//! Each line is lost, kept, or either: a cache may have written it back early. A way to crash is a choice of the open
//! lines that survive. Recovery then applies the messages that are whole.

use crate::step::Item;

use super::machine::Machine;
use super::rules::{Rule, Survives};
use super::state::{Stage, State};

/// The effect of a crash on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    Lost,
    Either,
    Kept,
}

/// The way in which a promise is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Damage {
    /// The requester has concluded, and the update is gone.
    Lost(Item),
    /// `b` survives and `a` does not.
    Reordered,
}

/// A power cut and the lines that it leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crash {
    pub damage: Damage,
    /// One bit for each line of each operation, then one for each line of the copies of `a` and of `b`.
    pub kept: u32,
}

impl Machine {
    /// The effect of a power cut on a line of an operation.
    pub fn fate(&self, state: State, line: usize) -> Fate {
        if self.posted[line].persistent {
            self.fate_at(state.stage(line))
        } else {
            Fate::Lost
        }
    }

    /// The effect of a power cut on data of an operation that has reached the responder's memory.
    pub fn fate_in_memory(&self, line: usize) -> Fate {
        if self.posted[line].persistent {
            self.fate_at(Stage::Controller)
        } else {
            Fate::Lost
        }
    }

    /// The effect of a power cut on a line of persistent memory.
    pub fn fate_at(&self, stage: Stage) -> Fate {
        let early = if self.has(Rule::EarlyEviction) {
            Fate::Either
        } else {
            Fate::Lost
        };
        match (self.hardware.survives, stage) {
            (Survives::Nothing, _) | (_, Stage::Unposted | Stage::Queued | Stage::Lost) => {
                Fate::Lost
            }
            (Survives::Everything, _) => Fate::Kept,
            (_, Stage::Nic) => Fate::Lost,
            (Survives::Visible, _) | (_, Stage::Controller) => Fate::Kept,
            (Survives::Synced | Survives::Controller, Stage::Visible) => Fate::Lost,
            (Survives::Synced | Survives::Controller, Stage::Cache) => early,
        }
    }

    /// The finding of a recovery for `item` after a power cut: the best of its place and of all messages.
    pub fn fate_of(&self, state: State, item: Item) -> Fate {
        let brings = |line: &usize| {
            let post = &self.posted[*line];
            let found = post.is_entry() || self.has(Rule::RecoveryReplays);
            post.target() == Some(item) || (post.holds(item) && found)
        };
        let posted = (0..self.posted.len())
            .filter(brings)
            .map(|line| self.fate(state, line));
        posted
            .chain([self.fate_at(state.copy(item))])
            .max()
            .expect("there is at least the copy")
    }

    /// Counts the ways in which a power cut may end `state`, and returns one that breaks the promise.
    pub fn crash(&self, state: State) -> (u64, Option<Crash>) {
        let copies = [Item::A, Item::B]
            .into_iter()
            .flat_map(|item| std::iter::repeat_n(self.fate_at(state.copy(item)), self.line_count));
        let fates = (0..self.posted.len())
            .map(|line| self.fate(state, line))
            .chain(copies);
        let (mut certain, mut open) = (0_u32, 0_u32);
        for (bit, fate) in fates.enumerate() {
            match fate {
                Fate::Lost => {}
                Fate::Either => open |= 1 << bit,
                Fate::Kept => certain |= 1 << bit,
            }
        }
        let mut broken = None;
        // Every subset of the open lines, from all of them down to none.
        let mut subset = open;
        loop {
            let kept = certain | subset;
            if let Some(damage) = self.damage(state, kept) {
                broken = Some(Crash { damage, kept });
            }
            if subset == 0 {
                break;
            }
            subset = (subset - 1) & open;
        }
        (1 << open.count_ones(), broken)
    }

    /// The promise that is broken if the lines of `kept` survive.
    fn damage(&self, state: State, kept: u32) -> Option<Damage> {
        let (a, b) = (self.found(Item::A, kept), self.found(Item::B, kept));
        let concluded = self.has_concluded(state);
        if self.is_compound() && b.partly && !a.wholly {
            Some(Damage::Reordered)
        } else if concluded && !a.wholly {
            Some(Damage::Lost(Item::A))
        } else if concluded && self.is_compound() && !b.wholly {
            Some(Damage::Lost(Item::B))
        } else {
            None
        }
    }

    /// The finding of a recovery for `item`.
    fn found(&self, item: Item, kept: u32) -> Found {
        let has = |bit: usize| kept >> bit & 1 == 1;
        // A message must be applied, and an entry is in its place.
        let mut messages = self.operations.iter().filter(|lines| {
            let post = &self.posted[lines.start];
            post.holds(item) && (post.is_entry() || self.has(Rule::RecoveryReplays))
        });
        if messages.any(|lines| lines.clone().all(has)) {
            return Found {
                partly: true,
                wholly: true,
            };
        }
        let copy_start = self.posted.len() + item as usize * self.line_count;
        // The value of an ATOMIC_WRITE has one line.
        let is_short = self
            .posted
            .iter()
            .any(|post| post.target() == Some(item) && post.is_atomic());
        let line_count = if is_short { 1 } else { self.line_count };
        let line_is_there = |line: usize| {
            let mut posted = self.posted.iter().enumerate();
            has(copy_start + line)
                || posted
                    .any(|(bit, post)| post.target() == Some(item) && post.line == line && has(bit))
        };
        let there = (0..line_count).filter(|line| line_is_there(*line)).count();
        Found {
            partly: there > 0,
            wholly: there == line_count,
        }
    }
}

/// The part of a value that is present.
struct Found {
    partly: bool,
    wholly: bool,
}
