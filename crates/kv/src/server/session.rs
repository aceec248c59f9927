//! Connections of clients and what they hold: windows to read index and log through, leases of extents or staging memory.
//!
//! Every right of a client is a memory window of its own queue pair, so that it ends with the client and with nobody else.
//! Reading ends at once; what may be written needs more care:
//!
//! A lease opens one segment to one queue pair through a memory window. It ends when the client gives it back or is gone.
//! Its key is invalidated first, and only when the fabric says that nothing can arrive through it any more may the rest
//! of the segment go to somebody else. Where the fabric cannot say so (a stopped client may still be in the middle of a
//! write), the segment is left alone for good: its records stay readable, its rest is wasted until the pool is opened
//! again.

use std::rc::Rc;

use stonecast_base::{LINE_SIZE, Nanoseconds, hash, mutant};
use stonecast_fabric::{
    Access, ConnectionRequest, DeviceError, LocalSpan, MemoryRegion, Operation, PeerIdentity,
    QueuePair, QueuePairOptions, ReceiveQueue, Rkey,
};
use stonecast_log::{SEGMENT_HEADER_UNITS, UNIT_SIZE};
use zerocopy::IntoBytes as _;
use zerocopy::byteorder::little_endian::{U32, U64};

use super::publication::{Publication, Returned, Stamper};
use super::receives::{OWN_RECEIVES, post_all};
use super::{ClientPolicy, Server, ServerOptions, State};
use crate::metrics::ClientPath;
use crate::server::space::{Purpose, Taken};
use crate::wire::limits::{
    ANSWER_SIZE_MAX, IN_FLIGHT_MAX, LEASE_RECLAIM_NS, LEASE_TURN_NS, LEASES_PER_CLIENT,
    SERVER_RECEIVES, STAGING_SIZE,
};
use crate::wire::{Accesses, Answer, AnswerWriter, Grant, Verdict, Welcome};

/// One connected client.
pub(super) struct Session {
    /// See [`Welcome::session`].
    id: u64,
    /// Who the client is.
    peer: PeerIdentity,
    /// How it comes here.
    pub path: ClientPath,
    /// Windows on the index, by the number of the table.
    pub index_windows: Vec<(u32, Rkey)>,
    log_window: Option<Rkey>,
    staging_window: Option<Rkey>,
    pub leases: [Option<Lease>; LEASES_PER_CLIENT],
    /// Its rights to publish.
    pub publication: Option<Publication>,
    /// Slots of leases that were taken back and that the client has not returned yet: it may still do, so nothing else gets
    /// this slot until then.
    pub reclaimed: [bool; LEASES_PER_CLIENT],
    /// Where a copying client writes its records.
    pub staging: Option<MemoryRegion>,
    /// Receive buffers of its own; none where it shares those of all.
    pub receives: Option<MemoryRegion>,
    /// A slot of one line for each message on its way, then one of full length for each.
    answers: MemoryRegion,
    next_answer: u64,
    pub writer: AnswerWriter,
    /// An answer could not be sent: the client does not take them. It is disconnected after the batch.
    pub stuck: bool,
}

/// An extent that a client appends to.
#[derive(Clone, Copy)]
pub(super) struct Lease {
    pub segment: u32,
    /// Whether the client stamps what it writes there.
    pub publishes: bool,
    rkey: Rkey,
    /// When it was given, or its client was last asked to return it.
    since: Nanoseconds,
    /// The segment's end when it was last seen that the client goes on, and when that was.
    seen: (u32, Nanoseconds),
}

/// What ends when a client, or a right of it, ends.
#[derive(Default)]
pub(super) struct Retired {
    pub qp: Option<QueuePair>,
    /// Windows that were read through.
    pub windows: Vec<Rkey>,
    pub leases: Vec<Lease>,
    /// Rights to publish. They end before the leases, and all of these with them.
    pub publication: Option<Publication>,
    /// Memory that goes with the client.
    pub regions: Vec<MemoryRegion>,
}

/// What was made for a client that is being accepted.
#[derive(Default)]
struct Made {
    qp: Option<QueuePair>,
    regions: Vec<MemoryRegion>,
}

/// Rounds in which the arrivals of a queue pair are taken over before it goes: all shared receive buffers, 64 a round, and
/// some to spare for those of other clients.
const PUMPS_MAX: u32 = SERVER_RECEIVES / 64 * 2;

/// RNR retries of answers: the client posts a receive for each operation in flight, so there is always one.
const RNR_RETRY_COUNT: u32 = 100;
const RNR_RETRY_DELAY_NS: u64 = 1_000_000;

