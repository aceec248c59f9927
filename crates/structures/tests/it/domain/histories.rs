//! Random histories of writers, back-ends and crashes: after each hand-over the registers hold the result of a prefix
//! of the steps, with everything in it that a writer was told or a reader saw.

use std::cell::RefCell;
use std::rc::Rc;

use rand::{Rng as _, RngExt as _};
use stonecast_base::{Random, random_from_seed};
use stonecast_structures::{Domain, DomainError};

use super::rig::{
    AREA_COUNT, Executor, REGISTERS, Registers, Step, Writer, area, created, folded, new_pool,
    opened, own, registers,
};
use crate::memory::Memory;
use crate::pool::{Pool, now};

struct History {
    random: Random,
    pool: Rc<Pool>,
    domain: Domain,
    /// Steps of ended tenures, which nothing can change any more.
    decided: Vec<Step>,
    writer: Option<Rc<RefCell<Writer>>>,
    /// A writer that could not be stopped for certain: its window may still be open. The state of its tickets when its
    /// tenure ended.
    late: Option<(Rc<RefCell<Writer>>, usize)>,
    /// Steps of the writer that a reader has seen.
    seen: usize,
}

/// The result of a call of the back-end: it ended, or a crash came first.
enum Outcome<T> {
    Ended(T),
    Crashed,
}

impl History {
    fn new(seed: u64) -> Self {
        let pool = new_pool();
        let domain = created(&pool);
        Self {
            random: random_from_seed(seed),
            pool,
            domain,
            decided: Vec::new(),
            writer: None,
            late: None,
            seen: 0,
        }
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.random.random_range(0..one_in) == 0
    }

    fn staged(&self) -> Vec<Step> {
        let writer = self.writer.as_ref();
        writer.map_or(Vec::new(), |writer| writer.borrow().staged.clone())
    }

    /// Registers after the decided steps and `count` steps of the writer.
    fn after(&self, count: usize) -> Registers {
        folded(self.decided.iter().chain(&self.staged()[..count]))
    }

    /// Notes the registers as readers see them now: each register shows the result of some prefix.
    fn look(&mut self, memory: &Memory) {
        let shown = registers(memory);
        for register in 0..REGISTERS as usize {
            let mut counts = 0..=self.staged().len();
            let first = counts.find(|&count| self.after(count)[register] == shown[register]);
            let first = first.unwrap_or_else(|| panic!("register {register} shows {shown:x?}"));
            self.seen = self.seen.max(first);
        }
    }

    /// Runs a call of the back-end that a crash may interrupt.
    fn run<T>(&mut self, call: impl FnOnce(&mut Domain) -> T) -> Outcome<T> {
        if self.chance(4) {
            let steps = self.random.random_range(0..30);
            self.pool.crash_in(steps);
        }
        let ended = call(&mut self.domain);
        match self.pool.take_wreck() {
            None => Outcome::Ended(ended),
            Some(wreck) => {
                self.crash(wreck);
                Outcome::Crashed
            }
        }
    }

    /// The back-end's process dies, or the power fails. Afterwards the domain is handed over.
    fn crash(&mut self, wreck: Memory) {
        self.look(&wreck);
        if self.chance(2) {
            self.late = None;
            let habit = self.random.random_range(0..3);
            let random = &mut self.random;
            wreck.cut_power(|_, count| match habit {
                0 => random.random_range(0..count),
                1 => match random.random_range(0..8) {
                    0 => count - 1,
                    _ => 0,
                },
                _ => match random.random_range(0..8) {
                    0 => 0,
                    _ => count - 1,
                },
            });
        }
        self.pool = Pool::new(wreck);
        self.domain = opened(&self.pool);
        self.hand_over();
    }

    /// Ends the tenure. Crashes may interrupt the hand-over; then it is done again.
    fn hand_over(&mut self) {
        let raised = self.domain.raise();
        if let Some((late, _)) = &self.late {
            // A record that is written before the scan may count.
            go_on(&mut late.borrow_mut(), self.pool.memory(), &mut self.random);
            let (late, pool) = (late.clone(), self.pool.clone());
            let mut random = random_from_seed(self.random.next_u64());
            let steps = random.random_range(0..20);
            self.pool.happens_in(steps, move || {
                go_on(&mut late.borrow_mut(), pool.memory(), &mut random);
            });
        }
        let outcome =
            self.run(|domain| now(domain.finish(raised, own(), &mut Executor::default())));
        let Outcome::Ended(ended) = outcome else {
            return;
        };
        let ended = ended.expect("nothing durable is lost");
        if let Some(writer) = self.writer.take() {
            let writer = writer.borrow();
            let count = (ended.operation - writer.grant.start.chain.operation) as usize;
            let (told, seen) = (writer.told, self.seen);
            assert!(count >= told, "{count} steps count, {told} were told");
            assert!(count >= seen, "{count} steps count, {seen} were seen");
            self.decided.extend_from_slice(&writer.staged[..count]);
        }
        let shown = registers(self.pool.memory());
        let (count, executed) = (self.decided.len(), ended.replayed.executed);
        let expected = folded(&self.decided);
        assert_eq!(shown, expected, "{count} steps, {executed} just executed");
        self.seen = 0;
        if let Some((late, told)) = &mut self.late {
            *told = late.borrow().told;
        }
    }

