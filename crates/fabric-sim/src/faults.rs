//! The fault classes of the world: their rates, and the counts of their occurrences.
//!
//! ```text
//!   Faults::swarm(seed) -> rates --> World::set_faults          hardware asks at each chance: does it strike?
//!                                                                 yes: counted, and its consequence follows
//!                      World::heal     all rates are 0           safety phase | liveness phase
//! ```
//!
//! A class has one field with its unit in its name. Classes that hardware draws by itself have a rate. Classes that the
//! driver of a run causes (the end of a process, a partition) have a count, and the driver reports them:
//! [`World::hit`]. A class counts only when its consequence occurred, not when it was tried.
//!
//! Invariants: a rate of 0 draws no random number, so a world without faults runs as if there were none; the draws
//! depend on the seed of the world alone.
//!
//! [`World::hit`]: crate::World::hit

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};

/// The runs in which a class can occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// In runs of the KV store.
    Direct,
    /// In runs of several servers, in their configuration store.
    Cluster,
    /// In no run so far, for this reason.
    NotYet(&'static str),
}

/// The facts about a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultClass {
    /// The number in the list of classes, from 1.
    pub number: u32,
    /// The name in reports.
    pub name: &'static str,
    /// The unit of its field.
    pub unit: &'static str,
    /// The consequence.
    pub what: &'static str,
    /// The runs in which it can occur.
    pub reach: Reach,
    range: (u64, u64),
}

