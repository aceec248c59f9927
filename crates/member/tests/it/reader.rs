//! Readers, who look at a primary's memory without asking it, under leases.

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_cluster::{NodeName, ReaderLease, Subject, Term, Timing};
use stonecast_fabric_sim::Process;

use crate::scene::{MS, Scene};

/// Longest way of a request, and of its answer.
const DELAY_NS: Nanoseconds = 2 * MS;

/// How far a reader is.
enum Stage {
    /// It asks at that time.
    Rests(Nanoseconds),
    /// It has asked; when it did by its clock, and when the request arrives.
    Asked(Nanoseconds, Nanoseconds),
    /// The offer arrives at that time.
    Offered(Nanoseconds, ReaderLease),
}

/// See the module documentation.
pub struct Reader {
    process: Process,
    clock: Timing,
    random: Random,
    subject: Option<Subject>,
    stage: Stage,
    lease: Option<ReaderLease>,
}

impl Reader {
    /// A reader with the clock of `process`, which is declared to be as `clock` says.
    pub fn new(process: Process, clock: Timing, seed: u64) -> Self {
        Self {
            process,
            clock,
            random: random_from_seed(seed),
            subject: None,
            stage: Stage::Rests(0),
            lease: None,
        }
    }

    /// Whom the reader trusts at this moment, by its own clock.
    pub fn trusts(&self, subject: &Subject) -> Option<(&NodeName, Term)> {
        let lease = self.lease.as_ref()?;
        let now = self.process.runtime().now();
        let trusts = self.subject.as_ref() == Some(subject) && lease.holds(now);
        trusts.then(|| (lease.node(), lease.term()))
    }

    /// Asks, is offered a lease, or hears of it, when it is time. Each reader asks for one group, of whoever leads it.
    pub fn step(&mut self, scene: &Scene, subjects: &[Subject]) {
        let time = scene.world.now();
        let own = self.process.runtime().now();
        let choice = self.random.random_range(0..subjects.len());
        let subject = self.subject.get_or_insert_with(|| subjects[choice].clone());
        match &self.stage {
            Stage::Rests(until) if *until <= time => {
                let arrives = time + self.random.random_range(0..DELAY_NS);
                self.stage = Stage::Asked(own, arrives);
            }
            Stage::Asked(sent_at, arrives) if *arrives <= time => {
                let offer = (0..scene.places.len()).find_map(|index| {
                    let member = scene.awake(index)?;
                    let (term, offer) = member.offer(subject)?;
                    let node = member.name().clone();
                    Some(ReaderLease::new(node, term, offer, *sent_at, self.clock))
                });
                self.stage = match offer {
                    Some(lease) => {
                        let heard = time + self.random.random_range(0..DELAY_NS);
                        Stage::Offered(heard, lease)
                    }
                    None => Stage::Rests(time + MS),
                };
            }
            Stage::Offered(at, lease) if *at <= time => {
                self.lease = Some(lease.clone());
                self.stage = Stage::Rests(time + MS);
            }
            _ => {}
        }
    }
}
