//! The part of a batch that a node has a say in: whether a write may be stamped, and when it may be answered.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_fabric::Runtime;
use stonecast_log::{Draft, batch_body};
use stonecast_node::{NotDurable, NotServed, OwnBatch};
use stonecast_persist::Persisted;
use stonecast_replication::NotStamped;

use super::calls::{Call, Fate, StampedWrite, Work};
use super::store::{NodeStore, ServerNode};
use crate::error::StoreError;
use crate::server::attendant::Attendant;
use crate::server::shard::Change;
use crate::server::state::State;
use crate::wire::Verdict;

/// Longest pause of a batch that waits for copies between two looks at connections and at the cleaner.
const LOOK_NS: Nanoseconds = 20_000;

/// The reason why a write is not stamped.
pub(in crate::server) enum Hindrance {
    /// The copies have no room at this moment.
    ForCopies,
    /// The writer gets this verdict, with this number.
    Refused(Verdict, u64),
}

/// A batch of own records that was appended to all copies, and that this node persists.
pub(in crate::server) struct Sent {
    own: OwnBatch,
    /// The slot after the calls whose records the persist covers.
    end: u64,
}

/// The node, as the pipeline of its server uses it.
#[derive(Clone)]
pub(in crate::server) struct Leading {
    node: Rc<ServerNode>,
    store: Rc<NodeStore>,
    attendant: Rc<Attendant>,
    runtime: Rc<dyn Runtime>,
}

impl Leading {
    pub fn new(
        node: Rc<ServerNode>,
        store: Rc<NodeStore>,
        attendant: Rc<Attendant>,
        runtime: Rc<dyn Runtime>,
    ) -> Self {
        Self {
            node,
            store,
            attendant,
            runtime,
        }
    }

    /// Opens to clients the shards that the node serves by now.
    ///
    /// # Errors
    /// The node has ended, or its medium has failed: the server ends.
    pub async fn tend(&self) -> Result<(), StoreError> {
        if let Err(failed) = self.store.open_shards().await {
            self.node.fail(failed);
        }
        match self.node.take_end() {
            Some(ended) => Err(StoreError::Node(Box::new(ended))),
            None => Ok(()),
        }
    }

    /// Stamps the write that `change` will publish with its version, which the log is about to give. Returns the slot
    /// of the call.
    pub fn stamp(
        &self,
        state: &mut State,
        change: Change,
        draft: &Draft<'_>,
    ) -> Result<u64, Hindrance> {
        let (shard, version) = (change.route.shard, change.version);
        let work = Work::Write(StampedWrite::new(change, draft));
        self.stamp_entry(state, (shard, version), &draft.body(), work)
    }

