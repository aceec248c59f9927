//! Running plans on a provider, and the value that says it was done.
//!
//! ```text
//!   Requester::persist(update) --- write, send, flush ---> Responder::serve: receive, copy, write back, send(ack)
//!        | completions, acknowledgements                        |
//!        v                                                      v
//!     Persisted                                       persistent region, receive buffers
//! ```
//!
//! The same code runs on every provider: it knows [`stonecast_fabric::Device`] and [`PersistentRegion`] and nothing else.
//!
//! Invariants:
//! - [`Persisted`] comes from here alone: from a plan that the planner gave out, run to its end, against a responder that
//!   runs the same plan for the same platform on a medium that is what the platform says.
//! - An error after something was posted means *unknown*: the update may be persisted, or not, or become so later. That
//!   holds for a failed flush too.
//! - What a crash leaves is finished by [`recover`] before anybody connects again.

mod commit;
mod halves;
mod local;
mod message;
mod posting;
mod replay;
mod requester;
mod responder;
mod session;
mod witness;

use std::convert::Infallible;
use std::rc::Rc;

use stonecast_fabric::{DeviceError, Port, Status};
use stonecast_media::{Means, PersistError, PersistenceDomain, PersistentRegion};

use crate::plan::Plan;
use crate::platform::{FlushKind, Platform};
use crate::program::Program;
use crate::step::Item;

pub use commit::{Commit, NoCommit};
use halves::Halves;
pub use replay::{Layout, Replayed, recover};
pub use requester::REQUESTER_COMPLETIONS;
pub use responder::RESPONDER_COMPLETIONS;
use witness::Planned;
pub use witness::{Concluded, Persisted};

/// What the 32 bits of a WRITE_WITH_IMM count in: places of such updates are multiples of it.
pub const PLACE_GRAIN: u64 = 64;

/// Bytes for the responder: places count from the start of its data.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    first: (u64, &'a [u8]),
    second: Option<(u64, &'a [u8])>,
}

impl<'a> Payload<'a> {
    /// `bytes` at `offset`.
    pub fn single(offset: u64, bytes: &'a [u8]) -> Self {
        Self {
            first: (offset, bytes),
            second: None,
        }
    }

    /// As [`Payload::single`], and then `bytes` at `offset`, which never survive without the first.
    pub fn then(self, offset: u64, bytes: &'a [u8]) -> Self {
        Self {
            second: Some((offset, bytes)),
            ..self
        }
    }

    fn parts(&self) -> impl Iterator<Item = (u64, &'a [u8])> {
        std::iter::once(self.first).chain(self.second)
    }

    fn part(&self, item: Item) -> (u64, &'a [u8]) {
        match item {
            Item::A => self.first,
            Item::B => self
                .second
                .expect("a compound plan has been given a compound update"),
        }
    }
}

/// Why an update was not persisted, or is not known to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The device lacks what a step needs; nothing was done.
    #[error(
        "{device} has no {capability}, which the plan's {step} needs; declare what the device has and plan again"
    )]
    Missing {
        /// The device.
        device: String,
        /// What it lacks.
        capability: &'static str,
        /// The step.
        step: String,
    },
    /// The medium is not what the platform says; nothing was done.
    #[error(
        "the plan is for persistence = {declared}, but the medium makes bytes durable by {found}: {cure}"
    )]
    Medium {
        /// What the platform says.
        declared: PersistenceDomain,
        /// What the medium does.
        found: &'static str,
        /// What to do.
        cure: &'static str,
    },
    /// There is no responder of this plan.
    #[error("no responder of this plan at {address}: {reason}")]
    Rejected {
        /// Where.
        address: String,
        /// What it said.
        reason: String,
    },
    /// The update does not fit the plan or the responder; nothing was done.
    #[error("{reason}")]
    Update {
        /// Why.
        reason: String,
    },
    /// Something was posted, and its end is not known: the update may be persisted or not. Connect again, and look.
    #[error("{step} did not end well ({cause}); whether the update is persisted is unknown")]
    Unknown {
        /// The step at which it was noticed.
        step: String,
        /// What was noticed.
        cause: String,
    },
    /// The session ended with an earlier update, of which the outcome is unknown; nothing was done.
    #[error("an earlier update of this session did not end well; connect again")]
    Spent,
    /// The other side sent what it must not.
    #[error("the other side broke the rules: {what}")]
    Protocol {
        /// What.
        what: &'static str,
    },
    /// The device refused a call; nothing of the update was done.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The medium of the responder failed.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// A completion that is no success, on its way to become [`ExecuteError::Unknown`].
    #[doc(hidden)]
    #[error("the request failed: {0}")]
    Completion(Status),
}