macro_rules! faults {
    ($($fault:ident = $number:literal, $name:literal, $field:ident: $unit:literal in $low:literal..=$high:literal, $reach:expr,
       $(#[doc = $what:literal])+)+) => {
        /// The rate of each class: 0 means never. The unit is at the end of each name.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Faults {
            $($(#[doc = $what])+ pub $field: u64,)+
        }

        /// A class of faults.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum Fault {
            $($(#[doc = $what])+ $fault = $number - 1,)+
        }

        impl Fault {
            /// Every class, by number.
            pub const CLASSES: &'static [FaultClass] = &[$(FaultClass {
                number: $number,
                name: $name,
                unit: $unit,
                what: concat!($($what),+).trim_ascii(),
                reach: $reach,
                range: ($low, $high),
            },)+];
        }

        impl Faults {
            fn fields(&mut self) -> [&mut u64; 40] {
                [$(&mut self.$field,)+]
            }

            /// The rate of `fault`.
            pub fn rate(&self, fault: Fault) -> u64 {
                match fault { $(Fault::$fault => self.$field,)+ }
            }
        }
    };
}

const NO_ATOMICS: Reach = Reach::NotYet(
    "the KV store uses remote read-modify-writes only where they are atomic with the processor",
);

faults! {
    CompletionLost = 1, "completion_lost", completion_lost_per_million: "of a million completions" in 200..=4000, Reach::Direct,
    /// A completion is lost. Its completion queue reports an error, and the queue pairs that use the queue break.
    CompletionDelayed = 2, "completion_delayed", completion_delayed_per_million: "of a million completions" in 1000..=100_000, Reach::Direct,
    /// A completion comes late, after later completions of other queues.
    ErrorThoughExecuted = 3, "error_though_executed", error_though_executed_per_million: "of a million answers" in 200..=4000, Reach::Direct,
    /// A request is executed and its acknowledgement is lost, so it completes with an error.
    ErrorNotExecuted = 4, "error_not_executed", error_not_executed_per_million: "of a million requests" in 200..=4000, Reach::Direct,
    /// A request and all of its retransmissions are lost, so it completes with an error and is not executed.
    FlushCascade = 5, "flush_cascade", flush_cascade_per_million: "of a million posts behind others" in 200..=6000, Reach::Direct,
    /// A queue pair breaks while several requests are outstanding, and all of them are flushed.
    ReceiverNotReady = 6, "receiver_not_ready", receiver_not_ready_per_million: "of a million arrivals" in 1000..=50_000, Reach::Direct,
    /// A receiver has no buffer ready, sometimes for longer than the sender retries.
    RevokedAccess = 7, "revoked_access", revoked_access_attempts: "attempts" in 1..=3, Reach::Direct,
    /// A peer uses a key that was revoked.
    HalfOpen = 8, "half_open", half_open_per_million: "of a million arrivals" in 200..=4000, Reach::Direct,
    /// One side's queue pair breaks, and the other side is not told.
    RepeatedWrite = 9, "repeated_write", repeated_write_percent: "% of unknown outcomes" in 30..=100, Reach::Direct,
    /// A client repeats a write of unknown outcome on another connection, and both writes may be executed.
    PartialPlacement = 10, "partial_placement", partial_placement_per_million: "of a million long messages" in 500..=20_000, Reach::Direct,
    /// A queue pair breaks in the middle of a message, and any subset of the message's lines is placed.
    ScatteredPlacement = 11, "scattered_placement", scattered_placement_per_million: "of a million long messages" in 10_000..=500_000, Reach::Direct,
    /// The lines of a message are placed in random order, with pauses between them.
    PostedOvertakes = 12, "posted_overtakes", fetch_delayed_per_million: "of a million fetches" in 10_000..=300_000, Reach::Direct,
    /// A posted request takes effect before a READ or atomic that was posted earlier.
    AtomicTorn = 13, "atomic_torn", atomic_torn_per_million: "of a million atomics" in 0..=0, NO_ATOMICS,
    /// A remote read-modify-write is not atomic with respect to the processor.
    TornRead = 14, "torn_read", torn_read_per_million: "of a million READs" in 50_000..=600_000, Reach::Direct,
    /// A READ fetches word by word or line by line, and a write changes the memory in between.
    QueueExhausted = 15, "queue_exhausted", queue_exhausted_per_million: "of a million arrivals" in 300..=6000, Reach::Direct,
    /// A shared receive queue runs empty for all of its queue pairs, or a completion queue overruns.
    Partition = 16, "partition", partitions: "times" in 1..=3, Reach::Direct,
    /// The network drops all messages between two machines, in both directions or in one, or to and from one machine,
    /// or on links that fail and recover in turn.
    ConnectionTimeout = 17, "connection_timeout", connection_lost_per_million: "of a million handshake messages" in 30_000..=400_000, Reach::Direct,
    /// Messages of the connection manager are lost or late, and many clients connect at once.
    NicReset = 18, "nic_reset", nic_resets: "times" in 1..=2, Reach::Direct,
    /// A NIC is reset. Messages that it has acknowledged and not placed are lost, its queue pairs break, and the
    /// machine goes on.
    SlowNic = 19, "slow_nic", slow_nic_factor: "times slower" in 10..=1000, Reach::Direct,
    /// A NIC is slow for a limited time.
    ReadFromCache = 20, "read_from_cache", undeclared_ddio_flag: "0 or 1" in 1..=1, Reach::Direct,
    /// A READ after a WRITE is answered from a volatile cache, although the pool declares that DDIO is off.
    ReadOnOtherQueuePair = 21, "read_on_other_queue_pair", placement_delayed_per_million: "of a million placements" in 10_000..=300_000, Reach::Direct,
    /// A READ is answered while a WRITE that completed on another queue pair is still inside the NIC.
    HostHung = 22, "host_hung", host_pauses: "times" in 1..=2, Reach::Direct,
    /// The software of a host stops, and its NIC continues to acknowledge.
    PowerCut = 23, "power_cut", power_cuts: "times" in 1..=2, Reach::Direct,
    /// The server's machine loses power while bytes are in its NIC, in its caches and on their way to the medium.
    AdrFailure = 24, "adr_failure", adr_failure_percent: "% of crash points" in 10..=50, Reach::Direct,
    /// A power cut also loses the queue of the memory controller.
    WarmReset = 25, "warm_reset", warm_resets: "times" in 1..=2, Reach::Direct,
    /// The machine is reset, and its caches are not written back.
    TornWrite = 26, "torn_write", torn_writes_percent: "% of lines in a power cut" in 10..=60, Reach::Direct,
    /// A power cut tears stores between words, lines and blocks.
    Poison = 27, "poison", poisoned_lines: "lines" in 1..=3, Reach::Direct,
    /// Lines of the medium cannot be read.
    BitFlip = 28, "bit_flip", flipped_bits: "bits" in 1..=8, Reach::Direct,
    /// Bits of the medium change.
    MisdirectedWrite = 29, "misdirected_write", misdirected_writes: "blocks" in 1..=4, Reach::Direct,
    /// A block is written to the place of another.
    LostWrite = 30, "lost_write", lost_writes: "lines" in 1..=4, Reach::Direct,
    /// The medium accepts a line and does not write it.
    StaleContent = 31, "stale_content", stale_lines: "lines" in 1..=4, Reach::Direct,
    /// A line keeps the content from before its last write.
    ProcessKilled = 32, "process_killed", process_kills: "times" in 1..=4, Reach::Direct,
    /// A process is killed between any two steps.
    PauseBeyondLease = 33, "pause_beyond_lease", client_pauses: "times" in 1..=2, Reach::Direct,
    /// A client stops until its leases have been given to others.
    ClockDrift = 34, "clock_drift", clock_drift_ppm: "ppm" in 10..=1000, Reach::Direct,
    /// Clocks are wrong, run fast or slow, and jump.
    LeaseEndInFlight = 35, "lease_end_in_flight", late_placement_percent: "% of broken queue pairs" in 30..=100, Reach::Direct,
    /// A lease ends while writes through its key are still inside the NIC.
    RecoveryCrash = 36, "recovery_crash", recovery_crashes_percent: "% of recoveries" in 10..=30, Reach::Direct,
    /// The power fails during recovery, and again during the recovery from that.
    AllocationFailure = 37, "allocation_failure", allocation_failures_per_thousand: "of a thousand allocations" in 5..=100, Reach::Direct,
    /// The pool is full, or the device refuses to register memory.
    ManagerFailover = 38, "manager_failover", manager_failovers: "times" in 1..=3, Reach::Cluster,
    /// The configuration store fails over. It has no leader for a while, and unanswered changes take effect or are
    /// lost.
    OtherVersion = 39, "other_version", other_version_clients: "clients" in 1..=2, Reach::Direct,
    /// A client of another version connects.
    HostileClient = 40, "hostile_client", hostile_clients: "clients" in 1..=2, Reach::Direct,
    /// A client sends malformed, oversized, replayed or forged messages, and uses keys on memory that they do not open.
}

const _: () = assert!(Fault::CLASSES.len() == 40);

impl Fault {
    /// The table of `docs/simulator.md`.
    pub fn table() -> String {
        let row = |class: &FaultClass| {
            let reach = match class.reach {
                Reach::Direct => "yes".to_owned(),
                Reach::Cluster => "yes, where several servers run".to_owned(),
                Reach::NotYet(reason) => format!("not yet: {reason}"),
            };
            format!(
                "| {} | `{}` | {} | {} | {reach} |\n",
                class.number, class.name, class.what, class.unit
            )
        };
        let heading = "| | class | what happens | its field counts | reached |\n| ---: | --- | --- | --- | --- |\n";
        std::iter::once(heading.to_owned())
            .chain(Self::CLASSES.iter().map(row))
            .collect()
    }

    /// The names of the classes that can occur in runs of the KV store.
    pub const REACHABLE: &'static [&'static str] = &REACHABLE;

    /// The facts about the class.
    pub fn class(self) -> &'static FaultClass {
        &Self::CLASSES[self as usize]
    }
}

