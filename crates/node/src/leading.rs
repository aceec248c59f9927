//! Primaries: the calls of a store's pipeline, and the calls that wait for copies.

use std::future::poll_fn;
use std::task::Poll;

use stonecast_backup::BackupLink;
use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::{NodeName, Subject, Term};
use stonecast_member::Member;
use stonecast_replication::{Connection, Entry, HEADER_SIZE, LeaseSays, Report, Settled};

use crate::bodies::Bodies;
use crate::error::NotServed;
use crate::heading::lease_says;
use crate::links::send_stamped;
use crate::node::{Node, Shared};
use crate::shard::{Leads, Role, Shard, Unsettled};
use crate::state::State;
use crate::store::Store;
use crate::turn::Extent;

/// Whether an entry that takes `room` may wait for copies beside others.
fn fits(unsettled: u64, room: u64, limit: u64) -> bool {
    unsettled == 0 || unsettled + room <= limit
}

/// The records that one commit of the node's own log makes durable.
#[derive(Debug, Default)]
#[must_use = "the records count when the batch is handed back"]
pub struct OwnBatch {
    reports: Vec<(u32, Report)>,
    /// The number of the commit; `None`: nothing was stamped.
    commit: Option<u64>,
}

/// The state of a primary's lease.
pub fn primary_lease(
    member: &Member,
    subject: &Subject,
    term: Term,
    now: Nanoseconds,
) -> LeaseSays {
    match mutant!(LeaseNotAsked) {
        true => LeaseSays::Holds,
        false => lease_says(member, subject, term, now),
    }
}

impl<S: Store> Node<S> {
    /// Stamps a decided write of `shard`, with a version above all versions that the node has given. The caller writes
    /// the record of `body` into its own log, and then calls [`Node::send`].
    ///
    /// # Errors
    /// The write must not be done, and nothing has changed. A body that fits in no entry is refused
    /// here: after the stamp, all copies would wait for it.
    ///
    /// # Panics
    /// Unless `version` is above the last one of the shard.
    pub fn stamp(
        &self,
        shard: u32,
        version: u64,
        body: &[u8],
        call: S::Call,
    ) -> Result<Entry, NotServed> {
        self.fits(shard, body)?;
        let now = self.shared.runtime.now();
        let room = self.has_room(body)?;
        let entry = self.with_leads(shard, |shard, leads| {
            let entry = leads.primary.stamp(version, call)?;
            leads.written_at = now;
            leads.unsettled.push_back(Unsettled {
                version,
                room,
                stamped_at: now,
            });
            shard.insert(entry.point(), body.into());
            Ok(entry)
        })?;
        let state = &mut *self.shared.state.borrow_mut();
        state.waiting.unsettled += room;
        state.due.stamped.insert(shard);
        Ok(entry)
    }

    /// Whether a node whose copy of `shard` counts has no room for more records, by its last notice. A store refuses
    /// the records that take room for good, before they are stamped.
    pub fn lacks_room(&self, shard: u32) -> bool {
        let state = self.shared.state.borrow();
        let lacks_room = |name: &NodeName| {
            let link = state.peers.get(name).and_then(|way| way.link.as_ref());
            link.is_some_and(BackupLink::lacks_room)
        };
        let group = state.group(shard);
        group.is_some_and(|group| group.in_sync.iter().any(lacks_room))
    }

    /// Waits until the entries of earlier writes leave room for the write that was refused last, with
    /// [`NotServed::NoRoom`]; returns at once if the node has ended. One task at a time waits. A commit that the task
    /// has to make is made before: the entries wait for that, too.
    pub async fn room(&self) {
        let shared = &self.shared;
        poll_fn(|context| {
            let state = shared.state.borrow();
            let waiting = &state.waiting;
            let has_room = fits(
                waiting.unsettled,
                waiting.refused,
                shared.options.unsettled_max,
            );
            drop(state);
            if has_room || shared.is_over.get() {
                return Poll::Ready(());
            }
            while shared.bells.room.poll_rung(context).is_ready() {}
            Poll::Pending
        })
        .await
    }

    /// The bytes that an entry of `body` takes at a copy, if they have room beside the bytes of earlier entries. A
    /// single entry always has room.
    fn has_room(&self, body: &[u8]) -> Result<u64, NotServed> {
        let mut state = self.shared.state.borrow_mut();
        let links = state.peers.values().filter_map(|peer| peer.link.as_ref());
        let room = links.map(|link| link.room_of(body.len())).max();
        let room = room.unwrap_or((HEADER_SIZE + body.len()) as u64);
        let (unsettled, limit) = (state.waiting.unsettled, self.shared.options.unsettled_max);
        if fits(unsettled, room, limit) || mutant!(StampedWithoutRoom) {
            return Ok(room);
        }
        state.waiting.refused = room;
        Err(NotServed::NoRoom { unsettled, limit })
    }

    /// Keeps an answer of `shard` that appends nothing until the write that it saw is on all copies; see
    /// [`Primary::refuse`](stonecast_replication::Primary::refuse).
    ///
    /// # Errors
    /// The node does not serve the shard.
    pub fn refuse(&self, shard: u32, saw: Option<u64>, call: S::Call) -> Result<(), NotServed> {
        self.with_leads(shard, |_, leads| {
            leads.primary.refuse(saw, call);
            Ok(())
        })?;
        self.shared.bells.batch.ring();
        Ok(())
    }

