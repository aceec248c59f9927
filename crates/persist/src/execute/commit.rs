//! The responder's half of a plan, for servers that decide on each update before it counts: a request comes in, the
//! server checks, stores, makes durable, and answers.
//!
//! ```text
//!   rq.send(a) -->  rsp.receive(a)  [decide]  rsp.copy(a)  rsp.write_back(a)  [publish]  rsp.send(ack)  --> rq.receive(ack)
//!                                             [---- run by Commit ---------]
//! ```
//!
//! `a` is the record with the server's stamp, because a record without a stamp does not count. The request arrives in
//! memory that a crash may take, and the server's own stores make the update. So the plan is the planner's plan for a
//! SEND into volatile receive buffers. A client that has written the record to its place in advance saves the server
//! the copy of those bytes, and nothing else changes: the bytes count when the stamp does, and the write-back covers
//! them. The server's own writes (seals, headers, moved records) take the same steps, with the server as requester,
//! too.
//!
//! Many updates go through the steps together. Each line is written back once, and one fence or sync serves all
//! updates.

use stonecast_base::Span;
use stonecast_media::{
    DeclaredPlatform, Durability, Means, PersistError, PersistentRegion, ReceiveBuffers,
};

use crate::execute::error::ExecuteError;
use crate::execute::local;
use crate::execute::medium::check_medium;
use crate::execute::witness::{Concluded, Persisted, Planned};
use crate::plan::{NoPlan, Plan, plan_for};
use crate::platform::Platform;
use crate::program::Program;
use crate::scenario::{Operation, Update};
use crate::step::{Item, Party, Step};

/// The steps of a server between its stores and the answers. Chosen once, when the server starts.
///
/// ```
/// use stonecast_media::{Ddio, DeclaredPlatform, Durability, Means, PersistenceDomain, ReceiveBuffers};
/// use stonecast_persist::execute::Commit;
///
/// let platform = DeclaredPlatform {
///     persistence_domain: PersistenceDomain::Dmp,
///     ddio: Ddio::On,
///     receive_buffers: ReceiveBuffers::Dram,
/// };
/// let commit = Commit::choose(platform, Durability::Power, Means::WriteBack)?;
/// assert_eq!(
///     commit.plan().program().to_string(),
///     "rq.send(a) rsp.receive(a) rsp.copy(a) rsp.write_back(a) rsp.send(ack) rq.receive(ack)"
/// );
/// # Ok::<(), stonecast_persist::execute::NoCommit>(())
/// ```
#[derive(Clone, Debug)]
pub struct Commit {
    plan: Plan,
    planned: Planned,
    steps: LocalSteps,
}

/// The reason why a server cannot keep its promise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoCommit {
    /// No steps are sound.
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
    /// The medium does not match the declaration.
    #[error(transparent)]
    Medium(#[from] ExecuteError),
    /// The plan leaves the server nothing to decide.
    #[error(
        "a server that decides on updates needs a plan of rsp.receive(a), rsp.copy(a) and rsp.send(ack); \
         {program} is none"
    )]
    NotDecided {
        /// The steps of the plan.
        program: Program,
    },
}

impl Commit {
    /// Chooses the plan for a server on a medium that makes bytes durable by `means`, declared to be `platform`.
    ///
    /// With [`Durability::Process`] the crash is the death of processes, which takes no store that was visible: the
    /// plan is that of a platform whose caches survive, whatever the medium.
    ///
    /// # Errors
    /// [`NoCommit`] if nothing survives, or if the medium does not match the platform. Nothing was done.
    pub fn choose(
        platform: DeclaredPlatform,
        durability: Durability,
        means: Means,
    ) -> Result<Self, NoCommit> {
        let declared = Platform::of(DeclaredPlatform {
            receive_buffers: ReceiveBuffers::Dram,
            ..platform
        })
        .under(durability);
        let plan = plan_for(&declared, Operation::Send, Update::Single)?;
        if durability == Durability::Power {
            check_medium(&declared, means)?;
        }
        Self::new(plan)
    }

    /// A server that runs its part of `plan`, on a medium that matches the plan's platform.
    fn new(plan: Plan) -> Result<Self, NoCommit> {
        let Some(steps) = LocalSteps::of(plan.program()) else {
            let program = plan.program().clone();
            return Err(NoCommit::NotDecided { program });
        };
        let planned = Planned::by(&plan);
        Ok(Self {
            plan,
            planned,
            steps,
        })
    }

