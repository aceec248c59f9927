//! The machines of a run: nodes that start and end, clients, and the loop of events that watches them.
//!
//! ```text
//!   Stage ── nodes:   start, stop, kill, cut power        a node that ends starts again after a while
//!         ── clients: start, kill
//!         ── step:    the next event; then ends, answers and broken promises are noted
//! ```
//!
//! Invariants: all events of a run have one order; a run ends at the first broken promise.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random};
use stonecast_fabric_sim::{
    Fate, Fault, LocalClock, Machine, MachineOptions, Module, Process, Survivor, World,
};

use crate::explorer::{Explorer, Judge};
use crate::history::NodeId;
use crate::report::Report;
use crate::subject::{Ended, Seat, Subject, Task};
use crate::timeline::Notes;
use crate::violation::Violation;
use crate::wrecks::Wrecks;

/// Time for which a machine or process is gone.
const DOWN_NS: Nanoseconds = 300_000;
/// Maximum number of events of a run. A longer run makes no progress.
const EVENTS_MAX: u64 = 20_000_000;

/// The machines of a run, and the loop of its events.
pub(crate) struct Stage<S: Subject> {
    pub world: World,
    pub subject: Rc<S>,
    pub nodes: Vec<Node>,
    pub clients: Vec<Resident>,
    /// Once everything has healed: the deadline for the event that the run waits for.
    pub healed_until: Option<Nanoseconds>,
    pub report: Report,
    notes: Notes,
}

/// A node: its machine, and processes on it, one after the other.
pub(crate) struct Node {
    pub machine: Machine,
    pub module: Rc<Module>,
    running: Option<Running>,
    clock: LocalClock,
    /// Time at which the node starts again.
    restart_at: Option<Nanoseconds>,
}

struct Running {
    seat: Seat,
    ended: Rc<RefCell<Option<Result<(), Ended>>>>,
}

/// A client and its process.
pub(crate) struct Resident {
    pub machine: Machine,
    pub process: Process,
    pub done: Rc<Cell<bool>>,
}

impl Node {
    /// A machine with `module`.
    pub fn new(machine: Machine, module: Rc<Module>) -> Self {
        Self {
            machine,
            module,
            running: None,
            clock: LocalClock::default(),
            restart_at: None,
        }
    }

    /// A machine of `world`, with a module that holds nothing.
    pub fn fresh(world: &World, options: MachineOptions) -> Self {
        let machine = world.machine(options);
        Self::new(machine, world.module(machine, Survivor::default()))
    }

    /// The process that serves.
    pub fn process(&self) -> Option<&Process> {
        self.running.as_ref().map(|running| &running.seat.process)
    }

    /// Whether a process was started and has not ended.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Replaces the clock of this process and of later ones.
    pub fn set_clock(&mut self, clock: LocalClock) {
        self.clock = clock;
        if let Some(process) = self.process() {
            process.set_clock(clock);
        }
    }

    /// Asks the process to close its pool and end.
    pub fn stop(&self) {
        if let Some(running) = &self.running {
            running.seat.stop();
        }
    }

    /// Cancels a scheduled restart.
    pub fn stay_down(&mut self) {
        self.restart_at = None;
    }

    /// The result of the process, if it ended on its own.
    fn ended(&mut self) -> Option<Result<(), Ended>> {
        let ended = self.running.as_ref()?.ended.borrow_mut().take()?;
        // The rest of the process ends, too: its device still listens.
        let running = self.running.take().expect("just looked");
        running.seat.process.kill();
        Some(ended)
    }
}

impl<S: Subject> Stage<S> {
    /// A stage without clients, on which nothing runs yet.
    pub fn new(world: World, subject: Rc<S>, nodes: Vec<Node>, report: Report) -> Self {
        Self {
            world,
            subject,
            nodes,
            clients: Vec::new(),
            healed_until: None,
            report,
            notes: Notes::default(),
        }
    }

    /// A stage on machines of `world` whose modules hold nothing, with a process on each.
    pub fn begin(
        world: World,
        subject: Rc<S>,
        machines: impl Iterator<Item = MachineOptions>,
        report: Report,
    ) -> Self {
        let nodes: Vec<_> = machines
            .map(|options| Node::fresh(&world, options))
            .collect();
        let numbers = 0..nodes.len() as NodeId;
        let mut stage = Self::new(world, subject, nodes, report);
        numbers.for_each(|node| stage.start(node));
        stage
    }

    /// Starts a node.
    pub fn start(&mut self, node: NodeId) {
        let state = &mut self.nodes[node as usize];
        assert!(state.running.is_none(), "one process at a time");
        let process = self.world.process(state.machine);
        process.set_clock(state.clock);
        let seat = Seat::new(node, process.clone(), &state.module);
        let ended = Rc::new(RefCell::new(None));
        let (life, told) = (self.subject.clone().serve(seat.clone()), ended.clone());
        process.runtime().spawn(Box::pin(async move {
            let result = life.await;
            *told.borrow_mut() = Some(result);
        }));
        state.running = Some(Running { seat, ended });
    }

