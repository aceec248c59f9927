//! Leases on clocks that drift, with late messages and nodes that stop, die and start again.
//!
//! Three nodes keep one group. Time advances in small steps. Each node has a clock of its own, and hears of
//! configurations and of leases late. After every step, the oracle judges two promises by the conclusion that each node
//! would draw from its own clock at that moment: no two terms have a primary with a lease, and no reader holds a lease
//! of one term while the primary of another term holds its lease.

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random};
use stonecast_cluster::{
    Asked, Configuration, Epoch, Grants, NodeName, Policy, PrimaryLease, ReaderLease, ReaderOffer,
    Subject, Term, Timing,
};

use crate::cluster::{name, random, start_of, three_nodes};

const STEP_NS: Nanoseconds = 100_000;
const STEPS: u64 = 20_000;
/// Longest delay of a message.
const DELAY_NS: Nanoseconds = 3_000_000;

/// The properties of a run.
#[derive(Clone, Copy)]
struct World {
    timing: Timing,
    /// The real drift of clocks, in millionths.
    drift_ppm: u32,
    /// The lease for which a copy waits after its start.
    forgotten: Timing,
    /// Whether readers wrongly count from the moment at which an offer arrives, and not from the sending of the
    /// request.
    counts_from_arrival: bool,
    /// Whether joiners are wrongly named as in sync before the primary's lease includes them.
    joins_without_a_grant: bool,
}

const DECLARED: Timing = Timing {
    duration_ns: 10_000_000,
    drift_ppm: 50_000,
    tick_ns: 250_000,
};

const AS_DECLARED: World = World {
    timing: DECLARED,
    drift_ppm: 50_000,
    forgotten: DECLARED,
    counts_from_arrival: false,
    joins_without_a_grant: false,
};

enum Message {
    Configuration(Configuration),
    Ask {
        from: usize,
        term: Term,
        asked: Asked,
    },
    Granted {
        term: Term,
        asked: Asked,
        held_ns: Nanoseconds,
    },
}

struct Clock {
    offset: Nanoseconds,
    rate_ppm: i64,
    tick_ns: Nanoseconds,
}

impl Clock {
    fn drawn(world: &World, random: &mut Random) -> Self {
        let drift = i64::from(world.drift_ppm);
        Self {
            offset: random.random_range(0..1_000_000_000),
            // The extremes are the cases that matter.
            rate_ppm: [-drift, 0, drift][random.random_range(0..3)],
            tick_ns: world.timing.tick_ns,
        }
    }

    fn at(&self, time: Nanoseconds) -> Nanoseconds {
        let run = i128::from(time) * i128::from(1_000_000 + self.rate_ppm) / 1_000_000;
        let exact = self.offset + run as u64;
        exact - exact % self.tick_ns.max(1)
    }
}

struct Node {
    name: NodeName,
    clock: Clock,
    configuration: Configuration,
    grants: Grants,
    lease: Option<(Term, PrimaryLease)>,
    paused_until: Nanoseconds,
    inbox: Vec<(Nanoseconds, Message)>,
}

struct Reader {
    clock: Clock,
    waits: Option<(Nanoseconds, Nanoseconds, NodeName, Term, ReaderOffer)>,
    lease: Option<ReaderLease>,
}

struct Run {
    world: World,
    random: Random,
    time: Nanoseconds,
    /// The configuration in the store.
    stored: Configuration,
    nodes: Vec<Node>,
    readers: Vec<Reader>,
    led_steps: u64,
    read_steps: u64,
}

/// The results of a run.
struct Seen {
    violation: Option<String>,
    changes: u64,
    led_share: f64,
    read_share: f64,
}

fn subject() -> Subject {
    Subject::BackEnd("orders".to_owned())
}

