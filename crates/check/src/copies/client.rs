//! The client: writes each record to every machine at once.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric_sim::Process;
use stonecast_persist::execute::{
    ExecuteError, Payload, REQUESTER_COMPLETIONS, Rehearsal, Requester,
};

use crate::copies::memory::{RECORD_SIZE_MAX, place};
use crate::copies::setup::Done;
use crate::copies::subject::{Copies, address};
use crate::history::NodeId;
use crate::models::register::{Answer, Call};
use crate::tasks::all;
use crate::values::{VALUE_SIZE_MIN, ValueId, encode};

/// Pause before a client tries again after it missed a machine.
const RETRY_NS: u64 = 200_000;

/// A session with one machine.
enum Session {
    Persisting(Requester),
    Rehearsing(Rehearsal),
}

impl Session {
    async fn open(copies: &Copies, process: &Process, node: NodeId) -> Result<Self, ExecuteError> {
        let port = process.port(REQUESTER_COMPLETIONS)?;
        let (plan, size_max) = (copies.plan(node), RECORD_SIZE_MAX as u32);
        Ok(match copies.setup.done {
            Done::Persisted => {
                Self::Persisting(Requester::connect(&port, &address(node), plan, size_max).await?)
            }
            Done::Completed => {
                let (program, flush) = copies.mistake(node);
                Self::Rehearsing(
                    Rehearsal::connect(&port, &address(node), &program, flush, size_max).await?,
                )
            }
        })
    }

    async fn write(&mut self, payload: &Payload<'_>) -> Result<(), ExecuteError> {
        match self {
            Self::Persisting(session) => session.persist(payload).await.map(drop),
            Self::Rehearsing(session) => session.run(payload).await.map(drop),
        }
    }
}

/// Writes until nothing is left to do. After a failure the outcome of the write is unknown, and the sessions are new.
pub(super) async fn live(copies: Rc<Copies>, process: Process, client: u32, seed: u64) {
    let mut random = random_from_seed(seed);
    while copies.left.get() > 0 {
        let mut sessions = Vec::new();
        for node in copies.nodes() {
            sessions.extend(Session::open(&copies, &process, node).await.ok());
        }
        if sessions.len() < copies.nodes().count() {
            drop(sessions);
            process.runtime().sleep(RETRY_NS).await;
            continue;
        }
        while copies.left.get() > 0 && write(&copies, client, &mut sessions, &mut random).await {}
    }
}

/// Writes one record. Returns whether every machine has it.
async fn write(
    copies: &Copies,
    client: u32,
    sessions: &mut [Session],
    random: &mut Random,
) -> bool {
    copies.left.set(copies.left.get() - 1);
    let key = random.random_range(0..copies.setup.keys);
    let value = ValueId((copies.setup.operations - copies.left.get()) as u32);
    let mut bytes = Vec::new();
    encode(
        value,
        random.random_range(VALUE_SIZE_MIN..=RECORD_SIZE_MAX),
        &mut bytes,
    );
    let payload = Payload::single(place(key, copies.writes_done(key)), &bytes);
    // The record may get to any machine before the client or another machine dies.
    let id = copies.testimony.call(client, None, key, Call::Put(value));
    let everywhere = Cell::new(true);
    let writes = sessions.iter_mut().map(|session| {
        let (payload, everywhere) = (&payload, &everywhere);
        Box::pin(async move {
            if session.write(payload).await.is_err() {
                everywhere.set(false);
            }
        }) as Pin<Box<dyn Future<Output = ()> + '_>>
    });
    all(writes.collect()).await;
    if everywhere.get() {
        copies.note_done(key);
    }
    let answer = Answer::Stored(value.0.into());
    let answer = everywhere.get().then_some(answer);
    copies.testimony.answer(id, answer);
    everywhere.get()
}
