//! What clients asked for and what they were told, in one order of events.

use crate::values::ValueId;

/// A moment in a history: counts calls and answers of all clients, crashes and restarts.
pub type Moment = u64;

/// The moment of an answer that has not come.
pub const NEVER: Moment = Moment::MAX;

/// What a conditional write asks of the present value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// That there is none.
    Absent,
    /// That it has this version.
    Version(u64),
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The value.
    Get,
    /// To store a value.
    Put(ValueId),
    /// To store a value if the present one is as expected.
    PutIf(ValueId, Expected),
    /// To remove the value.
    Delete,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A value and its version; `None`: there is none.
    Got(Option<(ValueId, u64)>),
    /// Stored, under this version.
    Stored(u64),
    /// Not stored: the condition did not hold; the present version.
    Conflict(Option<u64>),
    /// Removed, or nothing was there.
    Removed(bool),
    /// Nothing was done.
    Refused,
    /// An error, or nothing at all: perhaps it was done, perhaps it was not.
    Unknown,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Who asked.
    pub client: u32,
    /// About which key.
    pub key: u32,
    /// What was asked for.
    pub call: Call,
    /// When.
    pub called: Moment,
    /// What came back.
    pub answer: Answer,
    /// When; for an unknown outcome, the moment after which it cannot be done any more.
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
    /// A history about `keys` keys.
    pub fn new(keys: u32) -> Self {
        Self {
            by_key: vec![Vec::new(); keys as usize],
            ..Self::default()
        }
    }

    /// The present moment; the next one is later.
    pub fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// The present moment.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Somebody asks for something.
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

    /// The answer has come.
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
        // An answer that outlived its server tells of something that was done before the crash.
        if answer != Answer::Unknown && operation.answered == NEVER {
            operation.answered = now;
        }
    }

    /// Somebody asks once more for what was never answered: from now on it can be done again.
    pub fn again(&mut self, id: OperationId) {
        let operation = &mut self.operations[id.0];
        assert_eq!(
            operation.answer,
            Answer::Unknown,
            "what was answered is not asked for again"
        );
        operation.answered = NEVER;
    }

    /// The server is gone, and with it every operation that was under way: none of them can be done later.
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

    /// How many keys it is about.
    pub fn keys(&self) -> u32 {
        self.by_key.len() as u32
    }

    /// How many answers came.
    pub fn answers(&self) -> u64 {
        self.answers
    }
}
