//! A turn of a node.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_backup::{Found, Intake, IntakeError, StreamName};
use stonecast_cluster::NodeName;
use stonecast_fabric::DeviceError;
use stonecast_member::MemberEvent;
use stonecast_replication::{HEADER_SIZE, Header, Kind};

use crate::error::NodeError;
use crate::letter::{Letter, Says};
use crate::node::{Memory, Shared};
use crate::options::EarlierWriters;
use crate::own_commits::PATIENCE_PARTS;
use crate::state::{Keeping, State, Why};
use crate::store::Store;
use crate::{copying, entering, filling, heading, joining, leading, leaving, links, lost};

/// The steps of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Those by which writes pass: entries are found and digested, reports are heard, calls are settled. Every other
    /// step may come later.
    Short,
    /// All of them.
    Whole,
}

/// A turn that waits no longer than the node has patience with its medium. Time in which the node itself stands still
/// counts as one part of many. Returns whether a history was kept.
pub async fn bounded_turn<S: Store>(
    shared: &Rc<Shared<S>>,
    intake: &mut Intake,
    extent: Extent,
) -> Result<bool, NodeError> {
    let waited_ns = shared.options.medium_patience_ns;
    let mut turn = pin!(turn(shared, intake, extent));
    for _ in 0..PATIENCE_PARTS {
        let part_ns = waited_ns / PATIENCE_PARTS;
        if let Ok(ended) = shared.runtime.within(part_ns, turn.as_mut()).await {
            return ended;
        }
    }
    Err(hangs(&*shared.store, waited_ns))
}

/// The reason why a commit of `store` has not ended in `waited_ns`.
fn hangs(store: &impl Store, waited_ns: u64) -> NodeError {
    match store.lacks_room() {
        true => NodeError::NoRoom { waited_ns },
        false => NodeError::MediumHangs { waited_ns },
    }
}

async fn turn<S: Store>(
    shared: &Rc<Shared<S>>,
    intake: &mut Intake,
    extent: Extent,
) -> Result<bool, NodeError> {
    if extent == Extent::Short {
        // Clients wait for writes of this node, and no client waits for a digest.
        settle_shortly(shared);
        look(shared, intake).await?;
        digest_shortly(shared, intake);
        return Ok(false);
    }
    look(shared, intake).await?;
    let keepings = step(shared, intake)?;
    if keepings.is_empty() {
        return Ok(false);
    }
    // A history that is durable before its entries would hide the loss of those entries.
    shared.store.commit().await?;
    for Keeping { shard, history, .. } in &keepings {
        shared.store.keep(*shard, history);
    }
    shared.store.commit().await?;
    let state = &mut *shared.state.borrow_mut();
    for keeping in keepings {
        kept(state, shared, intake, keeping);
    }
    Ok(true)
}

/// Takes the arrivals of the intake, and makes them durable.
async fn look<S: Store>(shared: &Shared<S>, intake: &mut Intake) -> Result<(), NodeError> {
    for (request, said) in shared.requests.take() {
        intake.hear(request, &said);
    }
    intake.tell_room(shared.store.lacks_room());
    let refused = look_once(&*shared.store, shared.runtime.now(), intake).await?;
    if !intake.is_starved() {
        shared.memory.is_short.set(false);
    }
    *shared.told.segment_trouble.borrow_mut() = refused;
    Ok(())
}

/// A look of an intake whose entries are found again, or come to be. Returns the words of a device
/// that takes no further segment: the next look offers that segment again, and entries go into the
/// others meanwhile.
pub async fn look_once(
    store: &impl Store,
    now: u64,
    intake: &mut Intake,
) -> Result<Option<DeviceError>, NodeError> {
    trade_segments(store, intake);
    poll_fn(|context| Poll::Ready(intake.look(now, context))).await?;
    match intake.settle().await {
        Ok(()) => Ok(None),
        Err(IntakeError::Device(refused)) => Ok(Some(refused)),
        Err(failed) => Err(failed.into()),
    }
}

/// Gives the intake the segments that it needs, and the store those that it lacks. An intake that begins while the
/// segments of the run before are searched takes others in their place, and has more than it needs from then on.
fn trade_segments(store: &impl Store, intake: &mut Intake) {
    for state in intake.take_returned() {
        store.take_back(state);
    }
    while intake.segments_wanted() > 0
        && let Some(lent) = store.lend()
    {
        intake.lend(lent);
    }
    if let Some(heritage) = store.ask_back(intake.segments_spare()) {
        intake.ask_back(heritage);
    }
}

/// Takes the reports of copies, sends entries that wait for credit, and settles writes.
fn settle_shortly<S: Store>(shared: &Shared<S>) {
    let state = &mut *shared.state.borrow_mut();
    links::hear_and_send(state, shared);
    leading::settle(state, shared, Extent::Short);
}

/// Takes the entries that were found, and digests those that are on all copies.
fn digest_shortly<S: Store>(shared: &Shared<S>, intake: &mut Intake) {
    let state = &mut *shared.state.borrow_mut();
    note_found(state, shared, intake);
    copying::digest(state, &*shared.store);
}