impl Server {
    pub(super) fn accept(
        &self,
        request: ConnectionRequest,
        peer: &PeerIdentity,
        path: ClientPath,
    ) -> Result<(), DeviceError> {
        let device = self.port.device();
        let refusal = {
            let state = self.state.borrow();
            let here = state.sessions.values().map(|session| &session.peer);
            let ServerOptions {
                places, process, ..
            } = self.options;
            places.refusal(here, peer, process)
        };
        if let Some(reason) = refusal {
            return device.reject(request, &reason);
        }
        // Where the log is a file that is synced, a page that a client has written is taken from its mapping at each sync,
        // with an interrupt of its processor, and faults at its next store: more than copying its records costs.
        let copying =
            self.options.clients == ClientPolicy::Copying || !peer.same_user || self.syncs_files();
        let mut made = Made::default();
        match self.welcome(request, peer, copying, path, &mut made) {
            Ok(session) => {
                let qp = made.qp.expect("an accepted client has a queue pair");
                self.state.borrow_mut().sessions.insert(qp, session);
                Ok(())
            }
            Err(error) => {
                // What was made for the client goes again; a client that hears no reason would wait.
                let _ = device.reject(
                    request,
                    &format!("the server cannot take another client: {error}"),
                );
                self.retire(Retired {
                    qp: made.qp,
                    regions: made.regions,
                    ..Retired::default()
                });
                Err(error)
            }
        }
    }

    /// Makes what a client needs and accepts it. `made` tells what there is to undo after an error.
    fn welcome(
        &self,
        request: ConnectionRequest,
        peer: &PeerIdentity,
        copying: bool,
        path: ClientPath,
        made: &mut Made,
    ) -> Result<Session, DeviceError> {
        let device = self.port.device();
        let answers = device.allocate(
            (IN_FLIGHT_MAX * (LINE_SIZE + ANSWER_SIZE_MAX)) as u64,
            Access::NONE,
        )?;
        made.regions.push(answers);
        let staging = if copying {
            Some(device.allocate(STAGING_SIZE, Access::NONE)?)
        } else {
            None
        };
        made.regions.extend(staging);
        let receives = self.receives.allocate_own(&**device)?;
        made.regions.extend(receives);
        let qp = device.create_queue_pair(QueuePairOptions {
            send_cq: self.port.send_cq(),
            receive_cq: self.port.receive_cq(),
            shared_receive_queue: self.receives.shared_queue(),
            windows: true,
            send_capacity: IN_FLIGHT_MAX as u32 * 2,
            receive_capacity: receives.map_or(1, |_| OWN_RECEIVES),
            rnr_retry_count: RNR_RETRY_COUNT,
            rnr_retry_delay_ns: RNR_RETRY_DELAY_NS,
        })?;
        made.qp = Some(qp);
        if let Some(region) = receives {
            post_all(&**device, ReceiveQueue::Own(qp), region, OWN_RECEIVES)?;
        }
        let id = self.new_session_id();
        let mut welcome = Welcome::new();
        welcome.epoch = U32::new(self.pool.epoch());
        welcome.uuid = self.format.uuid.to_le_bytes();
        welcome.segment_size = U64::new(self.format.segment_size);
        welcome.segment_count = U32::new(self.format.segment_count);
        welcome.staging_size = U32::new(staging.map_or(0, |region| region.size as u32));
        welcome.tag_key = U64::new(self.format.tag_key);
        welcome.sequence = U64::new(self.state.borrow().sequences.next() - 1);
        welcome.session = U64::new(id);
        welcome.publication = U32::new((self.options.publishes() && !copying).into());
        device.accept(request, qp, welcome.as_bytes())?;
        Ok(Session {
            id,
            peer: peer.clone(),
            path,
            index_windows: Vec::new(),
            log_window: None,
            staging_window: None,
            leases: [None; LEASES_PER_CLIENT],
            publication: None,
            reclaimed: [false; LEASES_PER_CLIENT],
            staging,
            receives,
            answers,
            next_answer: 0,
            writer: AnswerWriter::default(),
            stuck: false,
        })
    }

