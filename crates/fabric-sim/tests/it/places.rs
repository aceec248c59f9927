//! Faults of one machine or one link, partitions of the connection manager, and processes of several threads.

use std::cell::Cell;
use std::rc::Rc;

#[cfg(feature = "mutants")]
use stonecast_base::mutants::Mutant;
use stonecast_fabric::{
    Access, ConnectionEvent, LocalSpan, MemoryRegion, Operation, Port, QueuePair, QueuePairOptions,
    RemoteAddress, Status,
};
use stonecast_fabric_sim::{Faults, Machine, MachineOptions, MachineProfile, Process, World};

const ALWAYS: u64 = 1_000_000;

/// A machine with a process, its port and its memory.
struct Node {
    machine: Machine,
    process: Process,
    port: Rc<Port>,
    memory: MemoryRegion,
}

fn node(world: &World) -> Node {
    let machine = world.machine(MachineOptions::new(MachineProfile::MODERN));
    let process = world.process(machine);
    let port = process.port(256).unwrap();
    let memory = port.device().allocate(4096, Access::REMOTE_WRITE).unwrap();
    Node {
        machine,
        process,
        port,
        memory,
    }
}

impl Node {
    fn queue_pair(&self) -> QueuePair {
        let options = QueuePairOptions {
            send_cq: self.port.send_cq(),
            receive_cq: self.port.receive_cq(),
            shared_receive_queue: None,
            windows: false,
            send_capacity: 64,
            receive_capacity: 64,
            rnr_retry_count: 3,
            rnr_retry_delay_ns: 10_000,
        };
        self.port.device().create_queue_pair(options).unwrap()
    }

    /// Waits for the next event.
    async fn event(&self) -> ConnectionEvent {
        loop {
            if let Some(event) = self.port.take_event() {
                return event;
            }
            self.port.activity().await;
        }
    }

    /// Asks `server`, which listens at `address`; returns the queue pair and the outcome.
    fn ask(&self, world: &World, server: &Node, address: &str) -> (QueuePair, ConnectionEvent) {
        let qp = self.queue_pair();
        self.port.device().connect(qp, address, b"").unwrap();
        let (acceptor, theirs) = (server.port.clone(), server.queue_pair());
        world.observer().spawn(Box::pin(async move {
            loop {
                if let Some(ConnectionEvent::Request { request, .. }) = acceptor.take_event() {
                    acceptor.device().accept(request, theirs, b"").unwrap();
                    return;
                }
                acceptor.activity().await;
            }
        }));
        (qp, world.block_on(self.event()))
    }

    fn write(&self, world: &World, qp: QueuePair, to: &Node) -> Status {
        let write = Operation::Write {
            local: LocalSpan {
                region: self.memory,
                offset: 0,
                size: 64,
            },
            remote: RemoteAddress {
                address: to.memory.address,
                rkey: to.memory.rkey,
            },
        };
        world.block_on(self.port.submit(qp, &[write])).unwrap()
    }
}

#[test]
fn a_link_fails_by_itself() {
    let world = World::new(1);
    let [one, two, server] = [node(&world), node(&world), node(&world)];
    server.port.device().listen("sim:server").unwrap();
    let connect = |from: &Node| from.ask(&world, &server, "sim:server").0;
    let (first, second) = (connect(&one), connect(&two));
    let faults = Faults {
        error_not_executed_per_million: ALWAYS,
        ..Faults::default()
    };
    world.set_link_faults(one.machine, server.machine, faults);
    assert_eq!(two.write(&world, second, &server), Status::Success);
    assert_eq!(one.write(&world, first, &server), Status::RetryExceeded);
}

#[test]
fn a_machine_fails_by_itself_until_all_heal() {
    let world = World::new(1);
    let [client, one, two] = [node(&world), node(&world), node(&world)];
    one.port.device().listen("sim:one").unwrap();
    two.port.device().listen("sim:two").unwrap();
    let faults = Faults {
        allocation_failures_per_thousand: 1000,
        ..Faults::default()
    };
    world.set_machine_faults(one.machine, faults);
    assert!(one.port.device().allocate(64, Access::NONE).is_err());
    assert!(two.port.device().allocate(64, Access::NONE).is_ok());
    world.heal();
    assert!(one.port.device().allocate(64, Access::NONE).is_ok());
    let (qp, _) = client.ask(&world, &two, "sim:two");
    assert_eq!(client.write(&world, qp, &two), Status::Success);
}