impl Run {
    fn new(world: World, seed: u64) -> Self {
        let mut random = random(seed);
        let policy = Policy {
            lease: world.timing,
            ..Policy::new(3, 0)
        };
        let mut stored = three_nodes(policy)
            .add_back_end("orders", &name("a"))
            .unwrap();
        for other in ["b", "c"] {
            stored = stored.begin_join(&subject(), &name(other)).unwrap();
            let joiner = (&name(other), stored.epoch);
            let led = (&name("a"), stored.groups[0].term);
            stored = stored.finish_join(&subject(), joiner, led).unwrap();
        }
        let nodes = stored.nodes.keys().cloned().map(|name| {
            let clock = Clock::drawn(&world, &mut random);
            let grants = Grants::new(world.forgotten, world.timing, stored.epoch, clock.at(0));
            let (configuration, lease) = (stored.clone(), None);
            Node {
                name,
                clock,
                configuration,
                grants,
                lease,
                paused_until: 0,
                inbox: Vec::new(),
            }
        });
        let nodes = nodes.collect();
        let reader = |random: &mut Random| Reader {
            clock: Clock::drawn(&world, random),
            waits: None,
            lease: None,
        };
        let readers = vec![reader(&mut random), reader(&mut random)];
        Self {
            world,
            random,
            time: 0,
            stored,
            nodes,
            readers,
            led_steps: 0,
            read_steps: 0,
        }
    }

    fn delay(&mut self) -> Nanoseconds {
        self.time + self.random.random_range(0..DELAY_NS)
    }

    fn send(&mut self, to: usize, message: Message) {
        // Some messages are lost.
        if self.random.random_range(0..20) > 0 {
            let at = self.delay();
            self.nodes[to].inbox.push((at, message));
        }
    }

    /// Sends a message from node `from`. A message of a node to itself arrives at once.
    fn send_from(&mut self, from: usize, to: usize, message: Message) {
        match from == to {
            true => self.take(to, message),
            false => self.send(to, message),
        }
    }

    /// Makes the compare-and-set of a node that knows epoch `known`.
    fn store(&mut self, known: Epoch, next: Configuration) -> bool {
        if self.stored.epoch != known {
            return false;
        }
        self.stored = next;
        true
    }

    fn step(&mut self) {
        self.time += STEP_NS;
        self.mishaps();
        for index in 0..self.nodes.len() {
            if self.nodes[index].paused_until <= self.time {
                self.hear(index);
                self.lead(index);
                self.stand(index);
            }
        }
        for index in 0..self.readers.len() {
            self.read(index);
        }
    }

    fn mishaps(&mut self) {
        let index = self.random.random_range(0..self.nodes.len());
        if self.random.random_range(0..300) == 0 {
            self.nodes[index].paused_until = self.time + self.random.random_range(0..40_000_000);
        }
        if self.random.random_range(0..600) == 0 {
            self.restart(index);
        }
        // A node that asks the store anew learns the stored configuration.
        if self.random.random_range(0..10) == 0 {
            let at = self.delay();
            let newest = Message::Configuration(self.stored.clone());
            self.nodes[index].inbox.push((at, newest));
        }
    }

    /// Lets a node die and start: the node has forgotten its grants, and takes a new term in each group that it leads.
    fn restart(&mut self, index: usize) {
        let node = &self.nodes[index];
        let next = self
            .stored
            .register(&node.name, &start_of(self.stored.nodes[&node.name].clone()))
            .unwrap();
        self.stored = next.clone();
        let (world, time) = (self.world, self.time);
        let node = &mut self.nodes[index];
        node.grants = Grants::new(
            world.forgotten,
            world.timing,
            next.epoch,
            node.clock.at(time),
        );
        node.configuration = next;
        node.lease = None;
        node.inbox.clear();
        node.paused_until = time;
    }

    fn hear(&mut self, index: usize) {
        let time = self.time;
        let inbox = std::mem::take(&mut self.nodes[index].inbox);
        let (now, later): (Vec<_>, Vec<_>) = inbox.into_iter().partition(|&(at, _)| at <= time);
        self.nodes[index].inbox = later;
        for (_, message) in now {
            self.take(index, message);
        }
    }

