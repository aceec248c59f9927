//! Promotes a mirror: an operator makes it the back-end.

use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{Port, Runtime};

use super::link::connected;
use crate::frontend::FrontEndError;
use crate::wire::{Answer, Request};

/// The longest pause between two requests to a mirror.
const PAUSE_NS: Nanoseconds = 50_000_000;

/// The reason why no mirror was promoted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromoteError {
    /// No connection was made, or the connection ended.
    #[error("the mirror cannot be reached: {0}")]
    Connect(#[from] FrontEndError),
    /// The mirror lacks a part of the pool.
    #[error(
        "the mirror does not have everything: its back-end was still copying, and acknowledges without the mirror. Start that back-end again"
    )]
    NotWhole,
    /// The standing record does not name the mirror.
    #[error(
        "the standing record{} does not name this mirror, which is not promoted: its back-end was detached from it, or it names another store (--structures-cluster). The log of the mirror says more",
        match *.generation { 0 => String::new(), generation => format!(", of generation {generation},") }
    )]
    NotNamed {
        /// The generation of the record; 0: unknown.
        generation: u64,
    },
}

/// Makes the mirror at `address` the back-end, and returns its generation. Waits until the lease of the old back-end
/// has expired, which a back-end that is alive prevents. A server that already is a back-end remains one. Dropping the
/// future leaves the mirror unchanged or promoted.
///
/// # Errors
/// [`PromoteError`]. After the loss of the connection it is unknown whether the mirror was promoted; the next call
/// tells.
pub async fn promote(
    port: &Rc<Port>,
    runtime: &Rc<dyn Runtime>,
    address: &str,
) -> Result<u64, PromoteError> {
    let talk = connected(port, address).await?;
    loop {
        match talk.ask(Request::Promote).await? {
            Answer::IsBackEnd { generation } => return Ok(generation),
            Answer::Later { wait_ns } => runtime.sleep(wait_ns.min(PAUSE_NS)).await,
            Answer::NotWhole => return Err(PromoteError::NotWhole),
            Answer::NotNamed { generation } => return Err(PromoteError::NotNamed { generation }),
            _ => return Err(FrontEndError::Protocol.into()),
        }
    }
}
