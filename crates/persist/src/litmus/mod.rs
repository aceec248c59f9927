//! The litmus model, which decides whether a program keeps its promise on a platform, by visiting every state.
//!
//! ```text
//!   requester        network          responder
//!   program ─▶ send queue ─▶ wire ─▶ NIC buffer ─▶ I/O controller ─▶ cache ─▶ memory controller, DIMM
//!      ▲                                │              (visible)       ▲
//!      └── completions, acks ◀──────────┴──────── responder's program ─┘
//!
//!   survives a power cut:   WSP ───────▶│   MHP ──────▶│              DMP ─────▶│
//! ```
//!
//! *Sound*: once the requester has concluded, every crash keeps the update; of a compound update `b` never survives
//! without `a`, concluded or not; and without faults the requester always concludes. *Necessary*: a step without which
//! some crash breaks that. The freedoms and the promises of hardware are [`Rule`]s; each has a [`Witness`].
//!
//! The model leaves out torn lines (records are validated by their own checksum), several queue pairs (no order holds
//! across them), messages of an older run that recovery finds (they carry a generation), and the loss of the medium
//! itself. It covers the death of processes: a party may stop forever after each step, and the visible state then is
//! one of the outcomes of a power cut.

mod assumptions;
mod explore;
mod machine;
mod rules;
mod run;
mod state;
mod survival;
#[cfg(test)]
mod two_lines;
mod witnesses;

use serde::Serialize;

use crate::plan::Plan;
use crate::platform::Platform;
use crate::program::Program;
use crate::scenario::{Scenario, Update};
use crate::step::Step;

use explore::{Found, breadth_first, shortest_conclusion};
use machine::Machine;

pub use assumptions::{Assumption, assumptions};
pub(crate) use explore::Scratch;
pub(crate) use rules::Hardware;
pub use rules::{Rule, Rules};
pub use run::{Frame, Place, PowerCut, Remnant, Run, Signal, Survival};
pub use survival::Damage;
pub use witnesses::{Witness, witnesses};

/// The model's verdict on a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The program keeps its promise.
    Sound {
        /// States that can be reached.
        states: u64,
        /// Ways in which power can fail in them.
        crashes: u64,
    },
    /// A crash breaks its promise; a shortest run to that crash.
    Broken(Run),
    /// The requester may wait forever although nothing has failed.
    Stuck(Run),
}

impl Verdict {
    /// Whether the program keeps its promise.
    pub fn is_sound(&self) -> bool {
        matches!(self, Self::Sound { .. })
    }
}

/// The reason for a step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Necessity {
    /// The step.
    pub step: Step,
    /// The rest without it; see [`Program::without`].
    pub without: Program,
    /// A shortest run of the rest that a crash breaks, line by line. Empty if there is none, and the step is not
    /// needed.
    pub counterexample: Vec<String>,
    /// The run of `counterexample`, with places and survivals.
    #[serde(skip)]
    pub run: Option<Run>,
}

/// The model's verdict on a plan and on each of its steps. Serialised: the selectors, `sound`, `states`, `crashes`,
/// `necessary`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// The question.
    #[serde(flatten)]
    pub scenario: Scenario,
    /// Whether the plan keeps its promise.
    pub sound: bool,
    /// States that were visited.
    pub states: u64,
    /// Ways in which power can fail in them.
    pub crashes: u64,
    /// The reason for each step, in the order of the plan.
    pub necessary: Vec<Necessity>,
}

impl Proof {
    /// Whether every step is needed.
    pub fn is_minimal(&self) -> bool {
        self.necessary
            .iter()
            .all(|necessity| necessity.run.is_some())
    }
}

/// Whether `program` keeps its promise for `update` on `platform`.
///
/// # Panics
/// On more than 14 operations of the requester, or more than 15 steps of a party.
pub fn check(platform: &Platform, program: &Program, update: Update) -> Verdict {
    check_with(Rules::ALL, platform, program, update)
}

/// Like [`check`], with only some rules in force. Shows the purpose of a rule.
///
/// # Panics
/// Like [`check`].
pub fn check_with(rules: Rules, platform: &Platform, program: &Program, update: Update) -> Verdict {
    let machine = Machine::new(Hardware::of(platform, rules), program, update);
    match breadth_first(&machine) {
        Found::Sound { states, crashes } => Verdict::Sound { states, crashes },
        Found::Broken(events, crash) => Verdict::Broken(Run::new(&machine, &events, Some(crash))),
        Found::Stuck(events) => Verdict::Stuck(Run::new(&machine, &events, None)),
    }
}

/// Whether a program keeps its promise, without a run: for many programs on the same hardware.
pub(crate) fn is_sound(
    hardware: Hardware,
    program: &Program,
    update: Update,
    scratch: &mut Scratch,
) -> bool {
    explore::is_sound(&Machine::new(hardware, program, update), scratch)
}

/// Proves a plan, and each of its steps necessary.
pub fn prove(plan: &Plan) -> Proof {
    let scenario = *plan.scenario();
    let (sound, states, crashes) = match check(&scenario.platform, plan.program(), scenario.update)
    {
        Verdict::Sound { states, crashes } => (true, states, crashes),
        _ => (false, 0, 0),
    };
    let necessary = plan
        .steps()
        .iter()
        .enumerate()
        .map(|(index, step)| necessity(&scenario, plan.program(), index, *step));
    Proof {
        scenario,
        sound,
        states,
        crashes,
        necessary: necessary.collect(),
    }
}

fn necessity(scenario: &Scenario, program: &Program, index: usize, step: Step) -> Necessity {
    let without = program.without(index);
    let run = match check(&scenario.platform, &without, scenario.update) {
        Verdict::Broken(run) => Some(run),
        Verdict::Sound { .. } | Verdict::Stuck(_) => None,
    };
    let counterexample = run.as_ref().map(Run::lines).unwrap_or_default();
    Necessity {
        step,
        without,
        counterexample,
        run,
    }
}

/// A shortest run of a plan without faults: the place of everything at each moment, and the effect of a crash.
pub fn walk(plan: &Plan) -> Run {
    let scenario = plan.scenario();
    let machine = Machine::new(
        Hardware::of(&scenario.platform, Rules::ALL),
        plan.program(),
        scenario.update,
    );
    let events = shortest_conclusion(&machine).expect("the requester of a plan concludes");
    Run::new(&machine, &events, None)
}
