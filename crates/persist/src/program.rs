//! Programs: steps of requester and responder, and their cost. A program claims nothing; a [`Plan`](crate::Plan) is a
//! program that is sound on a platform.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::step::{Awaited, Message, Party, Step, UnknownStep};

/// Steps in the order in which people read them. Only the order of each party's own steps counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Program {
    steps: Vec<Step>,
}

/// The cost of a program, compared field by field in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Cost {
    /// Number of times that the requester waits for something that it has posted since its last wait.
    pub round_trips: u32,
    /// Steps of the responder's processor.
    pub responder_steps: u32,
    /// Work requests posted by both sides.
    pub operations: u32,
}

impl Program {
    /// A program of these steps.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: steps.into_iter().collect(),
        }
    }

    /// All steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The steps of one party, in order.
    pub fn of(&self, party: Party) -> impl Iterator<Item = Step> {
        self.steps
            .iter()
            .copied()
            .filter(move |step| step.party() == party)
    }

    /// Whether the responder's processor has no part in it.
    pub fn is_one_sided(&self) -> bool {
        self.of(Party::Responder).next().is_none()
    }

    /// The cost.
    pub fn cost(&self) -> Cost {
        let mut round_trips = 0;
        let mut posted = false;
        for step in self.of(Party::Requester) {
            if step.is_post() {
                posted = true;
            } else if posted {
                round_trips += 1;
                posted = false;
            }
        }
        let responder_steps = self.of(Party::Responder).count() as u32;
        let operations = self
            .steps
            .iter()
            .filter(|step| step.is_post() || **step == Step::SendAck)
            .count() as u32;
        Cost {
            round_trips,
            responder_steps,
            operations,
        }
    }

    /// The program without the step at `index`. A wait that only that step could end is removed if it belongs to the
    /// responder. A wait of the requester becomes a wait for the completion of its latest post: the most that it can
    /// still wait for. So the rest runs to its end, and shows the purpose of the step.
    pub fn without(&self, index: usize) -> Self {
        let mut steps = self.steps.clone();
        let removed = steps.remove(index);
        // The removed acknowledgement was for the wait of the same number.
        let acks_before = self.steps[..index]
            .iter()
            .filter(|step| **step == Step::SendAck)
            .count();
        let orphan = (removed == Step::SendAck).then(|| {
            let mut waits = steps
                .iter()
                .enumerate()
                .filter(|(_, step)| **step == Step::ReceiveAck);
            waits.nth(acks_before).map(|(at, _)| at)
        });
        let mut kept = Vec::with_capacity(steps.len());
        for (at, step) in steps.iter().enumerate() {
            let ends = match step {
                Step::Await(awaited) => steps[..at].iter().any(|post| completes(*post, *awaited)),
                Step::Receive(message) => steps.iter().any(|post| delivers(*post, *message)),
                _ => orphan != Some(Some(at)),
            };
            if ends {
                kept.push(*step);
            } else if step.party() == Party::Requester {
                kept.extend(
                    steps[..at]
                        .iter()
                        .rev()
                        .find_map(|post| completion_of(*post))
                        .map(Step::Await),
                );
            }
        }
        Self::new(kept)
    }
}

/// The completion of a post, as a step may await it. The completions of ATOMIC_WRITE have no name in plans.
pub(crate) fn completion_of(post: Step) -> Option<Awaited> {
    match post {
        Step::Write(item) => Some(Awaited::Write(item)),
        Step::WriteImmediate(item) => Some(Awaited::WriteImmediate(item)),
        Step::Send(message) => Some(Awaited::Send(message)),
        Step::Append(message) => Some(Awaited::Append(message)),
        Step::Flush => Some(Awaited::Flush),
        Step::Read => Some(Awaited::Read),
        _ => None,
    }
}

/// Whether `post` makes the awaited completion.
pub(crate) fn completes(post: Step, awaited: Awaited) -> bool {
    match awaited {
        Awaited::Flush => post == Step::Flush,
        Awaited::Write(item) => post == Step::Write(item),
        Awaited::WriteImmediate(item) => post == Step::WriteImmediate(item),
        Awaited::Send(message) => post == Step::Send(message),
        Awaited::Append(message) => post == Step::Append(message),
        Awaited::Read => post == Step::Read,
    }
}

