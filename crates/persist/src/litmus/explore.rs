//! Visits every state of a machine.
//!
//! The visit is breadth-first, so that it finds a shortest run to a broken state. The search for plans needs only a
//! verdict and is depth-first, which meets broken states sooner and keeps no path.

use std::collections::HashMap;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use super::machine::{Event, Machine};
use super::state::State;
use super::survival::Crash;

/// Result of an exploration.
pub(super) enum Found {
    /// Every crash of every state keeps the promise, and the requester always reaches its end.
    Sound { states: u64, crashes: u64 },
    /// A crash breaks the promise.
    Broken(Vec<Event>, Crash),
    /// A run ends, and the requester still waits.
    Stuck(Vec<Event>),
}

/// Visits states in the order of their distance from the start, up to the first broken one.
pub(super) fn breadth_first(machine: &Machine) -> Found {
    let mut tree = Tree::new();
    let mut crashes = 0;
    let mut index = 0;
    while let Some(state) = tree.state(index) {
        let (ways, broken) = machine.crash(state);
        crashes += ways;
        if let Some(crash) = broken {
            return Found::Broken(tree.way_to(index), crash);
        }
        let mut goes_on = false;
        machine.successors(state, |event, next| {
            goes_on |= event != Event::Reset;
            tree.add(next, index, event);
        });
        if !goes_on && !machine.has_concluded(state) && !state.has_reset() {
            return Found::Stuck(tree.way_to(index));
        }
        index += 1;
    }
    Found::Sound {
        states: index as u64,
        crashes,
    }
}

/// The shortest run without faults in which the requester concludes.
pub(super) fn shortest_conclusion(machine: &Machine) -> Option<Vec<Event>> {
    let mut tree = Tree::new();
    let mut index = 0;
    while let Some(state) = tree.state(index) {
        if machine.has_concluded(state) {
            return Some(tree.way_to(index));
        }
        machine.successors(state, |event, next| {
            if event != Event::Reset {
                tree.add(next, index, event);
            }
        });
        index += 1;
    }
    None
}

/// Memory of [`is_sound`], kept between calls.
#[derive(Default)]
pub(crate) struct Scratch {
    seen: HashSet<State, BuildHasherDefault<StateHasher>>,
    stack: Vec<State>,
}

/// Whether no crash of any state breaks the promise and no run gets stuck.
pub(super) fn is_sound(machine: &Machine, scratch: &mut Scratch) -> bool {
    let Scratch { seen, stack } = scratch;
    seen.clear();
    stack.clear();
    seen.insert(State::START);
    stack.push(State::START);
    while let Some(state) = stack.pop() {
        if machine.crash(state).1.is_some() {
            return false;
        }
        let mut goes_on = false;
        machine.successors(state, |event, next| {
            goes_on |= event != Event::Reset;
            if seen.insert(next) {
                stack.push(next);
            }
        });
        if !goes_on && !machine.has_concluded(state) && !state.has_reset() {
            return false;
        }
    }
    true
}

/// States in the order of discovery, each with the event that led to it.
struct Tree {
    states: Vec<(State, usize, Option<Event>)>,
    seen: HashMap<State, (), BuildHasherDefault<StateHasher>>,
}

impl Tree {
    fn new() -> Self {
        let mut seen = HashMap::default();
        seen.insert(State::START, ());
        Self {
            states: vec![(State::START, 0, None)],
            seen,
        }
    }

    fn state(&self, index: usize) -> Option<State> {
        self.states.get(index).map(|(state, ..)| *state)
    }

    fn add(&mut self, state: State, from: usize, event: Event) {
        if self.seen.insert(state, ()).is_none() {
            self.states.push((state, from, Some(event)));
        }
    }

    fn way_to(&self, index: usize) -> Vec<Event> {
        let mut way = Vec::new();
        let mut at = index;
        while let (_, from, Some(event)) = self.states[at] {
            way.push(event);
            at = from;
        }
        way.reverse();
        way
    }
}

/// Spreads the bits of a state; no attacker chooses states.
#[derive(Default)]
pub(crate) struct StateHasher(u64);

impl Hasher for StateHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}