impl Faults {
    /// A random subset of the classes with random rates: each class with a chance of `percent` in a hundred. Every
    /// subset hides other failures than the whole set does.
    pub fn swarm(random: &mut Random, percent: u32) -> Self {
        let mut faults = Self::default();
        for (class, field) in Fault::CLASSES.iter().zip(faults.fields()) {
            let (low, high) = class.range;
            // Both are drawn for every class, so that adding a class changes nothing for the others.
            let (dice, rate) = (random.random_range(0..100), skewed(random, low, high));
            *field = if dice < percent { rate } else { 0 };
        }
        faults
    }

    /// Sets the rates of the classes to 0 whose name satisfies `left_out`.
    pub fn leave_out(&mut self, left_out: impl Fn(&'static str) -> bool) {
        for (class, field) in Fault::CLASSES.iter().zip(self.fields()) {
            if left_out(class.name) {
                *field = 0;
            }
        }
    }

    /// The classes that may strike, by name.
    pub fn enabled(&self) -> Vec<&'static str> {
        let mut copy = *self;
        let fields = copy.fields();
        Fault::CLASSES
            .iter()
            .zip(fields)
            .filter(|(_, rate)| **rate > 0)
            .map(|(class, _)| class.name)
            .collect()
    }
}

const REACHABLE_COUNT: usize = {
    let mut count = 0;
    let mut index = 0;
    while index < Fault::CLASSES.len() {
        count += matches!(Fault::CLASSES[index].reach, Reach::Direct) as usize;
        index += 1;
    }
    count
};