/// Whether `post` ends the responder's wait for `message`.
pub(crate) fn delivers(post: Step, message: Message) -> bool {
    match post {
        Step::Send(sent) | Step::Append(sent) => sent == message,
        Step::WriteImmediate(item) => message == Message::Address(item),
        _ => false,
    }
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            write!(formatter, "{}{step}", if index == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Reads step names between white space.
impl FromStr for Program {
    type Err = UnknownStep;

    fn from_str(text: &str) -> Result<Self, UnknownStep> {
        Ok(Self::new(
            text.split_whitespace()
                .map(str::parse)
                .collect::<Result<Vec<_>, _>>()?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(text: &str) -> Program {
        text.parse().unwrap()
    }

    #[test]
    fn a_program_is_read_back_from_its_text() {
        let text = "rq.write(a) rq.send(&a) rsp.receive(&a) rsp.write_back(a) rsp.send(ack) rq.receive(ack)";
        assert_eq!(program(text).to_string(), text);
        assert!("rq.write(a) rq.hope".parse::<Program>().is_err());
    }

    #[test]
    fn only_a_wait_after_a_post_is_a_round_trip() {
        let one_sided = program("rq.write(a) rq.flush rq.await(flush)");
        assert_eq!(
            one_sided.cost(),
            Cost {
                round_trips: 1,
                responder_steps: 0,
                operations: 2
            }
        );
        assert!(one_sided.is_one_sided());
        let two_waits =
            program("rq.send(a) rq.await(send(a)) rsp.receive(a) rsp.send(ack) rq.receive(ack)");
        assert_eq!(
            two_waits.cost(),
            Cost {
                round_trips: 1,
                responder_steps: 2,
                operations: 2
            }
        );
        assert!(!two_waits.is_one_sided());
        let twice = program(
            "rq.write_imm(a) rq.flush rq.await(flush) rq.write_imm(b) rq.flush rq.await(flush)",
        );
        assert_eq!(
            twice.cost(),
            Cost {
                round_trips: 2,
                responder_steps: 0,
                operations: 4
            }
        );
    }

    #[test]
    fn waits_that_only_the_missing_step_could_end_become_waits_for_a_completion() {
        let plan = program("rq.write(a) rq.flush rq.await(flush)");
        assert_eq!(plan.without(0), program("rq.flush rq.await(flush)"));
        assert_eq!(plan.without(1), program("rq.write(a) rq.await(write(a))"));
        assert_eq!(plan.without(2), program("rq.write(a) rq.flush"));
        let message =
            program("rq.send(a) rsp.receive(a) rsp.copy(a) rsp.send(ack) rq.receive(ack)");
        assert_eq!(
            message.without(0),
            program("rsp.copy(a) rsp.send(ack) rq.receive(ack)")
        );
        assert_eq!(
            message.without(3),
            program("rq.send(a) rsp.receive(a) rsp.copy(a) rq.await(send(a))")
        );
    }

    #[test]
    fn an_earlier_flush_ends_the_wait_for_one_that_left() {
        let plan = program("rq.write(a) rq.flush rq.write_atomic(b) rq.flush rq.await(flush)");
        assert_eq!(
            plan.without(3),
            program("rq.write(a) rq.flush rq.write_atomic(b) rq.await(flush)")
        );
        assert_eq!(
            plan.without(1),
            program("rq.write(a) rq.write_atomic(b) rq.flush rq.await(flush)")
        );
    }

    #[test]
    fn the_acknowledgement_that_leaves_was_for_the_wait_of_its_number() {
        let plan = program(
            "rq.write_imm(a) rsp.receive(&a) rsp.send(ack) rq.receive(ack) rq.write_imm(b) rsp.receive(&b) rsp.send(ack) rq.receive(ack)",
        );
        assert_eq!(
            plan.without(2),
            program(
                "rq.write_imm(a) rsp.receive(&a) rq.await(write_imm(a)) rq.write_imm(b) rsp.receive(&b) rsp.send(ack) rq.receive(ack)"
            )
        );
        assert_eq!(
            plan.without(6),
            program(
                "rq.write_imm(a) rsp.receive(&a) rsp.send(ack) rq.receive(ack) rq.write_imm(b) rsp.receive(&b) rq.await(write_imm(b))"
            )
        );
    }
}
