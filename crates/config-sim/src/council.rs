//! The agreement of the seats of a service.
//!
//! ```text
//!   compare-and-set --> undecided --(after the time of a round between the seats)--> decided by the seat that leads
//!                           '------(the service fails over before)--> decided without an answer, or lost
//! ```

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_cluster::{Revision, Stored};

use crate::faults::ServiceFaults;
use crate::wire::Answer;

/// The number of a seat.
pub(crate) type SeatNumber = usize;

/// The agreement of the seats of a service.
pub(crate) struct Council {
    stored: RefCell<Option<Stored>>,
    leader: Cell<Option<SeatNumber>>,
    /// Compare-and-sets that a leading seat took and that are undecided, in the order of their taking.
    undecided: RefCell<BTreeMap<u64, Proposal>>,
    taken: Cell<u64>,
    /// Wakers of all tasks that wait for another value or another leader.
    waiting: RefCell<Vec<Waker>>,
    faults: Cell<ServiceFaults>,
    random: RefCell<Random>,
}

/// A compare-and-set.
struct Proposal {
    expected: Option<Revision>,
    bytes: Vec<u8>,
}

/// The name of an undecided compare-and-set.
pub(crate) struct Taken(u64);

impl Council {
    /// Nothing is stored, and the first seat leads.
    pub fn new(seed: u64) -> Self {
        Self {
            stored: RefCell::default(),
            leader: Cell::new(Some(0)),
            undecided: RefCell::default(),
            taken: Cell::new(0),
            waiting: RefCell::default(),
            faults: Cell::default(),
            random: RefCell::new(random_from_seed(seed)),
        }
    }

    pub fn set_faults(&self, faults: ServiceFaults) {
        self.faults.set(faults);
    }

    pub fn leader(&self) -> Option<SeatNumber> {
        self.leader.get()
    }

    pub fn leads(&self, seat: SeatNumber) -> bool {
        self.leader.get() == Some(seat)
    }

    pub fn value(&self) -> Option<Stored> {
        self.stored.borrow().clone()
    }

    fn revision(&self) -> Option<Revision> {
        self.stored.borrow().as_ref().map(|stored| stored.revision)
    }

    /// Takes a compare-and-set for a leading seat. The compare-and-set is undecided.
    pub fn take(&self, expected: Option<Revision>, bytes: Vec<u8>) -> Taken {
        let number = self.taken.get();
        self.taken.set(number + 1);
        let proposal = Proposal { expected, bytes };
        self.undecided.borrow_mut().insert(number, proposal);
        Taken(number)
    }

    /// Decides a compare-and-set for `seat`; `None` if a failover came before.
    pub fn decide(&self, seat: SeatNumber, taken: &Taken) -> Option<Answer> {
        if !self.leads(seat) {
            return None;
        }
        let proposal = self.undecided.borrow_mut().remove(&taken.0)?;
        Some(self.apply(proposal))
    }

    fn apply(&self, proposal: Proposal) -> Answer {
        let present = self.revision();
        if present != proposal.expected {
            return Answer::Conflict;
        }
        let revision = Revision(present.map_or(1, |revision| revision.0 + 1));
        *self.stored.borrow_mut() = Some(Stored {
            revision,
            bytes: proposal.bytes,
        });
        self.wake();
        Answer::Done(revision)
    }

    /// Deposes the leader. Returns whether a compare-and-set was undecided.
    pub fn depose(&self) -> bool {
        self.leader.set(None);
        self.wake();
        !self.undecided.borrow().is_empty()
    }

    /// Makes `seat` the leader. The seed decides which undecided compare-and-sets have reached that seat.
    pub fn elect(&self, seat: SeatNumber) {
        for (_, proposal) in self.undecided.take() {
            if self.random.borrow_mut().random() {
                self.apply(proposal);
            }
        }
        self.leader.set(Some(seat));
    }

    /// Waits until there is a value later than `since`, or `seat` does not lead.
    pub async fn later_than(&self, seat: SeatNumber, since: Option<Revision>) -> Answer {
        poll_fn(|context| {
            if !self.leads(seat) {
                return Poll::Ready(Answer::NotLeading);
            }
            if self.revision() > since {
                return Poll::Ready(Answer::Value(self.value()));
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn wake(&self) {
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Delay of the decision on the next compare-and-set.
    pub fn swap_delay(&self) -> Nanoseconds {
        let faults = self.faults.get();
        self.delay(faults.swap_late_per_million)
    }

    /// Delay of the next answer; `None` if it is never sent.
    pub fn answer_delay(&self) -> Option<Nanoseconds> {
        let faults = self.faults.get();
        if self.strikes(faults.answer_lost_per_million) {
            return None;
        }
        Some(self.delay(faults.answer_late_per_million))
    }

    /// Length of the next failover.
    pub fn election(&self, shortest: Nanoseconds) -> Nanoseconds {
        let longest = self.faults.get().election_ns_max;
        let shortest = shortest.max(longest / 10);
        self.random
            .borrow_mut()
            .random_range(shortest..=longest.max(shortest))
    }

    fn delay(&self, rate: u64) -> Nanoseconds {
        if !self.strikes(rate) {
            return 0;
        }
        let longest = self.faults.get().late_ns_max;
        self.random.borrow_mut().random_range(0..=longest)
    }

    fn strikes(&self, rate: u64) -> bool {
        rate > 0 && self.random.borrow_mut().random_range(0..1_000_000) < rate
    }
}