const REACHABLE: [&str; REACHABLE_COUNT] = {
    let mut names = [""; REACHABLE_COUNT];
    let (mut count, mut index) = (0, 0);
    while index < Fault::CLASSES.len() {
        if matches!(Fault::CLASSES[index].reach, Reach::Direct) {
            names[count] = Fault::CLASSES[index].name;
            count += 1;
        }
        index += 1;
    }
    names
};

/// A number between both bounds, small numbers more often.
fn skewed(random: &mut Random, low: u64, high: u64) -> u64 {
    let top = random.random_range(low..=high);
    random.random_range(low..=top)
}

/// The place at which a fault may strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A machine, by number.
    Machine(u32),
    /// The link from one machine to another.
    Link(u32, u32),
}

/// The rates in force.
#[derive(Default)]
struct Rates {
    everywhere: Faults,
    /// The rates that apply instead at these places.
    places: BTreeMap<Place, Faults>,
}

/// The current rates and the counters. Shared by everything in a world.
pub(crate) struct FaultState {
    rates: RefCell<Rates>,
    any: Cell<bool>,
    random: RefCell<Random>,
    hits: [Cell<u64>; 40],
}

impl FaultState {
    pub fn new(seed: u64) -> Self {
        let random = RefCell::new(random_from_seed(seed));
        Self {
            rates: RefCell::default(),
            any: Cell::new(false),
            random,
            hits: [const { Cell::new(0) }; 40],
        }
    }

    /// Sets the rates everywhere to `faults`.
    pub fn set(&self, faults: Faults) {
        *self.rates.borrow_mut() = Rates {
            everywhere: faults,
            places: BTreeMap::new(),
        };
        self.any.set(faults != Faults::default());
    }

    /// Sets the rates at `place` to `faults`, whatever applies elsewhere.
    pub fn set_at(&self, place: Place, faults: Faults) {
        let rates = &mut *self.rates.borrow_mut();
        rates.places.insert(place, faults);
        let mut all = rates.places.values().chain([&rates.everywhere]);
        self.any.set(all.any(|faults| *faults != Faults::default()));
    }

    /// Whether `fault` strikes at `place` at this moment, with its rate per million.
    #[inline]
    pub fn strikes(&self, fault: Fault, place: Place) -> bool {
        self.any.get() && self.draw(fault, place, 1_000_000)
    }

    /// Whether `fault` strikes at `place` at this moment, with its rate per `of`. Counts nothing.
    #[cold]
    pub fn draw(&self, fault: Fault, place: Place, of: u64) -> bool {
        let rate = self.rate(fault, place);
        rate > 0 && self.random.borrow_mut().random_range(0..of) < rate
    }

