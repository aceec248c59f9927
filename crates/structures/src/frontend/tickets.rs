//! The futures for which the program of a writer waits.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_base::mutant;

use super::appends::{Appends, Until, Waiting};
use super::error::FrontEndError;

/// An operation that is staged: the future ends when its record is durable. A ticket that is dropped changes nothing.
///
/// A crash after the ticket has ended well loses nothing of the operation, and of all operations that were staged
/// before. Readers see it once it is published, by this writer or by the hand-over after its end.
#[must_use = "the operation is durable when the ticket has ended well"]
pub struct Ticket(Waiting);

impl Ticket {
    pub(super) fn new(appends: &Rc<Appends>, number: u64) -> Self {
        Self(appends.wait(Until::Durable(number)))
    }

    /// Whether the operation is known to be durable. It stays so, even if the tenure or the connection ends.
    pub fn is_durable(&self) -> bool {
        self.0.has_come()
    }
}

impl Future for Ticket {
    type Output = Result<(), FrontEndError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

/// A publication that has begun: the future ends when it is durable, and visible to all readers. Dropping it changes
/// nothing.
///
/// Publications become visible in their order. A crash before the end leaves the operations staged or visible:
/// those whose tickets have ended are there in either case, and the hand-over after the end of the tenure shows them.
#[must_use = "readers see the operations when the publication has ended well"]
pub struct Publication(Waiting);

impl Publication {
    pub(super) fn new(appends: &Rc<Appends>, number: u64) -> Self {
        let until = match mutant!(PublishedWhenDurable) {
            true => Until::Durable(number),
            false => Until::Taken(number),
        };
        Self(appends.wait(until))
    }

    /// Whether the operations are known to be visible. They stay so, even if the tenure or the connection ends.
    pub fn is_visible(&self) -> bool {
        self.0.has_come()
    }
}

impl Future for Publication {
    type Output = Result<(), FrontEndError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}