/// The part of a whole turn that does not wait.
fn step<S: Store>(shared: &Rc<Shared<S>>, intake: &mut Intake) -> Result<Vec<Keeping>, NodeError> {
    let state = &mut *shared.state.borrow_mut();
    let waited_ns = shared.options.medium_patience_ns;
    if state.own_commits.hang(shared.runtime.now(), waited_ns) {
        return Err(hangs(&*shared.store, waited_ns));
    }
    note_found(state, shared, intake);
    // The peers of ended sessions connect again.
    let _ended = intake.take_ended();
    while let Some(event) = take_event(shared)? {
        // Each turn reads the lease, so its begin and its end are no news.
        if let MemberEvent::Entered(configuration) = event {
            entering::enter(state, shared, intake, configuration);
        }
    }
    for (from, bytes) in shared.post.take() {
        // Bytes that are no letter have woken this node, or their sender runs another version.
        if let Ok(letter) = Letter::decode(&bytes) {
            read(state, shared, &from, letter);
        }
    }
    copying::step_copies(state, shared, intake);
    joining::step_joiners(state, shared, intake);
    leaving::step_consents(state, shared);
    heading::step_heirs(state, shared, intake);
    if !state.fences.are_none() {
        let known = state.others();
        state.fences.end_turn(intake, &known);
    }
    lost::step_awaited(state, shared);
    lost::step_lost(state, shared);
    filling::step_fillings(state, shared);
    leaving::step_leaving(state, shared);
    links::step_links(state, shared);
    leading::settle(state, shared, Extent::Whole);
    Ok(std::mem::take(&mut state.keepings))
}

/// The next event of the member, if there is one.
fn take_event<S: Store>(shared: &Shared<S>) -> Result<Option<MemberEvent>, NodeError> {
    let next = std::pin::pin!(shared.member.event());
    match next.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(event) => Ok(Some(event?)),
        Poll::Pending => Ok(None),
    }
}

/// Takes the entries that were found, and counts their bytes.
fn note_found<S: Store>(state: &mut State<S::Call>, shared: &Shared<S>, intake: &mut Intake) {
    let mut counts = shared.told.counts.get();
    counts.appended_bytes += take_found(state, &shared.memory, intake);
    shared.told.counts.set(counts);
}

/// Takes the entries that were found, and returns their bytes.
fn take_found<C>(state: &mut State<C>, memory: &Memory, intake: &mut Intake) -> u64 {
    let mut size = 0;
    for found in intake.take_found() {
        size += found.place.size;
        let number = found.entry.shard;
        if let Some(shard) = state.shards.get_mut(&number)
            && let Some(body) = memory.body_of(&found)
        {
            // A stray of a later term than the copy's: its sender sends it again when the copy follows.
            let _ = shard.take(found.entry, found.piece, body);
            state.due.found.insert(number);
        }
    }
    size
}

fn read<S: Store>(state: &mut State<S::Call>, shared: &Shared<S>, from: &NodeName, letter: Letter) {
    let Letter { shard, term, says } = letter;
    match says {
        Says::History {
            connection,
            join,
            lineage,
        } => copying::hear_history(state, from, shard, (connection, join), lineage),
        Says::Followed {
            connection,
            join,
            has,
        } => {
            let stream = StreamName { shard, term, join };
            let peer = state.peers.get_mut(from);
            if peer.is_some_and(|peer| peer.followed(stream, connection, has)) {
                lost::judge_copy(state, from, (shard, term), has);
            }
        }
        Says::Confirmed => heading::hear_confirmed(state, from, shard, term),
        Says::Drop {
            connection,
            join,
            lineage,
        } => joining::hear_drop(state, from, shard, (connection, join), lineage),
        Says::Ask { join, page, offset } => {
            filling::hear_ask(state, shared, from, (shard, term), (join, page, offset));
        }
        Says::Piece(piece) => {
            joining::hear_piece(state, &*shared.store, from, (shard, term), &piece)
        }
        Says::Consent { last } => {
            if let Some(shard) = state.shards.get_mut(&shard) {
                shard.consents.hear(from, (term, last));
            }
        }
        Says::Pulled { join } => {
            filling::hear_pulled(state, from, (shard, term), join, shared.runtime.now());
        }
    }
}

fn kept<S: Store>(
    state: &mut State<S::Call>,
    shared: &Shared<S>,
    intake: &mut Intake,
    keeping: Keeping,
) {
    let Keeping {
        shard,
        history,
        why,
    } = keeping;
    match why {
        Why::Heir => heading::kept_as_heir(state, shard, &history),
        Why::Follows => copying::kept_as_copy(state, shared, shard, &history),
        Why::Floor => copying::floor_kept(state, (shard, history), shared.runtime.now()),
        Why::Joins => joining::kept_as_joiner(state, intake, shard, &history),
        Why::Pulled => joining::pulled(state, shard, &history),
    }
}

impl Memory {
    /// Asks whether processes of an earlier run are gone, until they are. No peer counts as silent
    /// before.
    pub fn trust_earlier_writers(&mut self, intake: &mut Intake) {
        if let EarlierWriters::AskedAfter(are_gone) = &self.earlier_writers
            && are_gone()
        {
            intake.trust_earlier_writers();
            self.earlier_writers = EarlierWriters::Gone;
        }
    }

    /// The body of an entry that was found, or its piece of a body, if the bytes there are still its own. A horizon has
    /// none.
    pub fn body_of(&self, found: &Found) -> Option<Vec<u8>> {
        if found.entry.kind == Kind::Horizon {
            return Some(Vec::new());
        }
        let mut bytes = vec![0; found.place.size as usize];
        self.region.read(found.place.offset, &mut bytes);
        let header = Header::read(&self.key, bytes.first_chunk()?).ok()?;
        let body = bytes.split_off(HEADER_SIZE);
        let is_it = (header.entry, header.piece) == (found.entry, found.piece);
        let is_it = is_it && header.body_size == body.len();
        let is_whole = is_it && header.check_body(&self.key, &body).is_ok();
        is_whole.then_some(body)
    }
}
