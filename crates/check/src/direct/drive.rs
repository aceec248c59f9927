//! One run: drives the world, ends servers and clients in the middle, examines what power cuts
//! would leave, and judges the history at the end.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_fabric_sim::{Fate, Fault, Machine, Process, World};
use stonecast_media::PersistenceDomain;

use crate::direct::client::{self, Work};
use crate::direct::damage::{Damage, Image};
use crate::direct::explorer::Explorer;
use crate::direct::host::{self, Host, SERVER, Upkeep};
use crate::direct::keys;
use crate::direct::lab::Lab;
use crate::direct::mishaps::{self, Mishap};
use crate::direct::progress::{self, PROGRESS_NS};
use crate::direct::setup::Setup;
use crate::direct::visitors;
use crate::direct::words::WORDS;
use crate::linearizability::{STATES_MAX, Verdict};
use crate::models::register::{self, History};
use crate::oracles::acknowledged::Allowed;
use crate::report::Report;
use crate::timeline::Notes;
use crate::values::ValueId;
use crate::violation::Violation;

/// Time for which a machine or process is gone.
const DOWN_NS: Nanoseconds = 300_000;
/// Maximum number of events of a run: a longer one makes no progress.
const EVENTS_MAX: u64 = 20_000_000;
/// Time in which things may go wrong: clients that are not done by then must be done soon after
/// everything heals.
const SAFETY_NS: Nanoseconds = 20_000_000_000;

struct Run {
    world: World,
    work: Rc<Work>,
    host: Host,
    clients: Vec<Resident>,
    random: Random,
    /// Mishaps to come, each with the number of answers after which it is due.
    mishaps: Vec<(u64, Mishap)>,
    damage: Damage,
    /// Time by which clocks were set forward.
    jumps: u64,
    /// Stores at the last check for due mishaps, and how often a mishap waited for a store.
    stores_before: u64,
    waited: u32,
    behind_a_store: bool,
    /// If everything has healed: the time by which all clients must have made progress.
    healed_until: Option<Nanoseconds>,
    /// Time at which the server starts again.
    restart_at: Option<Nanoseconds>,
    explorer: Explorer,
    allowed: Allowed,
    crash_points: u32,
    /// Stores and answers at the last look at a crash.
    seen: (u64, u64),
    /// Whether the run demands a promise that no store keeps.
    canary: bool,
    notes: Notes,
    report: Report,
}

/// Time limit for filling a pool and emptying it again.
const FILLED_NS: Nanoseconds = 60_000_000_000;
/// Number of events for which the end of a server waits for a store.
const WAITS_MAX: u32 = 500;

/// Time by which a clock is set forward.
const JUMP_NS: u64 = 20_000_000_000;

/// A client and its process.
struct Resident {
    machine: Machine,
    process: Process,
    done: Rc<Cell<bool>>,
}

/// Runs `setup`.
pub(crate) fn run(scenario: &'static str, setup: &Setup, canary: bool) -> Report {
    let mut run = Run::new(scenario, setup);
    run.canary = canary;
    run.work_off();
    run.get_on();
    run.finish();
    run.report
}

