//! Clients: each has one call under way, and repeats the call until it gets an answer.

use stonecast_replication::Point;

use crate::state::{Key, Word};

/// The wish of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The state of the key.
    Get,
    /// The key is there afterwards.
    Put,
    /// The key is there afterwards, and was not before.
    Add,
    /// The key is not there afterwards.
    Delete,
}

/// A call of a client, as a primary holds it while it waits.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The number of the call, which a repetition keeps.
    pub number: u64,
    /// The client.
    pub client: u32,
    /// The shard of the key.
    pub shard: u32,
    /// The key.
    pub key: Key,
    /// The wish.
    pub wish: Wish,
    /// The number of times that the client has repeated the call.
    pub(crate) attempt: u32,
    /// The latest point of the key in any answer given before the call began.
    pub(crate) told_before: Point,
}

/// An answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The write is done.
    Done(Word),
    /// Nothing was written; the key's word. A deleted key has a word too, which says that the key is absent.
    Saw(Option<Word>),
}

/// All clients.
pub struct Clients {
    open: Vec<Option<Call>>,
    answers: Vec<u64>,
}

impl Clients {
    pub fn new(count: u32) -> Self {
        Self {
            open: vec![None; count as usize],
            answers: vec![0; count as usize],
        }
    }

    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// The call that `client` has under way.
    pub fn open(&self, client: usize) -> Option<Call> {
        self.open[client]
    }

    pub fn begin(&mut self, call: Call) {
        self.open[call.client as usize] = Some(call);
    }

    /// Repeats the call that `client` has under way.
    pub fn repeat(&mut self, client: usize) -> Call {
        let call = self.open[client].as_mut().expect("a call is under way");
        call.attempt += 1;
        *call
    }

    /// Takes an answer to `call`. Returns whether its client still waited for the answer. The refusal of a write
    /// answers only the last attempt: after the refusal of an earlier attempt, a later one may still write.
    pub fn take_answer(&mut self, call: &Call, told: Told) -> bool {
        let is_refused = call.wish != Wish::Get && matches!(told, Told::Saw(_));
        let open = &mut self.open[call.client as usize];
        let waits = open.is_some_and(|open| {
            let is_last = open.attempt == call.attempt;
            open.number == call.number && (is_last || !is_refused)
        });
        if waits {
            *open = None;
            self.answers[call.client as usize] += 1;
        }
        waits
    }

    /// The fewest answers of a client.
    pub fn fewest_answers(&self) -> u64 {
        self.answers.iter().copied().min().unwrap_or(0)
    }

    /// Counts the answers from 0 again.
    pub fn forget_answers(&mut self) {
        self.answers.fill(0);
    }
}
