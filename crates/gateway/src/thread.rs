//! State that the connections of one thread share below their commands: clock, sockets, memory, deadlines, counts.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Runtime;

use crate::counters::Counters;
use crate::fifo::WaitingLine;
use crate::guard::Guards;
use crate::memory::{NoBlock, Stock};
use crate::reactor::Reactor;
use crate::shared::Shared;

/// State that the connections of one thread share.
pub struct Thread {
    /// Clock and timers.
    pub runtime: Rc<dyn Runtime>,
    /// Counts of this thread.
    pub counters: Arc<Counters>,
    /// State that all threads share.
    pub shared: Arc<Shared>,
    /// Sockets, and turns between long operations.
    pub reactor: Rc<Reactor>,
    /// Blocks for requests and replies.
    pub stock: Rc<Stock>,
    /// Connections that wait for memory for a request.
    pub waiting_for_requests: WaitingLine,
    /// Connections that wait for memory for replies.
    pub waiting_for_replies: WaitingLine,
    /// Deadlines of connections, and newcomers.
    pub guards: Rc<Guards>,
    /// The time at which the operator was last told that the system has no memory.
    told_at: Cell<Option<Nanoseconds>>,
}

/// The time between two messages that the system has no memory.
const MESSAGE_NS: Nanoseconds = 60_000_000_000;

impl Thread {
    /// A thread without connections.
    pub fn new(
        runtime: Rc<dyn Runtime>,
        counters: Arc<Counters>,
        shared: Arc<Shared>,
        reactor: Rc<Reactor>,
    ) -> Self {
        let newcomers = shared
            .options
            .newcomers()
            .div_ceil(shared.threads.len().max(1));
        Self {
            guards: Rc::new(Guards::new(newcomers, counters.clone())),
            runtime,
            counters,
            shared,
            reactor,
            stock: Rc::default(),
            waiting_for_requests: WaitingLine::default(),
            waiting_for_replies: WaitingLine::default(),
            told_at: Cell::new(None),
        }
    }

    /// Tells the operator that a connection ends for lack of memory, at most once a minute.
    pub fn tell(&self, error: &NoBlock) {
        let now = self.runtime.now();
        let is_due = |told_at: Nanoseconds| now.saturating_sub(told_at) >= MESSAGE_NS;
        if self.told_at.get().is_none_or(is_due) {
            self.told_at.set(Some(now));
            tracing::warn!("gateway: a connection ends: {error}");
        }
    }
}
