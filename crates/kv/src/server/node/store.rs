//! The calls that the node of a server makes to its store.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_backup::{Lent, SharedLedger};
use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::{Pending, Term};
use stonecast_fabric::Runtime;
use stonecast_log::{Expiry, Form, Heritage, Kind, RecordBody, SegmentState, is_batch_body};
use stonecast_media::RecordFeature;
use stonecast_node::{Ended, Node, NotDurable, Page, Store};
use stonecast_replication::{Entry, Lineage, Settled};

use super::calls::{Call, Fate, StampedWrite};
use super::digest::{self, durable_count};
use super::pages::{self, PageItem};
use super::state::NodeState;
use crate::error::StoreError;
use crate::server::commit::Committer;
use crate::server::shortage::lacks_room;
use crate::server::state::State;
use crate::wire::KeyMap;

/// Pause between two looks of a commit whose records wait for room.
const ROOM_LOOK_NS: Nanoseconds = 50_000;

/// The node of a server.
pub(in crate::server) type ServerNode = Node<NodeStore>;

/// The store behind a node.
pub(in crate::server) struct NodeStore {
    state: Rc<RefCell<State>>,
    committer: Rc<Committer>,
    runtime: Rc<dyn Runtime>,
    ledger: SharedLedger,
    keys: KeyMap,
}

impl NodeStore {
    pub fn new(
        state: Rc<RefCell<State>>,
        committer: Rc<Committer>,
        runtime: Rc<dyn Runtime>,
        keys: KeyMap,
    ) -> Self {
        let ledger = state.borrow().keeper_of_node().ledger().clone();
        Self {
            state,
            committer,
            runtime,
            ledger,
            keys,
        }
    }

    /// The ledger of the pool.
    pub fn ledger(&self) -> &SharedLedger {
        &self.ledger
    }

    /// Makes everything durable that was digested, noted or stamped before the call.
    async fn commit_all(&self) -> Result<(), NotDurable> {
        while !digest::write_waiting(&mut self.state.borrow_mut()) {
            // The cleaner, or a client that gives a lease back, makes room. The node's patience bounds the wait.
            // Records that await their words hold their segments.
            self.commit_log().await.map_err(broken)?;
            self.runtime.sleep(ROOM_LOOK_NS).await;
        }
        self.commit_written().await
    }

    /// Makes everything durable that was written, noted or stamped before the call.
    async fn commit_written(&self) -> Result<(), NotDurable> {
        self.commit_log().await.map_err(broken)?;
        let settled = {
            let mut state = self.state.borrow_mut();
            if let Some(reason) = state.node_mut().broken.clone() {
                return Err(NotDurable { reason });
            }
            state.keeper_of_node().settled()
        };
        self.ledger.persist().await.map_err(|error| NotDurable {
            reason: error.to_string(),
        })?;
        self.state.borrow_mut().journal.space.set_settled(settled);
        Ok(())
    }

    /// Makes everything durable that is in the log. The server's task stores the words of digested records after its
    /// batches: the node, whose task waits for this call, does not wait for them.
    async fn commit_log(&self) -> Result<(), StoreError> {
        let _turn = self.committer.enter(&self.state).await?;
        let underway = self.state.borrow_mut().journal.begin_persist();
        // Without spans, a persist of another task has taken them, and has ended.
        if !underway.spans.is_empty() {
            let persisted = Rc::new(self.committer.persist(&underway.spans).await?);
            let state = &mut *self.state.borrow_mut();
            state.journal.note_persisted(underway, &persisted);
            if durable_count(state) > 0 {
                state.node_mut().bell.ring();
            }
        }
        Ok(())
    }

    /// Opens to clients the shards that the node has begun to serve since the last call. A shard stays for a later call
    /// while records of other nodes wait for room: the task that calls runs the cleaner, and the growth of the index,
    /// so it cannot wait itself.
    ///
    /// # Errors
    /// The medium failed: the node ends.
    pub async fn open_shards(&self) -> Result<(), NotDurable> {
        loop {
            if self.state.borrow_mut().node_mut().opening.is_empty() {
                return Ok(());
            }
            if !digest::write_waiting(&mut self.state.borrow_mut()) {
                return self.commit_log().await.map_err(broken);
            }
            let (shard, term) = {
                let state = &mut *self.state.borrow_mut();
                let next = state.node_mut().opening.pop();
                let (shard, term, last) = next.expect("a shard is to open");
                state.note_lead(shard, term, last);
                (shard, term)
            };
            self.commit_written().await?;
            let state = &mut *self.state.borrow_mut();
            digest::publish_all(state);
            let node = state.node_mut();
            // The node may have resigned meanwhile.
            if node.serving.get(&shard) == Some(&term) {
                node.epoch = node.epoch.max(term);
                let epoch = node.epoch;
                state.shards.lead(epoch, shard, Some(term));
                state.time.lead(shard);
            }
        }
    }
}

