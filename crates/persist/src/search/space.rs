//! The programs that the search tries.
//!
//! All programs over the steps of requester and responder, up to [`LENGTH_MAX`] steps, in which each value is carried
//! once. The enumeration leaves out programs for which another one costs no more and promises no less:
//!
//! - A requester that ends without a wait: the outcome of its last posts is unknown, so they are useless.
//! - Two waits in a row for completions, or for acknowledgements: both come in order, so the later wait is enough.
//! - A flush right after a flush, and a second notice of the same value.
//! - A READ if no value is appended: there the platform's flush serves for it.
//! - A notice of a value that its own message announces; a notice before its value (its name is only a label then); a
//!   notice that the responder does not receive.
//! - `b` written straight to its place ahead of `a`: a crash between the two arrivals breaks the order.
//! - Responder's steps before its first receive: they may all run before anything has arrived. Steps after its last
//!   acknowledgement: they may never run. Acknowledgements without a wait, and waits without an acknowledgement.
//! - Receives out of the order of posting: messages come in order, so the message that was posted earlier is there.
//! - A second write-back of a value: if the first is certain to find the value, the second has nothing to do; if it is
//!   not, the first does nothing in the worst case. The same holds for copies. Copies of values that no message holds.
//! - Write-backs if everything visible survives.

use crate::program::{Program, completion_of, delivers};
use crate::step::{Awaited, Item, Message, Step};

/// Steps of the longest published program.
pub(super) const LENGTH_MAX: usize = 12;

/// A requester's steps, and their demands on a responder.
#[derive(Clone, Debug)]
pub(super) struct RequesterSteps {
    pub steps: Vec<Step>,
    pub round_trips: u32,
    pub acks: usize,
    pub operations: u32,
}

impl RequesterSteps {
    /// The messages that the responder can receive, in the order of posting.
    fn messages(&self) -> Vec<Message> {
        let message = |step: &Step| match step {
            Step::Send(message) | Step::Append(message) => Some(*message),
            Step::WriteImmediate(item) => Some(Message::Address(*item)),
            _ => None,
        };
        self.steps.iter().filter_map(message).collect()
    }

    fn is_carried_by_message(&self, item: Item) -> bool {
        self.steps.iter().any(|step| {
            matches!(step, Step::Send(Message::Both)) || *step == Step::Send(Message::Value(item))
        })
    }

    /// Whether every notice is received by `responder`.
    fn notices_are_received(&self, responder: &[Step]) -> bool {
        let notices = self
            .steps
            .iter()
            .filter(|step| matches!(step, Step::Send(Message::Address(_))));
        notices.clone().all(|notice| {
            responder
                .iter()
                .any(|step| matches!(step, Step::Receive(message) if delivers(*notice, *message)))
        })
    }
}

/// Every requester's program for one choice of carriers.
pub(super) fn requesters(carriers: &[Step]) -> Vec<RequesterSteps> {
    let mut found = Vec::new();
    let mut extend = Extend {
        carriers,
        found: &mut found,
        posts: Vec::new(),
    };
    extend.posts();
    found
}

struct Extend<'a> {
    carriers: &'a [Step],
    found: &'a mut Vec<RequesterSteps>,
    posts: Vec<Step>,
}