/// Needs the partition to apply to connection-manager messages: otherwise a client could connect through it.
#[test]
fn a_short_partition_delays_a_connection_and_a_long_one_prevents_it() {
    for (block_ns, connects) in [(5_000_000, true), (1_000_000_000, false)] {
        for request in [true, false] {
            let world = World::new(1);
            let (client, server) = (node(&world), node(&world));
            server.port.device().listen("sim:server").unwrap();
            let (from, to) = if request {
                (client.machine, server.machine)
            } else {
                (server.machine, client.machine)
            };
            world.block(Some(from), Some(to), 0, block_ns);
            let start = world.now();
            let (_, event) = client.ask(&world, &server, "sim:server");
            let established = matches!(event, ConnectionEvent::Established { .. });
            assert_eq!(established, connects, "{event:?}");
            assert!(
                world.now() - start >= 5_000_000,
                "the connection takes its time"
            );
            assert!(world.fault_hits()["partition"] > 0);
        }
    }
}

/// Needs the end of patience after a lost goodbye: a peer that waits forever holds its connection forever.
#[test]
fn an_unreported_end_of_a_connection_is_noticed_after_a_timeout() {
    let world = World::new(1);
    let (client, server) = (node(&world), node(&world));
    server.port.device().listen("sim:server").unwrap();
    let (qp, _) = client.ask(&world, &server, "sim:server");
    while world.step() {}
    while server.port.take_event().is_some() {}
    world.block(Some(client.machine), None, 0, u64::MAX / 4);
    let start = world.now();
    client.port.device().disconnect(qp).unwrap();
    let event = world.block_on(server.event());
    assert!(matches!(event, ConnectionEvent::Disconnected { .. }));
    assert!(world.now() - start > 100_000_000, "not by a message");
}

/// Counts as long as its thread lives.
fn count(process: &Process) -> Rc<Cell<u64>> {
    let (counter, runtime) = (Rc::new(Cell::new(0)), process.runtime());
    let counting = counter.clone();
    process.runtime().spawn(Box::pin(async move {
        loop {
            runtime.sleep(1_000).await;
            counting.set(counting.get() + 1);
        }
    }));
    counter
}

fn goes_on(world: &World, counter: &Cell<u64>) -> bool {
    let before = counter.get();
    let runtime = world.observer();
    world.block_on(runtime.sleep(100_000));
    counter.get() > before
}

/// Needs the group: a node that loses one of its threads and keeps the others is not a process.
#[test]
fn all_threads_of_a_process_end_and_stand_still_together() {
    let world = World::new(1);
    let (one, other) = (node(&world), node(&world));
    let thread = one.process.thread();
    let counters = [count(&one.process), count(&thread), count(&other.process)];
    assert!(counters.iter().all(|counter| goes_on(&world, counter)));
    thread.pause(150_000);
    assert!(!goes_on(&world, &counters[0]), "all threads stand still");
    assert!(goes_on(&world, &counters[2]));
    thread.kill();
    let alive = counters.each_ref().map(|counter| goes_on(&world, counter));
    assert_eq!(alive, [false, false, true]);
}

/// Needs the threads of a machine: without them the threads without a device would continue without power.
fn nothing_of_a_machine_goes_on_without_power() {
    let world = World::new(1);
    let (one, other) = (node(&world), node(&world));
    let without_device = world.process(one.machine);
    let counters = [
        count(&one.process),
        count(&without_device),
        count(&other.process),
    ];
    world.cut_power(one.machine);
    let alive = counters.each_ref().map(|counter| goes_on(&world, counter));
    assert_eq!(alive, [false, false, true]);
}

#[test]
fn a_power_cut_ends_every_thread_of_the_machine() {
    nothing_of_a_machine_goes_on_without_power();
}

#[cfg(feature = "mutants")]
#[test]
fn every_seeded_bug_of_power_is_found() {
    let story: fn() = nothing_of_a_machine_goes_on_without_power;
    let stories = [(Mutant::PowerSparesThreads, story)];
    stonecast_base::hunts::by_stories("power", &stories);
}
