//! Arrivals, segments that come back from the device, and the search for entries.

use std::collections::BTreeMap;
use std::task::Waker;

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::{ConnectionEvent, Received};
use stonecast_log::{Arrival, Bounds, UNIT_SIZE};
use stonecast_persist::execute::AppendReceiver;

use super::error::EndCause;
use super::room::Room;
use super::space::Space;
use super::streams::{Found, Noted, Streams};
use super::{Intake, Session};
use crate::entries::Entries;

impl Intake {
    /// Takes arrivals, which only a device without packing reports, events of sessions, and buffers that have come
    /// back.
    pub(super) fn take_arrivals(&mut self) {
        while let Some(arrival) = self.arrivals.inbox.take_received() {
            self.note_arrival(&arrival);
            self.searching.awaited = Some(self.space.buffers().begin_search());
        }
        while let Some(event) = self.arrivals.inbox.take_event() {
            self.note_event(&event);
        }
        for number in self.room.take_consumed() {
            self.space.buffers().consumed(number);
        }
    }

    fn note_arrival(&mut self, arrival: &Received) {
        if !self.room.note_arrival(arrival) {
            return;
        }
        let mut sessions = self.sessions.values_mut();
        if let Some(session) = sessions.find(|session| session.qp == arrival.qp) {
            session.arrivals += 1;
        }
    }

    fn note_event(&mut self, event: &ConnectionEvent) {
        let (qp, ended) = match event {
            ConnectionEvent::Established { qp, .. } => (*qp, None),
            ConnectionEvent::Disconnected { qp, cause } => {
                (*qp, Some(EndCause::Disconnected(*cause)))
            }
            ConnectionEvent::Rejected { qp, reason, .. } => {
                (*qp, Some(EndCause::Notice(reason.clone())))
            }
            ConnectionEvent::Request { .. } => unreachable!("of no queue pair"),
        };
        let mut sessions = self.sessions.values_mut();
        let Some(session) = sessions.find(|session| session.qp == qp) else {
            return;
        };
        match ended {
            Some(cause) => session.end(cause),
            None => self.terms.begin(&self.port, session),
        }
    }

    /// Looks where messages have arrived, as far as the device names them, and takes a step of the search if entries
    /// may lie elsewhere. A step follows at once if a caller waits for its result, and otherwise not within a moment of
    /// the last step. The next message wakes `waiter`.
    pub(super) fn search_if_due(&mut self, now: Nanoseconds, waiter: Option<&Waker>) {
        self.look_at_messages(waiter);
        let is_awaited = self.is_search_awaited();
        let is_needed = is_awaited || !self.room.names_all() || self.space.buffers().are_closing();
        let is_due = is_awaited || self.terms.answers || now >= self.searching.pause_until;
        if is_needed && is_due {
            self.searching.pause_until = now + self.terms.pace.pause_ns;
            self.search(is_awaited);
        }
    }

    fn look_at_messages(&mut self, waiter: Option<&Waker>) {
        let messages = self.room.take_appended(waiter);
        if messages.is_empty() {
            return;
        }
        let (space, mut finds) = self.finds();
        space.look_at(&messages, &mut |entries, arrival| {
            finds.take(entries, arrival)
        });
        let newest = finds.newest;
        self.bound(newest);
    }

    /// One bounded step of the search in each segment.
    fn search(&mut self, is_awaited: bool) {
        let bounds = self.bounds(is_awaited);
        let (space, mut finds) = self.finds();
        let settled = space.search(bounds, &mut |entries, arrival| finds.take(entries, arrival));
        let newest = finds.newest;
        for consumption in &settled {
            self.room.settle(&self.space.medium().format, consumption);
        }
        self.bound(newest);
    }

    fn bound(&mut self, newest: Option<(u64, u32)>) {
        if let Some((connection, number)) = newest {
            let open = self.space.open_units_up_to(number);
            self.room.bound(connection, open);
        }
    }

    /// Whether a caller waits for the end of a search.
    fn is_search_awaited(&self) -> bool {
        let mut sessions = self.sessions.values();
        let ends = sessions.any(Session::is_ending);
        ends || self.searching.awaited.is_some() || !self.is_left_searched()
    }

