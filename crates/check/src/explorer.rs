//! Examines the states that a power cut of any machines at one moment may leave. The explorer recovers and judges each
//! state that differs in the lines that a recovery reads, cuts the power again during that recovery, and once more
//! after it.

use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric_sim::Fate;

use crate::fates::{self, Look};
use crate::known::Known;
use crate::lab::{Bench, Lab, Remains};
use crate::subject::Subject;
use crate::violation::Violation;
use crate::wrecks::Wrecks;

/// The effort of an exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effort {
    /// States of one power cut.
    pub states: u64,
    /// States of a power cut during a recovery, for each recovery that is cut.
    pub states_again: u64,
    /// Percentage of recoveries that are cut.
    pub cut_percent: u64,
}

/// One in this many known states is recovered nevertheless, to check that the state is known.
const KNOWN_TRIED: u32 = 64;

/// Judges the contents that recoveries find.
pub(crate) trait Judge<C> {
    /// Judges the content after a crash.
    fn judge(&self, contents: &C) -> Result<(), Violation>;

    /// Judges the content of a second recovery by the content of a finished first one.
    fn judge_again(&self, first: &C, second: &C) -> Result<(), Violation>;
}

/// Explores power cuts, and counts its work.
pub(crate) struct Explorer<S> {
    lab: Rc<Lab<S>>,
    effort: Effort,
    random: Random,
    /// States that were recovered, including those of power cuts during recoveries.
    pub states: u64,
    /// Recoveries that were cut.
    pub cut: u64,
    /// States with torn stores.
    pub torn: u64,
}

/// A violation, and the fates of the undecided lines that led to it.
pub(crate) struct Finding {
    pub violation: Violation,
    pub fates: Vec<Fate>,
}

impl<S: Subject> Explorer<S> {
    pub fn new(lab: Rc<Lab<S>>, effort: Effort, seed: u64) -> Self {
        Self {
            lab,
            effort,
            random: random_from_seed(seed),
            states: 0,
            cut: 0,
            torn: 0,
        }
    }

    /// What stays if everything ends at this moment of the run, with `wrecks` of the machines.
    pub fn remains(&self, wrecks: Wrecks) -> Remains<S> {
        self.lab.remains(wrecks)
    }

    /// Examines the states of `remains`.
    pub fn explore(
        &mut self,
        remains: &Remains<S>,
        judge: &dyn Judge<S::Contents>,
    ) -> Option<Finding> {
        let mut random = self.fork();
        let mut finding = None;
        let mut known = Known::new();
        let states = self.effort.states;
        fates::each(&remains.wrecks, states, &mut random, &mut |fates| {
            let found = self.look(remains, fates, &mut known, judge);
            found.unwrap_or_else(|violation| {
                finding = Some(Finding {
                    violation,
                    fates: fates.to_vec(),
                });
                Look::Enough
            })
        });
        finding.map(|finding| self.with_less_lost(remains, finding, judge))
    }

    /// Random numbers for the choice of states. The numbers for the work on a state come from another source, which
    /// continues from one exploration to the next: otherwise a run would cut the same few recoveries in each
    /// exploration.
    fn fork(&mut self) -> Random {
        random_from_seed(self.random.random())
    }

    /// Restores every line whose loss the failure does not need.
    fn with_less_lost(
        &self,
        remains: &Remains<S>,
        finding: Finding,
        judge: &dyn Judge<S::Contents>,
    ) -> Finding {
        let wrecks = &remains.wrecks;
        let mut best = finding;
        for unit in 0..wrecks.undecided() {
            let whole = wrecks.whole(unit);
            let mut fates = best.fates.clone();
            if std::mem::replace(&mut fates[unit], whole) == whole {
                continue;
            }
            let found = self
                .lab
                .recover_state(remains, &fates)
                .and_then(|contents| judge.judge(&contents));
            if let Some(violation) = found
                .err()
                .filter(|violation| violation.oracle == best.violation.oracle)
            {
                best = Finding { violation, fates };
            }
        }
        best
    }

    fn look(
        &mut self,
        remains: &Remains<S>,
        fates: &[Fate],
        known: &mut Known<S::Contents>,
        judge: &dyn Judge<S::Contents>,
    ) -> Result<Look, Violation> {
        let is_torn = u64::from(fates.iter().any(|fate| fate.torn != 0));
        if self.random.random_range(0..100) < self.effort.cut_percent {
            self.torn += is_torn;
            return self.look_twice(remains, fates, judge).map(|()| Look::New);
        }
        self.look_once(remains, fates, known, |contents| judge.judge(contents))
            .inspect(|look| {
                self.torn += if *look == Look::New { is_torn } else { 0 };
            })
    }

