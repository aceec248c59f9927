//! What a client counts of itself, and tells the server: see [`crate::metrics`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_base::Nanoseconds;

use super::{Client, Inner};
use crate::error::StoreError;
use crate::metrics::{Report, SAMPLE};
use crate::wire::{Answer, Request, Verdict};

/// At least so long between two reports, except the last: each wakes the server, which then looks for more for a while.
const REPORT_EVERY_NS: Nanoseconds = 1_000_000_000;

/// See the module documentation.
#[derive(Default)]
pub(super) struct Meter {
    /// Calls that were begun.
    calls: Cell<u32>,
    /// Of those, how many had begun at the last report.
    calls_reported: Cell<u32>,
    reads: Cell<u64>,
    read_bytes: Cell<u64>,
    round_trips: Cell<u64>,
    /// Of the counts of remembered places, what was reported.
    locations_reported: Cell<(u64, u64)>,
    /// Times alone; the counts are above, where adding is cheaper.
    times: RefCell<Report>,
    reported_at: Cell<Nanoseconds>,
    is_reporting: Cell<bool>,
}

/// What a call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Read so many keys.
    Read(usize),
    /// Wrote one.
    Write,
}

impl Meter {
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

    /// What there is to report; nothing is left. `locations`: keys that were read by their remembered places, and others.
    fn take(&self, locations: (u64, u64)) -> Report {
        self.calls_reported.set(self.calls.get());
        let reported = self.locations_reported.replace(locations);
        Report {
            location_hits: locations.0 - reported.0,
            location_misses: locations.1 - reported.1,
            reads: self.reads.take(),
            read_bytes: self.read_bytes.take(),
            round_trips: self.round_trips.take(),
            ..self.times.take()
        }
    }
}

impl Inner {
    /// Begins a call. Some are timed: those have their start.
    #[inline]
    pub(super) fn begin_call(&self) -> Option<Nanoseconds> {
        let calls = self.meter.calls.get().wrapping_add(1);
        self.meter.calls.set(calls);
        calls.is_multiple_of(SAMPLE).then(|| self.runtime.now())
    }

    /// Ends a call.
    #[inline]
    pub(super) fn end_call(self: &Rc<Self>, call: Call, start: Option<Nanoseconds>) {
        if let Call::Read(keys) = call {
            self.meter.reads.set(self.meter.reads.get() + keys as u64);
        }
        if let Some(start) = start {
            self.note_time(call, start);
        }
    }

    #[cold]
    fn note_time(self: &Rc<Self>, call: Call, start: Nanoseconds) {
        let now = self.runtime.now();
        let mut times = self.meter.times.borrow_mut();
        let latencies = if call == Call::Write {
            &mut times.write_latencies
        } else {
            &mut times.read_latencies
        };
        latencies.note(now.saturating_sub(start));
        drop(times);
        if now.saturating_sub(self.meter.reported_at.get()) >= REPORT_EVERY_NS
            && !self.meter.is_reporting.replace(true)
        {
            let inner = self.clone();
            self.runtime.spawn(Box::pin(async move {
                // Where the server is gone nobody wants to know.
                let _ = inner.report().await;
                inner.meter.is_reporting.set(false);
            }));
        }
    }

    /// Tells the server what was done since the last time, if anything was.
    pub(super) async fn report(&self) -> Result<(), StoreError> {
        if self.meter.calls.get() == self.meter.calls_reported.get() {
            return Ok(());
        }
        self.meter.reported_at.set(self.runtime.now());
        let bytes = self.meter.take(self.locations.counts()).encode();
        match self.request(Request::Report(&bytes)).await? {
            Answer::Verdict {
                verdict: Verdict::Done,
                ..
            } => Ok(()),
            _ => Err(StoreError::Protocol {
                what: "the server does not take a client's report",
            }),
        }
    }
}

impl Client {
    /// Keys that this client has read by their remembered places, in one round trip, and keys that it has read otherwise.
    pub fn location_counts(&self) -> (u64, u64) {
        self.inner.locations.counts()
    }

    /// Tells the server what this client has done since it did so last. It does so by itself while it is busy, and when it
    /// is closed; this is for clients that pause.
    pub async fn report(&self) -> Result<(), StoreError> {
        self.inner.report().await
    }
}