    /// Stamps the writes of a batch, which have consecutive versions and are all of one shard: one entry carries all of
    /// them. Returns the slot of the call.
    pub fn stamp_batch(
        &self,
        state: &mut State,
        writes: Vec<(Change, Draft<'_>)>,
    ) -> Result<u64, Hindrance> {
        let (last, _) = writes.last().expect("a batch that is stamped has a write");
        let point = (last.route.shard, last.version);
        let bodies: Vec<Vec<u8>> = writes.iter().map(|(_, draft)| draft.body()).collect();
        let stamped = writes.into_iter();
        let stamped = stamped.map(|(change, draft)| StampedWrite::new(change, &draft));
        let work = Work::Batch(stamped.collect());
        self.stamp_entry(state, point, &batch_body(&bodies), work)
    }

    fn stamp_entry(
        &self,
        state: &mut State,
        (shard, version): (u32, u64),
        body: &[u8],
        work: Work,
    ) -> Result<u64, Hindrance> {
        let slot = state.node_mut().calls.next_slot();
        let puts = work.puts();
        if puts.is_some() && self.node.lacks_room(shard) {
            let verdict = Verdict::NoSpace;
            return Err(Hindrance::Refused(
                verdict,
                state.shards.number_with(verdict),
            ));
        }
        let stamped = self.node.stamp(shard, version, body, Call { slot, work });
        stamped.map_err(|refused| hindrance(state, refused))?;
        state.node_mut().calls.begin(puts);
        Ok(slot)
    }

    /// Keeps an answer about `shard` that appends nothing until everything that was stamped before is on all copies.
    /// Returns the slot of the call; `None`: the node does not lead the shard.
    pub fn refuse(&self, state: &mut State, shard: u32) -> Option<u64> {
        let slot = state.node_mut().calls.next_slot();
        let work = Work::Answer;
        let call = Call { slot, work };
        self.node.refuse(shard, None, call).ok()?;
        state.node_mut().calls.begin(None);
        Some(slot)
    }

    /// Appends everything that was stamped to all copies. This node's persist continues in the meantime.
    pub fn send(&self, state: &RefCell<State>) -> Sent {
        Sent {
            own: self.node.send(),
            end: state.borrow_mut().node_mut().calls.next_slot(),
        }
    }

    /// Notes that this node's persist, which began after [`Leading::send`], has ended.
    pub fn note_persisted(
        &self,
        state: &RefCell<State>,
        sent: Sent,
        persisted: Option<Rc<Persisted>>,
    ) {
        if let Some(persisted) = persisted {
            let state = &mut *state.borrow_mut();
            let calls = &mut state.node_mut().calls;
            calls.note_durable(sent.end, persisted);
        }
        self.node.persisted_here(sent.own);
    }

    /// Ends the node, because the medium has failed. The outcome of everything that waits is
    /// unknown.
    pub fn fail(&self, error: &StoreError) {
        let reason = error.to_string();
        self.node.fail(NotDurable { reason });
    }

    /// Waits until the copies have room for a further entry.
    pub async fn wait_for_room(&self, state: &RefCell<State>) -> Result<(), StoreError> {
        while self
            .runtime
            .within(LOOK_NS, self.node.room())
            .await
            .is_err()
        {
            self.attend(state).await?;
        }
        Ok(())
    }

    /// Waits until all calls have ended. During the wait, connections are served, since copies connect again, and the
    /// cleaner works, since copies need room.
    pub async fn wait_for_copies(&self, state: &RefCell<State>) -> Result<(), StoreError> {
        loop {
            let ended = poll_fn(|context| {
                let state = &mut *state.borrow_mut();
                let calls = &mut state.node_mut().calls;
                calls.poll_ended(calls.next_slot(), context)
            });
            if self.runtime.within(LOOK_NS, ended).await.is_ok() {
                return Ok(());
            }
            self.attend(state).await?;
        }
    }

    async fn attend(&self, state: &RefCell<State>) -> Result<(), StoreError> {
        self.attendant.take_events(state);
        self.attendant.tend_log(state).await
    }
}

impl State {
    /// The verdict on a write whose call has ended, with its number; `None`: the verdict stays.
    pub(in crate::server) fn verdict_of(&mut self, slot: u64) -> Option<(Verdict, u64)> {
        let node = self.node_mut();
        match node.calls.fate(slot) {
            Fate::Settled => None,
            Fate::Unknown if !mutant!(FailureMeansNotDone) => Some((Verdict::Failed, 0)),
            Fate::Unknown | Fate::Unanswered => Some((Verdict::NotPrimary, node.epoch.0)),
            Fate::Open => unreachable!("a batch is answered when its calls have ended"),
        }
    }
}

fn hindrance(state: &mut State, refused: NotServed) -> Hindrance {
    let refuse = Hindrance::Refused;
    match refused {
        NotServed::NoRoom { .. } => Hindrance::ForCopies,
        NotServed::TooLong { longest, .. } => refuse(Verdict::TooLong, longest.into()),
        NotServed::NotStamped(NotStamped::TooFewCopies { found, .. }) => {
            refuse(Verdict::TooFewCopies, found as u64)
        }
        NotServed::NotStamped(NotStamped::Draining) | NotServed::NotThePrimary { .. } => {
            refuse(Verdict::NotPrimary, state.node_mut().epoch.0)
        }
        NotServed::Empty { .. } => unreachable!("the body of a record has a byte"),
    }
}