    fn take(&mut self, index: usize, message: Message) {
        let time = self.time;
        let node = &mut self.nodes[index];
        match message {
            Message::Configuration(newer) if newer.epoch > node.configuration.epoch => {
                node.grants.enter(newer.epoch, newer.policy.lease);
                let group = newer.group(&subject()).unwrap();
                // A lease goes on in later epochs of the same term.
                node.lease = node.lease.take().filter(|(term, _)| *term == group.term);
                if let Some((_, lease)) = &mut node.lease {
                    lease.enter(newer.epoch, group);
                    group
                        .joining
                        .keys()
                        .for_each(|joiner| lease.include(joiner.clone()));
                }
                node.configuration = newer;
            }
            Message::Configuration(_) => {}
            Message::Ask { from, term, asked } => {
                let holder = name(["a", "b", "c"][from]);
                let now = node.clock.at(time);
                if let Ok(held_ns) = node
                    .grants
                    .grant(&subject(), &holder, term, asked.epoch, now)
                {
                    self.send_from(
                        index,
                        from,
                        Message::Granted {
                            term,
                            asked,
                            held_ns,
                        },
                    );
                }
            }
            Message::Granted {
                term,
                asked,
                held_ns,
            } => {
                if let Some((own, lease)) = node.lease.as_mut().filter(|(own, _)| *own == term) {
                    assert_eq!(*own, term);
                    lease.granted(&asked, held_ns);
                }
            }
        }
    }

    /// Lets a primary ask the copies whose grants run out, joiners included, and name a joiner that has granted the
    /// lease.
    fn lead(&mut self, index: usize) {
        let (time, half) = (self.time, self.world.timing.duration_ns / 2);
        let node = &mut self.nodes[index];
        let group = node.configuration.group(&subject()).unwrap();
        if group.primary != node.name {
            return;
        }
        let term = group.term;
        let epoch = node.configuration.epoch;
        let (_, lease) = node
            .lease
            .get_or_insert_with(|| (term, PrimaryLease::new(epoch, group.copies().cloned())));
        let now = node.clock.at(time);
        let asked: Vec<_> = lease
            .due(now + half)
            .filter_map(|copy| lease.ask(copy, now))
            .collect();
        let joiner = group.joining.iter().next();
        if let Some((joiner, &join)) = joiner.filter(|_| lease.holds(now)) {
            let next =
                node.configuration
                    .finish_join(&subject(), (joiner, join), (&node.name, term));
            return self.change(index, epoch, next.unwrap());
        }
        if !(time / STEP_NS).is_multiple_of(2) {
            return;
        }
        for asked in asked {
            let to = ["a", "b", "c"]
                .iter()
                .position(|text| asked.copy == name(text))
                .unwrap();
            self.send_from(
                index,
                to,
                Message::Ask {
                    from: index,
                    term,
                    asked,
                },
            );
        }
    }

    /// Lets a copy whose grants are over depose the primary, or remove it. A node without a copy joins.
    fn stand(&mut self, index: usize) {
        let node = &self.nodes[index];
        let present = &node.configuration;
        let group = present.group(&subject()).unwrap();
        let is_over = node.grants.over_at(&subject()) <= node.clock.at(self.time);
        if group.primary == node.name || self.random.random_range(0..10) > 0 {
            return;
        }
        let next = if !group.in_sync.contains(&node.name) {
            let Ok(joining) = present.begin_join(&subject(), &node.name) else {
                return;
            };
            match self.world.joins_without_a_grant {
                true => {
                    let joiner = (&node.name, joining.epoch);
                    joining.finish_join(&subject(), joiner, (&group.primary, group.term))
                }
                false => Ok(joining),
            }
        } else if !is_over {
            return;
        } else if self.random.random() {
            present.take_lead(&subject(), &node.name)
        } else {
            present.remove(&group.primary)
        };
        let (known, next) = (present.epoch, next.unwrap());
        self.change(index, known, next);
    }

    /// Lets node `index`, which knows epoch `known`, store `next`. If that succeeds, all nodes hear of `next`.
    fn change(&mut self, index: usize, known: Epoch, next: Configuration) {
        if self.store(known, next.clone()) {
            for other in 0..self.nodes.len() {
                self.send(other, Message::Configuration(next.clone()));
            }
            self.take(index, Message::Configuration(next));
        }
    }

