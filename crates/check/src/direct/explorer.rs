//! Examines the states that a power cut at one moment may leave: recovers each state that differs
//! in the lines that a recovery reads, judges it, cuts the power again during that recovery, and
//! once more after it.

use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric_sim::{Fate, Wreck};

use crate::direct::lab::{Bench, Contents, Lab};
use crate::fates::{self, Look};
use crate::known::Known;
use crate::oracles::acknowledged::Allowed;
use crate::oracles::idempotence;
use crate::violation::Violation;

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

/// One in this many known states is recovered all the same, to check that it is known.
const KNOWN_TRIED: u32 = 64;

/// Explores power cuts, and counts what it did.
pub(crate) struct Explorer {
    lab: Rc<Lab>,
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

impl Explorer {
    pub fn new(lab: Rc<Lab>, effort: Effort, seed: u64) -> Self {
        Self {
            lab,
            effort,
            random: random_from_seed(seed),
            states: 0,
            cut: 0,
            torn: 0,
        }
    }

    /// Examines the states of `wreck`, in which each key may have the values in `allowed`.
    pub fn explore(&mut self, wreck: &Wreck, allowed: &Allowed) -> Option<Finding> {
        let mut random = self.random.clone();
        let mut finding = None;
        let mut known = Known::new();
        fates::each(wreck, self.effort.states, &mut random, &mut |fates| {
            let found = self.look(wreck, fates, &mut known, allowed);
            found.unwrap_or_else(|violation| {
                finding = Some(Finding {
                    violation,
                    fates: fates.to_vec(),
                });
                Look::Enough
            })
        });
        self.random = random;
        finding.map(|finding| self.with_less_lost(wreck, finding, allowed))
    }

    /// Restores every line whose loss the failure does not need.
    fn with_less_lost(&self, wreck: &Wreck, finding: Finding, allowed: &Allowed) -> Finding {
        let mut best = finding;
        for unit in 0..wreck.undecided() {
            let whole = Fate {
                stores: wreck.stores(unit),
                torn: 0,
            };
            let mut fates = best.fates.clone();
            if std::mem::replace(&mut fates[unit], whole) == whole {
                continue;
            }
            let found = self
                .lab
                .recover(wreck.survivor(&fates))
                .and_then(|contents| judge(&contents, allowed));
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
        wreck: &Wreck,
        fates: &[Fate],
        known: &mut Known<Contents>,
        allowed: &Allowed,
    ) -> Result<Look, Violation> {
        let is_torn = u64::from(fates.iter().any(|fate| fate.torn != 0));
        if self.random.random_range(0..100) < self.effort.cut_percent {
            self.torn += is_torn;
            return self.look_twice(wreck, fates, allowed).map(|()| Look::New);
        }
        self.look_once(wreck, fates, known, |contents| judge(contents, allowed))
            .inspect(|look| {
                self.torn += if *look == Look::New { is_torn } else { 0 };
            })
    }

    /// Recovers a state that no recovery has met before.
    fn look_once(
        &mut self,
        wreck: &Wreck,
        fates: &[Fate],
        known: &mut Known<Contents>,
        judge: impl FnOnce(&Contents) -> Result<(), Violation>,
    ) -> Result<Look, Violation> {
        if let Some(found) = known.find(fates) {
            if self.random.random_range(0..KNOWN_TRIED) == 0 {
                let again = self.lab.recover(wreck.survivor(fates))?;
                assert!(
                    again == *found,
                    "a recovery follows from what it reads: {again:?} instead of {found:?}"
                );
            }
            return Ok(Look::Known);
        }
        self.states += 1;
        let (outcome, read) = self.lab.recover_watched(wreck, fates);
        let contents = outcome?;
        judge(&contents)?;
        known.learn(fates, &read, contents);
        Ok(Look::New)
    }

    /// Recovers, and examines what a power cut at some moment of the recovery leaves, and one after
    /// it.
    fn look_twice(
        &mut self,
        wreck: &Wreck,
        fates: &[Fate],
        allowed: &Allowed,
    ) -> Result<(), Violation> {
        self.cut += 1;
        self.states += 1;
        let bench = self.lab.begin(wreck.survivor(fates));
        if self.random.random_bool(0.2) {
            // The cut comes in the middle of a header, which is stored twice when a pool is opened.
            bench
                .backing
                .cut_power_after(self.random.random_range(0..2));
        }
        let mut wrecks = vec![bench.world.wreck(bench.machine, &bench.module)];
        while bench.outcome().is_none() {
            assert!(bench.step(), "a recovery ends or waits for something");
            wrecks.push(bench.world.wreck(bench.machine, &bench.module));
        }
        let first = match bench.outcome().expect("just looked") {
            Err(_) if bench.backing.power_was_cut() => {
                self.tear_again(&bench)?;
                None
            }
            Err(violation) => return Err(violation),
            Ok(contents) => {
                judge(&contents, allowed)?;
                Some(contents)
            }
        };
        let last = wrecks.len() - 1;
        let middle = self.random.random_range(0..=last);
        let states = self.effort.states_again;
        self.look_again(&wrecks[middle], states.div_ceil(2), |contents| {
            judge(contents, allowed)
        })?;
        self.look_again(&wrecks[last], states / 2, |contents| match &first {
            // The pool was served: content that was found once stays.
            Some(first) => idempotence::judge(&first.keys, &contents.keys).map_or(Ok(()), Err),
            None => judge(contents, allowed),
        })
    }

    /// Cuts the power in the middle of the next header, after a cut in the middle of the first one.
    fn tear_again(&mut self, torn: &Bench) -> Result<(), Violation> {
        self.states += 2;
        let survivor = |bench: &Bench| bench.world.wreck(bench.machine, &bench.module).everything();
        let second = self.lab.begin(survivor(torn));
        second
            .backing
            .cut_power_after(self.random.random_range(0..2));
        let _cut_off_or_not = second.end();
        self.lab.recover(survivor(&second)).map(drop)
    }

    fn look_again(
        &mut self,
        wreck: &Wreck,
        states: u64,
        judge: impl Fn(&Contents) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let mut result = Ok(());
        let mut random = self.random.clone();
        let mut known = Known::new();
        fates::each(wreck, states, &mut random, &mut |fates| {
            self.look_once(wreck, fates, &mut known, &judge)
                .unwrap_or_else(|violation| {
                    result = Err(violation);
                    Look::Enough
                })
        });
        self.random = random;
        result
    }
}

fn judge(contents: &Contents, allowed: &Allowed) -> Result<(), Violation> {
    allowed.judge(contents.values()).map_or(Ok(()), Err)
}
