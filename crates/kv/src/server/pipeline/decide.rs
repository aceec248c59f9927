//! Decides writes in their order, and stamps the writes that are to be done.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_fabric::Runtime;
use stonecast_log::{Condition, Draft, Expiry, Form, Kind, UNIT_SIZE};

use super::batch::{RequestBatch, Source, Write};
use super::flight::Flights;
use super::room::Room;
use crate::server::journal::Placed;
use crate::server::node::leading::{Hindrance, Leading};
use crate::server::shard::chunks;
use crate::server::shards::Shards;
use crate::server::shortage::{NoPlace, no_place};
use crate::server::space::Purpose;
use crate::server::state::State;
use crate::server::time::KeyPresence;
use crate::wire::{Answer, Head, Route, Verdict};

/// Pause between two looks of a batch that waits for a segment that is being prepared.
const SPACE_LOOK_NS: Nanoseconds = 50_000;
/// Number of looks: 20 seconds in all, more than preparing takes on the slowest disk. The looks are counted because a
/// clock advances while server and preparing thread are both stopped.
const SPACE_LOOKS_MAX: u32 = 400_000;

/// The records that the decisions on a batch have stamped: in the log, in the order of their sequences, neither durable
/// nor visible. Each part that makes a batch durable takes this: the [`Committer`](crate::server::commit::Committer)
/// for the log of this node.
#[derive(Default)]
pub(super) struct Stamped {
    /// Whether records await a persist.
    pub awaits_persist: bool,
    /// Number of the batch's writes that are decided.
    decided: usize,
    /// Number of the batch's bundles that are decided.
    bundles: usize,
    /// Number of the decided writes whose records are durable.
    pub(super) durable: usize,
    /// The room that the batch needs in each index.
    pub room: Room,
}

/// The reason why the next write is not decided yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// A segment is being prepared.
    Room,
    /// The write rests on a record of this batch that is not durable yet.
    Durable,
    /// The copies have no room for the record.
    Copies,
}

/// The progress of the decisions on a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decided {
    /// Every write is decided.
    All,
    /// The next write waits until everything that is stamped is durable.
    UpToDurable,
    /// The next write waits until the copies have room. Everything that is stamped is made durable meanwhile.
    UpToCopies,
}

impl Stamped {
    /// Clears the state for the next batch.
    pub fn clear(&mut self) {
        self.awaits_persist = false;
        self.decided = 0;
        self.bundles = 0;
        self.durable = 0;
        self.room.clear();
    }

    /// Notes that everything that is stamped is durable.
    pub fn note_durable(&mut self) {
        self.awaits_persist = false;
        self.durable = self.decided;
    }

    /// Decides the writes that are not decided yet, in order, and stamps those that are to be done. A record that finds
    /// no room because a segment is still being prepared waits for that segment for a while, and all later writes wait
    /// with it: if the record were sent back, later writes of its client would overtake it. No record waits here for a
    /// segment that has to be cleaned first: segments are cleaned between batches.
    ///
    /// Returns how far the batch is decided. With [`Decided::UpToDurable`], the next write is done only because of a
    /// record that this batch has stamped: a delete removes that record's key, or a condition names its version. The
    /// caller makes the record durable first. A crash may keep any of the records that one persist covers: if it kept
    /// the second write alone, its client would be told *removed*, and the repeated first write would take effect
    /// after it.
    pub async fn decide(
        &mut self,
        state: &RefCell<State>,
        (runtime, leading): (&Rc<dyn Runtime>, Option<&Leading>),
        (flights, batch): (&Flights, &mut RequestBatch),
    ) -> Decided {
        let mut looks = 0;
        loop {
            let may_wait = looks < SPACE_LOOKS_MAX;
            let decided = {
                let state = &mut *state.borrow_mut();
                self.decide_now((state, leading), (flights, batch), may_wait)
            };
            match decided {
                Ok(()) => return Decided::All,
                Err(Waits::Durable) => return Decided::UpToDurable,
                Err(Waits::Copies) => return Decided::UpToCopies,
                Err(Waits::Room) => looks += 1,
            }
            runtime.sleep(SPACE_LOOK_NS).await;
        }
    }

