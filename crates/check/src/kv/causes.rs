//! Causes the mishaps of a run when they are due.

use rand::RngExt as _;
use stonecast_fabric_sim::{Fate, Fault, Machine};
use stonecast_media::PersistenceDomain;

use crate::kv::drive::Run;
use crate::kv::mishaps::{self, Mishap};
use crate::kv::subject::SERVER;
use crate::kv::visitors;
use crate::partitions::{duration_ns, partition};

/// Number of events for which the end of a server waits for a store.
const WAITS_MAX: u32 = 500;
/// Time by which a clock is set forward.
const JUMP_NS: u64 = 20_000_000_000;

impl Run {
    /// Causes the mishaps that are due.
    pub(super) fn bring_about(&mut self) {
        let answers = self.work.testimony.history.borrow().answers();
        let Some((_, mishap)) = self.course.mishaps.pop_if(|(after, _)| *after <= answers) else {
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
        let stores = self.server().module.stores();
        let stored = std::mem::replace(&mut self.course.stores_before, stores) != stores;
        let waits = matches!(mishap, Mishap::ServerKilled | Mishap::PowerCut)
            && self.course.behind_a_store
            && !stored;
        if waits && self.course.waited < WAITS_MAX {
            self.course.waited += 1;
            return self.course.mishaps.push((answers, mishap));
        }
        self.course.waited = 0;
        self.course.behind_a_store = self.random.random();
        if needs_server && !self.server().is_running() {
            // The server is already down: the mishap is attempted later.
            return self.course.mishaps.push((answers + 10, mishap));
        }
        let number = self.random.random_range(0..self.stage.clients.len());
        self.cause(mishap, number);
    }

    /// Causes a mishap. A mishap of a client happens to client `number`.
    fn cause(&mut self, mishap: Mishap, number: usize) {
        match mishap {
            Mishap::ClientKilled => {
                self.stage.clients[number].process.kill();
                self.stage.count("client_deaths");
                // The client's operations in flight may still take effect, since the server continues.
                self.start_client(number as u32);
                self.stage
                    .mark(format!("client {number} is killed, and starts again"));
                self.stage.world.hit(Fault::ProcessKilled);
            }
            Mishap::ServerClosed => {
                self.server().stop();
                self.stage.mark("the server is asked to end".to_owned());
            }
            Mishap::ServerKilled => {
                self.stage.count("server_deaths");
                self.stage.kill(SERVER);
                self.stage.world.hit(Fault::ProcessKilled);
            }
            Mishap::PowerCut => self.cut_power(Fault::PowerCut),
            Mishap::WarmReset => self.cut_power(Fault::WarmReset),
            Mishap::Partition => {
                let clients = self.stage.clients.iter();
                let clients: Vec<Machine> = clients.map(|client| client.machine).collect();
                let server = self.server().machine;
                let what = partition(&self.stage.world, server, &clients, &mut self.random);
                self.stage.mark(format!("a partition {what}"));
            }
            Mishap::NicReset => {
                let (machine, name) = self.server_or_client(number);
                self.stage.world.reset_nic(machine);
                self.stage.mark(format!("the NIC of {name} is reset"));
            }
            Mishap::SlowNic => {
                let (machine, _) = self.server_or_client(number);
                let factor = self.work.setup.faults.slow_nic_factor;
                let duration = duration_ns(&mut self.random);
                self.stage.world.slow_nic(machine, factor, duration);
            }
            Mishap::HostHung => {
                let duration = duration_ns(&mut self.random);
                self.server().process().expect("it runs").pause(duration);
                self.stage
                    .mark(format!("the server stands still for {duration} ns"));
            }
            Mishap::ClientPaused => {
                let duration = 1_000_000 + duration_ns(&mut self.random);
                self.stage.clients[number].process.pause(duration);
                self.stage.clients[number].process.break_peers();
                self.stage.world.hit(Fault::PauseBeyondLease);
                self.stage.mark(format!("client {number} stands still for {duration} ns, and the server takes it for dead"));
            }
            Mishap::ClockJump => {
                self.course.jumps += 1;
                let mut clock =
                    mishaps::clock(&self.stage.world, &self.work.setup.faults, &mut self.random);
                clock.ahead_ns += self.course.jumps * JUMP_NS;
                match self.random.random() {
                    true => self.server_mut().set_clock(clock),
                    false => self.stage.clients[number].process.set_clock(clock),
                }
            }
            Mishap::FullMedium => {
                self.server().module.limit_space(0);
                self.stage.mark("the medium is full".to_owned());
            }
            Mishap::SyncFails => {
                if self.work.setup.machine.platform.persistence_domain
                    == PersistenceDomain::PageFile
                {
                    self.server().module.fail_next_sync();
                    self.stage.world.hit(Fault::LostWrite);
                    self.stage.mark("the next sync fails".to_owned());
                }
            }
            Mishap::Visit(visitor) => {
                let world = &self.stage.world;
                let process = world.process(world.machine(self.work.setup.machine));
                let (work, seed) = (self.work.clone(), self.random.random());
                let visit = visitors::visit(work, process.clone(), visitor, seed);
                process.runtime().spawn(Box::pin(visit));
                self.stage.mark(format!("{visitor} comes"));
            }
        }
    }

    /// The machine of the server or of client `number`, and its name.
    fn server_or_client(&mut self, number: usize) -> (Machine, String) {
        match self.random.random() {
            true => (self.server().machine, "the server".to_owned()),
            false => (
                self.stage.clients[number].machine,
                format!("client {number}"),
            ),
        }
    }

    /// Cuts the power of the server's machine, or resets the machine without writing its caches back.
    fn cut_power(&mut self, fault: Fault) {
        let wrecks = self.stage.wrecks();
        let torn_percent = self.work.setup.faults.torn_writes_percent;
        let fates: Vec<Fate> = (0..wrecks.undecided())
            .map(|unit| {
                let stores = self.random.random_range(0..=wrecks.stores(unit));
                let torn: u8 = if self.random.random_range(0..100) < torn_percent {
                    self.random.random()
                } else {
                    0
                };
                Fate { stores, torn }
            })
            .collect();
        if fates.iter().any(|fate| fate.torn != 0) {
            self.stage.world.hit(Fault::TornWrite);
        }
        self.stage.count("power_cuts");
        let what = if fault == Fault::PowerCut {
            "the power of the server is cut"
        } else {
            "the machine of the server is reset"
        };
        let what = format!("{what}; {}", self.tell(&wrecks, &fates));
        let survivors = (SERVER..).zip(wrecks.survivors(&fates));
        self.stage.cut_power(survivors.collect(), what);
        self.stage.world.hit(fault);
    }
}
