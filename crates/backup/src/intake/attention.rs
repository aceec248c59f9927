//! The urgency of the next look at an intake.

use std::task::{Context, Poll};

use stonecast_base::Nanoseconds;

use super::{Intake, IntakeError};

/// The urgency of the owner's next look, when nothing has woken the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// The device has reported an arrival, and the search for the entry continues.
    AtOnce,
    /// Looks alone bring something forward: the end of a session, or the search of places that an earlier run left.
    Soon,
    /// A peer is in doubt.
    Seldom,
    /// The device reports no arrivals: nothing wakes the owner when an entry comes.
    Unreported,
    /// The device reports arrivals, and they wake the owner.
    WhenWoken,
}

impl Intake {
    /// Looks, and is ready if the store has something to take. Otherwise wakes `context` as [`Intake::look`] does, and
    /// when the device has reported something. [`Intake::attention`] says when the store calls again without that.
    ///
    /// # Errors
    /// [`IntakeError::Failed`].
    pub fn poll_news(
        &mut self,
        now: Nanoseconds,
        context: &mut Context<'_>,
    ) -> Result<Poll<()>, IntakeError> {
        self.look(now, context)?;
        let has_news = !self.outbox.found.is_empty() || !self.outbox.ended.is_empty();
        Ok(match has_news {
            true => Poll::Ready(()),
            false => self.arrivals.listener.poll_activity(context),
        })
    }

    /// Whether the end of a session waits for [`Intake::take_ended`].
    pub fn has_ended(&self) -> bool {
        !self.outbox.ended.is_empty()
    }

    /// The urgency of the owner's next look.
    pub fn attention(&mut self) -> Attention {
        let buffers = self.space.buffers();
        let awaited = &mut self.searching.awaited;
        awaited.take_if(|search| buffers.has_searched(search));
        if awaited.is_some() {
            return Attention::AtOnce;
        }
        let mut ending = self.sessions.values().filter(|session| session.is_ending());
        if ending.any(|session| !session.is_doubtful()) || !self.is_left_searched() {
            return Attention::Soon;
        }
        match self.sessions.values().any(|session| session.is_doubtful()) {
            true => Attention::Seldom,
            false if self.room.is_silent() && !self.wakes() => Attention::Unreported,
            false => Attention::WhenWoken,
        }
    }

    /// Whether each message that arrives wakes the owner of a device that makes no completions.
    fn wakes(&self) -> bool {
        self.terms.answers && self.room.names_all()
    }

    /// Whether a segment is on its way to the device, or back to the store: each [`Intake::settle`] takes it a step
    /// further.
    pub fn is_turning(&self) -> bool {
        self.space.is_turning()
    }
}
