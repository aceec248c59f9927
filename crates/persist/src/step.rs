//! The steps of plans, and their printed names.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::words::as_word;

/// One of the two updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Item {
    /// The first, or only, update.
    A,
    /// The update that may not survive without the first.
    B,
}

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message {
    /// A value and its place.
    Value(Item),
    /// Both values and their places.
    Both,
    /// The place of a value that was written: a SEND of the address, or the 32 bits of a WRITE_WITH_IMM.
    Address(Item),
}

/// A completion for which the requester waits. Completions come in posting order, so all earlier posts have completed,
/// too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Awaited {
    /// The completion of the latest flush.
    Flush,
    /// The completion of a WRITE.
    Write(Item),
    /// The completion of a WRITE_WITH_IMM.
    WriteImmediate(Item),
    /// The completion of a SEND.
    Send(Message),
    /// The completion of an append.
    Append(Message),
    /// The completion of the latest READ.
    Read,
}

/// A party of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Party {
    /// The party that posts the update.
    Requester,
    /// The party that owns the memory.
    Responder,
}

/// One step of a plan. Each party does its own steps in order; a step that waits blocks only its own party.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// `rq.write(x)`: posts a WRITE.
    Write(Item),
    /// `rq.write_imm(x)`: posts a WRITE_WITH_IMM.
    WriteImmediate(Item),
    /// `rq.send(x)`, `rq.send(a,b)`, `rq.send(&x)`: posts a SEND.
    Send(Message),
    /// `rq.append(x)`, `rq.append(a,b)`: posts a SEND that lands in the responder's own memory, at a place that the
    /// responder's device chooses. The message is one entry, and counts if recovery finds it whole.
    Append(Message),
    /// `rq.flush`: posts a flush, of the platform's kind.
    Flush,
    /// `rq.read`: posts a READ for the sake of its answer, which also comes after earlier messages, whatever the
    /// platform's kind of flush.
    Read,
    /// `rq.write_atomic(x)`: posts an ATOMIC_WRITE.
    WriteAtomic(Item),
    /// `rq.await(...)`: waits for a completion.
    Await(Awaited),
    /// `rq.receive(ack)`: waits for the responder's next acknowledgement.
    ReceiveAck,
    /// `rsp.receive(x)`, `rsp.receive(a,b)`, `rsp.receive(&x)`: waits for a message.
    Receive(Message),
    /// `rsp.copy(x)`: stores the value of a message to its place.
    Copy(Item),
    /// `rsp.write_back(x)`: writes the cache lines of a place back and fences; on a page file, syncs its pages. An
    /// appended value has its place in the entry.
    WriteBack(Item),
    /// `rsp.send(ack)`: posts a SEND without payload.
    SendAck,
}

impl Step {
    /// The party that does it.
    pub fn party(self) -> Party {
        match self {
            Self::Receive(_) | Self::Copy(_) | Self::WriteBack(_) | Self::SendAck => {
                Party::Responder
            }
            _ => Party::Requester,
        }
    }

    /// Whether it posts a work request at the requester.
    pub fn is_post(self) -> bool {
        self.party() == Party::Requester && !self.is_wait()
    }

    /// Whether its party waits in it.
    pub fn is_wait(self) -> bool {
        matches!(self, Self::Await(_) | Self::ReceiveAck | Self::Receive(_))
    }

    /// Every step that has a name.
    pub fn all() -> Vec<Self> {
        let items = [Item::A, Item::B];
        let messages = [
            Message::Value(Item::A),
            Message::Value(Item::B),
            Message::Both,
            Message::Address(Item::A),
            Message::Address(Item::B),
        ];
        let mut all = vec![
            Self::Flush,
            Self::Await(Awaited::Flush),
            Self::Read,
            Self::Await(Awaited::Read),
            Self::ReceiveAck,
            Self::SendAck,
        ];
        for item in items {
            let awaited = [Awaited::Write(item), Awaited::WriteImmediate(item)].map(Self::Await);
            all.extend(awaited);
            all.extend([
                Self::Write(item),
                Self::WriteImmediate(item),
                Self::WriteAtomic(item),
                Self::Copy(item),
                Self::WriteBack(item),
            ]);
        }
        for message in messages {
            all.extend([
                Self::Send(message),
                Self::Receive(message),
                Self::Await(Awaited::Send(message)),
            ]);
            if !matches!(message, Message::Address(_)) {
                all.extend([Self::Append(message), Self::Await(Awaited::Append(message))]);
            }
        }
        all
    }
}

impl fmt::Display for Item {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::A => "a",
            Self::B => "b",
        })
    }
}

impl fmt::Display for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(item) => write!(formatter, "{item}"),
            Self::Both => formatter.write_str("a,b"),
            Self::Address(item) => write!(formatter, "&{item}"),
        }
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flush => formatter.write_str("flush"),
            Self::Write(item) => write!(formatter, "write({item})"),
            Self::WriteImmediate(item) => write!(formatter, "write_imm({item})"),
            Self::Send(message) => write!(formatter, "send({message})"),
            Self::Append(message) => write!(formatter, "append({message})"),
            Self::Read => formatter.write_str("read"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(item) => write!(formatter, "rq.write({item})"),
            Self::WriteImmediate(item) => write!(formatter, "rq.write_imm({item})"),
            Self::Send(message) => write!(formatter, "rq.send({message})"),
            Self::Append(message) => write!(formatter, "rq.append({message})"),
            Self::Flush => formatter.write_str("rq.flush"),
            Self::Read => formatter.write_str("rq.read"),
            Self::WriteAtomic(item) => write!(formatter, "rq.write_atomic({item})"),
            Self::Await(awaited) => write!(formatter, "rq.await({awaited})"),
            Self::ReceiveAck => formatter.write_str("rq.receive(ack)"),
            Self::Receive(message) => write!(formatter, "rsp.receive({message})"),
            Self::Copy(item) => write!(formatter, "rsp.copy({item})"),
            Self::WriteBack(item) => write!(formatter, "rsp.write_back({item})"),
            Self::SendAck => formatter.write_str("rsp.send(ack)"),
        }
    }
}

/// A word that names no step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown step {0:?}; steps look like rq.write(a), rq.send(&a), rq.flush, rq.await(flush), rsp.receive(a), rsp.write_back(a)"
)]
pub struct UnknownStep(pub String);

impl FromStr for Step {
    type Err = UnknownStep;

    fn from_str(name: &str) -> Result<Self, UnknownStep> {
        Self::all()
            .into_iter()
            .find(|step| step.to_string() == name)
            .ok_or_else(|| UnknownStep(name.to_owned()))
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        as_word(self, serializer)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_step_has_a_name_of_its_own_that_is_read_back() {
        let all = Step::all();
        assert_eq!(all.len(), 41);
        assert_eq!(
            all.iter()
                .map(Step::to_string)
                .collect::<HashSet<_>>()
                .len(),
            all.len()
        );
        assert!(all.iter().all(|step| step.to_string().parse() == Ok(*step)));
        assert_eq!(
            "rsp.flush(a)".parse::<Step>(),
            Err(UnknownStep("rsp.flush(a)".into()))
        );
    }

    #[test]
    fn the_party_is_the_prefix_of_the_name() {
        for step in Step::all() {
            assert_eq!(
                step.to_string().starts_with("rsp."),
                step.party() == Party::Responder
            );
        }
    }
}