    /// The bounds of the next step. All units of places without an entry are examined only while a caller waits.
    fn bounds(&self, is_awaited: bool) -> Bounds {
        let units = self.terms.pace.units;
        Bounds {
            units,
            open: if is_awaited {
                units
            } else {
                self.terms.pace.open_units
            },
            under_way: self.under_way(),
        }
    }

    /// The parts of the intake that take the entries that a search of the space finds.
    fn finds(&mut self) -> (&mut Space, Finds<'_>) {
        let segment_size = self.space.medium().format.segment_size;
        let finds = Finds {
            streams: &mut self.streams,
            room: &mut self.room,
            receiver: &mut self.receiver,
            sessions: &mut self.sessions,
            found: &mut self.outbox.found,
            segment_size,
            newest: None,
        };
        (&mut self.space, finds)
    }

    /// The units after the last entry found in which something may have arrived. The units stand for all credits
    /// that any session may have used.
    fn under_way(&self) -> u32 {
        let held = self.sessions.values().map(|session| session.window.held());
        let credits = held.sum::<u64>() + self.room.lost();
        let units = credits * u64::from(self.room.terms().grain) / UNIT_SIZE;
        u32::try_from(units).unwrap_or(u32::MAX)
    }

    /// Charges sessions for entries that waited after a gap and will not be handed on.
    pub(super) fn charge_dropped(&mut self, dropped: &[Found]) {
        let terms = self.room.terms();
        for found in dropped {
            let cost = terms.cost(found.place.size as u32);
            charge(&mut self.sessions, found, cost);
        }
    }

    /// Charges a session that is over for its entries that wait after a gap.
    pub(super) fn charge_waiting(
        streams: &Streams,
        session: &mut Session,
        cost: impl Fn(u32) -> u64,
    ) {
        for size in streams.waiting(session.connection) {
            session.window.use_up(cost(size as u32));
        }
    }
}

/// Takes the entries that a search finds.
struct Finds<'i> {
    streams: &'i mut Streams,
    room: &'i mut Room,
    receiver: &'i mut AppendReceiver,
    sessions: &'i mut BTreeMap<u64, Session>,
    found: &'i mut Vec<Found>,
    segment_size: u64,
    /// The latest connection that an entry was found of, and the segment of that entry.
    newest: Option<(u64, u32)>,
}

impl Finds<'_> {
    fn take(&mut self, entries: &Entries, arrival: &Arrival<'_>) {
        let header = entries.header(arrival.bytes);
        let header = header.expect("the scan judged the same copy");
        let entry = header.entry;
        let place = Span::new(arrival.position, arrival.facts.size.into());
        let number = (arrival.position / self.segment_size) as u32;
        // No session of this run pays for entries that an earlier run left.
        let peer = self
            .streams
            .peer_of(&entry)
            .filter(|_| self.room.holds(number));
        let mut sessions = self.sessions.values_mut();
        let session = peer.and_then(|peer| sessions.find(|session| session.peer == *peer));
        let sender = session
            .as_ref()
            .filter(|_| self.streams.is_open(&entry))
            .map(|session| (session.peer.clone(), session.connection));
        if let Some(session) = &session {
            if self
                .newest
                .is_none_or(|(newest, _)| session.connection > newest)
            {
                self.newest = Some((session.connection, number));
            }
            self.room.explain(number, arrival.facts.size);
        }
        let found = Found {
            entry,
            piece: header.piece,
            place,
            sender,
        };
        let first = self.found.len();
        let noted = self.streams.note(found, self.found);
        // The session of a new entry pays when the entry is handed on.
        let terms = self.room.terms();
        if let (Noted::Again | Noted::Stray, Some(session)) = (noted, session) {
            session.window.use_up(terms.cost(arrival.facts.size));
        }
        for found in &self.found[first..] {
            self.receiver.take(&[found.place]);
            charge(self.sessions, found, terms.cost(found.place.size as u32));
        }
    }
}

/// Charges the session that brought an entry, if it has not ended.
fn charge(sessions: &mut BTreeMap<u64, Session>, found: &Found, cost: u64) {
    let connection = found.sender.as_ref().map(|&(_, connection)| connection);
    if let Some(session) = connection.and_then(|connection| sessions.get_mut(&connection)) {
        session.window.use_up(cost);
    }
}