    /// Kills the process of a node, which starts again later.
    pub fn kill(&mut self, node: NodeId) {
        if let Some(running) = self.nodes[node as usize].running.take() {
            running.seat.process.kill();
        }
        self.note_death(node);
        self.mark(format!("{} is killed", self.subject.name(node)));
        self.restart_later(node);
    }

    /// Cuts the power of `nodes` at one moment, each with what survives there; they start again later.
    pub fn cut_power(&mut self, nodes: Vec<(NodeId, Survivor)>, what: String) {
        let numbers: Vec<NodeId> = nodes.iter().map(|(node, _)| *node).collect();
        for (node, survivor) in nodes {
            let state = &mut self.nodes[node as usize];
            state.running = None;
            self.world.cut_power(state.machine);
            state.module.restart(survivor);
        }
        numbers.iter().for_each(|&node| self.note_death(node));
        self.mark(what);
        numbers
            .into_iter()
            .for_each(|node| self.restart_later(node));
    }

    fn note_death(&self, node: NodeId) {
        self.subject.testimony().history.borrow_mut().crash(node);
    }

    /// Cuts the power of some machines, sometimes of all. Any part of the undecided stores survives.
    pub fn cut_power_of_some(&mut self, random: &mut Random) {
        let wrecks = self.wrecks();
        let mut fates: Vec<Fate> = (0..wrecks.undecided())
            .map(|unit| wrecks.whole(unit))
            .collect();
        let chosen = random.random_range(1..1_u64 << wrecks.machines());
        let is_cut = |machine: usize| chosen >> machine & 1 == 1;
        for machine in (0..wrecks.machines()).filter(|&machine| is_cut(machine)) {
            for unit in wrecks.units(machine) {
                fates[unit].stores = random.random_range(0..=wrecks.stores(unit));
            }
        }
        let what = format!("power is cut; {}", self.tell(&wrecks, &fates));
        let survivors = (0..).zip(wrecks.survivors(&fates));
        let cut = survivors.filter(|(node, _)| is_cut(*node as usize));
        self.cut_power(cut.collect(), what);
        self.count("power_cuts");
        self.world.hit(Fault::PowerCut);
    }

    /// Examines what a power cut of any machines at this moment would leave.
    pub fn examine(&mut self, explorer: &mut Explorer<S>, judge: &dyn Judge<S::Contents>) {
        let remains = explorer.remains(self.wrecks());
        self.world.hit(Fault::PowerCut);
        if let Some(finding) = explorer.explore(&remains, judge) {
            let left = self.tell(&remains.wrecks, &finding.fates);
            let event = self.world.events();
            let Violation { oracle, found } = finding.violation;
            self.mark(format!(
                "if the power is cut here: {left}; then {oracle}: {found}"
            ));
            let text = format!("{found} (power cut after event {event}: {left})");
            self.report.note(Violation::new(oracle, text));
        }
    }

    /// Notes in the report what `explorer` examined.
    pub fn note_explored(&mut self, explorer: &Explorer<S>) {
        self.report.crash_states = explorer.states;
        let cuts = [
            (Fault::RecoveryCrash, explorer.cut),
            (Fault::TornWrite, explorer.torn),
        ];
        for (fault, count) in cuts {
            let hits = &mut self.report.faults_hit;
            *hits.entry(fault.class().name).or_default() += count;
        }
    }

    fn tell(&self, wrecks: &Wrecks, fates: &[Fate]) -> String {
        wrecks.describe(fates, |machine| self.subject.name(machine as NodeId))
    }

    /// The states that a power cut of all nodes at this moment may leave.
    pub fn wrecks(&self) -> Wrecks {
        let wrecks = self.nodes.iter();
        let wrecks = wrecks.map(|node| self.world.wreck(node.machine, &node.module));
        Wrecks::new(wrecks.collect())
    }

    /// Number of stores to the modules of all nodes. The number changes whenever the states that a power cut may leave
    /// change.
    pub fn stores(&self) -> u64 {
        self.nodes.iter().map(|node| node.module.stores()).sum()
    }

    /// Number of answers to clients.
    pub fn answers(&self) -> u64 {
        self.subject.testimony().history.borrow().answers()
    }

    /// Numbers of stores and answers: the states that a power cut may leave, and what clients know of them, change with
    /// these alone.
    pub fn stores_and_answers(&self) -> (u64, u64) {
        (self.stores(), self.answers())
    }