    /// Decides as far as there is room, and as far as nothing rests on a record that is not durable.
    fn decide_now(
        &mut self,
        (state, leading): (&mut State, Option<&Leading>),
        (flights, batch): (&Flights, &mut RequestBatch),
        may_wait: bool,
    ) -> Result<(), Waits> {
        let undecided = batch.writes[self.decided..].iter();
        let keys = undecided.map(|write| (write.route, write.key_size()));
        state.shards.prefetch(keys);
        self.room.make(&batch.writes, state);
        loop {
            // A bundle without writes stands before the write that has arrived next.
            let bundle = batch.bundles.get(self.bundles);
            if let Some(bundle) = bundle.filter(|it| it.writes.start == self.decided) {
                let end = bundle.writes.end;
                let (world, batches) = ((&mut *state, leading), (flights, &mut *batch));
                self.decide_bundle(world, may_wait, batches, self.bundles)?;
                self.bundles += 1;
                self.decided = end;
                continue;
            }
            if self.decided == batch.writes.len() {
                return Ok(());
            }
            let (earlier, rest) = batch.writes.split_at_mut(self.decided);
            let write = &mut rest[0];
            let before = (flights, &*earlier, &batch.bytes[..]);
            self.decide_write((state, leading), may_wait, before, write)?;
            if let Some(leading) = leading {
                await_refusal(state, leading, write);
            }
            self.decided += 1;
        }
    }

    /// Decides one write after the batches in flight and the `earlier` ones of its own, or says why it waits. With
    /// `may_wait`, a record may wait for a segment that is being prepared.
    fn decide_write(
        &mut self,
        (state, leading): (&mut State, Option<&Leading>),
        may_wait: bool,
        (flights, earlier, bytes): (&Flights, &[Write], &[u8]),
        write: &mut Write,
    ) -> Result<(), Waits> {
        let key = &bytes[write.key.0..write.key.1];
        let Route { shard, hash } = write.route;
        if leading.is_some()
            && let Some(Answer::Verdict { verdict, version }) =
                state.shards.refusal(shard, write.on_node.term)
        {
            // The node has resigned since the request was taken, and may lead again in another term.
            (write.verdict, write.version) = (verdict, version);
            return Ok(());
        }
        if write.words.claimed.is_none() {
            write.words.claimed = state.shards.of_mut(shard).claim(hash, key);
        }
        let mut adds = write.kind == Kind::Put;
        // While the index has room for the whole batch, an unconditional put needs no look at the present record.
        let is_roomy = self.room.is_for_all_of(shard);
        if write.kind == Kind::Delete || write.condition != Condition::None || !is_roomy {
            let KeyState {
                earlier: before,
                found,
            } = state_of_key(state, (flights, earlier, bytes), write.route, key);
            adds &= found.is_none();
            self.judge_by_state(state, write, found);
            if write.verdict != Verdict::Done {
                give_back(&state.shards, write);
                return Ok(());
            }
            let is_plain = write.kind == Kind::Put && write.condition == Condition::None;
            if before.is_some_and(|index| index >= self.durable)
                && !is_plain
                && !mutant!(StampedBesideItsCause)
            {
                return Err(Waits::Durable);
            }
        }
        if write.content.form == Form::Head && !has_chunks(state, write, bytes) {
            write.verdict = Verdict::ChunksGone;
            give_back(&state.shards, write);
            return Ok(());
        }
        if write.kind == Kind::Delete && mutant!(TombstoneLeftOut) {
            return Ok(());
        }
        let draft = Draft {
            kind: write.kind,
            form: write.content.form,
            condition: write.condition,
            token: write.token,
            expires: write.content.expires,
            key,
            value: &bytes[write.value.0..write.value.1],
        };
        let stamped = place(state, write, &draft, bytes).map_err(NotStamped::NoPlace);
        let stamped = stamped.and_then(|placed| stamp((state, leading), write, &draft, &placed));
        if let Err(reason) = stamped {
            (write.verdict, write.version) = verdict_on(state, reason, may_wait)?;
            give_back(&state.shards, write);
            return Ok(());
        }
        if write.content.form == Form::Head
            && let Some(head) = Head::read(draft.value)
        {
            state.shards.of_mut(shard).chunks.await_head(head.upload);
        }
        self.awaits_persist = true;
        let added = i64::from(adds) - i64::from(write.is_tombstone());
        self.room.note(shard, added);
        Ok(())
    }