    /// Whether `fault` may strike at `place` at all.
    pub fn enabled(&self, fault: Fault, place: Place) -> bool {
        self.any.get() && self.rate(fault, place) > 0
    }

    fn rate(&self, fault: Fault, place: Place) -> u64 {
        let rates = self.rates.borrow();
        let faults = rates.places.get(&place).unwrap_or(&rates.everywhere);
        faults.rate(fault)
    }

    /// A number for the severity of a fault.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        self.random.borrow_mut().random_range(low..=high)
    }

    /// Puts `items` into a random order.
    pub fn shuffle<T>(&self, items: &mut [T]) {
        use stonecast_base::SliceExt as _;
        items.shuffle(&mut *self.random.borrow_mut());
    }

    #[inline]
    pub fn hit(&self, fault: Fault) {
        let counter = &self.hits[fault as usize];
        counter.set(counter.get() + 1);
    }

    pub fn hits(&self) -> BTreeMap<&'static str, u64> {
        let counted = Fault::CLASSES
            .iter()
            .zip(&self.hits)
            .map(|(class, hits)| (class.name, hits.get()));
        counted.filter(|(_, hits)| *hits > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_forty_classes_each_with_a_name_and_a_place_of_its_own() {
        let names: std::collections::BTreeSet<_> =
            Fault::CLASSES.iter().map(|class| class.name).collect();
        assert_eq!(names.len(), 40);
        for (index, class) in Fault::CLASSES.iter().enumerate() {
            assert_eq!(class.number as usize, index + 1);
            assert!(!class.what.is_empty() && !class.unit.is_empty());
        }
        assert_eq!(Fault::HostileClient.class().name, "hostile_client");
    }

    #[test]
    fn a_swarm_has_a_random_subset_of_the_reachable_classes() {
        let mut random = random_from_seed(1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let enabled = Faults::swarm(&mut random, 30).enabled();
            assert!((3..25).contains(&enabled.len()), "{enabled:?}");
            seen.extend(enabled);
        }
        let reachable = Fault::CLASSES
            .iter()
            .filter(|class| !matches!(class.reach, Reach::NotYet(_)))
            .count();
        assert_eq!(seen.len(), reachable);
    }

    const HERE: Place = Place::Machine(0);

    #[test]
    fn a_place_has_rates_of_its_own_until_all_rates_are_set_again() {
        let always = Faults {
            torn_read_per_million: 1_000_000,
            ..Faults::default()
        };
        let state = FaultState::new(3);
        state.set_at(Place::Link(0, 1), always);
        assert!(state.strikes(Fault::TornRead, Place::Link(0, 1)));
        for elsewhere in [HERE, Place::Link(1, 0), Place::Link(0, 2)] {
            assert!(!state.strikes(Fault::TornRead, elsewhere), "{elsewhere:?}");
        }
        state.set(always);
        state.set_at(HERE, Faults::default());
        assert!(!state.strikes(Fault::TornRead, HERE));
        assert!(state.strikes(Fault::TornRead, Place::Machine(1)));
        state.set(Faults::default());
        assert!(!state.strikes(Fault::TornRead, Place::Machine(1)));
    }

    #[test]
    fn a_fault_strikes_at_its_rate_and_never_without_one() {
        let state = FaultState::new(3);
        assert!(!state.strikes(Fault::TornRead, HERE));
        state.set(Faults {
            torn_read_per_million: 250_000,
            ..Faults::default()
        });
        let struck = (0..10_000)
            .filter(|_| state.strikes(Fault::TornRead, HERE))
            .count();
        assert!((2300..2700).contains(&struck), "{struck}");
        assert!(!(0..1000).any(|_| state.strikes(Fault::HalfOpen, HERE)));
        state.hit(Fault::TornRead);
        assert_eq!(state.hits(), BTreeMap::from([("torn_read", 1)]));
    }
}