    fn grant(&mut self) {
        let late = self.late.as_ref().map(|(late, _)| late.borrow().grant.area);
        let number = self.random.random_range(0..AREA_COUNT);
        if late == Some(area(number)) {
            return;
        }
        let outcome = self.run(|domain| now(domain.grant(area(number))));
        if let Outcome::Ended(grant) = outcome {
            let grant = grant.expect("the domain is free");
            let writer = Writer::new(grant, folded(&self.decided));
            self.writer = Some(Rc::new(RefCell::new(writer)));
        }
    }

    fn take(&mut self) {
        let outcome = self.run(|domain| now(domain.take()));
        let (Outcome::Ended(taken), Some(writer)) = (outcome, self.writer.clone()) else {
            return;
        };
        let taken = taken.expect("the writer is honest");
        let mut writer = writer.borrow_mut();
        assert_eq!(taken.durable, writer.log.chain().lsn);
        writer.durable = writer.staged.len();
        let applied = (taken.applied - writer.grant.start.chain.operation) as usize;
        assert_eq!(applied, writer.published);
        let shown = registers(self.pool.memory());
        let published = writer.staged[..applied].iter();
        assert_eq!(shown, folded(self.decided.iter().chain(published)));
        self.seen = self.seen.max(applied);
    }

    fn trim(&mut self) {
        let outcome = self.run(|domain| now(domain.trim()));
        let (Outcome::Ended(trimmed), Some(writer)) = (outcome, &self.writer) else {
            return;
        };
        trimmed.expect("a tenure lasts");
        let trimmed = self.domain.trimmed();
        writer.borrow_mut().log.note_trimmed(trimmed);
    }

    fn step(&mut self) {
        if let Some((late, told)) = &self.late {
            go_on(&mut late.borrow_mut(), self.pool.memory(), &mut self.random);
            let is_over = self
                .writer
                .as_ref()
                .is_none_or(|one| !Rc::ptr_eq(one, late));
            assert!(!is_over || late.borrow().told == *told, "told too late");
        }
        let Some(writer) = self.writer.clone() else {
            return self.grant();
        };
        let memory = self.pool.memory();
        match self.random.random_range(0..16) {
            0..6 => {
                let step = any_step(&mut self.random);
                writer.borrow_mut().stage(memory, step);
            }
            6..9 => {
                let mut writer = writer.borrow_mut();
                let waiting = writer.staged.len() - writer.published;
                let covers = self.random.random_range(0..=waiting);
                if covers > 0 {
                    writer.publish(memory, covers);
                }
            }
            9 => writer.borrow_mut().flush(memory),
            10 => writer.borrow_mut().complete(memory),
            11..13 => self.take(),
            13 => self.trim(),
            14 => {
                if self.chance(2) {
                    let told = writer.borrow().told;
                    self.late = Some((writer, told));
                }
                self.hand_over();
            }
            _ => {
                let wreck = memory.fork();
                self.crash(wreck);
            }
        }
    }
}

fn any_step(random: &mut Random) -> Step {
    Step {
        register: random.random_range(0..REGISTERS),
        amount: random.next_u64(),
    }
}

/// A writer that was stopped wakes up: it stages, makes its records durable, reads the tenure word, and completes its
/// tickets.
fn go_on(late: &mut Writer, memory: &Memory, random: &mut Random) {
    for _ in 0..random.random_range(0..3) {
        if !late.stage(memory, any_step(random)) {
            return;
        }
    }
    late.flush(memory);
    late.complete(memory);
}

/// Runs the history of `seed`.
pub fn run(seed: u64) {
    let mut history = History::new(seed);
    for _ in 0..60 {
        history.step();
    }
    history.hand_over();
}

#[test]
fn after_every_hand_over_the_registers_hold_a_prefix_with_every_acknowledged_operation() {
    for seed in 0..3_000 {
        let ran = std::panic::catch_unwind(|| run(seed));
        assert!(ran.is_ok(), "seed {seed}");
    }
}

#[test]
fn a_domain_without_a_tenure_takes_nothing() {
    let pool = new_pool();
    let mut domain = created(&pool);
    assert!(matches!(now(domain.take()), Err(DomainError::Vacant)));
    assert!(matches!(now(domain.trim()), Err(DomainError::Vacant)));
    now(domain.grant(area(0))).unwrap();
    let held = now(domain.grant(area(1))).unwrap_err();
    assert_eq!(held.to_string(), "tenure 1 has to be handed over first");
}
