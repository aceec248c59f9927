//! The search compared with all programs: every sequence of steps for each side, sensible or not, with repeated steps,
//! values sent twice, and waits that nothing ends. No sound program may be cheaper than the result of the search.

use std::collections::HashSet;

use crate::litmus::{Hardware, Rules, Scratch, is_sound};
use crate::program::Program;
use crate::scenario::{Operation, Update, published_platforms};
use crate::step::{Party, Step};

use super::{Scope, Searcher};

#[test]
fn no_program_of_six_steps_is_cheaper_for_a_single_update() {
    let with_notice = "rq.write(a) rq.send(&a) rq.flush rq.await(write(a)) rq.await(send(&a)) rq.await(flush) rq.receive(ack) \
                       rsp.receive(&a) rsp.write_back(a) rsp.send(ack)";
    let immediate = "rq.write_imm(a) rq.flush rq.await(write_imm(a)) rq.await(flush) rq.receive(ack) \
                     rsp.receive(&a) rsp.write_back(a) rsp.send(ack)";
    let message = "rq.send(a) rq.flush rq.await(send(a)) rq.await(flush) rq.receive(ack) \
                   rsp.receive(a) rsp.copy(a) rsp.write_back(a) rsp.send(ack)";
    let append = "rq.append(a) rq.read rq.flush rq.await(append(a)) rq.await(read) rq.receive(ack) \
                  rsp.receive(a) rsp.copy(a) rsp.write_back(a) rsp.send(ack)";
    nothing_is_cheaper(Operation::Append, Update::Single, append, 6);
    nothing_is_cheaper(Operation::Write, Update::Single, with_notice, 6);
    nothing_is_cheaper(Operation::WriteImmediate, Update::Single, immediate, 6);
    nothing_is_cheaper(Operation::Send, Update::Single, message, 6);
}

#[test]
fn no_program_of_five_steps_is_cheaper_for_a_compound_update() {
    let with_notices = "rq.write(a) rq.write(b) rq.write_atomic(b) rq.send(&a) rq.send(&b) rq.flush rq.await(write(a)) \
                        rq.await(write(b)) rq.await(flush) rq.receive(ack) \
                        rsp.receive(&a) rsp.receive(&b) rsp.write_back(a) rsp.write_back(b) rsp.send(ack)";
    let immediate = "rq.write_imm(a) rq.write_imm(b) rq.flush rq.await(write_imm(a)) rq.await(write_imm(b)) rq.await(flush) \
                     rq.receive(ack) rsp.receive(&a) rsp.receive(&b) rsp.write_back(a) rsp.write_back(b) rsp.send(ack)";
    let message = "rq.send(a) rq.send(b) rq.send(a,b) rq.flush rq.await(send(b)) rq.await(send(a,b)) rq.await(flush) rq.receive(ack) \
                   rsp.receive(b) rsp.receive(a,b) rsp.copy(a) rsp.copy(b) rsp.write_back(a) rsp.write_back(b) rsp.send(ack)";
    nothing_is_cheaper(
        Operation::Write,
        Update::Compound { large: false },
        with_notices,
        5,
    );
    nothing_is_cheaper(
        Operation::WriteImmediate,
        Update::Compound { large: false },
        immediate,
        5,
    );
    nothing_is_cheaper(
        Operation::Send,
        Update::Compound { large: false },
        message,
        5,
    );
}

fn nothing_is_cheaper(operation: Operation, update: Update, vocabulary: &str, length_max: usize) {
    let vocabulary: Program = vocabulary.parse().unwrap();
    let requesters = sequences(
        &vocabulary.of(Party::Requester).collect::<Vec<_>>(),
        length_max,
    );
    let responders = sequences(
        &vocabulary.of(Party::Responder).collect::<Vec<_>>(),
        length_max - 1,
    );
    let mut searcher = Searcher::default();
    let mut seen = HashSet::new();
    for platform in published_platforms() {
        let hardware = Hardware::of(&platform, Rules::ALL).for_verdicts();
        if !seen.insert(hardware) {
            continue;
        }
        let found = searcher
            .cheapest(&platform, operation, update, Scope::Pure)
            .unwrap();
        let (mut scratch, mut sound) = (Scratch::default(), 0);
        for requester in &requesters {
            for responder in responders
                .iter()
                .take_while(|responder| requester.len() + responder.len() <= length_max)
            {
                let program = Program::new(requester.iter().chain(responder).copied());
                // A program that costs more is no rival. A program of the same cost must be found, too, or the search's
                // space is too small.
                if program.cost() <= found.cost()
                    && is_sound(hardware, &program, update, &mut scratch)
                {
                    assert_eq!(
                        program.cost(),
                        found.cost(),
                        "{platform:?}: {program} is cheaper than {found}"
                    );
                    sound += 1;
                }
            }
        }
        let fits = found.steps().len() <= length_max;
        assert!(
            sound > 0 || !fits,
            "{platform:?}: {found} is not among the programs"
        );
    }
}

/// All sequences up to `length`, short ones first, the empty one included.
fn sequences(vocabulary: &[Step], length: usize) -> Vec<Vec<Step>> {
    let mut all = vec![Vec::new()];
    let mut start = 0;
    for _ in 0..length {
        let end = all.len();
        for index in start..end {
            for step in vocabulary {
                let mut longer = all[index].clone();
                longer.push(*step);
                all.push(longer);
            }
        }
        start = end;
    }
    all
}
