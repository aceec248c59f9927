//! The planner: finds the steps that make an update durable on a platform. Pure.
//!
//! There are three ways, from cheap to universal, and each scenario takes the first sound one:
//!
//! ```text
//!   arrival    the completion of the posted operation is enough         NIC buffers survive, InfiniBand or RoCE
//!   flush      the completion of a later flush is enough                all that a flush covers is persistent
//!   message    the responder is told, writes back, and answers          always, if anything survives
//! ```
//!
//! In a compound update, `b` follows `a` without a wait if posted writes become persistent in order. Otherwise `b` is
//! an ATOMIC_WRITE after a flush, and without ATOMIC_WRITE the requester waits between the two.
//!
//! An append is durable in its receive buffer, so nothing is copied; both values of a compound update form one entry,
//! which counts as a whole. Its requester does not know the place, and a native FLUSH covers no SEND, so its flush is a
//! READ.
//!
//! The planner does not prove that a plan is sound and that each of its steps is needed: the litmus model does.

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use stonecast_base::mutant;
use stonecast_media::{Ddio, PersistenceDomain, ReceiveBuffers};

use crate::platform::{Contradiction, FlushKind, Platform, Transport};
use crate::profile::PlatformProfile;
use crate::program::{Cost, Program};
use crate::scenario::{Operation, Scenario, Update};
use crate::step::{Awaited, Item, Message, Step};

use Item::{A, B};

/// A program that is sound for a scenario. Only [`plan`], [`plan_for`] and [`plan_answered`] make one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    scenario: Scenario,
    program: Program,
}

/// The reason why the platform has no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlan {
    /// No step helps if nothing survives.
    #[error(
        "nothing survives a power cut on this platform (persistence = volatile), so no sequence of steps makes a write durable; \
         declare page-file, dmp, mhp or wsp if that is what the machine has"
    )]
    NothingSurvives,
    /// The description of the platform contradicts itself.
    #[error("the platform contradicts itself: {0}")]
    Contradiction(#[from] Contradiction),
}

impl Plan {
    /// The question that the plan answers.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The steps as a program, which claims nothing.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The steps.
    pub fn steps(&self) -> &[Step] {
        self.program.steps()
    }

    /// The cost.
    pub fn cost(&self) -> Cost {
        self.program.cost()
    }

    /// Whether the responder's processor has no part in it.
    pub fn is_one_sided(&self) -> bool {
        self.program.is_one_sided()
    }
}

/// One object: the selectors, then `steps`, `round_trips`, `one_sided`.
impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let platform = &self.scenario.platform;
        let mut object = serializer.serialize_struct("Plan", 8)?;
        object.serialize_field("persistence", &platform.persistence.to_string())?;
        object.serialize_field("ddio", &(platform.ddio == Ddio::On))?;
        object.serialize_field("receive_buffers", &platform.receive_buffers.to_string())?;
        object.serialize_field("operation", &self.scenario.operation)?;
        object.serialize_field("update", self.scenario.update.word())?;
        object.serialize_field("steps", self.steps())?;
        object.serialize_field("round_trips", &self.cost().round_trips)?;
        object.serialize_field("one_sided", &self.is_one_sided())?;
        object.end()
    }
}

/// The plan for the platform of `profile`, on any of its ports.
///
/// # Errors
/// [`NoPlan`] with the reason why no plan is sound.
pub fn plan(
    profile: &PlatformProfile,
    operation: Operation,
    update: Update,
) -> Result<Plan, NoPlan> {
    plan_for(&profile.platform(), operation, update)
}