impl Extend<'_> {
    /// Chooses the next carrier or notice, and completes the program at each point where all values are carried.
    fn posts(&mut self) {
        if self
            .carriers
            .iter()
            .all(|carrier| self.posts.contains(carrier))
        {
            let posts = self.posts.clone();
            self.flushes_and_waits(&posts, &mut Vec::new(), &mut Progress::default());
        }
        let mut choices: Vec<Step> = self.carriers.to_vec();
        choices.extend(self.carriers.iter().filter_map(|carrier| match carrier {
            Step::Write(item) | Step::WriteAtomic(item) if self.posts.contains(carrier) => {
                Some(Step::Send(Message::Address(*item)))
            }
            _ => None,
        }));
        for choice in choices {
            if self.posts.contains(&choice) || !self.may_follow(choice) {
                continue;
            }
            self.posts.push(choice);
            self.posts();
            self.posts.pop();
        }
    }

    /// A value `b` that goes straight to its place follows the carrier of `a`.
    fn may_follow(&self, choice: Step) -> bool {
        let straight = matches!(
            choice,
            Step::Write(Item::B) | Step::WriteImmediate(Item::B) | Step::WriteAtomic(Item::B)
        );
        !straight
            || self
                .posts
                .iter()
                .any(|post| self.carriers.first() == Some(post))
    }

    /// The steps that may follow a post.
    fn flushes(&self) -> &'static [Option<Step>] {
        let appends = self
            .carriers
            .iter()
            .any(|carrier| matches!(carrier, Step::Append(_)));
        if appends {
            &[None, Some(Step::Flush), Some(Step::Read)]
        } else {
            &[None, Some(Step::Flush)]
        }
    }

    /// Puts a flush, waits, both or nothing after each post.
    fn flushes_and_waits(
        &mut self,
        posts: &[Step],
        steps: &mut Vec<Step>,
        progress: &mut Progress,
    ) {
        let Some((post, rest)) = posts.split_first() else {
            self.found.push(RequesterSteps {
                steps: steps.clone(),
                round_trips: progress.round_trips,
                acks: progress.acks,
                operations: steps.iter().filter(|step| step.is_post()).count() as u32,
            });
            return;
        };
        for &flush in self.flushes() {
            for (awaits, receives) in [(false, false), (true, false), (false, true), (true, true)] {
                if rest.is_empty() && !awaits && !receives {
                    continue;
                }
                let (length, before) = (steps.len(), progress.clone());
                steps.push(*post);
                progress.completion = completion_of(*post).or(progress.completion);
                steps.extend(flush);
                progress.completion = flush.and_then(completion_of).or(progress.completion);
                let mut is_possible = true;
                if awaits {
                    match progress.completion.take() {
                        Some(awaited) => steps.push(Step::Await(awaited)),
                        None => is_possible = false,
                    }
                }
                if receives {
                    steps.push(Step::ReceiveAck);
                    progress.acks += 1;
                }
                progress.round_trips += u32::from(awaits || receives);
                if is_possible && steps.len() + rest.len() <= LENGTH_MAX {
                    self.flushes_and_waits(rest, steps, progress);
                }
                steps.truncate(length);
                *progress = before;
            }
        }
    }
}

#[derive(Clone, Default)]
struct Progress {
    round_trips: u32,
    acks: usize,
    /// The latest completion that can be awaited and was not.
    completion: Option<Awaited>,
}

/// Every responder's program of `length` steps for a requester.
pub(super) fn responders(
    requester: &RequesterSteps,
    items: &[Item],
    writes_back: bool,
    length: usize,
) -> Vec<Vec<Step>> {
    if length == 0 {
        return if requester.acks == 0 && requester.notices_are_received(&[]) {
            vec![Vec::new()]
        } else {
            Vec::new()
        };
    }
    let mut found = Vec::new();
    if requester.acks > 0 && requester.steps.len() + length <= LENGTH_MAX {
        let messages = requester.messages();
        let copied: Vec<Item> = items
            .iter()
            .copied()
            .filter(|item| requester.is_carried_by_message(*item))
            .collect();
        let written_back = if writes_back { items } else { &[] };
        let mut choose = Choose {
            length,
            acks: requester.acks,
            messages: &messages,
            copied: &copied,
            written_back,
            found: &mut found,
        };
        choose.step(&mut Vec::new(), 0, 0);
        found.retain(|steps| requester.notices_are_received(steps));
    }
    found
}

struct Choose<'a> {
    length: usize,
    acks: usize,
    messages: &'a [Message],
    copied: &'a [Item],
    written_back: &'a [Item],
    found: &'a mut Vec<Vec<Step>>,
}

