//! The time for which an executor polls before it parks.

use stonecast_base::Nanoseconds;

/// Spins in a row, each soon after the previous spin, after which work is taken to come often.
const SPINS_IN_A_ROW: u32 = 16;
/// The share of a spin that a first spin takes, and the spins that "soon" stands for.
const FIRST_SPIN_SHARE: u64 = 40;
const SOON_SPINS: u64 = 10;
/// The time between two empty rounds after which a spin has lost its processor to a program that computes. A process
/// that answers the one that spins runs for a shorter time.
const LOST_NS: Nanoseconds = 1_000_000;
/// The time without yields after a spin has lost its processor, at first and at most: each yield would cost a slice of
/// the other program.
const CROWDED_NS: Nanoseconds = 1_000_000;
const CROWDED_MAX_NS: Nanoseconds = 32_000_000;

/// The lengths of the spins of an executor.
#[derive(Clone, Copy)]
pub(super) struct Spins {
    full: Nanoseconds,
    /// The length before work comes often.
    first: Nanoseconds,
    /// Whether the executor ceases to spin where others compute: a process that spins there is the last to get the
    /// processor when it has work. The server of a host that has nothing else to do spins on: a hypervisor takes its
    /// processor away, too, and a server that sleeps needs a wake-up for each request.
    gives_way: bool,
    /// Whether other threads may run between two polls.
    yields: bool,
}

impl Spins {
    /// Full spins, whoever else needs the processor.
    pub fn always(full: Nanoseconds) -> Self {
        Self {
            full,
            first: full,
            gives_way: false,
            yields: false,
        }
    }

    /// Full spins that let others run.
    pub fn of_client(full: Nanoseconds) -> Self {
        Self {
            yields: true,
            ..Self::always(full)
        }
    }

    /// Short spins until work comes often, and none where others compute.
    pub fn among_peers(full: Nanoseconds) -> Self {
        Self {
            first: full / FIRST_SPIN_SHARE,
            gives_way: true,
            ..Self::of_client(full)
        }
    }

    /// Whether other threads may run between two polls.
    pub fn yields(self) -> bool {
        self.yields
    }

    /// The length of the present spin.
    pub fn length(self, pace: &Pace, crowd: &Crowd, now: Nanoseconds) -> Nanoseconds {
        if self.gives_way && crowd.is_dense(now) {
            0
        } else if pace.is_high() {
            self.full
        } else {
            self.first
        }
    }
}

/// The pace at which work comes.
#[derive(Default)]
pub(super) struct Pace {
    /// Spins in a row, each soon after the previous spin.
    spins: u32,
    /// The start of the last spin.
    begun: Nanoseconds,
}

impl Pace {
    /// Notes that a spin begins at `now`.
    pub fn begin(&mut self, now: Nanoseconds, spins: Spins) {
        let is_soon = now.saturating_sub(self.begun) <= SOON_SPINS * spins.full;
        self.spins = if is_soon { self.spins + 1 } else { 0 };
        self.spins = self.spins.min(SPINS_IN_A_ROW);
        self.begun = now;
    }

    fn is_high(&self) -> bool {
        self.spins >= SPINS_IN_A_ROW
    }
}

/// Whether others compute on the processor.
#[derive(Default)]
pub(super) struct Crowd {
    /// The last empty round of the present spin; `None`: the spin begins.
    last_round: Option<Nanoseconds>,
    /// The time before which the executor does not yield.
    until: Nanoseconds,
    /// The length of that time; 0 after a spin that kept its processor.
    length_ns: Nanoseconds,
}

impl Crowd {
    /// Notes an empty round at `now`.
    pub fn note_round(&mut self, now: Nanoseconds) {
        let last = self.last_round.replace(now);
        if last.is_some_and(|last| now.saturating_sub(last) > LOST_NS) {
            self.length_ns = (2 * self.length_ns).clamp(CROWDED_NS, CROWDED_MAX_NS);
            self.until = now + self.length_ns;
        }
    }

    /// Notes a round that found work: its duration says nothing about others.
    pub fn note_work(&mut self) {
        self.last_round = None;
    }

    /// Notes that the executor is about to park at `now`.
    pub fn note_park(&mut self, now: Nanoseconds) {
        self.last_round = None;
        if now >= self.until {
            self.length_ns = 0;
        }
    }

    pub fn is_dense(&self, now: Nanoseconds) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Nanoseconds = 200_000;

    #[test]
    fn an_executor_for_peers_polls_for_a_whole_spin_once_work_comes_often() {
        let spins = Spins::among_peers(FULL);
        let mut pace = Pace::default();
        let begin = |pace: &mut Pace, at: &mut Nanoseconds, after: Nanoseconds| {
            *at += after;
            pace.begin(*at, spins);
            spins.length(pace, &Crowd::default(), *at) == FULL
        };
        let mut at = 0;
        // The rounds of three nodes: some words, and silence for a third of a lease.
        for _ in 0..100 {
            assert!(!begin(&mut pace, &mut at, 33_000_000));
            assert!((0..10).all(|_| !begin(&mut pace, &mut at, 20_000)));
        }
        let calls = (0..100).filter(|_| begin(&mut pace, &mut at, 150_000));
        assert!(calls.count() > 80, "a client that asks and asks again");
        assert!(!begin(&mut pace, &mut at, SOON_SPINS * FULL + 1));
    }

    #[test]
    fn an_executor_for_peers_gives_way_for_a_while_after_it_lost_its_processor_and_others_spin_on()
    {
        let mut pace = Pace::default();
        for round in 0..100 {
            pace.begin(round * FULL, Spins::among_peers(FULL));
        }
        let mut crowd = Crowd::default();
        let begin = 1_000_000;
        crowd.note_round(begin);
        crowd.note_round(begin + LOST_NS);
        let peers = |crowd: &Crowd, now| Spins::among_peers(FULL).length(&pace, crowd, now);
        assert_eq!(
            peers(&crowd, begin + LOST_NS),
            FULL,
            "the rounds follow each other"
        );
        let lost = begin + 2 * LOST_NS + 1;
        crowd.note_round(lost);
        assert_eq!(peers(&crowd, lost), 0);
        assert_eq!(peers(&crowd, lost + CROWDED_NS), FULL);
        assert_eq!(Spins::always(FULL).length(&pace, &crowd, lost), FULL);
    }
}
