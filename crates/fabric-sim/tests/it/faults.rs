//! Faults of hardware: each has its consequence, and counts when the consequence occurred.

use stonecast_fabric::{ConnectionEvent, Operation, Status};
use stonecast_fabric_sim::{Faults, MachineProfile};
use stonecast_media::{Ddio, PersistenceDomain};

use crate::appends::queues;
use crate::support::Stage;

const SIZE: u32 = 1024;
const ALWAYS: u64 = 1_000_000;

fn stage(faults: Faults) -> Stage {
    let stage = Stage::on(PersistenceDomain::Dmp, Ddio::On);
    stage.world.set_faults(faults);
    stage
}

fn hits(stage: &Stage, name: &str) -> u64 {
    stage.world.fault_hits().get(name).copied().unwrap_or(0)
}

/// For each written line: whether it is present.
fn lines(stage: &Stage) -> Vec<bool> {
    let mut bytes = vec![0; SIZE as usize];
    stage.module.look(0, &mut bytes);
    let line = |line: &[u8]| {
        assert!(
            line.iter().all(|byte| *byte == line[0]),
            "lines are placed whole"
        );
        line[0] == 7
    };
    bytes.chunks(64).map(line).collect()
}

/// Needs the silence after the lost answer: later answers would vouch for this one.
#[test]
fn a_failed_write_may_or_may_not_have_been_executed() {
    let executed = stage(Faults {
        error_though_executed_per_million: ALWAYS,
        ..Faults::default()
    });
    assert_eq!(
        executed.submit(&[executed.write(0, SIZE, 7)]),
        Status::RetryExceeded
    );
    assert_eq!(
        (lines(&executed), hits(&executed, "error_though_executed")),
        (vec![true; 16], 1)
    );
    let lost = stage(Faults {
        error_not_executed_per_million: ALWAYS,
        ..Faults::default()
    });
    assert_eq!(
        lost.submit(&[lost.write(0, SIZE, 7)]),
        Status::RetryExceeded
    );
    assert_eq!(
        (lines(&lost), hits(&lost, "error_not_executed")),
        (vec![false; 16], 1)
    );
}

#[test]
fn a_queue_pair_that_dies_in_a_message_leaves_any_of_its_lines() {
    let stage = stage(Faults {
        partial_placement_per_million: ALWAYS,
        ..Faults::default()
    });
    assert_ne!(stage.submit(&[stage.write(0, SIZE, 7)]), Status::Success);
    let placed = lines(&stage);
    assert!(placed.contains(&false), "{placed:?}");
    assert_eq!(hits(&stage, "partial_placement"), 1);
}

/// Needs the time that a scattered message takes in `Qp::placed`: without it a READ behind the message would fetch
/// bytes that are not there yet.
#[test]
fn lines_are_placed_in_any_order_and_a_read_behind_them_waits_for_all() {
    let stage = stage(Faults {
        scattered_placement_per_million: ALWAYS,
        ..Faults::default()
    });
    let batch = [stage.write(0, SIZE, 7), stage.read(SIZE as u64 - 8)];
    stage.port.post(stage.qp, batch).unwrap();
    let mut out_of_order = false;
    while stage.world.step() {
        let placed = lines(&stage);
        out_of_order |= placed.windows(2).any(|pair| pair == [false, true]);
    }
    assert!(out_of_order);
    let mut fetched = [0; 8];
    stage
        .port
        .device()
        .memory(stage.buffer)
        .read(1 << 15, &mut fetched);
    assert_eq!((fetched, hits(&stage, "scattered_placement")), ([7; 8], 1));
}

#[test]
fn a_short_partition_is_a_delay_and_a_long_one_ends_the_connection() {
    let stage = stage(Faults::default());
    let start = stage.world.now();
    stage.world.block(None, Some(stage.machine), 0, 5_000_000);
    assert_eq!(stage.submit(&[stage.write(0, 64, 7)]), Status::Success);
    assert!(stage.world.now() - start >= 5_000_000 && hits(&stage, "partition") > 0);
    stage
        .world
        .block(Some(stage.machine), None, 0, 10_000_000_000);
    assert_eq!(
        stage.submit(&[stage.write(64, 64, 7)]),
        Status::RetryExceeded
    );
    let mut bytes = [0; 64];
    stage.module.look(64, &mut bytes);
    assert_eq!(bytes, [7; 64], "only the answer was lost");
}

/// Needs the discarding in `Net::reset`: if messages were placed later, nothing would be lost.
#[test]
fn acknowledged_messages_are_lost_with_a_reset_of_the_nic() {
    let stage = stage(Faults {
        placement_delayed_per_million: ALWAYS,
        ..Faults::default()
    });
    stage
        .port
        .post(stage.qp, [stage.write(0, SIZE, 7)])
        .unwrap();
    for _ in 0..2 {
        assert!(stage.world.step());
    }
    stage.world.reset_nic(stage.machine);
    while stage.world.step() {}
    assert_eq!(
        (lines(&stage), hits(&stage, "nic_reset")),
        (vec![false; 16], 1)
    );
}