    /// Whether every copy takes a record of `body`.
    fn fits(&self, shard: u32, body: &[u8]) -> Result<(), NotServed> {
        let (size, longest) = (body.len() as u64, self.shared.options.record_size_max);
        match body {
            [] => Err(NotServed::Empty { shard }),
            _ if size > longest.into() => Err(NotServed::TooLong { size, longest }),
            _ => Ok(()),
        }
    }

    fn with_leads<T>(
        &self,
        number: u32,
        call: impl FnOnce(&mut Bodies, &mut Leads<S::Call>) -> Result<T, NotServed>,
    ) -> Result<T, NotServed> {
        let state = &mut *self.shared.state.borrow_mut();
        let not_the_primary = NotServed::NotThePrimary { shard: number };
        let shard = state.shards.get_mut(&number).ok_or(not_the_primary)?;
        let Shard { role, bodies, .. } = shard;
        match role {
            Role::Leads(leads) => call(bodies, leads),
            _ => Err(not_the_primary),
        }
    }

    /// Appends everything that was stamped to all copies, as far as there is credit, with one doorbell for each; turns
    /// send the rest. The batch names the records that the next commit of the node's own log makes durable: the caller
    /// commits, and hands the batch to [`Node::persisted_here`].
    pub fn send(&self) -> OwnBatch {
        let state = &mut *self.shared.state.borrow_mut();
        let stamped = std::mem::take(&mut state.due.stamped);
        send_stamped(state, &self.shared, &stamped);
        let mut batch = Vec::new();
        for number in stamped {
            let shard = state.shards.get_mut(&number);
            if let Some(leads) = shard.and_then(Shard::leads) {
                let own = leads.primary.take_unsent(&state.me, Connection::OWN);
                let reports = own.iter().map(|entry| Report::of(Connection::OWN, entry));
                batch.extend(reports.map(|report| (number, report)));
            }
        }
        let now = self.shared.runtime.now();
        let commit = (!batch.is_empty()).then(|| state.own_commits.begin(now));
        let batch = OwnBatch {
            reports: batch,
            commit,
        };
        if mutant!(OwnCommitNotAwaited) {
            persisted_here(state, &batch);
        }
        batch
    }

    /// Notes that the commit of the node's own log that began after the call of [`Node::send`] has
    /// ended. A batch of a term that is over has no effect.
    pub fn persisted_here(&self, batch: OwnBatch) {
        persisted_here(&mut self.shared.state.borrow_mut(), &batch);
        if batch.commit.is_some() {
            self.shared.bells.batch.ring();
        }
    }
}

fn persisted_here<C>(state: &mut State<C>, OwnBatch { reports, commit }: &OwnBatch) {
    if let Some(commit) = commit {
        state.own_commits.end(*commit);
    }
    for &(number, report) in reports {
        let shard = state.shards.get_mut(&number);
        if let Some(leads) = shard.and_then(Shard::leads) {
            let heard = leads.primary.persisted(&state.me, report);
            if !mutant!(OwnCommitNotAwaited) {
                heard.expect("the own log has one order");
            }
        }
    }
}

/// Gives out the calls that are settled. A primary without a lease resigns: in a short turn only if something waits for
/// its copies.
pub fn settle<S: Store>(state: &mut State<S::Call>, shared: &Shared<S>, extent: Extent) {
    for (&number, shard) in &mut state.shards {
        let Role::Leads(leads) = &mut shard.role else {
            continue;
        };
        let is_at_rest = leads.primary.is_at_rest();
        if extent == Extent::Short && is_at_rest {
            continue;
        }
        let (term, now) = (leads.primary.term(), shared.runtime.now());
        let lease = primary_lease(&shared.member, &shard.subject, term, now);
        if lease == LeaseSays::Holds && is_at_rest {
            continue;
        }
        let Some(settled) = leads.primary.settle(lease) else {
            let ended = shard.step_down().expect("it led");
            shared.store.resigned(number, ended);
            continue;
        };
        let written = |one: &&Settled<S::Call>| matches!(one, Settled::Written(_));
        leads.digested += settled.iter().filter(written).count() as u64;
        let digested = leads.primary.digested();
        if !settled.is_empty() {
            shared.store.settled(number, settled);
        }
        shard.bodies.retain(|point| point > digested);
    }
    count_unsettled(state);
    shared.bells.room.ring();
}

/// Counts the bytes of the entries that are not on all copies.
fn count_unsettled<C>(state: &mut State<C>) {
    let led = state.shards.values_mut().filter_map(Shard::leads);
    let unsettled = led.flat_map(|leads| {
        let horizon = leads.primary.horizon();
        let settled = leads
            .unsettled
            .partition_point(|write| write.version <= horizon);
        leads.unsettled.drain(..settled);
        leads.unsettled.iter().map(|write| write.room)
    });
    state.waiting.unsettled = unsettled.sum();
}