impl Run {
    fn new(scenario: &'static str, setup: &Setup) -> Self {
        let world = World::new(setup.seed);
        let mut random = random_from_seed(setup.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let names = (0..setup.keys).map(keys::name).collect();
        let work = Work::new(setup.clone(), names);
        let mut host = Host::new(&world, setup);
        host.start(&world);
        let mishaps = mishaps::schedule(setup, &mut random);
        let lab = Rc::new(Lab::new(setup.machine, setup.keys, setup.pool.segment_size));
        let damage = Damage::new(lab.clone(), setup.faults);
        let explorer = Explorer::new(lab, setup.effort, random.random());
        let mut run = Self {
            world,
            work,
            host,
            clients: Vec::new(),
            random,
            mishaps,
            damage,
            jumps: 0,
            stores_before: 0,
            waited: 0,
            behind_a_store: true,
            healed_until: None,
            restart_at: None,
            explorer,
            allowed: Allowed::default(),
            crash_points: setup.crash_points,
            seen: (0, 0),
            canary: false,
            notes: Notes::default(),
            report: Report {
                sizes: setup.sizes(),
                options: setup.describe(),
                ..Report::new(scenario, setup.seed)
            },
        };
        run.world.set_faults(setup.faults);
        run.host
            .set_clock(mishaps::clock(&run.world, &setup.faults, &mut run.random));
        (0..setup.clients).for_each(|number| run.start_client(number));
        run
    }

    fn start_client(&mut self, number: u32) {
        let known = self
            .clients
            .get(number as usize)
            .map(|client| client.machine);
        let machine = known.unwrap_or_else(|| self.world.machine(self.work.setup.machine));
        let process = self.world.process(machine);
        process.set_clock(mishaps::clock(
            &self.world,
            &self.work.setup.faults,
            &mut self.random,
        ));
        let done = Rc::new(Cell::new(false));
        let (work, life, told, seed) = (
            self.work.clone(),
            process.clone(),
            done.clone(),
            self.random.random(),
        );
        process.runtime().spawn(Box::pin(async move {
            client::live(work, life, number, seed).await;
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

    /// Drives the world until all clients are done, and heals everything when that takes long.
    fn work_off(&mut self) {
        while !self.clients.iter().all(|client| client.done.get()) && self.go_on() {
            if self.healed_until.is_none() && self.world.now() > SAFETY_NS {
                self.heal();
            }
            self.bring_about();
            self.look_at_crash();
        }
        // A failed run ends where it failed.
        if self.report.violations.is_empty() {
            self.heal();
        }
    }

    /// Turns all faults off.
    fn heal(&mut self) {
        if self.healed_until.is_none() {
            self.world.heal();
            self.host.module.limit_space(u64::MAX);
            self.mishaps.clear();
            self.mark("everything is healed".to_owned());
        }
        self.healed_until = Some(self.world.now() + PROGRESS_NS);
    }

    /// Demands progress of all clients, and that the leases of dead clients are returned.
    fn get_on(&mut self) {
        if !self.report.violations.is_empty() {
            return;
        }
        let mut waiting = Vec::new();
        for (number, client) in (0..).zip(&self.clients) {
            let done = Rc::new(Cell::new(false));
            let future = progress::get_on(
                self.work.clone(),
                client.process.clone(),
                number,
                done.clone(),
            );
            client.process.runtime().spawn(Box::pin(future));
            waiting.push(done);
        }
        while !waiting.iter().all(|done| done.get()) && self.go_on() {}
        self.healed_until = Some(self.world.now() + PROGRESS_NS);
        let work = self.work.clone();
        self.visit_alone(|process, done| Box::pin(progress::wait_for_leases(work, process, done)));
        if let Some(value_size) = self.work.setup.fills_with {
            self.healed_until = Some(self.world.now() + FILLED_NS);
            let work = self.work.clone();
            self.visit_alone(|process, done| {
                Box::pin(progress::fill_and_forget(work, process, value_size, done))
            });
        }
        if self.report.violations.is_empty() {
            self.damage_live();
        }
        if self.report.violations.is_empty() {
            self.damage_trail();
        }
    }

    /// Runs one more process, on a machine of its own, until it is done.
    fn visit_alone(
        &mut self,
        visit: impl FnOnce(Process, Rc<Cell<bool>>) -> Pin<Box<dyn Future<Output = ()>>>,
    ) {
        let process = self
            .world
            .process(self.world.machine(self.work.setup.machine));
        let done = Rc::new(Cell::new(false));
        process
            .runtime()
            .spawn(visit(process.clone(), done.clone()));
        while !done.get() && self.go_on() {}
        process.kill();
    }

    /// Executes the next event; false when the run is over because a promise was broken.
    fn go_on(&mut self) -> bool {
        if self.restart_at.is_some_and(|at| self.world.now() >= at) {
            self.restart_at = None;
            self.host.start(&self.world);
            self.mark("the server starts again".to_owned());
        }
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
        if let Some(ended) = self.host.ended() {
            self.report
                .violations
                .extend(host::judge_end(&ended, &self.work.setup.faults));
            self.work.history.borrow_mut().crash(SERVER);
            self.mark(match &ended {
                Ok(()) => "the server has closed its pool and ends".to_owned(),
                Err(error) => format!("the server ends: {error}"),
            });
            self.restart_later();
        }
        self.notes.pass(
            self.work.history.borrow().now(),
            self.world.now(),
            self.world.events(),
        );
        self.report
            .violations
            .append(&mut self.work.violations.borrow_mut());
        self.report.violations.is_empty()
    }

    /// Counts an incident of the store.
    fn count(&mut self, name: &'static str) {
        *self.report.course.entry(name).or_default() += 1;
    }

    /// Adds an entry to the timeline that no client sees.
    fn mark(&mut self, what: String) {
        self.notes.mark(
            self.work.history.borrow().now(),
            self.world.now(),
            self.world.events(),
            what,
        );
    }

    /// Schedules the next start of the server.
    fn restart_later(&mut self) {
        let at = self.world.now() + DOWN_NS;
        self.restart_at = Some(at);
        // There may be no other event until then.
        let observer = self.world.observer();
        let sleeper = self.world.observer();
        observer.spawn(Box::pin(async move { sleeper.sleep_until(at).await }));
    }

    /// Causes the mishaps that are due.
    fn bring_about(&mut self) {
        let answers = self.work.history.borrow().answers();
        let Some((_, mishap)) = self.mishaps.pop_if(|(after, _)| *after <= answers) else {
            return;
        };
        let needs_server = matches!(
            mishap,
            Mishap::ServerClosed
                | Mishap::ServerKilled
                | Mishap::PowerCut
                | Mishap::WarmReset
                | Mishap::HostHung
                | Mishap::SyncFails
        );
        // Half of the ends come right after a store: the critical moment is between a stamp and its
        // persist.
        let stores = self.host.module.stores();
        let stored = std::mem::replace(&mut self.stores_before, stores) != stores;
        let waits = matches!(mishap, Mishap::ServerKilled | Mishap::PowerCut)
            && self.behind_a_store
            && !stored;
        if waits && self.waited < WAITS_MAX {
            self.waited += 1;
            return self.mishaps.push((answers, mishap));
        }
        self.waited = 0;
        self.behind_a_store = self.random.random();
        if needs_server && !self.host.is_running() {
            // The server is down already: try later.
            return self.mishaps.push((answers + 10, mishap));
        }
        let number = self.random.random_range(0..self.clients.len());
        match mishap {
            Mishap::ClientKilled => {
                self.clients[number].process.kill();
                self.count("client_deaths");
                // Its operations under way may still take effect, since the server goes on.
                self.start_client(number as u32);
                self.mark(format!("client {number} is killed, and starts again"));
                self.world.hit(Fault::ProcessKilled);
            }
            Mishap::ServerClosed => {
                self.host.stop();
                self.mark("the server is asked to end".to_owned());
            }
            Mishap::ServerKilled => {
                self.host.kill();
                self.count("server_deaths");
                self.work.history.borrow_mut().crash(SERVER);
                self.mark("the server is killed".to_owned());
                self.restart_later();
                self.world.hit(Fault::ProcessKilled);
            }
            Mishap::PowerCut => self.cut_power(Fault::PowerCut),
            Mishap::WarmReset => self.cut_power(Fault::WarmReset),
            Mishap::Partition => {
                let clients: Vec<Machine> =
                    self.clients.iter().map(|client| client.machine).collect();
                let what =
                    mishaps::partition(&self.world, self.host.machine, &clients, &mut self.random);
                self.mark(format!("a partition {what}"));
            }
            Mishap::NicReset => {
                let server = self.random.random();
                let machine = if server {
                    self.host.machine
                } else {
                    self.clients[number].machine
                };
                self.world.reset_nic(machine);
                self.mark(format!(
                    "the NIC of {} is reset",
                    if server {
                        "the server".into()
                    } else {
                        format!("client {number}")
                    }
                ));
            }
            Mishap::SlowNic => {
                let server = self.random.random();
                let machine = if server {
                    self.host.machine
                } else {
                    self.clients[number].machine
                };
                self.world.slow_nic(
                    machine,
                    self.work.setup.faults.slow_nic_factor,
                    mishaps::duration_ns(&mut self.random),
                );
            }
            Mishap::HostHung => {
                let duration = mishaps::duration_ns(&mut self.random);
                self.host.process().expect("it runs").pause(duration);
                self.mark(format!("the server stands still for {duration} ns"));
            }
            Mishap::ClientPaused => {
                let duration = 1_000_000 + mishaps::duration_ns(&mut self.random);
                self.clients[number].process.pause(duration);
                self.clients[number].process.break_peers();
                self.world.hit(Fault::PauseBeyondLease);
                self.mark(format!("client {number} stands still for {duration} ns, and the server takes it for dead"));
            }
            Mishap::ClockJump => {
                self.jumps += 1;
                let mut clock =
                    mishaps::clock(&self.world, &self.work.setup.faults, &mut self.random);
                clock.ahead_ns += self.jumps * JUMP_NS;
                match self.random.random() {
                    true => self.host.set_clock(clock),
                    false => self.clients[number].process.set_clock(clock),
                }
            }
            Mishap::FullMedium => {
                self.host.module.limit_space(0);
                self.mark("the medium is full".to_owned());
            }
            Mishap::SyncFails => {
                if self.work.setup.machine.platform.persistence_domain
                    == PersistenceDomain::PageFile
                {
                    self.host.module.fail_next_sync();
                    self.world.hit(Fault::LostWrite);
                    self.mark("the next sync fails".to_owned());
                }
            }
            Mishap::Visit(visitor) => {
                let process = self
                    .world
                    .process(self.world.machine(self.work.setup.machine));
                let visit = visitors::visit(
                    self.work.clone(),
                    process.clone(),
                    visitor,
                    self.random.random(),
                );
                process.runtime().spawn(Box::pin(visit));
                self.mark(format!("{visitor} comes"));
            }
        }
    }

    /// The power of the server's machine fails, or the machine is reset without its caches being written back.
    fn cut_power(&mut self, fault: Fault) {
        let wreck = self.world.wreck(self.host.machine, &self.host.module);
        let torn_percent = self.work.setup.faults.torn_writes_percent;
        let fates: Vec<Fate> = (0..wreck.undecided())
            .map(|unit| {
                let stores = self.random.random_range(0..=wreck.stores(unit));
                let torn: u8 = if self.random.random_range(0..100) < torn_percent {
                    self.random.random()
                } else {
                    0
                };
                Fate { stores, torn }
            })
            .collect();
        if fates.iter().any(|fate| fate.torn != 0) {
            self.world.hit(Fault::TornWrite);
        }
        self.host.cut_power(&self.world, wreck.survivor(&fates));
        self.count("power_cuts");
        self.work.history.borrow_mut().crash(SERVER);
        let what = if fault == Fault::PowerCut {
            "the power of the server is cut"
        } else {
            "the machine of the server is reset"
        };
        self.mark(format!("{what}; {}", wreck.describe(&fates)));
        self.restart_later();
        self.world.hit(fault);
    }

    /// Examines what a power cut at this moment would leave, at as many moments as the setup says,
    /// spread over the run.
    fn look_at_crash(&mut self) {
        if self.crash_points == 0 || !self.host.is_running() {
            return;
        }
        let now = (
            self.host.module.stores(),
            self.work.history.borrow().answers(),
        );
        if now == self.seen {
            return;
        }
        self.seen = now;
        let setup = &self.work.setup;
        // A write stores and is answered, which gives about two moments for each operation.
        let chance = f64::from(setup.crash_points) / (2.0 * setup.operations as f64);
        if chance < 1.0 && !self.random.random_bool(chance) {
            return;
        }
        self.crash_points = self.crash_points.saturating_sub(1);
        self.allowed.update(&self.work.history.borrow());
        if self.canary {
            self.allowed.demand_newest(&self.work.history.borrow());
        }
        let wreck = self.world.wreck(self.host.machine, &self.host.module);
        self.world.hit(Fault::PowerCut);
        let harmed = self
            .damage
            .after_crash(&self.work, &wreck.everything(), &mut self.random);
        self.report.violations.extend(harmed);
        if let Some(finding) = self.explorer.explore(&wreck, &self.allowed) {
            let left = wreck.describe(&finding.fates);
            self.mark(format!(
                "if the power of the server is cut here: {left}; then {}",
                finding.violation
            ));
            let text = format!(
                "{} (power cut after event {}: {left})",
                finding.violation.found,
                self.world.events()
            );
            self.report
                .note(Violation::new(finding.violation.oracle, text));
        }
    }

    /// Reads everything, closes the server, opens it again, and judges.
    fn finish(&mut self) {
        if self.report.violations.is_empty() {
            self.read_everything();
        }
        if self.report.violations.is_empty() {
            self.close_and_open();
        }
        let history = self.work.history.borrow();
        if self.report.violations.is_empty() {
            self.report.violations.extend(judge_history(&history));
        }
        if !self.report.violations.is_empty() {
            self.report.timeline = self.notes.tell(&history, WORDS);
        }
        self.report.hash = self.world.hash();
        self.report.events = self.world.events();
        self.report.operations = history.operations().len() as u64;
        self.report.crash_states = self.explorer.states + self.damage.states;
        self.report.faults_hit = self.world.fault_hits();
        for (name, count) in self.work.hits() {
            *self.report.faults_hit.entry(name).or_default() += count;
        }
        for (fault, count) in [
            (Fault::RecoveryCrash, self.explorer.cut),
            (Fault::TornWrite, self.explorer.torn),
        ] {
            *self
                .report
                .faults_hit
                .entry(fault.class().name)
                .or_default() += count;
        }
        if self.work.refusals.get() > 0 {
            *self
                .report
                .faults_hit
                .entry(Fault::AllocationFailure.class().name)
                .or_default() += self.work.refusals.get();
        }
        let Upkeep { cleaned, growths } = self.host.upkeep();
        self.report.course.extend([
            ("segments_cleaned", cleaned.segments),
            ("records_moved", cleaned.moved_records),
            ("tombstones_dropped", cleaned.dropped_tombstones),
            ("segments_abandoned", cleaned.abandoned),
            ("leases_reclaimed", cleaned.reclaimed_leases),
            ("index_growths", growths),
        ]);
        self.report.faults_hit.retain(|_, count| *count > 0);
    }

    fn read_everything(&mut self) {
        let work = self.work.clone();
        self.visit_alone(move |process, done| {
            Box::pin(async move {
                client::read_all(work, process.clone(), process.runtime()).await;
                done.set(true);
            })
        });
    }

    /// Damages records while the server serves them, lets clients read them, and restores them.
    fn damage_live(&mut self) {
        let faults = self.work.setup.faults;
        let kinds = [
            faults.flipped_bits,
            faults.misdirected_writes + faults.stale_lines,
            faults.poisoned_lines,
        ];
        if kinds == [0; 3] || !self.host.is_running() {
            return;
        }
        self.allowed.update(&self.work.history.borrow());
        let present: Vec<(u32, ValueId)> = (0..self.work.setup.keys)
            .filter_map(|key| match *self.allowed.of_key(key) {
                [value] if value != ValueId::ABSENT => Some((key, value)),
                _ => None,
            })
            .collect();
        let module = self.host.module.clone();
        let image = Image::read(module.touched(), |offset, into| module.look(offset, into));
        let places: Vec<(u32, ValueId, u64)> = present
            .iter()
            .filter_map(|&(key, value)| Some((key, value, image.find(key, value)?)))
            .collect();
        let Some(&(key, value, place)) =
            places.get(self.random.random_range(0..places.len().max(1)))
        else {
            return;
        };
        // A block of a few lines, inside the segment.
        let segment_size = self.work.setup.pool.segment_size;
        let size = 512.min(segment_size - place % segment_size) as usize;
        let before = image.bytes(place, size);
        let kind = (0..3)
            .map(|turn| (turn + self.random.random_range(0..3)) % 3)
            .find(|&kind| kinds[kind] > 0);
        match kind {
            Some(0) => {
                let at = 40 + keys::name(key).len() as u64 + self.random.random_range(0..8);
                let mut byte = image.bytes(place + at, 1);
                byte[0] ^= 1 << self.random.random_range(0..8);
                module.corrupt(place + at, &byte);
                self.world.hit(Fault::BitFlip);
            }
            Some(1) => {
                let other = places[self.random.random_range(0..places.len())].2;
                if other == place {
                    return;
                }
                module.corrupt(place, &image.bytes(other, size));
                self.world.hit(Fault::MisdirectedWrite);
            }
            Some(_) => module.poison(place, 64),
            None => return,
        }
        self.mark(format!("the record of key {key} at {place} is damaged"));
        let work = self.work.clone();
        self.visit_alone(move |process, done| {
            Box::pin(progress::read_damaged(
                work,
                process,
                vec![(key, value)],
                done,
            ))
        });
        module.corrupt(place, &before);
        module.cure();
        self.mark("the record is restored".to_owned());
    }

    /// Damages records for which only their successors vouch.
    fn damage_trail(&mut self) {
        let trail = Rc::new(Cell::new(Vec::new()));
        let (work, laid) = (self.work.clone(), trail.clone());
        self.visit_alone(move |process, done| {
            Box::pin(progress::lay_trail(work, process, laid, done))
        });
        if !self.report.violations.is_empty() || !self.host.is_running() {
            return;
        }
        let cut = self
            .world
            .wreck(self.host.machine, &self.host.module)
            .everything();
        let found = self
            .damage
            .of_trail(&self.work, &cut, &trail.take(), &mut self.random);
        self.report.violations.extend(found);
    }

    /// Checks that a store that is closed and opened again has the same content.
    fn close_and_open(&mut self) {
        self.host.stop();
        while self.host.is_running() && self.go_on() {}
        self.restart_at = None;
        if !self.report.violations.is_empty() {
            return;
        }
        if self.work.setup.publishes() {
            // A close is no power cut, so there is no state to explore: the content is there when
            // the pool is opened again.
            self.host.start(&self.world);
            self.healed_until = Some(self.world.now() + PROGRESS_NS);
            return self.read_everything();
        }
        self.allowed.update(&self.work.history.borrow());
        let wreck = self.world.wreck(self.host.machine, &self.host.module);
        if let Some(finding) = self.explorer.explore(&wreck, &self.allowed) {
            self.report.note(Violation::new(
                finding.violation.oracle,
                format!("{} (after closing)", finding.violation.found),
            ));
        }
        if self.report.violations.is_empty() {
            let found = self
                .damage
                .after_close(&self.work, &wreck.everything(), &mut self.random);
            self.report.violations.extend(found);
        }
    }
}

/// Judges the whole history, key by key.
fn judge_history(history: &History) -> Option<Violation> {
    (0..history.parts()).find_map(|key| {
        let text = match register::check(history.of_part(key), None, STATES_MAX) {
            Verdict::Linearizable => return None,
            Verdict::NotLinearizable { explained, stuck } => {
                let stuck = stuck.and_then(|number| history.of_part(key).nth(number));
                let stuck = stuck.map_or("none".to_owned(), |stuck| WORDS.describe(stuck));
                format!(
                    "key {key}: {explained} operations are explained, but not this one: {stuck}"
                )
            }
            Verdict::Undecided => format!("key {key}: undecided after {STATES_MAX} states"),
        };
        Some(Violation::new("the history is linearizable", text))
    })
}
