//! One connection of a peer, until it has completely ended.
//!
//! ```text
//!   accepted --> open --> quieting --> searching --> gone
//!                            |   ^
//!                            v   '-- asked again
//!                         doubtful
//! ```
//!
//! A session is over when no entry of its peer can land any more, and all landed entries were found. A store that
//! fences a peer waits for both: entries that were persisted and not found would count nowhere.

use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::NodeName;
use stonecast_fabric::{MemoryRegion, Port, QueuePair};
use stonecast_log::{Buffers, Search};

use super::credit::Window;
use super::error::EndCause;
use super::notices::Notices;

/// One connection of a peer, with its credits and notices.
pub(super) struct Session {
    pub peer: NodeName,
    pub connection: u64,
    pub qp: QueuePair,
    /// The memory that holds the connection's notices.
    pub memory: MemoryRegion,
    pub window: Window,
    pub notices: Notices,
    /// The number of messages that completed.
    pub arrivals: u64,
    pub stage: Stage,
    /// Whether the peer was in doubt; entries of that time may have been charged to other senders.
    pub was_doubtful: bool,
}

pub(super) enum Stage {
    Accepted,
    Open,
    Quieting(EndCause),
    /// The peer may still finish a write. The intake asks again at this moment.
    Doubtful(EndCause, Nanoseconds),
    Searching(EndCause, Search),
}

impl Session {
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    pub fn is_ending(&self) -> bool {
        !matches!(self.stage, Stage::Accepted | Stage::Open)
    }

    pub fn is_doubtful(&self) -> bool {
        matches!(self.stage, Stage::Doubtful(..))
    }

    /// Begins to end the session. A session that ends already keeps its first cause.
    pub fn end(&mut self, cause: EndCause) {
        if !self.is_ending() {
            self.stage = Stage::Quieting(cause);
        }
    }

    /// Takes a step towards the end. Returns the cause when the session is over. Repeats the request to a peer that may
    /// still write every `ask_again_ns`: the peer confirms when its process continues or is gone.
    pub fn step_end(
        &mut self,
        (port, buffers): (&Rc<Port>, &mut Buffers),
        (now, ask_again_ns): (Nanoseconds, Nanoseconds),
        context: &mut Context<'_>,
    ) -> Option<EndCause> {
        let cause = match &self.stage {
            Stage::Accepted | Stage::Open => return None,
            Stage::Searching(cause, search) => {
                return buffers.has_searched(search).then(|| cause.clone());
            }
            Stage::Doubtful(_, ask_at) if now < *ask_at || mutant!(DoubtAskedOnce) => return None,
            Stage::Doubtful(cause, _) | Stage::Quieting(cause) => cause.clone(),
        };
        match port.device().poll_quiesce(self.qp, context) {
            Poll::Pending => None,
            Poll::Ready(Ok(())) => {
                // The queue pair takes the completions of arrivals with it, and their slots.
                while port.pump() {}
                buffers.trust(self.connection);
                self.stage = Stage::Searching(cause.clone(), buffers.begin_search());
                mutant!(FencedBeforeSearch).then_some(cause)
            }
            // Any error means doubt: only the device can promise quiet.
            Poll::Ready(Err(_)) => {
                buffers.doubt(self.connection);
                self.was_doubtful = true;
                self.stage = Stage::Doubtful(cause, now.saturating_add(ask_again_ns));
                None
            }
        }
    }
}
