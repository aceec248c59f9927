//! Readers that look at a primary's memory under leases, without asking the primary.
//!
//! A reader renews its lease beside its reads. A read is slow, so leases end, nodes die and leads move during the read.
//! A read that counts has found the writes of the term of the lease that covers the read.

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_cluster::{BegunRead, NodeName, ReaderLease, Subject, Term, Timing};
use stonecast_fabric_sim::Process;

use crate::scene::{MS, Scene};

/// Longest delay of a request, and of its answer.
const DELAY_NS: Nanoseconds = 2 * MS;
/// Longest delay of a READ, and of its bytes.
const READ_NS: Nanoseconds = 30 * MS;

/// The progress of a reader with its lease.
enum Stage {
    /// The reader asks at this time.
    Rests(Nanoseconds),
    /// The reader has asked: the time by its own clock, and the arrival of the request.
    Asked(Nanoseconds, Nanoseconds),
    /// The offer arrives at this time.
    Offered(Nanoseconds, ReaderLease),
}

/// A read on its way.
struct Read {
    begun: BegunRead,
    node: NodeName,
    progress: Progress,
}

enum Progress {
    /// The READ arrives at this time.
    Sent(Nanoseconds),
    /// The READ found memory of a term; its bytes arrive at this time.
    Found(Term, Nanoseconds),
}

/// A reader that looks at a primary's memory under leases.
pub struct Reader {
    process: Process,
    clock: Timing,
    random: Random,
    subject: Option<Subject>,
    stage: Stage,
    lease: Option<ReaderLease>,
    read: Option<Read>,
    /// Number of reads that counted.
    pub counted: u64,
}

impl Reader {
    /// A reader with the clock of `process`, which `clock` declares.
    pub fn new(process: Process, clock: Timing, seed: u64) -> Self {
        Self {
            process,
            clock,
            random: random_from_seed(seed),
            subject: None,
            stage: Stage::Rests(0),
            lease: None,
            read: None,
            counted: 0,
        }
    }

    /// Returns the node and the term that the reader trusts at this moment, by its own clock.
    pub fn trusts(&self, subject: &Subject) -> Option<(&NodeName, Term)> {
        let lease = self.lease.as_ref()?;
        let now = self.process.runtime().now();
        let trusts = self.subject.as_ref() == Some(subject) && lease.holds(now);
        trusts.then(|| (lease.node(), lease.term()))
    }

    /// Continues the lease and the read. Each reader has one group, and asks the node that leads it.
    pub fn step(&mut self, scene: &Scene, subjects: &[Subject]) {
        let choice = self.random.random_range(0..subjects.len());
        let subject = self.subject.get_or_insert_with(|| subjects[choice].clone());
        let subject = subject.clone();
        self.renew(scene, &subject);
        self.read(scene, &subject);
    }

    /// Asks for a lease, gets an offer, or takes the lease, at its due time.
    fn renew(&mut self, scene: &Scene, subject: &Subject) {
        let time = scene.world.now();
        let own = self.process.runtime().now();
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

    /// Begins a read, looks at memory, or judges the bytes, at its due time.
    fn read(&mut self, scene: &Scene, subject: &Subject) {
        let time = scene.world.now();
        let Some(lease) = &self.lease else { return };
        let Some(read) = &mut self.read else {
            self.read = Some(Read {
                begun: lease.begin(),
                node: lease.node().clone(),
                progress: Progress::Sent(time + self.random.random_range(0..READ_NS)),
            });
            return;
        };
        match read.progress {
            Progress::Sent(at) if at <= time => match scene.term_in_memory(&read.node, subject) {
                Some(term) => {
                    let arrives = time + self.random.random_range(0..READ_NS);
                    read.progress = Progress::Found(term, arrives);
                }
                // The process has gone, so the connection broke.
                None => self.read = None,
            },
            Progress::Found(found, at) if at <= time => {
                if lease.covers(read.begun, self.process.runtime().now()) {
                    assert_eq!(
                        found,
                        lease.term(),
                        "at {time} a read of {subject} on {} counts, and found another term",
                        read.node
                    );
                    self.counted += 1;
                }
                self.read = None;
            }
            _ => {}
        }
    }
}