    /// The plan. [`Commit::persist`] runs its steps between the decision and the answer.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs the plan's steps on `spans`, which hold all bytes that the updates' requesters wrote and the server stored
    /// before this call. Every update in them is persisted when the call returns the value.
    ///
    /// # Errors
    /// [`PersistError`]: the medium failed, and each of the updates may or may not be persisted. A crash during the
    /// call leaves the same.
    pub async fn persist(
        &self,
        region: &dyn PersistentRegion,
        spans: &[Span],
    ) -> Result<Persisted, PersistError> {
        let concluded = self.steps.run(region, spans).await?;
        Ok(Persisted::by(&self.planned, concluded))
    }
}

/// The responder's steps between the receipt of `a` and the acknowledgement.
#[derive(Clone, Debug)]
struct LocalSteps(Vec<Step>);

impl LocalSteps {
    /// The local steps of `program`; `None` if it leaves a server nothing to decide.
    fn of(program: &Program) -> Option<Self> {
        let mut steps: Vec<Step> = program.of(Party::Responder).collect();
        let has_ends =
            matches!(steps.first(), Some(Step::Receive(_))) && steps.last() == Some(&Step::SendAck);
        if !has_ends {
            return None;
        }
        steps.remove(0);
        steps.pop();
        let is_local = |step: &Step| matches!(step, Step::Copy(Item::A) | Step::WriteBack(Item::A));
        (steps.contains(&Step::Copy(Item::A)) && steps.iter().all(is_local)).then_some(Self(steps))
    }