    /// Starts client `number`, on the machine that it had before or on one with `options`.
    pub fn start_client(
        &mut self,
        number: u32,
        options: MachineOptions,
        clock: LocalClock,
        seed: u64,
    ) {
        let known = self.clients.get(number as usize);
        let known = known.map(|client| client.machine);
        let machine = known.unwrap_or_else(|| self.world.machine(options));
        let process = self.world.process(machine);
        process.set_clock(clock);
        let done = Rc::new(Cell::new(false));
        let life = self.subject.clone().live(process.clone(), number, seed);
        let told = done.clone();
        process.runtime().spawn(Box::pin(async move {
            life.await;
            told.set(true);
        }));
        let client = Resident {
            machine,
            process,
            done,
        };
        match self.clients.get_mut(number as usize) {
            Some(slot) => *slot = client,
            None => self.clients.push(client),
        }
    }

    /// Whether all clients have ended.
    pub fn clients_are_done(&self) -> bool {
        self.clients.iter().all(|client| client.done.get())
    }

    /// Runs one more process, on a machine of its own, until it is done.
    pub fn visit_alone(
        &mut self,
        options: MachineOptions,
        visit: impl FnOnce(Process, Rc<Cell<bool>>) -> Task<()>,
    ) {
        let process = self.world.process(self.world.machine(options));
        let done = Rc::new(Cell::new(false));
        process
            .runtime()
            .spawn(visit(process.clone(), done.clone()));
        while !done.get() && self.step() {}
        process.kill();
    }

    /// Executes the next event; false when the run is over because a promise was broken.
    pub fn step(&mut self) -> bool {
        self.restart_what_is_due();
        let late = self
            .healed_until
            .is_some_and(|until| self.world.now() > until);
        let stuck = !self.world.step() || self.world.events() > EVENTS_MAX || late;
        if stuck {
            let when = if late {
                " although everything is healed"
            } else {
                ""
            };
            let text = format!("stuck after {} events{when}", self.world.events());
            self.report
                .note(Violation::new("every request is answered", text));
        }
        for node in 0..self.nodes.len() as NodeId {
            if let Some(ended) = self.nodes[node as usize].ended() {
                self.note_end(node, ended);
            }
        }
        let subject = self.subject.clone();
        let told = subject.testimony();
        let moment = told.history.borrow().now();
        self.notes
            .pass(moment, self.world.now(), self.world.events());
        self.report
            .violations
            .append(&mut told.violations.borrow_mut());
        self.report.violations.is_empty()
    }

    fn restart_what_is_due(&mut self) {
        let now = self.world.now();
        for node in 0..self.nodes.len() as NodeId {
            let state = &mut self.nodes[node as usize];
            if state.restart_at.is_some_and(|at| now >= at) {
                state.restart_at = None;
                self.start(node);
                self.mark(format!("{} starts again", self.subject.name(node)));
            }
        }
    }

    /// Notes the end of a process that ended on its own.
    fn note_end(&mut self, node: NodeId, ended: Result<(), Ended>) {
        let name = self.subject.name(node);
        let what = match ended {
            Ok(()) => format!("{name} has closed its pool and ends"),
            Err(Ended { error, is_excused }) => {
                if !is_excused {
                    self.report.note(Violation::new(
                        "a server goes on while its surroundings are sound",
                        error.clone(),
                    ));
                }
                format!("{name} ends: {error}")
            }
        };
        self.note_death(node);
        self.mark(what);
        self.restart_later(node);
    }

    /// Schedules the next start of a node.
    fn restart_later(&mut self, node: NodeId) {
        let at = self.world.now() + DOWN_NS;
        self.nodes[node as usize].restart_at = Some(at);
        // There may be no other event until then.
        let observer = self.world.observer();
        let sleeper = self.world.observer();
        observer.spawn(Box::pin(async move { sleeper.sleep_until(at).await }));
    }

    /// Counts an incident of the store.
    pub fn count(&mut self, name: &'static str) {
        *self.report.course.entry(name).or_default() += 1;
    }

    /// Adds an entry to the timeline that comes from no client.
    pub fn mark(&mut self, what: String) {
        let moment = self.subject.testimony().history.borrow().now();
        self.notes
            .mark(moment, self.world.now(), self.world.events(), what);
    }

    /// Whether no promise was broken so far.
    pub fn is_sound(&self) -> bool {
        self.report.violations.is_empty()
    }

    /// The report of the run, with the counts of the world and of the clients.
    pub fn into_report(mut self) -> Report {
        let told = self.subject.testimony();
        let history = told.history.borrow();
        if !self.report.violations.is_empty() {
            self.report.timeline = self.notes.tell(&history, S::WORDS);
        }
        self.report.hash = self.world.hash();
        self.report.events = self.world.events();
        self.report.operations = history.operations().len() as u64;
        for (name, count) in self.world.fault_hits().into_iter().chain(told.hits()) {
            *self.report.faults_hit.entry(name).or_default() += count;
        }
        self.report.faults_hit.retain(|_, count| *count > 0);
        drop(history);
        self.report
    }
}
