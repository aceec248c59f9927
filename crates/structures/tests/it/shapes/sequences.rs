//! Stack and queue against their sequential specifications.

use std::collections::VecDeque;

use rand::{Rng as _, RngExt as _};
use stonecast_base::{Random, random_from_seed};
use stonecast_structures::Verb;
use stonecast_structures::shapes::{
    Answer, Description, Place, Step, StructureKind, Traversal as _,
};

use super::store::Store;

/// A kind of structure without keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Stack,
    Queue,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Stack, Self::Queue];

    fn store(self) -> Store {
        let kind = match self {
            Self::Stack => StructureKind::Stack,
            Self::Queue => StructureKind::Queue,
        };
        let description = Description {
            kind,
            key_size_max: 0,
            value_size: 40,
            schema: 0,
        };
        Store::new(8, description)
    }

    /// Removes the value that comes next.
    fn pop(self, model: &mut VecDeque<Vec<u8>>) -> Option<Vec<u8>> {
        match self {
            Self::Stack => model.pop_back(),
            Self::Queue => model.pop_front(),
        }
    }

    fn next(self, model: &VecDeque<Vec<u8>>) -> Option<Vec<u8>> {
        match self {
            Self::Stack => model.back().cloned(),
            Self::Queue => model.front().cloned(),
        }
    }

    /// The values in the order in which a walk finds them.
    fn in_order(self, model: &VecDeque<Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let pair = |value: &Vec<u8>| (Vec::new(), value.clone());
        match self {
            Self::Stack => model.iter().rev().map(pair).collect(),
            Self::Queue => model.iter().map(pair).collect(),
        }
    }
}

fn any_value(random: &mut Random) -> Vec<u8> {
    let size = match random.random_range(0..30) {
        0 => 2000,
        _ => random.random_range(8..60),
    };
    let mut value = vec![0; size];
    random.fill_bytes(&mut value);
    value
}

/// Random operations, with a reader of the next value beside them, and everything read back at times.
pub fn run(kind: Kind, seed: u64) {
    let mut random = random_from_seed(seed);
    let mut store = kind.store();
    let mut model = VecDeque::new();
    // The next value after each operation.
    let mut nexts = vec![None];
    let mut floor = 0;
    for round in 0..2_000 {
        let grows = round / 400 % 2 == 0;
        let pushes = random.random_range(0..10) < if grows { 7 } else { 3 };
        let answer = match pushes {
            true => {
                let value = any_value(&mut random);
                model.push_back(value.clone());
                (store.stage(Verb::Push, &[], &value), Answer::Added)
            }
            false => {
                let taken = kind.pop(&mut model);
                (store.stage(Verb::Pop, &[], &[]), Answer::Taken(taken))
            }
        };
        assert_eq!(answer.0.expect("there is room"), answer.1);
        nexts.push(kind.next(&model));
        if random.random_range(0..4) == 0 {
            store.publish();
        }
        (0..random.random_range(0..60)).for_each(|_| store.apply_word());
        peek(&mut store, &mut random, &nexts, &mut floor);
        if round % 250 == 249 {
            store.publish();
            store.apply_all();
            store.check(kind.in_order(&model), true);
        }
    }
}

/// Reads the next value while words are applied: it came next at some moment of the read.
fn peek(store: &mut Store, random: &mut Random, nexts: &[Option<Vec<u8>>], floor: &mut usize) {
    let peek = store.structure().peek();
    let mut peek = peek.expect("the structure has no keys");
    let from = store.applied.max(*floor);
    let mut bytes = Vec::new();
    let read = loop {
        match peek.step(&bytes) {
            Step::Done(value) => break value,
            Step::Stale(_) => return,
            Step::Read(places) => {
                (0..random.random_range(0..8)).for_each(|_| store.apply_word());
                let read = |Place { span, .. }| store.read(span).expect("the domain has it");
                bytes = places.into_iter().map(read).collect();
            }
        }
    };
    let at = (from..=store.begun).find(|at| nexts[*at] == read);
    *floor = at.expect("the value came next at a moment of the read");
}

#[test]
fn a_stack_and_a_queue_answer_as_their_models_do_and_lose_no_block() {
    for kind in Kind::ALL {
        (0..12).for_each(|seed| run(kind, seed));
    }
}
