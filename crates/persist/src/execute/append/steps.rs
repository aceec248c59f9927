//! The steps of an append's program, as the two halves run them.

use crate::program::Program;
use crate::step::{Party, Step};

/// The end of an entry, for its appender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The entry is handed to the device: the program has no wait, and promises nothing.
    Posted,
    /// The last request of its batch has completed.
    Completed,
    /// The receiver has answered, and the batch has completed.
    Answered,
}

/// An appender's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AppenderSteps {
    /// Whether entries are sent.
    pub sends: bool,
    /// Whether a READ ends each batch.
    pub reads: bool,
    pub until: Until,
}

impl AppenderSteps {
    pub fn of(program: &Program) -> Self {
        let steps: Vec<Step> = program.of(Party::Requester).collect();
        let until = match steps.last() {
            Some(Step::ReceiveAck) => Until::Answered,
            Some(Step::Await(_)) => Until::Completed,
            _ => Until::Posted,
        };
        Self {
            sends: steps.iter().any(|step| matches!(step, Step::Append(_))),
            reads: steps.contains(&Step::Read),
            until,
        }
    }
}

/// A receiver's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceiverSteps {
    pub writes_back: bool,
    pub answers: bool,
}

impl ReceiverSteps {
    pub fn of(program: &Program) -> Self {
        let has = |wanted: fn(Step) -> bool| program.of(Party::Responder).any(wanted);
        Self {
            writes_back: has(|step| matches!(step, Step::WriteBack(_))),
            answers: has(|step| step == Step::SendAck),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (AppenderSteps, ReceiverSteps) {
        let program = text.parse().unwrap();
        (AppenderSteps::of(&program), ReceiverSteps::of(&program))
    }

    #[test]
    fn each_plan_ends_an_entry_by_its_last_wait() {
        let appender = |reads, until| AppenderSteps {
            sends: true,
            reads,
            until,
        };
        let receiver = |writes_back, answers| ReceiverSteps {
            writes_back,
            answers,
        };
        for (text, steps) in [
            (
                "rq.append(a) rq.await(append(a))",
                (appender(false, Until::Completed), receiver(false, false)),
            ),
            (
                "rq.append(a) rq.read rq.await(read)",
                (appender(true, Until::Completed), receiver(false, false)),
            ),
            (
                "rq.append(a) rsp.receive(a) rsp.send(ack) rq.receive(ack)",
                (appender(false, Until::Answered), receiver(false, true)),
            ),
            (
                "rq.append(a) rsp.receive(a) rsp.write_back(a) rsp.send(ack) rq.receive(ack)",
                (appender(false, Until::Answered), receiver(true, true)),
            ),
            (
                "rq.append(a) rq.read",
                (appender(true, Until::Posted), receiver(false, false)),
            ),
        ] {
            assert_eq!(of(text), steps, "{text}");
        }
    }
}