impl State {
    /// Notes that the node leads `shard` in `term`, after a history that ends at the version `last`.
    fn note_lead(&mut self, shard: u32, term: Term, last: u64) {
        let next = self.journal.sequences.next();
        if last >= next {
            self.journal.sequences.raise(last + 1);
        }
        let keeper = self.keeper.as_mut().expect("a node keeps a ledger");
        keeper.lead(shard, term, (next, last));
    }

    /// Stores the word of the write in `slot`, which is on all copies.
    fn publish_settled(&mut self, slot: u64, write: &StampedWrite) {
        let Self {
            shards,
            journal,
            expiries,
            node,
            ..
        } = self;
        let StampedWrite { change, key, token } = write;
        let proof = node.as_ref().and_then(|node| node.calls.proof(slot));
        let proof = proof.expect("the own record is durable before its write is settled");
        shards.publish(change, key, journal, &proof);
        let outcomes = &mut shards.of_mut(change.route.shard).outcomes;
        outcomes.note(*token, change.version);
        expiries.note_change(change);
        if let Some(mark) = change.expires.filter(|_| change.kind == Kind::Delete) {
            self.note_mark(change.route.shard, mark);
        }
    }

    /// Notes a mark of the time of `shard` that is on all copies.
    fn note_mark(&mut self, shard: u32, mark: Expiry) {
        if let Err(error) = self.time.note_settled(shard, mark) {
            self.break_node(format!("the mark of the time was not kept: {error}"));
        }
    }

    fn break_node(&mut self, reason: String) {
        self.node_mut().broken.get_or_insert(reason);
    }
}

impl Store for NodeStore {
    type Call = Call;

    fn digest(&self, entry: &Entry, body: &[u8]) {
        let state = &mut *self.state.borrow_mut();
        let taken = match is_batch_body(body) {
            false => RecordBody::read(entry.version, body).map(|body| {
                if let Some(mark) = body.record().header.time_mark() {
                    state.note_mark(entry.shard, mark);
                }
                take(state, body);
            }),
            // The floor of the shard rises when all records are durable, since one entry has them.
            true => RecordBody::read_batch(entry.version, body)
                .map(|bodies| bodies.into_iter().for_each(|body| take(state, body))),
        };
        if let Err(fault) = taken {
            state.break_node(format!(
                "version {} of shard {}: {fault}; its primary runs a program of another version",
                entry.version, entry.shard
            ));
        }
    }

    fn keep(&self, shard: u32, history: &Lineage) {
        let state = &mut *self.state.borrow_mut();
        let keeper = state.keeper.as_mut().expect("a node keeps a ledger");
        keeper.keep(shard, history.clone());
        keeper.forget_unreached(&state.journal.space);
    }