impl Choose<'_> {
    fn step(&mut self, steps: &mut Vec<Step>, next_message: usize, acks: usize) {
        if self.acks - acks > self.length - steps.len() {
            return;
        }
        if steps.len() == self.length {
            if steps.last() == Some(&Step::SendAck) {
                self.found.push(steps.clone());
            }
            return;
        }
        for message in next_message..self.messages.len() {
            self.with(
                steps,
                Step::Receive(self.messages[message]),
                message + 1,
                acks,
            );
        }
        if steps.is_empty() {
            return;
        }
        for (items, step) in [
            (self.copied, Step::Copy as fn(Item) -> Step),
            (self.written_back, Step::WriteBack),
        ] {
            for item in items {
                if !steps.contains(&step(*item)) {
                    self.with(steps, step(*item), next_message, acks);
                }
            }
        }
        if acks < self.acks && steps.last() != Some(&Step::SendAck) {
            self.with(steps, Step::SendAck, next_message, acks + 1);
        }
    }

    fn with(&mut self, steps: &mut Vec<Step>, step: Step, next_message: usize, acks: usize) {
        steps.push(step);
        self.step(steps, next_message, acks);
        steps.pop();
    }
}

/// The two sides in a readable order: each run of the responder up to an acknowledgement comes before the wait that it
/// ends.
pub(super) fn interleaved(requester: &[Step], responder: &[Step]) -> Program {
    let mut steps = Vec::with_capacity(requester.len() + responder.len());
    let mut rest = responder;
    for step in requester {
        if *step == Step::ReceiveAck {
            let end = rest
                .iter()
                .position(|step| *step == Step::SendAck)
                .map_or(rest.len(), |ack| ack + 1);
            steps.extend(&rest[..end]);
            rest = &rest[end..];
        }
        steps.push(*step);
    }
    steps.extend(rest);
    Program::new(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_write_has_few_one_sided_programs() {
        let all = requesters(&[Step::Write(Item::A)]);
        let one_sided: Vec<String> = all
            .iter()
            .filter(|requester| requester.acks == 0 && requester.messages().is_empty())
            .map(|requester| interleaved(&requester.steps, &[]).to_string())
            .collect();
        assert_eq!(
            one_sided,
            [
                "rq.write(a) rq.await(write(a))",
                "rq.write(a) rq.flush rq.await(flush)"
            ]
        );
    }

    #[test]
    fn a_responder_starts_with_a_receive_and_ends_with_the_awaited_acknowledgement() {
        let steps: Vec<Step> = [Step::Send(Message::Value(Item::A)), Step::ReceiveAck].into();
        let requester = RequesterSteps {
            steps,
            round_trips: 1,
            acks: 1,
            operations: 1,
        };
        let programs: Vec<String> = responders(&requester, &[Item::A], true, 4)
            .iter()
            .map(|steps| interleaved(&requester.steps, steps).to_string())
            .collect();
        assert_eq!(
            programs,
            [
                "rq.send(a) rsp.receive(a) rsp.copy(a) rsp.write_back(a) rsp.send(ack) rq.receive(ack)",
                "rq.send(a) rsp.receive(a) rsp.write_back(a) rsp.copy(a) rsp.send(ack) rq.receive(ack)",
            ]
        );
        assert!(
            responders(&requester, &[Item::A], true, 0).is_empty(),
            "no step would acknowledge"
        );
    }

    #[test]
    fn the_longest_published_program_is_in_the_space() {
        let all = requesters(&[Step::Write(Item::A), Step::Write(Item::B)]);
        let twice: Vec<Step> =
            "rq.write(a) rq.send(&a) rq.receive(ack) rq.write(b) rq.send(&b) rq.receive(ack)"
                .parse::<Program>()
                .unwrap()
                .steps()
                .to_vec();
        let requester = all
            .iter()
            .find(|requester| requester.steps == twice)
            .expect("the requester is enumerated");
        let responder = "rsp.receive(&a) rsp.write_back(a) rsp.send(ack) rsp.receive(&b) rsp.write_back(b) rsp.send(ack)";
        let responder = responder.parse::<Program>().unwrap().steps().to_vec();
        assert!(responders(requester, &[Item::A, Item::B], true, 6).contains(&responder));
        assert_eq!(requester.round_trips, 2);
    }
}