    /// A number that names a connection and that nobody else can guess.
    fn new_session_id(&self) -> u64 {
        let state = &mut *self.state.borrow_mut();
        state.sessions_begun += 1;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&u64::from(self.pool.epoch()).to_le_bytes());
        bytes[8..].copy_from_slice(&state.sessions_begun.to_le_bytes());
        hash::siphash24(self.pool.secret(), &bytes)
    }

    /// Opens index, log and staging memory, as they are now, to the client of `qp`.
    pub(super) fn grant_access(&self, qp: QueuePair) -> Answer {
        let state = &mut *self.state.borrow_mut();
        let State {
            sessions,
            tables,
            index,
            ..
        } = state;
        let Some(session) = sessions.get_mut(&qp) else {
            return Answer::Verdict {
                verdict: Verdict::Invalid,
                version: 0,
            };
        };
        let table = tables.last().expect("there is always a table");
        let device = self.port.device();
        let window =
            |region: MemoryRegion, access| device.bind_window(qp, region, 0, region.size, access);
        let mut bound = || {
            let index_rkey = match session
                .index_windows
                .iter()
                .find(|(number, _)| *number == table.number)
            {
                Some(&(_, rkey)) => rkey,
                None => {
                    let rkey = window(table.region, Access::REMOTE_READ)?;
                    session.index_windows.push((table.number, rkey));
                    rkey
                }
            };
            let log_rkey = match session.log_window {
                Some(rkey) => rkey,
                None => *session
                    .log_window
                    .insert(window(self.log_region, Access::REMOTE_READ)?),
            };
            let staging_rkey = match (session.staging_window, session.staging) {
                (None, Some(region)) => *session
                    .staging_window
                    .insert(window(region, Access::REMOTE_WRITE)?),
                (known, _) => known.unwrap_or(Rkey(0)),
            };
            Ok::<_, DeviceError>(Accesses {
                table: table.number,
                index_bits: index.table().bits(),
                index_address: table.region.address,
                log_address: self.log_region.address,
                staging_address: session.staging.map_or(0, |region| region.address),
                index_rkey: index_rkey.0,
                log_rkey: log_rkey.0,
                staging_rkey: staging_rkey.0,
            })
        };
        match bound() {
            Ok(accesses) => Answer::Access(accesses),
            // The device has no more windows now; others may give theirs back.
            Err(_) => Answer::Verdict {
                verdict: Verdict::Busy,
                version: 0,
            },
        }
    }

    /// The client of `qp` reads index `table` no more.
    pub(super) fn leave_index(&self, qp: QueuePair, table: u32) {
        let state = &mut *self.state.borrow_mut();
        let Some(session) = state.sessions.get_mut(&qp) else {
            return;
        };
        let left = session
            .index_windows
            .iter()
            .position(|&(number, _)| number == table);
        if let Some((_, rkey)) = left.map(|index| session.index_windows.swap_remove(index)) {
            self.retire(Retired {
                windows: vec![rkey],
                ..Retired::default()
            });
        }
    }

    /// Ends the connection that is called `id`, unless it is that of `qp` itself. Nothing that is still on its way through
    /// it is looked at afterwards.
    pub(super) fn end_session_called(&self, id: u64, qp: QueuePair) {
        let state = self.state.borrow();
        let named = state
            .sessions
            .iter()
            .find(|(_, session)| session.id == id)
            .map(|(&qp, _)| qp);
        drop(state);
        if let Some(named) = named.filter(|&named| named != qp) {
            self.end_session(named);
        }
    }

    /// Takes back everything that the client of `qp` holds.
    pub(super) fn end_session(&self, qp: QueuePair) {
        let Some(session) = self.state.borrow_mut().sessions.remove(&qp) else {
            return;
        };
        self.retire(Retired {
            qp: Some(qp),
            windows: session
                .index_windows
                .iter()
                .map(|&(_, rkey)| rkey)
                .chain(session.log_window)
                .collect(),
            leases: session.leases.into_iter().flatten().collect(),
            publication: session.publication,
            regions: session
                .staging
                .into_iter()
                .chain(session.receives)
                .chain([session.answers])
                .collect(),
        });
    }

    /// Ends all connections: whoever waits for an answer is told that none will come.
    pub(super) fn end_all_sessions(&self) {
        let all: Vec<QueuePair> = self.state.borrow().sessions.keys().copied().collect();
        all.into_iter().for_each(|qp| self.end_session(qp));
    }

    /// Revokes and frees beside the server's task: a revocation waits for a client that may be stopped in the middle of a
    /// write, and nobody else shall wait with it.
    pub(super) fn retire(&self, retired: Retired) {
        let Retired {
            qp,
            windows,
            leases,
            publication,
            mut regions,
        } = retired;
        let (port, revoked, retiring) = (
            self.port.clone(),
            self.revoked.clone(),
            self.retiring.clone(),
        );
        let (ended_rings, may_be_publishing) =
            (self.ended_rings.clone(), self.may_be_publishing.clone());
        retiring.set(retiring.get() + 1);
        self.runtime.spawn(Box::pin(async move {
            let device = port.device();
            if let Some(qp) = qp {
                let _ = device.disconnect(qp);
            }
            // Reading is over first: nobody can be in the way of that.
            for rkey in windows {
                let _ = port.invalidate(rkey).await;
            }
            // Somebody stopped in the middle of publishing may finish it at any time: what was lent to him stays as it is.
            let (mut may_publish, ends) = (false, publication.is_some());
            let mut ring = None;
            if let Some((windows, its_ring, region)) = publication.map(Publication::into_parts) {
                for rkey in windows {
                    may_publish |= port.invalidate(rkey).await.is_err();
                }
                ring = Some(its_ring);
                regions.push(region);
            }
            let stamper = |lease: &Lease| match lease.publishes {
                false => Stamper::Server,
                true if ends => Stamper::DeadClient,
                true => Stamper::Client,
            };
            let returned = |lease: &Lease| Returned {
                segment: lease.segment,
                stamper: stamper(lease),
            };
            if mutant!(LeaseNotRevoked) {
                revoked.borrow_mut().extend(leases.iter().map(returned));
            }
            for lease in leases.into_iter().filter(|_| !mutant!(LeaseNotRevoked)) {
                let is_over = port.invalidate(lease.rkey).await.is_ok();
                may_publish |= lease.publishes && !is_over;
                if is_over && !(lease.publishes && may_publish) {
                    revoked.borrow_mut().push(returned(&lease));
                }
            }
            match may_publish {
                true => may_be_publishing.set(true),
                false => ended_rings.borrow_mut().extend(ring),
            }
            if let Some(qp) = qp {
                // Arrivals still under way hold shared receive buffers; taken over, they are posted again.
                for _ in 0..PUMPS_MAX {
                    if !port.pump() {
                        break;
                    }
                }
                // The queue pair goes first: with it go its windows, so that nothing can reach the memory that goes next.
                // What a provider cannot free now it frees when the device is dropped.
                // Through the port, which forgets what it has of this queue pair: its number may be given to the next client.
                let _ = port.destroy_queue_pair(qp);
            }
            for region in regions {
                let _ = port.invalidate(region.rkey).await;
                let _ = device.deregister(region);
            }
            retiring.set(retiring.get() - 1);
        }));
    }

    /// Takes leases back that were not used for long, and that space is short for. Their clients lease anew when they write
    /// again. Whether there were any.
    pub(super) fn reclaim_unused(&self, state: &mut State) -> bool {
        let idle = self.reclaim_publications(&mut state.sessions, LEASE_RECLAIM_NS);
        let State {
            sessions,
            space,
            cleaner,
            ..
        } = state;
        let now = self.runtime.now();
        let mut unused = Vec::new();
        for session in sessions.values_mut() {
            // A client that writes to one extent uses the one that it leased ahead, too: it counts on it.
            let mut is_used = false;
            for Lease { segment, seen, .. } in session
                .leases
                .iter_mut()
                .flatten()
                .filter(|lease| !lease.publishes)
            {
                let end = space.state(*segment).end;
                if end != seen.0 {
                    *seen = (end, now);
                }
                is_used |= now.saturating_sub(seen.1) < LEASE_RECLAIM_NS;
            }
            for (lease, reclaimed) in session
                .leases
                .iter_mut()
                .zip(&mut session.reclaimed)
                .filter(|_| !is_used)
            {
                if let Some(lease) = lease.take_if(|lease| !lease.publishes) {
                    unused.push(lease);
                    *reclaimed = true;
                }
            }
        }
        let any = !unused.is_empty() || !idle.is_empty();
        self.idle_publications.borrow_mut().extend(idle);
        if any {
            cleaner.note_reclaimed(unused.len());
            self.retire(Retired {
                leases: unused,
                ..Retired::default()
            });
        }
        any
    }

    /// Whether what is leased to clients has room for `units`, or something to clean where all in all there `is_gain`: they use it
    /// up, return it, or lose it after a while. What a client that publishes has used of it is not known yet.
    pub(super) fn is_room_leased(&self, state: &State, units: u32, is_gain: bool) -> bool {
        let mut leases = state
            .sessions
            .values()
            .flat_map(|session| session.leases.iter().flatten());
        leases.any(|lease| {
            state.space.has_worthwhile_room(lease.segment, units)
                || is_gain && state.space.has_dead(lease.segment)
        })
    }

    /// The verdict on a write that is done, to the client of `qp`, in a segment that it leases: others may wait for one.
    pub(super) fn verdict_on_done(&self, qp: QueuePair, segment: u32) -> Verdict {
        if !self.lease_wanted.get() {
            return Verdict::Done;
        }
        let state = &mut *self.state.borrow_mut();
        let leases = state
            .sessions
            .get_mut(&qp)
            .into_iter()
            .flat_map(|session| session.leases.iter_mut().flatten());
        let now = self.runtime.now();
        let had_its_turn = |lease: &&mut Lease| {
            lease.segment == segment
                && !lease.publishes
                && now.saturating_sub(lease.since) >= LEASE_TURN_NS
        };
        let Some(lease) = leases.into_iter().find(had_its_turn) else {
            return Verdict::Done;
        };
        // Where it is not returned it is asked for again, not with each answer until then.
        lease.since = now;
        self.lease_wanted.set(false);
        Verdict::DoneReturn
    }

    /// Gives segments back whose leases are revoked by now.
    pub(super) fn take_revoked(&self) {
        let idle = std::mem::take(&mut *self.idle_publications.borrow_mut());
        idle.into_iter().for_each(|qp| self.end_publication(qp));
        let revoked = std::mem::take(&mut *self.revoked.borrow_mut());
        let ended_rings = std::mem::take(&mut *self.ended_rings.borrow_mut());
        let state = &mut *self.state.borrow_mut();
        if !revoked.is_empty() {
            state.cleaner.note_given_back();
        }
        for returned in revoked {
            self.take_over(state, &returned);
            state
                .unpersisted
                .extend(state.space.give_back(returned.segment, &*self.log));
        }
        if !ended_rings.is_empty() {
            self.drain_intents(state);
            state
                .rings
                .retain(|ring| !ended_rings.iter().any(|ended| Rc::ptr_eq(ring, ended)));
        }
    }

    /// Gives a client an extent with room for `size` bytes.
    pub(super) fn grant_lease(&self, qp: QueuePair, size: u32, publishes: bool) -> Answer {
        let refuse = |verdict| Answer::Verdict {
            verdict,
            version: 0,
        };
        let state = &mut *self.state.borrow_mut();
        let may_lease = |session: &&Session| {
            session.staging.is_none() && (!publishes || session.publication.is_some())
        };
        let Some(session) = state.sessions.get(&qp).filter(may_lease) else {
            return refuse(Verdict::Invalid);
        };
        let slots = session.leases.iter().zip(session.reclaimed);
        let free_slot = slots
            .enumerate()
            .find(|(_, (lease, reclaimed))| lease.is_none() && !reclaimed)
            .map(|(slot, _)| slot);
        // What the client gives back may be behind this request, on its way.
        let Some(slot) = free_slot else {
            return refuse(Verdict::Busy);
        };
        let units = size.div_ceil(UNIT_SIZE as u32);
        if units > self.format.segment_units() - SEGMENT_HEADER_UNITS {
            return refuse(Verdict::Invalid);
        }
        if size == 0 && state.space.is_short() {
            // It is leased ahead: where segments run short, each client has the one that it writes to.
            return refuse(Verdict::Busy);
        }
        let (number, fresh) = match state.space.take(units, Purpose::Put) {
            Ok(Taken::Segment { number, fresh }) => (number, fresh),
            Ok(Taken::Pending) => return refuse(Verdict::Busy),
            Ok(Taken::NoSpace) => {
                let verdict = self.refuse_space(state, units);
                return Answer::Verdict {
                    verdict,
                    version: state.number_with(verdict),
                };
            }
            Err(error) => {
                self.note_trouble(error);
                state.counters.space_failures += 1;
                return refuse(Verdict::SpaceFailed);
            }
        };
        if fresh {
            let span = state
                .space
                .state(number)
                .write_header(&*self.log, &self.format);
            state.unpersisted.push(span);
        }
        let position = self.format.position(number, 0);
        // The window opens what nobody has written yet, and nothing below.
        let first = u64::from(state.space.state(number).end) * UNIT_SIZE;
        let (offset, size) = (position + first, self.format.segment_size - first);
        let Ok(rkey) =
            self.port
                .device()
                .bind_window(qp, self.log_region, offset, size, Access::REMOTE_WRITE)
        else {
            state
                .unpersisted
                .extend(state.space.give_back(number, &*self.log));
            return refuse(Verdict::Busy);
        };
        state.cleaner.note_given();
        self.lease_wanted.set(false);
        if publishes {
            state.space.lend(number);
        }
        let session = state
            .sessions
            .get_mut(&qp)
            .expect("it is there since the start of this");
        let segment = state.space.state(number);
        let now = self.runtime.now();
        session.leases[slot] = Some(Lease {
            segment: number,
            publishes,
            rkey,
            since: now,
            seen: (segment.end, now),
        });
        Answer::Lease(Grant {
            slot: slot as u8,
            segment: number,
            generation: segment.generation,
            start: segment.end,
            last: segment.last,
            durable: segment.durable,
            rkey: rkey.0,
        })
    }

    /// What to say of a record that breaks the rules, written to `slot`. A lease that was taken back because it was not used
    /// for long, by this machine's clock, is no fault of the client: its clock may say otherwise.
    pub(super) fn verdict_on_stray(&self, qp: QueuePair, slot: u8) -> Verdict {
        let state = self.state.borrow();
        let reclaimed = state
            .sessions
            .get(&qp)
            .and_then(|session| session.reclaimed.get(usize::from(slot)).copied());
        if reclaimed == Some(true) {
            Verdict::Busy
        } else {
            Verdict::Invalid
        }
    }

    /// Ends a lease that the client gives back.
    pub(super) fn release(&self, qp: QueuePair, slot: u8) {
        let lease = {
            let state = &mut *self.state.borrow_mut();
            let session = state.sessions.get_mut(&qp);
            session.and_then(|session| {
                *session.reclaimed.get_mut(usize::from(slot))? = false;
                session.leases[usize::from(slot)].take()
            })
        };
        if let Some(lease) = lease {
            self.retire(Retired {
                leases: vec![lease],
                ..Retired::default()
            });
        }
    }

    /// Queues an answer behind the earlier ones of this client.
    pub(super) fn answer(&self, qp: QueuePair, answer: &Answer) {
        let state = &mut *self.state.borrow_mut();
        let Some(session) = state.sessions.get_mut(&qp) else {
            return;
        };
        if !session.writer.push(answer) {
            self.send_answers(qp, session);
            assert!(
                session.writer.push(answer),
                "an empty message takes any answer"
            );
        }
    }

    /// Sends what is queued for every client.
    pub(super) fn send_answers_of_all(&self) {
        let state = &mut *self.state.borrow_mut();
        state
            .sessions
            .iter_mut()
            .for_each(|(&qp, session)| self.send_answers(qp, session));
    }

    /// Clients that do not take their answers.
    pub(super) fn stuck_clients(&self) -> Vec<QueuePair> {
        let state = self.state.borrow();
        state
            .sessions
            .iter()
            .filter(|(_, session)| session.stuck)
            .map(|(&qp, _)| qp)
            .collect()
    }

    fn send_answers(&self, qp: QueuePair, session: &mut Session) {
        if session.writer.bytes().is_empty() {
            return;
        }
        // A slot is used again after IN_FLIGHT_MAX further messages. Each answers an operation that the client sent after
        // it had received the answers before, and it has at most IN_FLIGHT_MAX without an answer, so by then it has the
        // message of this slot. A client that breaks the rule harms only its own answers.
        let slot = |number: u64| number % IN_FLIGHT_MAX as u64;
        let short = |number: u64| slot(number) * LINE_SIZE as u64;
        let offset = match session.writer.bytes().len() {
            0..=LINE_SIZE => short(session.next_answer),
            _ => {
                (IN_FLIGHT_MAX * LINE_SIZE) as u64
                    + slot(session.next_answer) * ANSWER_SIZE_MAX as u64
            }
        };
        session.next_answer += 1;
        let device = self.port.device();
        let memory = device.memory(session.answers);
        memory.write(offset, session.writer.bytes());
        let local = LocalSpan {
            region: session.answers,
            offset,
            size: session.writer.bytes().len() as u32,
        };
        session.stuck |= self.port.post(qp, [Operation::Send { local }]).is_err();
        session.writer.clear();
        // Most answers are short, and the next one shall find its line here.
        memory.prefetch(short(session.next_answer), LINE_SIZE as u64);
    }
}

const _: () =
    assert!(STAGING_SIZE <= u32::MAX as u64 && STAGING_SIZE / (LINE_SIZE as u64) <= 1 << 24);
