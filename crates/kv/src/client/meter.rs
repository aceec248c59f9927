//! The counters of a client, which the client reports to the server: see [`crate::metrics`].

use std::cell::{Cell, RefCell};

use stonecast_base::Nanoseconds;

use crate::metrics::{Report, SAMPLE};

/// Least time between two reports, except before the last. Each report wakes the server, which then polls for a while.
const REPORT_EVERY_NS: Nanoseconds = 1_000_000_000;

/// The counters of a client.
#[derive(Default)]
pub(super) struct Meter {
    /// Calls that were begun.
    calls: Cell<u32>,
    /// Calls that had begun at the last report.
    calls_reported: Cell<u32>,
    reads: Cell<u64>,
    read_bytes: Cell<u64>,
    round_trips: Cell<u64>,
    /// Keys that were read by their remembered places, and others.
    location_hits: Cell<u64>,
    location_misses: Cell<u64>,
    /// The reported part of those two.
    locations_reported: Cell<(u64, u64)>,
    /// Only times; the counts are fields of their own, where an addition is cheaper.
    times: RefCell<Report>,
    reported_at: Cell<Nanoseconds>,
    is_reporting: Cell<bool>,
}

/// The work of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimedCall {
    /// Read this number of keys.
    Read(usize),
    /// Wrote one key.
    Write,
}

impl Meter {
    /// Notes that a call begins. Returns whether the call is to be timed.
    #[inline]
    pub fn begin_call(&self) -> bool {
        let calls = self.calls.get().wrapping_add(1);
        self.calls.set(calls);
        calls.is_multiple_of(SAMPLE)
    }

    /// Notes that a call has ended.
    #[inline]
    pub fn end_call(&self, call: TimedCall) {
        if let TimedCall::Read(keys) = call {
            self.reads.set(self.reads.get() + keys as u64);
        }
    }

    /// Notes READs that were sent with one doorbell.
    #[inline]
    pub fn note_reads(&self, bytes: usize) {
        self.read_bytes.set(self.read_bytes.get() + bytes as u64);
        self.note_round_trip();
    }

    /// Notes a request that is answered.
    #[inline]
    pub fn note_round_trip(&self) {
        self.round_trips.set(self.round_trips.get() + 1);
    }

    /// Notes a key that was read, and whether by its remembered place.
    #[inline]
    pub fn note_location(&self, hit: bool) {
        let counter = if hit {
            &self.location_hits
        } else {
            &self.location_misses
        };
        counter.set(counter.get() + 1);
    }

    /// Keys that were read by their remembered places, and others, since the client connected.
    pub fn location_counts(&self) -> (u64, u64) {
        (self.location_hits.get(), self.location_misses.get())
    }

    /// Notes the time of a call that was timed. Returns whether it is time for a report, which the caller makes and
    /// [ends](Meter::end_report).
    pub fn note_time(&self, call: TimedCall, start: Nanoseconds, now: Nanoseconds) -> bool {
        let mut times = self.times.borrow_mut();
        let latencies = if call == TimedCall::Write {
            &mut times.write_latencies
        } else {
            &mut times.read_latencies
        };
        latencies.note(now.saturating_sub(start));
        now.saturating_sub(self.reported_at.get()) >= REPORT_EVERY_NS
            && !self.is_reporting.replace(true)
    }

    /// Notes that the report was sent.
    pub fn end_report(&self) {
        self.is_reporting.set(false);
    }

    /// Takes everything that is to be reported. Returns `None` if no call has begun since the last report.
    pub fn take(&self, now: Nanoseconds) -> Option<Report> {
        let calls = self.calls.get();
        if calls == self.calls_reported.replace(calls) {
            return None;
        }
        self.reported_at.set(now);
        let locations = self.location_counts();
        let reported = self.locations_reported.replace(locations);
        Some(Report {
            location_hits: locations.0 - reported.0,
            location_misses: locations.1 - reported.1,
            reads: self.reads.take(),
            read_bytes: self.read_bytes.take(),
            round_trips: self.round_trips.take(),
            ..self.times.take()
        })
    }
}
