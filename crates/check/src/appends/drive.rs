//! One run: entries and mishaps, an examination of the states that a power cut would leave at some moments, and
//! progress after everything has healed.

use std::collections::BTreeSet;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_fabric_sim::{Fault, LocalClock, Machine, MachineOptions, MachineProfile, World};

use crate::appends::mishaps::{Mishap, schedule};
use crate::appends::setup::Setup;
use crate::appends::subject::Appends;
use crate::explorer::Explorer;
use crate::history::NodeId;
use crate::lab::Lab;
use crate::moments::Moments;
use crate::oracles::progress;
use crate::oracles::redundancy::{self, Group};
use crate::partitions::{duration_ns, partition};
use crate::report::Report;
use crate::stage::{Node, Stage};
use crate::subject::Subject as _;

/// Time after which everything heals, even if entries are left: longer than all troubles of a run, one after the other.
const TROUBLES_NS: Nanoseconds = 30_000_000_000;
/// Entries that each sender must persist after everything has healed.
const PROGRESS: u64 = 3;
/// Time for the progress: several times as long as a NIC waits for a dead peer.
const PROGRESS_NS: Nanoseconds = 10_000_000_000;
/// Time in which every sender notices the ends of its connections and connects again.
const SETTLING_NS: Nanoseconds = 1_000_000_000;

struct Run {
    stage: Stage<Appends>,
    random: Random,
    explorer: Explorer<Appends>,
    mishaps: Vec<(u64, Mishap)>,
    moments: Moments,
    /// The time at which the last stopped process continues.
    stands_still_until: Nanoseconds,
}

/// Runs `setup`.
pub(crate) fn run(scenario: &'static str, setup: &Setup) -> Report {
    let mut run = Run::new(scenario, setup);
    while run.goes_on() && run.step() {
        run.bring_about_what_is_due();
    }
    if run.stage.is_sound() {
        run.heal_and_go_on();
    }
    run.stage.note_explored(&run.explorer);
    run.stage.into_report()
}