/// The plan for `platform`.
///
/// # Errors
/// [`NoPlan`] with the reason why no plan is sound.
pub fn plan_for(platform: &Platform, operation: Operation, update: Update) -> Result<Plan, NoPlan> {
    platform.check()?;
    if platform.persistence == PersistenceDomain::Volatile {
        return Err(NoPlan::NothingSurvives);
    }
    let steps = match (operation, update) {
        (Operation::Send, Update::Single) => message_of(platform, Message::Value(A), &[A]),
        (Operation::Send, Update::Compound { .. }) => message_of(platform, Message::Both, &[A, B]),
        (Operation::Append, Update::Single) => appended(platform, Message::Value(A), &[A]),
        (Operation::Append, Update::Compound { .. }) => appended(platform, Message::Both, &[A, B]),
        (_, Update::Single) => written(platform, operation, A),
        (_, Update::Compound { large }) => both_written(platform, operation, large),
    };
    let scenario = Scenario {
        platform: *platform,
        operation,
        update,
    };
    Ok(Plan {
        scenario,
        program: Program::new(steps),
    })
}

/// The plan for one WRITE to `platform` that the responder answers, even where a cheaper plan exists: for updates about
/// which the responder has to hear anyway.
///
/// ```
/// use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};
/// use stonecast_persist::{Operation, Platform, Update, plan_answered, plan_for};
///
/// let platform = Platform::of(DeclaredPlatform {
///     persistence_domain: PersistenceDomain::Mhp,
///     ddio: Ddio::On,
///     receive_buffers: ReceiveBuffers::Dram,
/// });
/// let cheapest = plan_for(&platform, Operation::Write, Update::Single)?;
/// assert_eq!(cheapest.program().to_string(), "rq.write(a) rq.flush rq.await(flush)");
/// assert_eq!(
///     plan_answered(&platform)?.program().to_string(),
///     "rq.write(a) rq.send(&a) rsp.receive(&a) rsp.send(ack) rq.receive(ack)"
/// );
/// # Ok::<(), stonecast_persist::NoPlan>(())
/// ```
///
/// # Errors
/// [`NoPlan`] with the reason why no plan is sound.
pub fn plan_answered(platform: &Platform) -> Result<Plan, NoPlan> {
    platform.check()?;
    if platform.persistence == PersistenceDomain::Volatile {
        return Err(NoPlan::NothingSurvives);
    }
    let scenario = Scenario {
        platform: *platform,
        operation: Operation::Write,
        update: Update::Single,
    };
    let mut steps = vec![Step::Write(A)];
    steps.extend(told_and_answered(platform, Operation::Write, A));
    let program = Program::new(steps);
    Ok(Plan { scenario, program })
}

/// `a`, then `b`, both written to their places.
fn both_written(platform: &Platform, operation: Operation, large: bool) -> Vec<Step> {
    let in_order =
        platform.trusted_nic_buffers || (saves_caches(platform) && !platform.relaxed_ordering);
    let flush_persists = flush_persists(platform, operation);
    if in_order && flush_persists {
        // The wait for `b` covers `a`.
        return [vec![post(operation, A)], written(platform, operation, B)].concat();
    }
    if flush_persists && operation == Operation::Write && !large && platform.atomic_write {
        return vec![
            Step::Write(A),
            Step::Flush,
            Step::WriteAtomic(B),
            Step::Flush,
            Step::Await(Awaited::Flush),
        ];
    }
    [
        written(platform, operation, A),
        written(platform, operation, B),
    ]
    .concat()
}

/// One update written to its place and awaited.
fn written(platform: &Platform, operation: Operation, item: Item) -> Vec<Step> {
    let mut steps = vec![post(operation, item)];
    if arrival_persists(platform) {
        steps.push(Step::Await(match operation {
            Operation::WriteImmediate => Awaited::WriteImmediate(item),
            _ => Awaited::Write(item),
        }));
    } else if flush_persists(platform, operation) {
        steps.extend([Step::Flush, Step::Await(Awaited::Flush)]);
    } else {
        steps.extend(told_and_answered(platform, operation, item));
    }
    steps
}

/// The responder hears of a written update, makes it durable, and answers.
fn told_and_answered(platform: &Platform, operation: Operation, item: Item) -> Vec<Step> {
    let mut steps = Vec::new();
    if operation == Operation::Write {
        steps.push(Step::Send(Message::Address(item)));
    }
    steps.push(Step::Receive(Message::Address(item)));
    if !saves_caches(platform) {
        steps.push(Step::WriteBack(item));
    }
    steps.extend([Step::SendAck, Step::ReceiveAck]);
    steps
}

