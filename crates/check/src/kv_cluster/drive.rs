//! One run: operations and mishaps, an examination of the states that a power cut of all nodes would leave at some
//! moments, and the oracles when everything has healed.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_cluster::{Configuration, HashRange, NodeState, Refusal, Subject as Group};
use stonecast_config_sim::{ConfigService, ServiceOptions};
use stonecast_fabric_sim::{
    Fault, Faults, LocalClock, Machine, MachineOptions, MachineProfile, Process, SimBacking, World,
};

use crate::explorer::Explorer;
use crate::history::{Moment, NodeId};
use crate::kv::{WithBatches, batch, judge_history};
use crate::kv_cluster::client;
use crate::kv_cluster::mishaps::{Mishap, schedule};
use crate::kv_cluster::places;
use crate::kv_cluster::setup::Setup;
use crate::kv_cluster::subject::KvCluster;
use crate::lab::Lab;
use crate::moments::Moments;
use crate::oracles::acknowledged::Allowed;
use crate::oracles::agreement::{self, Copied};
use crate::oracles::redundancy;
use crate::oracles::{leaders, progress};
use crate::partitions::partition;
use crate::report::Report;
use crate::stage::{Node, Stage};
use crate::subject::Subject as _;
use crate::values::{self, ValueId};
use crate::violation::Violation;

const MS: Nanoseconds = 1_000_000;
/// Time after which everything heals, even if operations are left.
const TROUBLES_NS: Nanoseconds = 30_000 * MS;
/// Operations that each client must complete after everything has healed.
const PROGRESS: u32 = 3;
/// Time for the progress, and for the copies to agree: several times as long as a NIC waits for a dead peer.
const PROGRESS_NS: Nanoseconds = 20_000 * MS;
/// Time between two looks at the copies.
const LOOK_NS: Nanoseconds = MS;
/// Events between two looks at the shards that nodes lead.
const CLAIMS_AFTER: u64 = 50;

struct Run {
    stage: Stage<KvCluster>,
    seats: Vec<Machine>,
    random: Random,
    explorer: Explorer<KvCluster>,
    allowed: Allowed,
    mishaps: Vec<(u64, Mishap)>,
    moments: Moments,
    crash_points: u32,
}

/// Runs `setup`.
pub(crate) fn run(scenario: &'static str, setup: &Setup) -> Report {
    let mut run = Run::new(scenario, setup);
    while run.goes_on() && run.step() {
        run.bring_about_what_is_due();
        run.look_at_crash();
    }
    if run.stage.is_sound() {
        run.heal_and_go_on();
    }
    if run.stage.is_sound() {
        run.judge();
    }
    run.stage.note_explored(&run.explorer);
    run.stage.into_report()
}