#[test]
fn a_slow_nic_is_slower_by_its_factor_until_it_is_healed() {
    let stage = stage(Faults::default());
    let time = |stage: &Stage| {
        let start = stage.world.now();
        assert_eq!(stage.submit(&[stage.read(0)]), Status::Success);
        stage.world.now() - start
    };
    time(&stage);
    let usual = time(&stage);
    stage.world.slow_nic(stage.machine, 100, u64::MAX / 2);
    assert!(time(&stage) > 5 * usual);
    stage.world.heal();
    assert_eq!(time(&stage), usual);
}

#[test]
fn an_unreadable_line_is_an_error_to_a_peer_and_the_end_of_a_process() {
    let stage = stage(Faults::default());
    stage.log.write(0, &[7; 128]);
    stage.module.poison(64, 1);
    assert_eq!(stage.submit(&[stage.read(0)]), Status::Success);
    let (log, done) = (
        stage.log.clone(),
        std::rc::Rc::new(std::cell::Cell::new(false)),
    );
    let told = done.clone();
    let runtime = stage.server.runtime();
    stage.server.runtime().spawn(Box::pin(async move {
        log.read(64, &mut [0; 8]);
        runtime.sleep(1).await;
        told.set(true);
    }));
    while stage.world.step() {}
    assert_eq!((done.get(), stage.world.machine_checks()), (false, 1));
    let other = Stage::on(PersistenceDomain::Dmp, Ddio::On);
    other.module.poison(0, 1);
    assert_eq!(other.submit(&[other.read(0)]), Status::RemoteOperation);
}

/// A READ that is fetched in pieces counts as torn if a write came between the pieces.
#[test]
fn a_torn_read_returns_a_mixture_and_an_undisturbed_read_does_not_count() {
    let stage = stage(Faults {
        torn_read_per_million: ALWAYS,
        ..Faults::default()
    });
    let read = Operation::Read {
        local: stage.local(SIZE),
        remote: stage.at(0),
    };
    assert_eq!(stage.submit(&[read]), Status::Success);
    assert_eq!(hits(&stage, "torn_read"), 0);
    stage.port.post(stage.qp, [read]).unwrap();
    let mut events = 0;
    while stage.world.step() {
        events += 1;
        if events == 8 {
            stage.log.write(0, &[7; SIZE as usize]);
        }
    }
    let mut bytes = vec![0; SIZE as usize];
    stage.port.device().memory(stage.buffer).read(0, &mut bytes);
    assert!(
        bytes.contains(&0) && bytes.contains(&7),
        "the first lines are old, the last lines new"
    );
    assert_eq!(hits(&stage, "torn_read"), 1);
}

/// Needs the check of the rate before the draw: a world that draws for absent faults is another world.
#[test]
fn a_world_without_faults_runs_as_if_there_were_none() {
    let hash = |faults: Option<Faults>| {
        let stage = Stage::on(PersistenceDomain::Dmp, Ddio::On);
        faults
            .into_iter()
            .for_each(|faults| stage.world.set_faults(faults));
        for _ in 0..20 {
            stage.submit(&[stage.write(0, SIZE, 7), stage.read(0)]);
        }
        (stage.world.hash(), stage.world.fault_hits())
    };
    let unreachable = Faults {
        atomic_torn_per_million: 1,
        ..Faults::default()
    };
    assert_eq!(hash(None), hash(Some(Faults::default())));
    assert_eq!(hash(None), hash(Some(unreachable)));
}

/// Needs the goodbye of the kernel: without it the peer of a dead process would wait as long as that of a dead machine.
#[test]
fn a_killed_process_is_noticed_at_once_and_a_machine_without_power_after_a_timeout() {
    let noticed = |end: fn(&Stage)| {
        let stage = Stage::on(PersistenceDomain::Dmp, Ddio::Off);
        let start = stage.world.now();
        end(&stage);
        stage.world.block_on(async {
            loop {
                match stage.port.take_event() {
                    Some(ConnectionEvent::Disconnected { cause, .. }) => break cause,
                    _ => stage.port.activity().await,
                }
            }
        });
        let device = stage.port.device();
        let qp = device.create_queue_pair(queues(&stage.port, None)).unwrap();
        let noticed = stage.world.now() - start;
        device.connect(qp, "sim:server", b"").unwrap();
        stage.world.block_on(async {
            while !matches!(
                stage.port.take_event(),
                Some(ConnectionEvent::Rejected { .. })
            ) {
                stage.port.activity().await;
            }
        });
        (noticed, stage.world.now() - start - noticed)
    };
    let profile = MachineProfile::MODERN;
    // Besides the travel time of a message, the time in which a core notices it.
    let about = |found: u64, expected: u64| (expected..expected + 100).contains(&found);
    let (killed, refused) = noticed(|stage| stage.server.kill());
    let message_ns = profile.cm_message_ns;
    assert!(
        about(killed, message_ns) && about(refused, message_ns),
        "{killed}, {refused}"
    );
    let (silent, timed_out) = noticed(|stage| stage.world.cut_power(stage.machine));
    assert!(about(silent, profile.nic_give_up_ns), "{silent}");
    assert!(
        about(timed_out, 20_000_000),
        "nothing refuses there: {timed_out}"
    );
}
