//! Publications that have begun.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::error::Error;
use super::writer::effect_of;

/// A publication that has begun ([`Writer::start_publication`](super::Writer::start_publication)): the future ends when
/// the publication is durable, and visible to all readers. Dropping it changes nothing.
///
/// Publications become visible in their order. A crash before the end leaves the updates staged or visible: those whose
/// tickets have ended are there in either case, and the back-end publishes them when the tenure has ended.
#[must_use = "readers see the updates when the publication has ended well"]
pub struct Publication {
    name: Rc<str>,
    publication: stonecast_structures::Publication,
    /// Of the last update of the publication.
    ticket: stonecast_structures::Ticket,
}

impl Publication {
    pub(super) fn new(
        name: &str,
        publication: stonecast_structures::Publication,
        ticket: stonecast_structures::Ticket,
    ) -> Self {
        Self {
            name: name.into(),
            publication,
            ticket,
        }
    }

    /// Whether the updates are known to be visible. They stay so, even if the tenure or the connection ends.
    pub fn is_visible(&self) -> bool {
        self.publication.is_visible()
    }
}

impl Future for Publication {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.publication).poll(context);
        polled.map_err(|error| Error::of(&self.name, error, effect_of(&self.ticket)))
    }
}
