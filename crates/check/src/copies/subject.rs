//! Records with copies on several machines, as a subject of the checks.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_fabric_sim::Process;
use stonecast_persist::execute::{RESPONDER_COMPLETIONS, Responder, recover};
use stonecast_persist::{
    Awaited, FlushKind, Item, Operation, Plan, Platform, Program, Step, Update, plan_for,
};

use crate::copies::client;
use crate::copies::memory::{LAYOUT, Memory};
use crate::copies::setup::{Done, Setup};
use crate::explorer::Judge;
use crate::history::NodeId;
use crate::kv::WORDS;
use crate::lab::REFUSED;
use crate::models::register::{Answer, Call};
use crate::oracles::acknowledged::Allowed;
use crate::oracles::agreement::{self, Copied};
use crate::oracles::idempotence;
use crate::subject::{Ended, Seat, Subject, Task, Testimony};
use crate::timeline::Words;
use crate::values::ValueId;
use crate::violation::Violation;

/// The records and their copies.
pub(crate) struct Copies {
    pub setup: Setup,
    pub testimony: Testimony<Call, Answer>,
    /// Writes that the client has not begun.
    pub left: Cell<u64>,
    /// Number of finished writes of each key. The next write goes to the other place, so a write of unknown outcome may
    /// be overwritten, and the latest finished write never is.
    done: RefCell<Vec<u64>>,
    plans: Vec<Plan>,
}

/// The value of each key after a recovery.
pub(crate) type Contents = Vec<ValueId>;

/// The address of a machine.
pub(super) fn address(node: NodeId) -> String {
    format!("sim:copy-{node}")
}

impl Copies {
    pub fn new(setup: Setup) -> Rc<Self> {
        let plan = |platform| {
            let plan = plan_for(&Platform::of(platform), Operation::Write, Update::Single);
            plan.expect("something survives on every platform of a setup")
        };
        let machines = setup.machines.iter();
        Rc::new(Self {
            testimony: Testimony::new(setup.keys),
            left: Cell::new(setup.operations),
            done: RefCell::new(vec![0; setup.keys as usize]),
            plans: machines.map(|machine| plan(machine.platform)).collect(),
            setup,
        })
    }

    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        0..self.plans.len() as NodeId
    }

    pub fn plan(&self, node: NodeId) -> &Plan {
        &self.plans[node as usize]
    }

    /// A program that takes a completed write for a persisted one.
    pub fn mistake(&self, node: NodeId) -> (Program, FlushKind) {
        let steps = [Step::Write(Item::A), Step::Await(Awaited::Write(Item::A))];
        let platform = self.plan(node).scenario().platform;
        (Program::new(steps), platform.flush)
    }

    /// Number of finished writes of `key`.
    pub fn writes_done(&self, key: u32) -> u64 {
        self.done.borrow()[key as usize]
    }

    /// Notes a finished write of `key`.
    pub fn note_done(&self, key: u32) {
        self.done.borrow_mut()[key as usize] += 1;
    }

    fn memory(&self, seat: &Seat) -> Result<Memory, String> {
        let platform = self.setup.machines[seat.node as usize].platform;
        Memory::open(&seat.backing, platform).map_err(|error| error.to_string())
    }

    async fn respond(&self, seat: &Seat) -> Result<(), String> {
        let text = |error: &dyn ToString| error.to_string();
        let memory = self.memory(seat)?;
        let replayed = recover(&*memory.region, &LAYOUT).await;
        replayed.map_err(|error| text(&error))?;
        let port = seat.process.port(RESPONDER_COMPLETIONS);
        let port = port.map_err(|error| text(&error))?;
        let responder = match self.setup.done {
            Done::Persisted => Responder::new(&port, memory.region, LAYOUT, self.plan(seat.node)),
            Done::Completed => {
                let (program, flush) = self.mistake(seat.node);
                Responder::rehearsing(&port, memory.region, LAYOUT, &program, flush)
            }
        };
        let responder = responder.map_err(|error| text(&error))?;
        let listening = port.device().listen(&address(seat.node));
        listening.map_err(|error| text(&error))?;
        let Err(error) = responder.serve().await;
        Err(text(&error))
    }

    /// Opens all memories, takes the newest record of each key, and copies the record to the memories that lack it.
    /// Afterwards all memories have the same records.
    async fn open(&self, seats: &[Seat]) -> Result<Contents, Violation> {
        let refused = |error: String| Violation::new(REFUSED, error);
        let memories: Vec<Memory> = seats
            .iter()
            .map(|seat| self.memory(seat))
            .collect::<Result<_, _>>()
            .map_err(refused)?;
        let mut contents = Vec::new();
        for key in 0..self.setup.keys {
            let found: Vec<_> = memories.iter().map(|memory| memory.newest(key)).collect();
            let newest = found.iter().flatten().max_by_key(|record| record.value);
            contents.push(newest.map_or(ValueId::ABSENT, |record| record.value));
            let Some(newest) = newest else { continue };
            let has = |record: &crate::copies::memory::Record| record.value == newest.value;
            for (memory, found) in memories.iter().zip(&found) {
                if !found.as_ref().is_some_and(has) {
                    let taken = memory.take(newest).await;
                    let _persisted = taken.map_err(|error| refused(error.to_string()))?;
                }
            }
        }
        self.judge_copies(&memories).map_or(Ok(contents), Err)
    }

    /// Judges whether all memories have the same records.
    fn judge_copies(&self, memories: &[Memory]) -> Option<Violation> {
        let records = |memory: &Memory| {
            let keys = (0..self.setup.keys).map(|key| (key, memory.newest(key)));
            let present = keys.filter_map(|(key, record)| Some((key.into(), record?.value)));
            present.collect()
        };
        let copies = self.nodes().zip(memories).map(|(node, memory)| Copied {
            node,
            entries: records(memory),
        });
        agreement::judge(u64::MAX, &copies.collect::<Vec<_>>())
    }
}

impl Subject for Copies {
    type Call = Call;
    type Answer = Answer;
    type Contents = Contents;
    type Beside = ();

    const WORDS: Words<Call, Answer> = WORDS;

    fn name(&self, node: NodeId) -> String {
        format!("machine {node}")
    }

    fn testimony(&self) -> &Testimony<Call, Answer> {
        &self.testimony
    }

    fn serve(self: Rc<Self>, seat: Seat) -> Task<Result<(), Ended>> {
        Box::pin(async move {
            self.respond(&seat).await.map_err(|error| Ended {
                error,
                is_excused: false,
            })
        })
    }

    fn live(self: Rc<Self>, process: Process, client: u32, seed: u64) -> Task<()> {
        Box::pin(client::live(self, process, client, seed))
    }

    fn beside(&self) {}

    fn recover(self: Rc<Self>, seats: Vec<Seat>, _: Rc<()>) -> Task<Result<Contents, Violation>> {
        Box::pin(async move { self.open(&seats).await })
    }
}

impl Judge<Contents> for Allowed {
    fn judge(&self, contents: &Contents) -> Result<(), Violation> {
        let found = (0..).zip(contents.iter().copied());
        Allowed::judge(self, found).map_or(Ok(()), Err)
    }

    fn judge_again(&self, first: &Contents, second: &Contents) -> Result<(), Violation> {
        let told = |contents: &Contents| -> Vec<Option<(ValueId, u64)>> {
            contents.iter().map(|&value| Some((value, 0))).collect()
        };
        idempotence::judge(&told(first), &told(second)).map_or(Ok(()), Err)
    }
}