impl Run {
    fn new(scenario: &'static str, setup: &Setup) -> Self {
        let world = World::new(setup.seed);
        let mut random = random_from_seed(setup.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let machine = || world.machine(MachineOptions::new(MachineProfile::MODERN));
        let seats: Vec<Machine> = (0..3).map(|_| machine()).collect();
        let options = ServiceOptions::default();
        let service = ConfigService::start(&world, "config", &seats, random.random(), options);
        let service = service.expect("queues");
        let nodes: Vec<Node> = setup
            .machines
            .iter()
            .map(|&options| Node::fresh(&world, options))
            .collect();
        let numbered = || (0..).zip(&nodes);
        for (number, node) in numbered() {
            places::create(setup, number, SimBacking::new(&node.module));
        }
        let described = numbered()
            .map(|(number, node)| places::described(setup, number, SimBacking::new(&node.module)));
        let first = places::first_configuration(setup, described);
        found(&world, &service, machine(), &first);
        service.set_faults(setup.service_faults);
        let subject = KvCluster::new(setup.clone());
        subject.begin(service, &first);
        world.set_faults(setup.faults);
        let report = Report {
            sizes: setup.sizes(),
            options: setup.describe(),
            ..Report::new(scenario, setup.seed)
        };
        let mut stage = Stage::new(world, subject.clone(), nodes, report);
        for node in subject.nodes() {
            let clock = clock(&stage.world, &setup.faults, &mut random);
            stage.nodes[node as usize].set_clock(clock);
            stage.start(node);
        }
        let lab = Rc::new(Lab::new(subject, setup.machines.iter().copied()));
        let mut run = Self {
            stage,
            seats,
            explorer: Explorer::new(lab, setup.effort, random.random()),
            allowed: Allowed::default(),
            mishaps: schedule(setup, &mut random),
            random,
            moments: Moments::new(setup.every_moment),
            crash_points: setup.crash_points,
        };
        (0..setup.clients).for_each(|client| run.start_client(client));
        run
    }

    fn subject(&self) -> Rc<KvCluster> {
        self.stage.subject.clone()
    }

    fn start_client(&mut self, client: u32) {
        let faults = self.stage.subject.setup.faults;
        let clock = clock(&self.stage.world, &faults, &mut self.random);
        let seed = self.random.random();
        let options = MachineOptions::new(MachineProfile::MODERN);
        self.stage.start_client(client, options, clock, seed);
    }

    /// Whether operations are left, and time for troubles.
    fn goes_on(&self) -> bool {
        !self.stage.clients_are_done() && self.stage.world.now() < TROUBLES_NS
    }

    /// Executes the next event. Returns false if a promise was broken.
    fn step(&mut self) -> bool {
        if self.stage.world.events().is_multiple_of(CLAIMS_AFTER) {
            self.stage.subject.note_claims();
        }
        self.stage.step()
    }

    fn a_node(&mut self) -> NodeId {
        self.random.random_range(0..self.stage.nodes.len()) as NodeId
    }

    /// A duration that may be shorter than a round trip, or longer than a lease, or than the patience with silent
    /// nodes.
    fn a_while(&mut self) -> Nanoseconds {
        let longest = [MS / 10, 12 * MS, 40 * MS, 200 * MS][self.random.random_range(0..4)];
        self.random.random_range(1000..longest)
    }

    fn bring_about_what_is_due(&mut self) {
        let answers = self.stage.answers();
        let due = self.mishaps.pop_if(|(after, _)| *after <= answers);
        if let Some((_, mishap)) = due {
            self.bring_about(mishap);
        }
    }

    fn bring_about(&mut self, mishap: Mishap) {
        let (node, duration) = (self.a_node(), self.a_while());
        let subject = self.subject();
        let state = &self.stage.nodes[node as usize];
        let (machine, is_running) = (state.machine, state.is_running());
        let name = subject.name(node);
        match mishap {
            Mishap::NodeKilled if is_running => {
                subject.note_gone(node, false);
                self.stage.kill(node);
                self.hit(Fault::ProcessKilled, "node_deaths");
            }
            Mishap::ClientKilled => {
                let client = self.random.random_range(0..self.stage.clients.len());
                self.stage.clients[client].process.kill();
                self.stage.mark(format!("client {client} is killed"));
                self.start_client(client as u32);
                self.hit(Fault::ProcessKilled, "client_deaths");
            }
            Mishap::PowerCut if self.stage.nodes.iter().all(Node::is_running) => {
                let servers: Vec<_> = subject.nodes().map(|node| subject.server(node)).collect();
                self.stage.cut_power_of_some(&mut self.random);
                drop(servers);
                self.forget_what_is_gone();
            }
            Mishap::PowerCutOfAll if self.stage.nodes.iter().all(Node::is_running) => {
                self.cut_all_power();
            }
            Mishap::Partition => self.partition(node),
            Mishap::NicReset => {
                self.stage.world.reset_nic(machine);
                self.stage.mark(format!("the NIC of {name} is reset"));
                self.hit(Fault::NicReset, "nic_resets");
            }
            Mishap::SlowNic => {
                let factor = subject.setup.faults.slow_nic_factor;
                self.stage.world.slow_nic(machine, factor, duration);
                self.stage
                    .mark(format!("the NIC of {name} is slow for {duration} ns"));
                self.hit(Fault::SlowNic, "slow_nics");
            }
            Mishap::NodeHung => {
                if let Some(process) = state.process() {
                    process.pause(duration);
                    self.stage
                        .mark(format!("{name} stands still for {duration} ns"));
                    self.hit(Fault::HostHung, "node_pauses");
                }
            }
            Mishap::Suspended => {
                self.stage.world.suspend(machine, duration);
                self.stage.mark(format!(
                    "the machine of {name} is suspended for {duration} ns"
                ));
                self.stage.count("suspensions");
            }
            Mishap::ClientPaused => {
                let client = self.random.random_range(0..self.stage.clients.len());
                self.stage.clients[client].process.pause(duration);
                self.stage
                    .mark(format!("client {client} stands still for {duration} ns"));
                self.stage.count("client_pauses");
            }
            Mishap::Failover => {
                subject.service().fail_over();
                self.stage
                    .mark("the configuration store fails over".to_owned());
                self.stage.count("failovers");
            }
            Mishap::Drain => self.request(node, "drain", Configuration::drain),
            Mishap::Move => {
                let shard = self.random.random_range(0..subject.setup.shards);
                let group = Group::Keys(HashRange::even(shard, subject.setup.shards));
                self.request(node, "move", move |present, to| {
                    present.move_copy(&group, None, to)
                });
            }
            // A mishap does no further harm to a node that is already down.
            Mishap::NodeKilled | Mishap::PowerCut | Mishap::PowerCutOfAll => {}
        }
    }

    /// Forgets the servers of nodes without a process.
    fn forget_what_is_gone(&mut self) {
        for node in self.stage.subject.nodes() {
            if !self.stage.nodes[node as usize].is_running() {
                self.stage.subject.note_gone(node, true);
            }
        }
    }

    fn cut_all_power(&mut self) {
        let wrecks = self.stage.wrecks();
        let mut fates: Vec<_> = (0..wrecks.undecided())
            .map(|unit| wrecks.whole(unit))
            .collect();
        for (unit, fate) in fates.iter_mut().enumerate() {
            fate.stores = self.random.random_range(0..=wrecks.stores(unit));
        }
        let survivors = (0..).zip(wrecks.survivors(&fates)).collect();
        let what = "the power of all nodes is cut".to_owned();
        self.stage.cut_power(survivors, what);
        self.forget_what_is_gone();
        self.hit(Fault::PowerCut, "power_cuts_of_all");
    }

    fn partition(&mut self, node: NodeId) {
        let server = self.stage.nodes[node as usize].machine;
        let nodes = self.stage.nodes.iter().map(|node| node.machine);
        let clients = self.stage.clients.iter().map(|client| client.machine);
        let others = nodes.chain(clients).chain(self.seats.iter().copied());
        let others: Vec<Machine> = others.filter(|&machine| machine != server).collect();
        let what = partition(&self.stage.world, server, &others, &mut self.random);
        let name = self.stage.subject.name(node);
        self.stage
            .mark(format!("a partition begins, {what}; the server is {name}"));
        self.stage.count("partitions");
    }

    /// Has a node that runs bring the request of an operator about `node`. The configuration refuses what it does not
    /// allow.
    fn request(
        &mut self,
        node: NodeId,
        what: &'static str,
        request: impl Fn(&Configuration, &stonecast_cluster::NodeName) -> Result<Configuration, Refusal>
        + 'static,
    ) {
        let subject = self.subject();
        let by = subject.nodes().find_map(|by| {
            let process = self.stage.nodes[by as usize].process()?;
            Some((subject.server(by)?, process.runtime()))
        });
        let Some((server, runtime)) = by else {
            return;
        };
        let name = places::name(node);
        self.stage.mark(format!("an operator asks: {what} {name}"));
        self.stage.count("requests");
        runtime.spawn(Box::pin(async move {
            let member = server.member().expect("it is a node");
            let decide = |present: &Configuration| request(present, &name).map(Some);
            let _ = member.change(decide).await;
        }));
    }

    fn hit(&mut self, fault: Fault, name: &'static str) {
        self.stage.world.hit(fault);
        self.stage.count(name);
    }

    /// Examines the states that a power cut of all nodes at this moment would leave.
    fn look_at_crash(&mut self) {
        let is_whole =
            self.stage.nodes.iter().all(Node::is_running) && self.stage.subject.is_served();
        if self.crash_points == 0 || !is_whole || !self.stage.is_sound() {
            return;
        }
        let now = self.stage.stores_and_answers();
        let operations = self.stage.subject.setup.operations;
        let is_due = self.moments.is_due(now, &mut self.random);
        let chance = 20.0 * f64::from(self.crash_points) / (8.0 * operations as f64);
        if !is_due || !self.random.random_bool(chance.min(1.0)) {
            return;
        }
        self.crash_points -= 1;
        let subject = self.subject();
        self.allowed.update(&subject.testimony.history.borrow());
        let judge = WithBatches {
            allowed: &self.allowed,
            history: &subject.testimony.history.borrow(),
            batches: &subject.batches.borrow(),
        };
        self.stage.examine(&mut self.explorer, &judge);
    }

    /// Lets everything heal. Then each client must get answers, and the copies must agree.
    fn heal_and_go_on(&mut self) {
        let subject = self.subject();
        subject.left.set(0);
        self.stage.world.heal();
        self.mishaps.clear();
        subject.service().set_faults(Default::default());
        self.stage.mark("everything has healed".to_owned());
        let healed = subject.testimony.history.borrow_mut().tick();
        self.stage.healed_until = Some(self.stage.world.now() + PROGRESS_NS);
        while !self.stage.clients_are_done() && self.step() {}
        if self.stage.is_sound() {
            self.demand_progress(healed);
        }
        if self.stage.is_sound() {
            let subject = self.subject();
            self.visit(|process| Box::pin(client::read_all(subject, process)));
        }
        self.await_agreement();
    }

    /// Waits until all copies are there, and agree. A node that was silent may be removed after everything has healed,
    /// and comes back.
    fn await_agreement(&mut self) {
        let until = self.stage.world.now() + PROGRESS_NS;
        self.stage.healed_until = Some(until + PROGRESS_NS);
        while self.stage.is_sound() {
            let Some(found) = self.disagreement() else {
                return;
            };
            let now = self.stage.world.now();
            if now > until {
                self.stage.report.note(found);
            } else if !self.run_to(now + LOOK_NS) {
                return;
            }
        }
    }

    fn demand_progress(&mut self, healed: Moment) {
        let subject = self.subject();
        self.stage.healed_until = Some(self.stage.world.now() + PROGRESS_NS);
        for number in 0..subject.setup.clients {
            let subject = subject.clone();
            self.visit(move |process| Box::pin(client::get_on(subject, process, number, PROGRESS)));
        }
        self.stage.healed_until = Some(self.stage.world.now() + PROGRESS_NS);
        let history = subject.testimony.history.borrow();
        let found = progress::judge(&history, healed, subject.setup.clients, PROGRESS as usize);
        self.stage.report.violations.extend(found);
    }

    /// Runs one more process until it is done.
    fn visit(&mut self, visit: impl FnOnce(Process) -> crate::subject::Task<()>) {
        let options = MachineOptions::new(MachineProfile::MODERN);
        self.stage
            .visit_alone(options, |process, done: Rc<Cell<bool>>| {
                let visited = visit(process);
                Box::pin(async move {
                    visited.await;
                    done.set(true);
                })
            });
    }

    fn run_to(&mut self, moment: Nanoseconds) -> bool {
        while self.stage.world.now() < moment {
            if !self.step() {
                return false;
            }
        }
        true
    }

    /// The fault of the cluster at the end of the run, if there is one.
    fn disagreement(&self) -> Option<Violation> {
        let subject = &self.stage.subject;
        let configuration = subject.configuration();
        let up: BTreeSet<NodeId> = subject
            .nodes()
            .filter(|&node| subject.server(node).is_some())
            .collect();
        let groups = (0..)
            .zip(&configuration.groups)
            .map(|(number, group)| redundancy::Group {
                number,
                in_sync: group
                    .in_sync
                    .iter()
                    .map(|name| subject.node_called(name))
                    .collect(),
            });
        let groups: Vec<_> = groups.collect();
        let nodes = configuration.nodes.values();
        let members = nodes.filter(|node| node.state == NodeState::Member).count();
        let wanted = usize::from(configuration.policy.replicas).min(members);
        let lacking = redundancy::judge(&groups, wanted, &up);
        let differing = || {
            let mut groups = groups.iter();
            groups.find_map(|group| {
                let copies = group.in_sync.iter();
                let copies: Vec<_> = copies
                    .map(|&node| self.copied(group.number, node))
                    .collect();
                agreement::judge(u64::MAX, &copies)
            })
        };
        lacking.or_else(differing)
    }

    /// The present content of a copy.
    fn copied(&self, group: u32, node: NodeId) -> Copied<(u32, ValueId)> {
        let subject = &self.stage.subject;
        let server = subject.server(node);
        let mut entries = Vec::new();
        for (number, key) in (0..).zip(&subject.keys) {
            let mut bytes = Vec::new();
            let found = server.as_ref().and_then(|server| {
                let is_of_group = server.shard_of(key) == group;
                is_of_group.then(|| server.peek(key, &mut bytes))
            });
            if let Some(Ok(Some(version))) = found {
                let value = values::decode(&bytes).unwrap_or(ValueId::ABSENT);
                entries.push((version, (number, value)));
            }
        }
        entries.sort_by_key(|&(version, _)| version);
        Copied { node, entries }
    }

    fn judge(&mut self) {
        let subject = self.subject();
        let history = subject.testimony.history.borrow();
        let found = [
            judge_history(&batch::complete(&history, &subject.batches.borrow())),
            leaders::judge(subject.claims.borrow().iter().copied()),
        ];
        drop(history);
        let found = found.into_iter().flatten();
        self.stage.report.violations.extend(found);
    }
}

/// Stores the first configuration.
fn found(world: &World, service: &Rc<ConfigService>, home: Machine, first: &Configuration) {
    use stonecast_cluster::ConfigStore as _;
    let founder = world.process(home);
    let port = founder.port(64).expect("queues");
    let store = service.store(&port, &founder.runtime());
    let bytes = first.encode();
    let stored = world.block_on(store.compare_and_set(None, &bytes));
    stored.expect("nobody else is there");
}

/// A clock with the error that `faults` gives: within the drift that the policy of the cluster declares.
fn clock(world: &World, faults: &Faults, random: &mut Random) -> LocalClock {
    if faults.clock_drift_ppm == 0 {
        return LocalClock::default();
    }
    world.hit(Fault::ClockDrift);
    let most = faults.clock_drift_ppm as i64;
    LocalClock {
        ahead_ns: random.random_range(0..10_000 * MS),
        drift_ppm: random.random_range(-most..=most),
    }
}
