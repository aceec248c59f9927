//! Runs plans on a provider, and defines the value that proves their completion.
//!
//! ```text
//!   Requester::persist(update) --- write, send, flush ---> Responder::serve: receive, copy, write back, send(ack)
//!        | completions, acknowledgements                        |
//!        v                                                      v
//!     Persisted                                       persistent region, receive buffers
//! ```
//!
//! A server that decides on updates itself runs its part with [`Commit`]; stores that keep copies for each other append
//! with [`Appender`] and [`AppendReceiver`].
//!
//! The same code runs on every provider: it knows [`stonecast_fabric::Device`] and [`PersistentRegion`] and nothing
//! else.
//!
//! Invariants:
//! - Only this module makes a [`Persisted`]: by running a plan of the planner to its end, with a responder that runs
//!   the same plan for the same platform on a medium that matches the platform.
//! - An error after something was posted means *unknown*: the update may or may not be persisted, now or later. This
//!   holds for a failed flush, too.
//! - After a crash, [`recover`] finishes the remaining messages before any requester connects again.

mod append;
mod commit;
mod error;
mod halves;
mod local;
mod medium;
mod message;
mod outbox;
mod payload;
mod placing;
mod platform_code;
mod posting;
mod replay;
mod requester;
mod responder;
mod session;
mod witness;

use std::convert::Infallible;
use std::rc::Rc;

use stonecast_fabric::Port;
use stonecast_media::PersistentRegion;

use crate::plan::Plan;
use crate::platform::FlushKind;
use crate::program::Program;

pub use append::{
    Agreement, AppendFailure, AppendReceiver, AppendRehearsal, Appender, LENDING_SIZE, Lending,
    LentAgreement, LentAppender, NoAgreement, NotAppended, OutOfOrder, Piece, RECEIVING_SIZE,
    Receiving, Route, Standing, WrongAnswer,
};
pub use commit::{Commit, NoCommit};
pub use error::{ExecuteError, UpdateEffect};
use halves::Halves;
use medium::check_medium;
pub use payload::{PLACE_GRAIN, Payload};
pub use placing::PlacedInCache;
use placing::{Side, check_placing};
pub use replay::{Layout, Replayed, recover};
pub use requester::REQUESTER_COMPLETIONS;
pub use responder::RESPONDER_COMPLETIONS;
use witness::Planned;
pub use witness::{Concluded, Persisted};

/// The requester of a plan: one session with a responder.
pub struct Requester {
    inner: requester::RequesterEnd,
    planned: Planned,
}

impl Requester {
    /// Connects to the responder of the same plan at `address`. `port` holds [`REQUESTER_COMPLETIONS`] for each session
    /// on it; updates have at most `update_size_max` bytes.
    pub async fn connect(
        port: &Rc<Port>,
        address: &str,
        plan: &Plan,
        update_size_max: u32,
    ) -> Result<Self, ExecuteError> {
        check_placing(plan, port.device().placing(), Side::Requester)?;
        let halves = halves_of(plan);
        let inner =
            requester::RequesterEnd::connect(port, address, halves, update_size_max).await?;
        let planned = Planned::by(plan);
        Ok(Self { inner, planned })
    }

    /// Executes the plan. A future that is dropped before its end ends the session, with the outcome unknown.
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
pub struct Responder(responder::ResponderEnd);

impl Responder {
    /// Makes `region` ready, after [`recover`]. `port` belongs to this responder alone and holds
    /// [`RESPONDER_COMPLETIONS`]; it does not listen yet.
    pub fn new(
        port: &Rc<Port>,
        region: Rc<dyn PersistentRegion>,
        layout: Layout,
        plan: &Plan,
    ) -> Result<Self, ExecuteError> {
        check_medium(&plan.scenario().platform, region.means())?;
        check_placing(plan, port.device().placing(), Side::Responder)?;
        responder::ResponderEnd::new(port, region, layout, halves_of(plan)).map(Self)
    }

    /// Like [`Responder::new`], for a [`Rehearsal`]: any steps, on any medium.
    pub fn rehearsing(
        port: &Rc<Port>,
        region: Rc<dyn PersistentRegion>,
        layout: Layout,
        program: &Program,
        flush: FlushKind,
    ) -> Result<Self, ExecuteError> {
        responder::ResponderEnd::new(port, region, layout, Halves::new(program, flush, None))
            .map(Self)
    }

    /// Accepts sessions and executes the responder's steps, until the medium or the device fails.
    pub async fn serve(&self) -> Result<Infallible, ExecuteError> {
        self.0.serve().await
    }

    /// Number of messages and immediates that were taken so far.
    pub fn served(&self) -> u64 {
        self.0.served()
    }
}

/// Runs any program, even one that keeps no promise: to measure it, and to show that it loses data.
pub struct Rehearsal(requester::RequesterEnd);

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
        requester::RequesterEnd::connect(port, address, halves, update_size_max)
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