    async fn run(
        &self,
        region: &dyn PersistentRegion,
        spans: &[Span],
    ) -> Result<Concluded, PersistError> {
        for step in &self.0 {
            local::end(*step, region, spans).await?;
        }
        Ok(Concluded::at_the_end())
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use rand::RngExt as _;
    use stonecast_base::random_from_seed;
    use stonecast_fabric_sim::{Fate, MachineOptions, MachineProfile, SimBacking, Survivor, World};
    use stonecast_media::{Backing as _, Ddio, LogOptions, PersistenceDomain};

    use super::*;
    use crate::litmus::{self, Verdict};

    const CAPACITY: u64 = 1 << 16;

    fn declared(persistence_domain: PersistenceDomain, ddio: Ddio) -> DeclaredPlatform {
        DeclaredPlatform {
            persistence_domain,
            ddio,
            receive_buffers: ReceiveBuffers::Dram,
        }
    }

    fn chosen(
        domain: PersistenceDomain,
        durability: Durability,
        means: Means,
    ) -> Result<Commit, String> {
        Commit::choose(declared(domain, Ddio::On), durability, means)
            .map_err(|error| error.to_string())
    }

    /// Every platform on which something survives, with the means that it needs.
    fn powered() -> impl Iterator<Item = (DeclaredPlatform, Commit)> {
        let domains = [
            (PersistenceDomain::PageFile, Means::FileSync),
            (PersistenceDomain::Dmp, Means::WriteBack),
            (PersistenceDomain::Mhp, Means::Fence),
            (PersistenceDomain::Wsp, Means::Fence),
        ];
        domains.into_iter().flat_map(|(domain, means)| {
            [Ddio::On, Ddio::Off].map(|ddio| {
                let platform = declared(domain, ddio);
                let commit = Commit::choose(platform, Durability::Power, means).unwrap();
                (platform, commit)
            })
        })
    }

    #[test]
    fn a_server_writes_back_only_where_caches_are_lost() {
        for (platform, commit) in powered() {
            let is_lost = matches!(
                platform.persistence_domain,
                PersistenceDomain::PageFile | PersistenceDomain::Dmp
            );
            let steps = &commit.steps.0;
            assert_eq!(
                steps.contains(&Step::WriteBack(Item::A)),
                is_lost,
                "{platform:?}"
            );
        }
        let volatile = PersistenceDomain::Volatile;
        let process = chosen(volatile, Durability::Process, Means::Process).unwrap();
        assert_eq!(process.steps.0, [Step::Copy(Item::A)]);
    }

    /// Needs the check of the medium: a file whose pages are synced keeps no promise about cache lines.
    #[test]
    fn a_combination_that_keeps_no_promise_is_refused_with_an_explanation() {
        let volatile = PersistenceDomain::Volatile;
        let refused = chosen(volatile, Durability::Power, Means::Process).unwrap_err();
        assert!(refused.contains("nothing survives"), "{refused}");
        let refused =
            chosen(PersistenceDomain::Dmp, Durability::Power, Means::FileSync).unwrap_err();
        assert!(
            refused.contains("persistence = dmp") && refused.contains("syncing a file"),
            "{refused}"
        );
    }

    /// Needs the refusal in `LocalSteps::of`: without it a server would run the steps of a plan that does not wait for
    /// its decision.
    #[test]
    fn a_plan_in_which_the_server_has_nothing_to_store_is_refused_with_its_steps() {
        let platform = Platform::of(declared(PersistenceDomain::Dmp, Ddio::Off));
        for (operation, update) in [
            (Operation::Write, Update::Single),
            (Operation::Send, Update::Compound { large: false }),
        ] {
            let plan = plan_for(&platform, operation, update).unwrap();
            let program = plan.program().to_string();
            let refused = Commit::new(plan).unwrap_err().to_string();
            assert!(refused.contains(&program), "{refused}");
        }
    }

    /// A client may write a record to its place before the server decides on it. The server's steps keep those bytes,
    /// too: the model finds them sound after a WRITE_WITH_IMM, which copies nothing.
    #[test]
    fn the_same_steps_keep_bytes_that_a_client_has_written_to_their_place() {
        for (declared, commit) in powered() {
            let placed = [
                Step::WriteImmediate(Item::A),
                Step::Receive(crate::step::Message::Address(Item::A)),
            ];
            let local = commit.steps.0.iter().copied();
            let local = local.filter(|step| *step != Step::Copy(Item::A));
            let program = Program::new(
                placed
                    .into_iter()
                    .chain(local)
                    .chain([Step::SendAck, Step::ReceiveAck]),
            );
            let verdict = litmus::check(&Platform::of(declared), &program, Update::Single);
            assert!(
                matches!(verdict, Verdict::Sound { .. }),
                "{declared:?}: {verdict:?}"
            );
        }
    }

    /// Whether a power cut may take the bytes that a server stored before it ran `steps`.
    fn loses(platform: DeclaredPlatform, steps: &LocalSteps, place: u64, seed: u64) -> bool {
        let world = World::new(seed);
        let machine = world.machine(MachineOptions {
            platform,
            ..MachineOptions::new(MachineProfile::MODERN)
        });
        let process = world.process(machine);
        let module = world.module(machine, Survivor::default());
        let options = LogOptions {
            capacity: CAPACITY,
            platform,
            durability: Durability::Power,
        };
        let log = SimBacking::new(&module).open_log(options).unwrap();
        let (region, steps) = (Rc::clone(&log), steps.clone());
        let concluded = Rc::new(std::cell::Cell::new(false));
        let told = Rc::clone(&concluded);
        process.runtime().spawn(Box::pin(async move {
            region.write(place, &[7; 200]);
            let _concluded = steps.run(&*region, &[Span::new(place, 200)]).await.unwrap();
            told.set(true);
        }));
        while !concluded.get() {
            assert!(world.step(), "the steps end");
        }
        let wreck = world.wreck(machine, &module);
        let survivor = wreck.survivor(&vec![Fate::default(); wreck.undecided()]);
        let mut found = [0; 200];
        survivor.read(place, &mut found);
        found != [7; 200]
    }

    /// The server runs the plan: without any one of the plan's steps it is refused or loses data. Needs `run` to take
    /// its steps from the plan, and no others.
    #[test]
    fn a_plan_that_lacks_a_step_is_refused_or_loses_data_of_the_server() {
        for seed in 0..8 {
            let place = random_from_seed(seed).random_range(0..CAPACITY - 200);
            for (platform, commit) in powered() {
                let case = format!("seed {seed}, place {place}, {platform:?}");
                assert!(!loses(platform, &commit.steps, place, seed), "{case}");
                let program = commit.plan.program();
                let mut lost = 0;
                for (index, step) in program.steps().iter().enumerate() {
                    let Some(rest) = LocalSteps::of(&program.without(index)) else {
                        continue;
                    };
                    if step.party() == Party::Responder {
                        assert!(loses(platform, &rest, place, seed), "{case}: no {step}");
                        lost += 1;
                    }
                }
                let writes_back = program.steps().contains(&Step::WriteBack(Item::A));
                assert_eq!(lost, u32::from(writes_back), "{case}");
                if platform.persistence_domain == PersistenceDomain::Mhp {
                    let none = LocalSteps(Vec::new());
                    assert!(loses(platform, &none, place, seed), "{case}: no fence");
                }
            }
        }
    }
}