impl Run {
    fn new(scenario: &'static str, setup: &Setup) -> Self {
        let world = World::new(setup.seed);
        world.set_faults(setup.faults);
        let mut random = random_from_seed(setup.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let subject = Appends::new(setup.clone());
        let machines = setup.receivers.iter().map(|place| place.machine);
        let report = Report {
            sizes: setup.sizes(),
            options: setup.describe(),
            ..Report::new(scenario, setup.seed)
        };
        let stage = Stage::begin(world, subject.clone(), machines.clone(), report);
        let lab = Rc::new(Lab::new(subject, machines));
        let mut run = Self {
            stage,
            explorer: Explorer::new(lab, setup.effort, random.random()),
            mishaps: schedule(setup, &mut random),
            random,
            moments: Moments::new(setup.every_moment),
            stands_still_until: 0,
        };
        (0..setup.senders).for_each(|sender| run.start_sender(sender));
        run
    }

    /// Returns whether entries are left, and time for troubles.
    fn goes_on(&self) -> bool {
        !self.stage.subject.is_idle() && self.stage.world.now() < TROUBLES_NS
    }

    fn start_sender(&mut self, sender: u32) {
        let options = MachineOptions::new(MachineProfile::MODERN);
        let seed = self.random.random();
        let clock = LocalClock::default();
        self.stage.start_client(sender, options, clock, seed);
    }

    /// Executes the next event, and looks at the states that a crash would leave. Returns false if a promise was
    /// broken.
    fn step(&mut self) -> bool {
        let goes_on = self.stage.step();
        if goes_on {
            self.look_at_crash();
        }
        goes_on && self.stage.is_sound()
    }

    fn bring_about_what_is_due(&mut self) {
        let answers = self.stage.answers();
        let due = self.mishaps.pop_if(|(after, _)| *after <= answers);
        if let Some((_, mishap)) = due {
            self.bring_about(mishap);
        }
    }

    fn a_node(&mut self) -> NodeId {
        self.random.random_range(0..self.stage.nodes.len()) as NodeId
    }

    fn a_sender(&mut self) -> u32 {
        self.random.random_range(0..self.stage.clients.len()) as u32
    }

    /// Chooses the machine of a receiver or of a sender, and returns it with its name.
    fn a_machine(&mut self) -> (Machine, String) {
        if self.random.random() {
            let node = self.a_node();
            let machine = self.stage.nodes[node as usize].machine;
            (machine, self.stage.subject.name(node))
        } else {
            let sender = self.a_sender();
            let machine = self.stage.clients[sender as usize].machine;
            (machine, format!("sender {sender}"))
        }
    }

    fn bring_about(&mut self, mishap: Mishap) {
        let (node, sender) = (self.a_node(), self.a_sender());
        let (machine, owner) = self.a_machine();
        let duration = duration_ns(&mut self.random);
        let is_running = self.stage.nodes[node as usize].is_running();
        match mishap {
            Mishap::ReceiverKilled if is_running => {
                self.stage.kill(node);
                self.hit(Fault::ProcessKilled, "receiver_deaths");
            }
            Mishap::SenderKilled => {
                self.stage.clients[sender as usize].process.kill();
                self.stage.subject.note_death(sender);
                self.stage.mark(format!("sender {sender} is killed"));
                self.start_sender(sender);
                self.hit(Fault::ProcessKilled, "sender_deaths");
            }
            Mishap::PowerCut if self.stage.nodes.iter().all(Node::is_running) => {
                self.stage.cut_power_of_some(&mut self.random);
            }
            Mishap::Partition => {
                let server = self.stage.nodes[node as usize].machine;
                let clients = self.stage.clients.iter();
                let clients: Vec<Machine> = clients.map(|client| client.machine).collect();
                let world = &self.stage.world;
                let what = partition(world, server, &clients, &mut self.random);
                self.stage.mark(format!("a partition begins, {what}"));
                self.stage.count("partitions");
            }
            Mishap::NicReset => {
                self.stage.world.reset_nic(machine);
                self.stage.mark(format!("the NIC of {owner} is reset"));
                self.hit(Fault::NicReset, "nic_resets");
            }
            Mishap::SlowNic => {
                let factor = self.stage.subject.setup.faults.slow_nic_factor;
                self.stage.world.slow_nic(machine, factor, duration);
                self.stage
                    .mark(format!("the NIC of {owner} is slow for {duration} ns"));
                self.hit(Fault::SlowNic, "slow_nics");
            }
            Mishap::HostHung => {
                if let Some(process) = self.stage.nodes[node as usize].process() {
                    process.pause(duration);
                    self.note_standstill(duration);
                    let name = self.stage.subject.name(node);
                    self.stage
                        .mark(format!("{name} stands still for {duration} ns"));
                    self.hit(Fault::HostHung, "receiver_pauses");
                }
            }
            Mishap::SenderPaused => {
                self.stage.clients[sender as usize].process.pause(duration);
                self.note_standstill(duration);
                let name = format!("sender {sender}");
                self.stage
                    .mark(format!("{name} stands still for {duration} ns"));
                self.stage.count("sender_pauses");
            }
            Mishap::Suspended => {
                self.stage.world.suspend(machine, duration);
                self.note_standstill(duration);
                self.stage.mark(format!(
                    "the machine of {owner} is suspended for {duration} ns"
                ));
                self.stage.count("suspensions");
            }
            Mishap::Dismissed => {
                self.stage.subject.dismiss(node, sender);
                self.stage
                    .mark(format!("receiver {node} is to end sender {sender}"));
                self.stage.count("dismissals");
            }
            // A mishap does no further harm to a node that is already down.
            Mishap::ReceiverKilled | Mishap::PowerCut => {}
        }
    }

    fn note_standstill(&mut self, duration: Nanoseconds) {
        let until = self.stage.world.now() + duration;
        self.stands_still_until = self.stands_still_until.max(until);
    }

    fn hit(&mut self, fault: Fault, name: &'static str) {
        self.stage.world.hit(fault);
        self.stage.count(name);
    }

    /// Examines the states that a power cut of any machines at this moment would leave.
    fn look_at_crash(&mut self) {
        let now = self.stage.stores_and_answers();
        if self.moments.is_due(now, &mut self.random) {
            let judge = self.stage.subject.clone();
            self.stage.examine(&mut self.explorer, &*judge);
        }
    }

    /// Lets everything heal. Then each sender must persist more entries, and be connected to all receivers. Healing
    /// wakes no process that stands still, and such a receiver accepts no connection before it goes on.
    fn heal_and_go_on(&mut self) {
        self.stage.world.heal();
        self.stage.mark("everything has healed".to_owned());
        let subject = self.stage.subject.clone();
        let healed = subject.testimony.history.borrow_mut().tick();
        self.stage.healed_until = Some(self.stage.world.now() + PROGRESS_NS);
        subject.add_entries(PROGRESS);
        while !subject.is_idle() && self.step() {}
        let settled = self.stage.world.now().max(self.stands_still_until) + SETTLING_NS;
        self.stage.healed_until = Some(settled + SETTLING_NS);
        while self.stage.world.now() < settled && self.step() {}
        if self.stage.is_sound() {
            self.judge_end(healed);
        }
        subject.finish();
        while self.stage.is_sound() && !self.stage.clients_are_done() && self.stage.step() {}
    }

    fn judge_end(&mut self, healed: u64) {
        let subject = &self.stage.subject;
        let senders = subject.setup.senders;
        let history = subject.testimony.history.borrow();
        let stands_still = progress::judge(&history, healed, senders, PROGRESS as usize);
        let groups: Vec<Group> = (0..senders)
            .map(|sender| subject.group_of(sender))
            .collect();
        let up: BTreeSet<NodeId> = subject.nodes().collect();
        let missing = redundancy::judge(&groups, up.len(), &up);
        drop(history);
        let found = stands_still.into_iter().chain(missing);
        self.stage.report.violations.extend(found);
    }
}
