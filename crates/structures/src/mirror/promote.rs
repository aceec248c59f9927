//! Promotes a mirror: an operator makes it the back-end.

use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{Port, Runtime};

use super::link::connected;
use crate::frontend::FrontEndError;
use crate::wire::{Answer, Request};

/// The longest pause before a mirror is asked again.
const PAUSE_NS: Nanoseconds = 50_000_000;

/// The reason why no mirror was promoted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromoteError {
    /// There is no connection, or it ended.
    #[error("the mirror cannot be reached: {0}")]
    Connect(#[from] FrontEndError),
    /// The mirror lacks a part of the pool.
    #[error(
        "the mirror does not have everything: its back-end was still copying, and acknowledges without the mirror. Start that back-end again"
    )]
    NotWhole,
}

/// Makes the mirror at `address` the back-end, and returns its generation. Waits until the lease of the old back-end
/// has expired, which a back-end that is alive prevents. A server that is a back-end already stays one. Dropping the
/// future leaves the mirror as it is, or promoted.
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
            _ => return Err(FrontEndError::Protocol.into()),
        }
    }
}