    /// Gives a write the verdict that the present state of its key decides: the version that was `found`, and the
    /// moment from which on the key is absent.
    fn judge_by_state(
        &self,
        state: &State,
        write: &mut Write,
        found: Option<(u64, Option<Expiry>)>,
    ) {
        let shard = write.route.shard;
        let present = match write.content.form {
            // A chunk is written once, even if its time has come.
            Form::Chunk => Ok(found.map(|(version, _)| version)),
            Form::Whole | Form::Head => presence(state, shard, found),
        };
        write.version = present.ok().flatten().unwrap_or(0);
        let adds = write.kind == Kind::Put && found.is_none();
        let has_place = !adds || self.room.has_place(state.shards.of(shard), shard);
        write.verdict = match present {
            Ok(_) if write.is_time_mark() => judge_mark(found.is_none()),
            Ok(present) => judge(write, present, has_place),
            Err(OnItsWay) => Verdict::NoTime,
        };
    }
}

/// The verdict on a write that was not stamped for `reason`, with its number; or the reason why the write waits. With
/// `may_wait`, a segment that is being prepared is waited for.
fn verdict_on(state: &State, reason: NotStamped, may_wait: bool) -> Result<(Verdict, u64), Waits> {
    match reason {
        NotStamped::NoPlace(NoPlace::Pending) if may_wait => Err(Waits::Room),
        NotStamped::NoPlace(NoPlace::Pending) => Ok((Verdict::Busy, 0)),
        NotStamped::NoPlace(NoPlace::Refused(verdict)) => {
            Ok((verdict, state.shards.number_with(verdict)))
        }
        NotStamped::Hindered(Hindrance::ForCopies) => Err(Waits::Copies),
        NotStamped::Hindered(Hindrance::Refused(verdict, number)) => Ok((verdict, number)),
    }
}

/// The state of a key after all writes that are decided.
pub(super) struct KeyState {
    /// The number of the write of this batch that has left the state; `None`: the state is older.
    pub earlier: Option<usize>,
    /// The version of the key, and the moment from which on it is absent.
    pub found: Option<(u64, Option<Expiry>)>,
}

/// The state of `key` after the batches in flight and the `earlier` writes of this one, whose bytes are `bytes`.
pub(super) fn state_of_key(
    state: &mut State,
    (flights, earlier, bytes): (&Flights, &[Write], &[u8]),
    route: Route,
    key: &[u8],
) -> KeyState {
    let before = earlier
        .iter()
        .rposition(|other| other.is_done_on(bytes, route, key));
    let other = before.map(|index| &earlier[index]);
    match other.or_else(|| flights.newest_of(state, route, key)) {
        Some(other) => KeyState {
            earlier: before,
            found: other.leaves(),
        },
        None => published_state_of_key(state, route, key),
    }
}

/// The state of `key`, if nothing is on its way.
pub(super) fn published_state_of_key(state: &mut State, route: Route, key: &[u8]) -> KeyState {
    let shard = state.shards.of_mut(route.shard);
    KeyState {
        earlier: None,
        found: shard.version_of(route.hash, key),
    }
}

/// The moment of a key has come, and not all copies know that yet: nothing can be decided about the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnItsWay;

/// The version of a key of `shard` whose record was `found` with an expiry; `None`: the key is absent.
pub(super) fn presence(
    state: &State,
    shard: u32,
    found: Option<(u64, Option<Expiry>)>,
) -> Result<Option<u64>, OnItsWay> {
    let Some((version, expires)) = found else {
        return Ok(None);
    };
    let judged = expires.map(|expires| state.time.judge(shard, expires));
    match judged {
        Some(KeyPresence::Absent) if !mutant!(ExpiredIsPresent) => Ok(None),
        Some(KeyPresence::OnItsWay) => Err(OnItsWay),
        _ => Ok(Some(version)),
    }
}

/// The verdict on the record of a mark, whose key must have no record in use: the record is a delete.
fn judge_mark(is_unused: bool) -> Verdict {
    match is_unused {
        true => Verdict::Done,
        false => Verdict::Conflict,
    }
}

/// The verdict on a write whose key has the version `present`.
fn judge(write: &Write, present: Option<u64>, has_place: bool) -> Verdict {
    match write.condition.holds(present) {
        _ if write.kind == Kind::Delete && present.is_none() => Verdict::Absent,
        _ if mutant!(ConditionIgnored) => Verdict::Done,
        false => Verdict::Conflict,
        true if !has_place => Verdict::IndexFull,
        true => Verdict::Done,
    }
}

