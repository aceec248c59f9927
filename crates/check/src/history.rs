//! The calls and answers of clients, in one order of events.

use crate::values::ValueId;

/// A moment in a history: counts calls and answers of all clients, crashes and restarts.
pub type Moment = u64;

/// The moment of an answer that has not arrived.
pub const NEVER: Moment = Moment::MAX;

/// The condition of a write on the present value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The key is absent.
    Absent,
    /// The value has this version.
    Version(u64),
}

/// The call of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Reads the value.
    Get,
    /// Stores a value.
    Put(ValueId),
    /// Stores a value if the present one is as expected.
    PutIf(ValueId, Expected),
    /// Removes the value.
    Delete,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A value and its version; `None`: the key is absent.
    Got(Option<(ValueId, u64)>),
    /// Stored, with this version.
    Stored(u64),
    /// Not stored, because the condition did not hold; the present version.
    Conflict(Option<u64>),
    /// Whether there was a value to remove.
    Removed(bool),
    /// Nothing was done.
    Refused,
    /// An error, or no answer: the call may have been executed or not.
    Unknown,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The client.
    pub client: u32,
    /// The key.
    pub key: u32,
    /// The call.
    pub call: Call,
    /// The moment of the call.
    pub called: Moment,
    /// The answer.
    pub answer: Answer,
    /// The moment of the answer; for an unknown outcome, the moment after which the operation can
    /// no longer take effect.
    pub answered: Moment,
}

/// Names an operation of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationId(usize);

/// All operations of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    operations: Vec<Operation>,
    by_key: Vec<Vec<u32>>,
    now: Moment,
    answers: u64,
}

impl History {
    /// An empty history of `keys` keys.
    pub fn new(keys: u32) -> Self {
        Self {
            by_key: vec![Vec::new(); keys as usize],
            ..Self::default()
        }
    }

    /// Returns the present moment, and advances to the next.
    pub fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// The present moment.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Notes the call of a client.
    pub fn call(&mut self, client: u32, key: u32, call: Call) -> OperationId {
        let called = self.tick();
        self.by_key[key as usize].push(self.operations.len() as u32);
        self.operations.push(Operation {
            client,
            key,
            call,
            called,
            answer: Answer::Unknown,
            answered: NEVER,
        });
        OperationId(self.operations.len() - 1)
    }

    /// Notes the answer to a call.
    pub fn answer(&mut self, id: OperationId, answer: Answer) {
        let now = self.tick();
        let operation = &mut self.operations[id.0];
        assert_eq!(
            operation.answer,
            Answer::Unknown,
            "an operation is answered once"
        );
        operation.answer = answer;
        self.answers += 1;
        // An answer that arrives after its server's crash is about an operation that took effect
        // before it.
        if answer != Answer::Unknown && operation.answered == NEVER {
            operation.answered = now;
        }
    }

    /// Notes that a client repeats an unanswered operation: from now on it can take effect again.
    pub fn again(&mut self, id: OperationId) {
        let operation = &mut self.operations[id.0];
        assert_eq!(
            operation.answer,
            Answer::Unknown,
            "an answered operation is not repeated"
        );
        operation.answered = NEVER;
    }

    /// Notes a crash of the server: no operation that was under way can take effect later.
    pub fn crash(&mut self) -> Moment {
        let now = self.tick();
        for operation in self
            .operations
            .iter_mut()
            .filter(|operation| operation.answered == NEVER)
        {
            operation.answered = now;
        }
        now
    }

    /// The operations about `key`, in the order of their calls.
    pub fn of_key(&self, key: u32) -> impl Iterator<Item = &Operation> + Clone {
        self.by_key[key as usize]
            .iter()
            .map(|&index| &self.operations[index as usize])
    }

    /// All operations.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The number of keys.
    pub fn keys(&self) -> u32 {
        self.by_key.len() as u32
    }

    /// The number of answers.
    pub fn answers(&self) -> u64 {
        self.answers
    }
}