/// One message with all values. In persistent receive buffers the message is durable in place: recovery applies it.
fn message_of(platform: &Platform, message: Message, items: &[Item]) -> Vec<Step> {
    let mut steps = vec![Step::Send(message)];
    let lies_in_pm = platform.receive_buffers == ReceiveBuffers::Pm;
    if lies_in_pm && arrival_persists(platform) {
        steps.push(Step::Await(Awaited::Send(message)));
    } else if lies_in_pm && flush_persists(platform, Operation::Send) {
        steps.extend([Step::Flush, Step::Await(Awaited::Flush)]);
    } else {
        steps.push(Step::Receive(message));
        // A received message is visible. If that is enough, it need not be copied before the answer.
        let is_durable = lies_in_pm && saves_caches(platform);
        for item in items.iter().filter(|_| !is_durable) {
            steps.push(Step::Copy(*item));
            // Before the next copy: caches may evict `b` first.
            if !saves_caches(platform) && !mutant!(WriteBackNotPlanned) {
                steps.push(Step::WriteBack(*item));
            }
        }
        steps.extend([Step::SendAck, Step::ReceiveAck]);
    }
    steps
}

/// One entry, which the responder's device places in the responder's memory.
fn appended(platform: &Platform, entry: Message, items: &[Item]) -> Vec<Step> {
    let mut steps = vec![Step::Append(entry)];
    if arrival_persists(platform) {
        steps.push(Step::Await(Awaited::Append(entry)));
    } else if read_persists(platform) {
        steps.extend([Step::Read, Step::Await(Awaited::Read)]);
    } else {
        steps.push(Step::Receive(entry));
        if !saves_caches(platform) {
            steps.extend(items.iter().copied().map(Step::WriteBack));
        }
        steps.extend([Step::SendAck, Step::ReceiveAck]);
    }
    steps
}

fn post(operation: Operation, item: Item) -> Step {
    match operation {
        Operation::WriteImmediate => Step::WriteImmediate(item),
        _ => Step::Write(item),
    }
}

/// Whether an operation is durable once it has completed: the responder's NIC has it, and loses nothing.
fn arrival_persists(platform: &Platform) -> bool {
    platform.trusted_nic_buffers && platform.transport == Transport::InfiniBand
}

/// Whether visible data survives.
fn saves_caches(platform: &Platform) -> bool {
    matches!(
        platform.persistence,
        PersistenceDomain::Mhp | PersistenceDomain::Wsp
    )
}

/// Whether everything posted is durable once a later READ has completed.
fn read_persists(platform: &Platform) -> bool {
    let with_read = Platform {
        flush: FlushKind::Read,
        ..*platform
    };
    flush_persists(&with_read, Operation::Append)
}

/// Whether data that `operation` wrote is durable once a later flush has completed.
fn flush_persists(platform: &Platform, operation: Operation) -> bool {
    // Every flush is answered after the arrival of all earlier posts.
    if platform.trusted_nic_buffers {
        return true;
    }
    let covered = match platform.flush {
        FlushKind::Read => !platform.relaxed_ordering,
        // The standard names WRITE, atomics and ATOMIC_WRITE, not SEND.
        FlushKind::NativeGlobal | FlushKind::NativePersistent => {
            !matches!(operation, Operation::Send | Operation::Append)
        }
    };
    let reaches_persistence = match platform.persistence {
        PersistenceDomain::Mhp | PersistenceDomain::Wsp => true,
        PersistenceDomain::Dmp => match platform.flush {
            // The answer of a READ follows the writes into the memory controller, unless they end in the cache.
            FlushKind::Read => platform.ddio == Ddio::Off,
            // Global visibility already ends in the I/O controller.
            FlushKind::NativeGlobal => false,
            FlushKind::NativePersistent => true,
        },
        PersistenceDomain::Volatile | PersistenceDomain::PageFile => false,
    };
    covered && reaches_persistence
}