    /// Recovers a state that no recovery has met before.
    fn look_once(
        &mut self,
        remains: &Remains<S>,
        fates: &[Fate],
        known: &mut Known<S::Contents>,
        judge: impl FnOnce(&S::Contents) -> Result<(), Violation>,
    ) -> Result<Look, Violation> {
        if let Some(found) = known.find(fates) {
            if self.random.random_range(0..KNOWN_TRIED) == 0 {
                let again = self.lab.recover_state(remains, fates)?;
                assert!(
                    again == *found,
                    "a recovery follows from what it reads: {again:?} instead of {found:?}"
                );
            }
            return Ok(Look::Known);
        }
        self.states += 1;
        let (outcome, read) = self.lab.recover_watched(remains, fates);
        let contents = outcome?;
        judge(&contents)?;
        known.learn(fates, &read, contents);
        Ok(Look::New)
    }

    /// Recovers, and examines the states that a power cut at some moment of the recovery, and one after the recovery,
    /// leave.
    fn look_twice(
        &mut self,
        remains: &Remains<S>,
        fates: &[Fate],
        judge: &dyn Judge<S::Contents>,
    ) -> Result<(), Violation> {
        self.cut += 1;
        self.states += 1;
        // The cut comes in the middle of a header, which is stored twice when a pool is opened.
        let header = (self.random.random_bool(0.2)).then(|| self.a_header(&remains.wrecks));
        let begin = |lab: &Lab<S>| {
            let bench = lab.begin_state(remains, fates);
            if let Some(header) = header {
                header.cut_in(&bench);
            }
            bench
        };
        let bench = begin(&self.lab);
        let mut steps = 0_usize;
        while bench.outcome().is_none() {
            assert!(bench.step(), "a recovery ends or waits for something");
            steps += 1;
        }
        let first = match bench.outcome().expect("just looked") {
            Err(_) if power_was_cut(&bench) => {
                self.tear_again(&bench, judge)?;
                None
            }
            Err(violation) => return Err(violation),
            Ok(contents) => {
                judge.judge(&contents)?;
                Some(contents)
            }
        };
        let middle = self.random.random_range(0..=steps);
        let states = self.effort.states_again;
        // The same recovery once more, up to the moment of the cut.
        let again = begin(&self.lab);
        (0..middle).for_each(|_| assert!(again.step(), "the same recovery"));
        self.look_again(&again.remains(), states.div_ceil(2), |contents| {
            judge.judge(contents)
        })?;
        self.look_again(&bench.remains(), states / 2, |contents| match &first {
            // The recovery had ended, so the content that it found must stay.
            Some(first) => judge.judge_again(first, contents),
            None => judge.judge(contents),
        })
    }

    /// Cuts the power in the middle of the next header, after a cut in the middle of the first one, and judges the
    /// remaining state.
    fn tear_again(
        &mut self,
        torn: &Bench<S>,
        judge: &dyn Judge<S::Contents>,
    ) -> Result<(), Violation> {
        self.states += 2;
        let whole = |bench: &Bench<S>| {
            let Remains { wrecks, beside } = bench.remains();
            (wrecks.everything(), beside)
        };
        let (survivors, beside) = whole(torn);
        let header = self.a_header(&torn.remains().wrecks);
        let second = self.lab.begin(survivors, beside);
        header.cut_in(&second);
        let _cut_off_or_not = second.end();
        let (survivors, beside) = whole(&second);
        let contents = self.lab.begin(survivors, beside).end()?;
        judge.judge(&contents)
    }

    /// One of the next headers that one machine stores.
    fn a_header(&mut self, wrecks: &Wrecks) -> Header {
        let machine = match wrecks.machines() {
            1 => 0,
            machines => self.random.random_range(0..machines),
        };
        let stores = self.random.random_range(0..2);
        Header { machine, stores }
    }

    fn look_again(
        &mut self,
        remains: &Remains<S>,
        states: u64,
        judge: impl Fn(&S::Contents) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let mut result = Ok(());
        let mut random = self.fork();
        let mut known = Known::new();
        fates::each(&remains.wrecks, states, &mut random, &mut |fates| {
            self.look_once(remains, fates, &mut known, &judge)
                .unwrap_or_else(|violation| {
                    result = Err(violation);
                    Look::Enough
                })
        });
        result
    }
}

/// A header that a machine stores during a recovery, by the number of those before it.
#[derive(Clone, Copy)]
struct Header {
    machine: usize,
    stores: u32,
}

impl Header {
    /// Cuts the power of the machine in the middle of the header.
    fn cut_in<S: Subject>(self, bench: &Bench<S>) {
        let backing = &bench.seats[self.machine].backing;
        backing.cut_power_after(self.stores);
    }
}

fn power_was_cut<S: Subject>(bench: &Bench<S>) -> bool {
    bench.seats.iter().any(|seat| seat.backing.power_was_cut())
}
