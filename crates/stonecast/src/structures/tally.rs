//! Counts of the readers of a connection, which are told to the back-end.
//!
//! A reader uses no processor of the back-end, so the reader itself counts, and reports about once a second.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Runtime;
use stonecast_structures::{BackEnd, ReaderCounts};

/// The time between two reports.
const PERIOD_NS: Nanoseconds = 1_000_000_000;
/// Answers between two looks at the clock.
const LOOK: u64 = 256;

/// The counts of a connection.
pub(super) struct Tally {
    back_end: Rc<BackEnd>,
    runtime: Rc<dyn Runtime>,
    /// Answers since the last report.
    answers: Cell<u64>,
    /// Retries that were reported.
    retries: Cell<u64>,
    told_at: Cell<Nanoseconds>,
    /// Snapshots that are open, by the moment at which they were taken.
    snapshots: RefCell<BTreeMap<Nanoseconds, u32>>,
}

impl Tally {
    pub fn new(back_end: &Rc<BackEnd>, runtime: &Rc<dyn Runtime>) -> Rc<Self> {
        Rc::new(Self {
            back_end: back_end.clone(),
            told_at: Cell::new(runtime.now()),
            runtime: runtime.clone(),
            answers: Cell::default(),
            retries: Cell::default(),
            snapshots: RefCell::default(),
        })
    }

    /// The clock of the connection.
    pub fn clock(&self) -> &Rc<dyn Runtime> {
        &self.runtime
    }

    /// Counts an answer of a reader.
    pub fn note_answer(&self) {
        let answers = self.answers.get() + 1;
        self.answers.set(answers);
        let has_retried = self.back_end.retries() != self.retries.get();
        if answers.is_multiple_of(LOOK) || has_retried {
            let now = self.runtime.now();
            if now.saturating_sub(self.told_at.get()) >= PERIOD_NS {
                self.tell();
            }
        }
    }

    /// A snapshot that is taken now, for as long as the result lives.
    pub fn open_snapshot(self: &Rc<Self>) -> Rc<OpenSnapshot> {
        let taken_at = self.runtime.now();
        *self.snapshots.borrow_mut().entry(taken_at).or_default() += 1;
        self.tell();
        Rc::new(OpenSnapshot {
            tally: self.clone(),
            taken_at,
        })
    }

    /// Tells the back-end everything that was counted since the last report.
    pub fn tell(&self) {
        let (now, retries) = (self.runtime.now(), self.back_end.retries());
        let oldest = self.snapshots.borrow().keys().next().copied();
        // An age of 0 stands for no snapshot.
        let age = oldest.map_or(0, |taken_at| now.saturating_sub(taken_at).max(1));
        let is_told = self.back_end.tell_counts(ReaderCounts {
            answers: self.answers.get(),
            retries: retries - self.retries.get(),
            snapshot_age_ns: age,
        });
        if is_told {
            self.answers.set(0);
            self.retries.set(retries);
        }
        // A back-end without room for the message is not asked with each answer.
        self.told_at.set(now);
    }
}

/// A snapshot that is being read.
pub(super) struct OpenSnapshot {
    tally: Rc<Tally>,
    taken_at: Nanoseconds,
}

impl Drop for OpenSnapshot {
    fn drop(&mut self) {
        let mut snapshots = self.tally.snapshots.borrow_mut();
        let open = snapshots.get_mut(&self.taken_at);
        let open = open.expect("an open snapshot is counted");
        *open -= 1;
        if *open == 0 {
            snapshots.remove(&self.taken_at);
        }
        drop(snapshots);
        self.tally.tell();
    }
}