    /// Lets a reader ask the node that it takes for the primary.
    fn read(&mut self, index: usize) {
        let time = self.time;
        let to = self.random.random_range(0..self.nodes.len());
        let asks = self.random.random_range(0..3) == 0;
        let answered_at = self.delay();
        let heard_at = answered_at + DELAY_NS / 2;
        let reader = &mut self.readers[index];
        if let Some((at, sent_at, node, term, offer)) =
            reader.waits.take_if(|waits| waits.0 <= time)
        {
            let counted_from = if self.world.counts_from_arrival {
                reader.clock.at(at)
            } else {
                sent_at
            };
            reader.lease = Some(ReaderLease::new(
                node,
                term,
                offer,
                counted_from,
                self.world.timing,
            ));
        }
        if reader.waits.is_none() && asks {
            let node = &self.nodes[to];
            let lease = node.lease.as_ref().filter(|_| node.paused_until <= time);
            // The request arrives in this step, and its answer comes later.
            let offer = lease.and_then(|(term, lease)| {
                Some((*term, lease.offer(self.world.timing, node.clock.at(time))?))
            });
            reader.waits = offer.map(|(term, offer)| {
                (
                    heard_at,
                    reader.clock.at(time),
                    node.name.clone(),
                    term,
                    offer,
                )
            });
        }
    }

    fn judge(&mut self) -> Option<String> {
        let time = self.time;
        let holders = self.nodes.iter().filter_map(|node| {
            let (term, lease) = node.lease.as_ref()?;
            lease.holds(node.clock.at(time)).then_some(*term)
        });
        let holders: Vec<_> = holders.collect();
        let readers = self.readers.iter().filter_map(|reader| {
            let lease = reader.lease.as_ref()?;
            lease.holds(reader.clock.at(time)).then_some(lease.term())
        });
        let readers: Vec<_> = readers.collect();
        self.led_steps += u64::from(!holders.is_empty());
        self.read_steps += u64::from(!readers.is_empty());
        if holders.len() > 1 {
            return Some(format!(
                "at {time} the terms {holders:?} have primaries with leases"
            ));
        }
        let other = readers
            .iter()
            .find(|term| holders.first().is_some_and(|holder| holder != *term));
        other.map(|term| {
            format!("at {time} a reader has a lease of term {term}, and {holders:?} leads")
        })
    }
}

fn run(world: World, seed: u64) -> Seen {
    let mut run = Run::new(world, seed);
    let began = run.stored.epoch;
    let mut violation = None;
    for _ in 0..STEPS {
        run.step();
        violation = run.judge();
        if violation.is_some() {
            break;
        }
    }
    Seen {
        violation,
        changes: run.stored.epoch.0 - began.0,
        led_share: run.led_steps as f64 / STEPS as f64,
        read_share: run.read_steps as f64 / STEPS as f64,
    }
}

/// Number of seeds in each world.
const SEEDS: u64 = 60;

#[test]
fn one_term_at_a_time_has_a_primary_and_readers_while_clocks_drift_as_declared() {
    let (mut changes, mut led, mut read) = (0, 0.0, 0.0);
    for seed in 0..SEEDS {
        let seen = run(AS_DECLARED, seed);
        assert_eq!(seen.violation, None, "seed {seed}");
        changes += seen.changes;
        led += seen.led_share / SEEDS as f64;
        read += seen.read_share / SEEDS as f64;
    }
    assert!(changes > 20 * SEEDS, "primaries change: {changes}");
    assert!(led > 0.3, "somebody leads most of the time: {led}");
    assert!(read > 0.1, "readers hold leases: {read}");
}

/// Returns whether the oracle finds a violation in `world`.
fn is_found(world: World) -> bool {
    (0..20 * SEEDS).any(|seed| run(world, seed).violation.is_some())
}

#[test]
fn clocks_that_drift_more_than_declared_are_found_out() {
    assert!(is_found(World {
        timing: Timing {
            drift_ppm: 0,
            tick_ns: 250_000,
            ..DECLARED
        },
        drift_ppm: 400_000,
        ..AS_DECLARED
    }));
}

#[test]
fn a_copy_that_forgets_its_grants_is_found_out() {
    let nothing = Timing {
        duration_ns: 0,
        drift_ppm: 0,
        tick_ns: 0,
    };
    assert!(is_found(World {
        forgotten: nothing,
        ..AS_DECLARED
    }));
}

#[test]
fn a_reader_that_counts_from_the_arrival_of_its_offer_is_found_out() {
    assert!(is_found(World {
        counts_from_arrival: true,
        ..AS_DECLARED
    }));
}

#[test]
fn a_joiner_that_is_named_before_it_has_granted_the_lease_is_found_out() {
    assert!(is_found(World {
        joins_without_a_grant: true,
        ..AS_DECLARED
    }));
}