/// Whether all chunks are there that the record of `write` names.
fn has_chunks(state: &mut State, write: &Write, bytes: &[u8]) -> bool {
    let State { shards, time, .. } = state;
    let shard = write.route.shard;
    let key = &bytes[write.key.0..write.key.1];
    let head = Head::read(&bytes[write.value.0..write.value.1]);
    // No mark that was stamped before the head says that the time of its chunks has come: a copy that knows that it has
    // come has the head.
    let is_to_come = |expires: Expiry| {
        expires.ms() > time.told_ms(shard) && time.judge(shard, expires) == KeyPresence::Present
    };
    head.is_some_and(|head| chunks::has_chunks(shards.of_mut(shard), (key, head), is_to_come))
}

/// The place of the record of `write`, which has the content of `draft`. The record is written into a segment of the
/// server's own unless it lies in the log already.
fn place(
    state: &mut State,
    write: &Write,
    draft: &Draft<'_>,
    bytes: &[u8],
) -> Result<Placed, NoPlace> {
    if let Source::Placed(placed) = write.source {
        return Ok(placed);
    }
    let size = draft.size();
    let purpose = match draft.kind {
        Kind::Delete => Purpose::Delete,
        Kind::Put => Purpose::Put,
    };
    append_room(state, (size / UNIT_SIZE) as u32, purpose)?;
    let journal = &mut state.journal;
    Ok(match write.source {
        Source::Staged(start) => journal.append_staged(&bytes[start..write.value.1], size, purpose),
        Source::Placed(_) | Source::Parts => journal.append(draft, purpose),
    })
}

/// Makes room for `units` in a segment of the server's own.
#[inline]
pub(super) fn append_room(state: &mut State, units: u32, purpose: Purpose) -> Result<(), NoPlace> {
    if !state.journal.has_room(units, purpose) {
        match state.journal.take_own(units, purpose) {
            Ok(()) => state.note_given(),
            Err(none) => return Err(no_place(state, none, units, purpose)),
        }
    }
    Ok(())
}

/// The reason why a record is not stamped.
enum NotStamped {
    NoPlace(NoPlace),
    Hindered(Hindrance),
}

/// Stamps the record of `write`, which has the content of `draft`. On a node, the entry of the record is stamped with
/// it.
fn stamp(
    (state, leading): (&mut State, Option<&Leading>),
    write: &mut Write,
    draft: &Draft<'_>,
    placed: &Placed,
) -> Result<(), NotStamped> {
    // Two records of one batch that claim the same place: the client breaks the rules.
    let overlaps = || NotStamped::NoPlace(NoPlace::Refused(Verdict::Invalid));
    let word = state.journal.word(placed, write.route.hash);
    (write.words.own, write.words.segment) = (word, placed.segment);
    if let Some(leading) = leading {
        if placed.unit < state.journal.end(placed.segment).0 {
            return Err(overlaps());
        }
        write.version = state.journal.sequences.next();
        let slot = leading.stamp(state, write.change(), draft);
        write.on_node.slot = Some(slot.map_err(NotStamped::Hindered)?);
    }
    let State {
        journal,
        shards,
        keeper,
        ..
    } = state;
    let stamped = journal.stamp(placed, write.is_tombstone());
    let sequence = stamped.ok_or_else(overlaps)?;
    if let Some(keeper) = keeper {
        keeper.note_stamped(sequence, write.route.shard);
    }
    // The outcome of a write on several nodes is known once the write is on all copies.
    if leading.is_none() && !mutant!(OutcomesNotNoted) {
        let shard = shards.of_mut(write.route.shard);
        shard.outcomes.note(write.token, sequence);
    }
    write.version = sequence;
    if let Some(mark) = write.content.expires.filter(|_| write.is_time_mark()) {
        state.time.note_stamped(write.route.shard, mark);
    }
    Ok(())
}

/// Lets a refusal that reveals the state of a key wait until everything that was stamped before is on all copies: the
/// state may be that of a write that an heir cuts off.
fn await_refusal(state: &mut State, leading: &Leading, write: &mut Write) {
    if !matches!(write.verdict, Verdict::Absent | Verdict::Conflict) {
        return;
    }
    write.on_node.slot = leading.refuse(state, write.route.shard);
    if write.on_node.slot.is_none() {
        (write.verdict, write.version) = (Verdict::NotPrimary, 0);
    }
}

/// Gives the word of a key back to clients, because the key is not written after all.
fn give_back(shards: &Shards, write: &mut Write) {
    if let Some(word) = write.words.claimed.take() {
        let Route { shard, hash } = write.route;
        shards.of(shard).give_back(hash, word);
    }
}