/// What an error means for the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing was done.
    None,
    /// It may be persisted, or not, or become so later.
    Unknown,
}

impl ExecuteError {
    /// What the error means for the update. Never *done*, and *not done* only where nothing was posted.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Unknown { .. } | Self::Completion(_) | Self::Persist(_) => Effect::Unknown,
            _ => Effect::None,
        }
    }
}

/// The requester of a plan: one session with a responder.
pub struct Requester {
    inner: requester::Requester,
    planned: Planned,
}

impl Requester {
    /// Connects to the responder of the same plan at `address`. `port` is this session's alone and holds
    /// [`REQUESTER_COMPLETIONS`]; updates have at most `update_size_max` bytes.
    pub async fn connect(
        port: &Rc<Port>,
        address: &str,
        plan: &Plan,
        update_size_max: u32,
    ) -> Result<Self, ExecuteError> {
        let halves = halves_of(plan);
        let inner = requester::Requester::connect(port, address, halves, update_size_max).await?;
        let planned = Planned::by(plan);
        Ok(Self { inner, planned })
    }

    /// Executes the plan. Dropping the future before its end ends the session, with the outcome unknown.
    pub async fn persist(&mut self, update: &Payload<'_>) -> Result<Persisted, ExecuteError> {
        let concluded = self.inner.run(update).await?;
        Ok(Persisted::by(&self.planned, concluded))
    }

    /// Bytes of the responder's data.
    pub fn data_size(&self) -> u64 {
        self.inner.data_size()
    }
}

/// The responder of a plan: serves any number of sessions on one region.
pub struct Responder(responder::Responder);

impl Responder {
    /// Makes `region` ready, after [`recover`]. `port` is this responder's alone and holds [`RESPONDER_COMPLETIONS`]; it
    /// listens nowhere yet.
    pub fn new(
        port: &Rc<Port>,
        region: Rc<dyn PersistentRegion>,
        layout: Layout,
        plan: &Plan,
    ) -> Result<Self, ExecuteError> {
        check_medium(&plan.scenario().platform, region.means())?;
        responder::Responder::new(port, region, layout, halves_of(plan)).map(Self)
    }

    /// As [`Responder::new`], for a [`Rehearsal`]: any steps, on any medium.
    pub fn rehearsing(
        port: &Rc<Port>,
        region: Rc<dyn PersistentRegion>,
        layout: Layout,
        program: &Program,
        flush: FlushKind,
    ) -> Result<Self, ExecuteError> {
        responder::Responder::new(port, region, layout, Halves::new(program, flush, None)).map(Self)
    }

    /// Accepts sessions and does what the plan asks of a responder, until the medium or the device fails.
    pub async fn serve(&self) -> Result<Infallible, ExecuteError> {
        self.0.serve().await
    }

    /// Messages and immediates that were taken so far.
    pub fn served(&self) -> u64 {
        self.0.served()
    }
}

/// Runs any program, also those that keep no promise: to measure them, and to see that they lose what they lose.
pub struct Rehearsal(requester::Requester);

impl Rehearsal {
    /// Connects to a responder that rehearses the same steps; see [`Requester::connect`].
    pub async fn connect(
        port: &Rc<Port>,
        address: &str,
        program: &Program,
        flush: FlushKind,
        update_size_max: u32,
    ) -> Result<Self, ExecuteError> {
        let halves = Halves::new(program, flush, None);
        requester::Requester::connect(port, address, halves, update_size_max)
            .await
            .map(Self)
    }

    /// Runs the steps once.
    pub async fn run(&mut self, update: &Payload<'_>) -> Result<Concluded, ExecuteError> {
        self.0.run(update).await
    }
}

fn halves_of(plan: &Plan) -> Halves {
    let platform = plan.scenario().platform;
    Halves::new(plan.program(), platform.flush, Some(platform))
}

/// Refuses a medium that does not do what the plan counts on.
fn check_medium(platform: &Platform, means: Means) -> Result<(), ExecuteError> {
    use PersistenceDomain::{Dmp, Mhp, PageFile, Volatile, Wsp};
    let right = match platform.persistence {
        Volatile => Means::Process,
        PageFile => Means::FileSync,
        Dmp => Means::WriteBack,
        Mhp | Wsp => Means::Fence,
    };
    if right == means {
        return Ok(());
    }
    let found = match means {
        Means::FileSync => "syncing a file",
        Means::WriteBack => "writing cache lines back",
        Means::Fence => "a fence, as its caches are saved",
        Means::Process => "nothing: it survives processes only",
    };
    let cure = "open the medium with the platform that the plan was made for";
    Err(ExecuteError::Medium {
        declared: platform.persistence,
        found,
        cure,
    })
}