    fn commit(&self) -> Pending<'_, Result<(), NotDurable>> {
        Box::pin(self.commit_all())
    }

    fn serves(&self, shard: u32, term: Term, last: u64) {
        let state = &mut *self.state.borrow_mut();
        let node = state.node_mut();
        node.serving.insert(shard, term);
        node.opening.push((shard, term, last));
        node.bell.ring();
    }

    fn settled(&self, _: u32, settled: Vec<Settled<Call>>) {
        let state = &mut *self.state.borrow_mut();
        let writes = settled.iter().flat_map(|settled| match settled {
            Settled::Written(call) | Settled::Refused(call) => call.work.writes(),
        });
        let keys = writes.map(|write| (write.change.route, write.key.len()));
        state.shards.prefetch(keys);
        for Settled::Written(call) | Settled::Refused(call) in settled {
            for write in call.work.writes() {
                state.publish_settled(call.slot, write);
            }
            state.node_mut().calls.end(&call, Fate::Settled);
        }
    }

    fn resigned(&self, shard: u32, resigned: Ended<Call>) {
        let State {
            shards,
            journal,
            time,
            node,
            ..
        } = &mut *self.state.borrow_mut();
        time.resign(shard);
        shards.of_mut(shard).chunks.await_no_heads();
        let NodeState {
            calls,
            serving,
            opening,
            epoch,
            ..
        } = node.as_mut().expect("this server is a node");
        serving.remove(&shard);
        opening.retain(|&(number, ..)| number != shard);
        for call in resigned.unknown {
            let writes = call.work.writes().iter();
            let puts = writes.filter(|write| write.change.kind == Kind::Put);
            for StampedWrite { change, .. } in puts.filter(|_| !mutant!(UnsettledPutUncounted)) {
                // An heir may settle the write: the record then counts at the next start, and has no word here. A later
                // tombstone of the key is needed as long as the record lies there.
                let space = &mut journal.space;
                space.note_useless_copy(change.segment, change.version);
            }
            calls.end(&call, Fate::Unknown);
        }
        for call in resigned.unanswered {
            calls.end(&call, Fate::Unanswered);
        }
        if !mutant!(BackupReadable) {
            shards.lead(*epoch, shard, None);
        }
    }

    fn dropped(&self, shard: u32) {
        let state = &mut *self.state.borrow_mut();
        digest::forget(state, shard);
        state.expiries.forget(shard);
        let State {
            shards,
            journal,
            keeper,
            ..
        } = state;
        if !mutant!(DroppedKeysStay) {
            shards.of_mut(shard).clear(journal);
        }
        let version = journal.sequences.skip_one();
        let keeper = keeper.as_mut().expect("a node keeps a ledger");
        keeper.drop_shard(shard, version);
    }

    fn page(&self, shard: u32, from: u64, size: usize) -> Page {
        let state = &mut *self.state.borrow_mut();
        let shard_of = |form, key: &[u8]| self.keys.route_of(form, key).shard;
        if state.node_mut().elsewhere.is_pending(shard, shard_of) {
            // The server is about to store the words of these records.
            return Page {
                bytes: Vec::new(),
                next: Some(from),
                left: state.shards.of(shard).live_bytes(),
            };
        }
        let memory = (
            &**state.journal.log() as &dyn stonecast_media::Region,
            self.keys,
        );
        let told_ms = state.time.told_ms(shard);
        pages::page((state.shards.of(shard), told_ms), memory, from, size)
    }

    fn absorb(&self, shard: u32, page: &[u8]) {
        let state = &mut *self.state.borrow_mut();
        let items = match pages::items(page) {
            Ok(items) => items,
            Err(fault) => {
                return state.break_node(format!("a page of shard {shard}: {fault}"));
            }
        };
        for item in items {
            match item {
                PageItem::Record(body) => {
                    state.shards.of_mut(shard).chunks.note_pages(true);
                    take(state, body);
                }
                PageItem::TimeMark { .. } if mutant!(MarkNotInPages) => {}
                PageItem::TimeMark { ms } => {
                    if let Err(error) = state.time.note_of_page(shard, ms) {
                        state.break_node(format!("the mark of the time was not kept: {error}"));
                    }
                }
                PageItem::Outcome { .. } if mutant!(OutcomesNotPulled) => {}
                PageItem::Outcome { version, token } => {
                    state.shards.of_mut(shard).outcomes.note(token, version);
                }
                PageItem::Horizon { version } => {
                    // The records of all keys have come before the outcomes.
                    let shard = state.shards.of_mut(shard);
                    shard.chunks.note_pages(false);
                    shard.outcomes.forget_up_to(version);
                }
            }
        }
    }

    fn lacks_room(&self) -> bool {
        lacks_room(&self.state.borrow())
    }

    fn lend(&self) -> Option<Lent> {
        let space = &mut self.state.borrow_mut().journal.space;
        let heritage = space.heritage();
        let (number, before) = space.take_for_appends()?;
        Some(Lent {
            number,
            before,
            heritage,
        })
    }

    fn ask_back(&self, spare: usize) -> Option<Heritage> {
        let space = &mut self.state.borrow_mut().journal.space;
        space.note_spare_appends(spare);
        (spare > 0 && space.is_short()).then(|| space.heritage())
    }

    fn take_back(&self, segment: SegmentState) {
        let journal = &mut self.state.borrow_mut().journal;
        let log = journal.log().clone();
        journal.space.take_back(segment, &*log);
    }
}

/// Takes a record of another node. The pool names the features of its records before the first such record.
fn take(state: &mut State, body: RecordBody) {
    let (form, expires) = {
        let header = body.record().header;
        (header.form(), header.expires())
    };
    if form != Form::Whole
        && let Err(error) = state.record_features.set(RecordFeature::Chunks)
    {
        return state.break_node(format!("the pool does not say that it has chunks: {error}"));
    }
    if let Some(Err(error)) = expires.map(|_| state.time.let_expire()) {
        return state.break_node(format!("the mark of the time was not kept: {error}"));
    }
    digest::arrive(state, body);
}

fn broken(error: StoreError) -> NotDurable {
    NotDurable {
        reason: error.to_string(),
    }
}
