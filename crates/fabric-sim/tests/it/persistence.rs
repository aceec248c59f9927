//! The data that survive a power cut, in each configuration of a responder: the facts on which plans of persistence
//! rest (taxonomy of remote persistence, tables 1 and 2).

use stonecast_base::Span;
use stonecast_fabric::{FlushPlacement, Operation, Status};
use stonecast_fabric_sim::{Fate, Features, MachineOptions, MachineProfile, RootPort, Transport};
use stonecast_media::{Ddio, PersistenceDomain, persist_spans};

use crate::support::{LOG_SIZE, Stage, platform};

const SIZE: usize = 256;

/// The bytes of a WRITE that survive a power cut when `operations` behind it have completed: certainly, and perhaps.
fn after(
    domain: PersistenceDomain,
    ddio: Ddio,
    then: fn(&Stage) -> Option<Operation>,
) -> (bool, bool) {
    let stage = Stage::on(domain, ddio);
    let mut batch = vec![stage.write(4096, SIZE as u32, 7)];
    batch.extend(then(&stage));
    assert_eq!(stage.submit(&batch), Status::Success);
    let [least, most] = stage.after_power_cut(4096, SIZE);
    (least == [7; SIZE], most == [7; SIZE])
}

fn nothing(_: &Stage) -> Option<Operation> {
    None
}

fn reading(stage: &Stage) -> Option<Operation> {
    Some(stage.read(0))
}

fn flushing(stage: &Stage) -> Option<Operation> {
    Some(Operation::Flush {
        remote: stage.at(4096),
        size: SIZE as u64,
        placement: FlushPlacement::Persistent,
    })
}

/// Machines on which a cache or a NIC takes the bytes and loses them. On the other machines the bytes are usually safe
/// by the time of the completion, which proves nothing: see the last story.
#[test]
fn a_completion_alone_proves_persistence_only_where_nics_are_saved() {
    use PersistenceDomain::{Dmp, PageFile, Volatile, Wsp};
    assert_eq!(after(Dmp, Ddio::On, nothing), (false, true));
    for ddio in [Ddio::On, Ddio::Off] {
        assert_eq!(after(PageFile, ddio, nothing), (false, true));
        assert_eq!(after(Wsp, ddio, nothing), (true, true));
        assert_eq!(after(Volatile, ddio, nothing), (false, false));
    }
}

/// Needs the wait in `Net::execute`: a READ that does not push earlier writes out proves nothing.
#[test]
fn a_read_behind_a_write_proves_persistence_unless_the_write_went_into_a_cache_that_is_lost() {
    use PersistenceDomain::{Dmp, Mhp, PageFile, Wsp};
    for (domain, ddio, certain) in [
        (Dmp, Ddio::On, false),
        (Dmp, Ddio::Off, true),
        (Mhp, Ddio::On, true),
        (Mhp, Ddio::Off, true),
        (Wsp, Ddio::On, true),
        (PageFile, Ddio::On, false),
        (PageFile, Ddio::Off, false),
    ] {
        assert_eq!(
            after(domain, ddio, reading),
            (certain, true),
            "{domain:?} {ddio:?}"
        );
    }
}

#[test]
fn a_persistent_flush_proves_persistence_whatever_ddio_does() {
    use PersistenceDomain::{Dmp, Mhp, Wsp};
    for domain in [Dmp, Mhp, Wsp] {
        for ddio in [Ddio::On, Ddio::Off] {
            assert_eq!(
                after(domain, ddio, flushing),
                (true, true),
                "{domain:?} {ddio:?}"
            );
        }
    }
}

#[test]
fn persisting_makes_exactly_the_named_bytes_certain() {
    for domain in [PersistenceDomain::Dmp, PersistenceDomain::Mhp] {
        let stage = Stage::on(domain, Ddio::On);
        stage.log.write(0, &[1; 64]);
        stage.log.write(128, &[2; 64]);
        let before = stage.module.counts();
        stage
            .world
            .block_on(persist_spans(&*stage.log, &[Span::new(0, 64)]))
            .unwrap();
        let [least, most] = stage.after_power_cut(0, 192);
        assert_eq!(
            (&least[..64], &least[128..]),
            ([1; 64].as_slice(), [0; 64].as_slice()),
            "{domain:?}"
        );
        assert_eq!(&most[128..], [2; 64]);
        let counts = stage.module.counts() - before;
        assert_eq!(
            (counts.write_backs, counts.fences),
            (u64::from(domain == PersistenceDomain::Dmp), 1)
        );
    }
}

/// A write-back takes time. Until its end the line may be lost, even if the instruction was executed.
#[test]
fn a_write_back_is_certain_only_when_it_is_done() {
    let stage = Stage::on(PersistenceDomain::Dmp, Ddio::On);
    stage.log.write(0, &[1; 64]);
    let (log, runtime) = (stage.log.clone(), stage.server.runtime());
    runtime.spawn(Box::pin(async move {
        persist_spans(&*log, &[Span::new(0, 64)]).await.unwrap();
    }));
    let start = stage.world.now();
    let mut certain_at = None;
    while certain_at.is_none() && stage.world.step() {
        if stage.after_power_cut(0, 64)[0] == [1; 64] {
            certain_at = Some(stage.world.now() - start);
        }
    }
    assert!(
        certain_at.unwrap() >= MachineProfile::MODERN.media_write_ns,
        "{certain_at:?}"
    );
}

#[test]
fn a_sync_of_a_file_covers_every_earlier_write() {
    let stage = Stage::on(PersistenceDomain::PageFile, Ddio::On);
    stage.log.write(100, &[1; 100]);
    stage.log.write(LOG_SIZE - 5000, &[2; 5000]);
    stage
        .world
        .block_on(persist_spans(&*stage.log, &[Span::new(100, 1)]))
        .unwrap();
    stage.log.write(200, &[3; 8]);
    let [least, most] = stage.after_power_cut(0, LOG_SIZE as usize);
    assert_eq!(
        (&least[100..200], &least[LOG_SIZE as usize - 5000..]),
        ([1; 100].as_slice(), [2; 5000].as_slice())
    );
    assert_eq!(
        (&least[200..208], &most[200..208]),
        ([0; 8].as_slice(), [3; 8].as_slice())
    );
}

#[test]
fn a_failed_sync_poisons_the_opened_region() {
    let stage = Stage::on(PersistenceDomain::PageFile, Ddio::On);
    stage.log.write(0, &[1; 8]);
    stage.module.fail_next_sync();
    for _ in 0..2 {
        assert!(
            stage
                .world
                .block_on(persist_spans(&*stage.log, &[Span::new(0, 8)]))
                .is_err()
        );
    }
    assert_eq!(stage.after_power_cut(0, 8)[0], [0; 8]);
}

fn port_stage(root_port: RootPort, ddio: Ddio, seed: u64) -> Stage {
    let platform = platform(PersistenceDomain::Dmp, ddio);
    let options = MachineOptions {
        platform,
        features: Features::ALL,
        ..MachineOptions::new(MachineProfile::MODERN)
    };
    Stage::behind(root_port, seed, options)
}

/// Needs the root port's own setting: with the machine's setting, the same READ proves the opposite.
#[test]
fn ddio_is_a_property_of_the_root_port() {
    for (machine, port, certain) in [(Ddio::On, Ddio::Off, true), (Ddio::Off, Ddio::On, false)] {
        let stage = port_stage(
            RootPort {
                ddio: Some(port),
                ..RootPort::default()
            },
            machine,
            3,
        );
        assert_eq!(
            stage.submit(&[stage.write(0, 64, 7), stage.read(512)]),
            Status::Success
        );
        assert_eq!(
            stage.after_power_cut(0, 64)[0] == [7; 64],
            certain,
            "machine {machine:?}, port {port:?}"
        );
    }
}

/// With relaxed ordering a later write may be seen before an earlier one, and a READ proves nothing. A flush still
/// waits for everything. Needs the missing waits behind [`RootPort::relaxed_ordering`].
#[test]
fn relaxed_ordering_lets_writes_pass_each_other_and_reads_prove_nothing() {
    let (mut passed, mut unproven) = (0, 0);
    for relaxed_ordering in [false, true] {
        for seed in 0..20 {
            let stage = port_stage(
                RootPort {
                    relaxed_ordering,
                    ..RootPort::default()
                },
                Ddio::Off,
                seed,
            );
            stage
                .port
                .post(stage.qp, [stage.write(0, 64, 1), stage.write(64, 64, 1)])
                .unwrap();
            let mut overtaken = false;
            while stage.world.step() {
                overtaken |= stage.log.load(64) != 0 && stage.log.load(0) == 0;
            }
            assert_eq!(
                (stage.log.load(0), stage.log.load(64)),
                (0x0101_0101_0101_0101, 0x0101_0101_0101_0101)
            );
            assert_eq!(
                stage.submit(&[stage.write(128, 64, 7), stage.read(512)]),
                Status::Success
            );
            let proven = stage.after_power_cut(128, 64)[0] == [7; 64];
            assert!(
                relaxed_ordering || proven && !overtaken,
                "strictly ordered: seed {seed}"
            );
            passed += u64::from(overtaken);
            unproven += u64::from(!proven);
            let flush = Operation::Flush {
                remote: stage.at(192),
                size: 64,
                placement: FlushPlacement::Persistent,
            };
            assert_eq!(
                stage.submit(&[stage.write(192, 64, 7), flush]),
                Status::Success
            );
            assert_eq!(stage.after_power_cut(192, 64)[0], [7; 64]);
        }
    }
    assert!(
        passed > 2 && unproven > 2,
        "{passed} of 20 overtaken, {unproven} unproven"
    );
}

/// Each line survives to a point of its own, and its last store may be torn between words, not inside a word.
#[test]
fn lines_survive_apart_and_tear_between_words() {
    let stage = Stage::on(PersistenceDomain::Dmp, Ddio::On);
    stage.log.write(0, &[1; 64]);
    stage.log.write(16, &[2; 16]);
    stage.log.write(64, &[3; 20]);
    let wreck = stage.world.wreck(stage.machine, &stage.module);
    assert_eq!(
        (wreck.undecided(), wreck.stores(0), wreck.stores(1)),
        (2, 2, 1)
    );
    assert_eq!(
        (wreck.offset(1), wreck.parts(0, 1), wreck.parts(1, 0)),
        (64, 0b1100, 0b111)
    );
    let left = |fates: [Fate; 2]| {
        let mut bytes = vec![0; 88];
        wreck.survivor(&fates).read(0, &mut bytes);
        bytes
    };
    let torn = left([
        Fate {
            stores: 1,
            torn: 0b1000,
        },
        Fate {
            stores: 0,
            torn: 0b100,
        },
    ]);
    assert_eq!(torn[..24], [1; 24]);
    assert_eq!(torn[24..32], [2; 8], "the second word of the second store");
    assert_eq!(
        (&torn[64..80], &torn[80..84]),
        ([0; 16].as_slice(), [3; 4].as_slice())
    );
}

/// The NIC has acknowledged the data in its buffers; only a machine that saves those buffers keeps the data for
/// certain.
#[test]
fn data_inside_the_nic_are_lost_kept_or_perhaps_kept() {
    for (domain, least_expected, most_expected) in [
        (PersistenceDomain::Volatile, 0, 0),
        (PersistenceDomain::Dmp, 0, 7),
        (PersistenceDomain::Mhp, 0, 7),
        (PersistenceDomain::Wsp, 7, 7),
    ] {
        let stage = Stage::on(domain, Ddio::On);
        let batch = [stage.write(0, 64, 7)];
        stage.port.post(stage.qp, batch).unwrap();
        let mut seen = false;
        while stage.world.step() {
            let visible = stage.log.load(0) != 0;
            let [least, most] = stage.after_power_cut(0, 64);
            if !visible && most[0] == most_expected && least[0] == least_expected {
                seen = true;
            }
            assert!(
                visible || least[0] == 0 || domain == PersistenceDomain::Wsp,
                "{domain:?}"
            );
        }
        assert!(
            seen,
            "{domain:?}: there is a moment when only the NIC has the data"
        );
    }
}

fn capable(domain: PersistenceDomain, ddio: Ddio) -> MachineOptions {
    MachineOptions {
        platform: platform(domain, ddio),
        features: Features::ALL,
        ..MachineOptions::new(MachineProfile::MODERN)
    }
}

/// Whether the power may fail at some point of `operations` and leave the 64 bytes at 4096 and not all of those at 0.
fn second_may_survive_alone(
    options: MachineOptions,
    operations: impl Fn(&Stage) -> Vec<Operation>,
) -> bool {
    (0..16).any(|seed| {
        let stage = Stage::of(seed, options);
        let batch = operations(&stage);
        stage.port.post(stage.qp, batch).unwrap();
        let mut alone = false;
        while stage.world.step() {
            let wreck = stage.world.wreck(stage.machine, &stage.module);
            // Every subset of the undecided lines.
            alone |= (0..1u32 << wreck.undecided()).any(|kept| {
                let fate = |unit| Fate {
                    stores: if kept >> unit & 1 == 1 {
                        wreck.stores(unit)
                    } else {
                        0
                    },
                    torn: 0,
                };
                let survivor =
                    wreck.survivor(&(0..wreck.undecided()).map(fate).collect::<Vec<_>>());
                let (mut first, mut second) = ([0; 64], [0; 8]);
                survivor.read(0, &mut first);
                survivor.read(4096, &mut second);
                second == [7; 8] && first != [7; 64]
            });
        }
        alone
    })
}

/// Needs `next_only` in `World::wreck`: a saved cache holds placed data, and these are in order.
#[test]
fn writes_of_a_queue_pair_survive_in_order_where_caches_are_saved_and_in_any_order_where_they_are_not()
 {
    use PersistenceDomain::{Dmp, Mhp, Wsp};
    for (domain, ddio, alone) in [
        (Dmp, Ddio::On, true),
        (Dmp, Ddio::Off, true),
        (Mhp, Ddio::On, false),
        (Mhp, Ddio::Off, false),
        (Wsp, Ddio::On, false),
    ] {
        for stall in [0, 3_000] {
            let options = MachineOptions {
                inbound_stall_ns_max: stall,
                ..capable(domain, ddio)
            };
            let pair = |stage: &Stage| vec![stage.write(0, 64, 7), stage.write(4096, 64, 7)];
            assert_eq!(
                second_may_survive_alone(options, pair),
                alone,
                "{domain:?} {ddio:?} {stall}"
            );
        }
    }
}

/// Needs the exception for ATOMIC_WRITE in `Net::execute`: a write on the bus pushes no earlier data into the memory
/// controller; a FLUSH between them does. With stalls it needs the queue in `Net::execute`: the FLUSH waits for the
/// memory controller longer than it seemed when the ATOMIC_WRITE behind it arrived.
#[test]
fn an_atomic_write_needs_a_flush_before_it_to_survive_second() {
    let word = |stage: &Stage| Operation::AtomicWrite {
        remote: stage.at(4096),
        value: u64::from_le_bytes([7; 8]),
    };
    for stall in [0, 3_000] {
        let options = MachineOptions {
            inbound_stall_ns_max: stall,
            ..capable(PersistenceDomain::Dmp, Ddio::Off)
        };
        assert!(second_may_survive_alone(options, |stage| vec![
            stage.write(0, 64, 7),
            word(stage)
        ]));
        assert!(!second_may_survive_alone(options, |stage| vec![
            stage.write(0, 64, 7),
            stage.read(0),
            word(stage)
        ]));
    }
}

/// Needs the stall in `Net::place_later`: without it the bytes are always in memory before the completion is back, and
/// an unsound plan that trusts the completion looks sound.
#[test]
fn a_completion_may_come_before_the_bytes_leave_the_nic() {
    let lost = |stall| {
        (0..16).any(|seed| {
            let options = capable(PersistenceDomain::Mhp, Ddio::On);
            let stage = Stage::of(
                seed,
                MachineOptions {
                    inbound_stall_ns_max: stall,
                    ..options
                },
            );
            assert_eq!(stage.submit(&[stage.write(4096, 64, 7)]), Status::Success);
            stage.after_power_cut(4096, 64)[0] != [7; 64]
        })
    };
    assert_eq!((lost(0), lost(5_000)), (false, true));
}

/// Needs the early acknowledgement in `Net::transmit_one`: with it a battery behind the responder's NIC proves nothing
/// as soon as a message is held back at its sender.
#[test]
fn over_iwarp_a_read_proves_arrival_at_the_responder_and_a_completion_does_not() {
    let certain = |transport, reading: bool| {
        (0..16).all(|seed| {
            let options = capable(PersistenceDomain::Wsp, Ddio::On);
            let stage = Stage::of(
                seed,
                MachineOptions {
                    transport,
                    outbound_stall_ns_max: 5_000,
                    ..options
                },
            );
            let mut batch = vec![stage.write(4096, SIZE as u32, 7)];
            batch.extend(reading.then(|| stage.read(0)));
            assert_eq!(stage.submit(&batch), Status::Success);
            stage.after_power_cut(4096, SIZE)[0] == [7; SIZE]
        })
    };
    assert!(certain(Transport::InfiniBand, false));
    assert!(!certain(Transport::Iwarp, false));
    assert!(certain(Transport::Iwarp, true));
}

/// Needs the refusal instead of a retry for iWARP in `Net::arrive`.
#[test]
fn over_iwarp_a_send_that_finds_no_receive_buffer_ends_the_connection() {
    let stage = Stage::of(
        3,
        MachineOptions {
            transport: Transport::Iwarp,
            ..capable(PersistenceDomain::Wsp, Ddio::On)
        },
    );
    assert_eq!(
        stage.submit(&[Operation::Send {
            local: stage.local(8)
        }]),
        Status::Success,
        "its own transport has the message"
    );
    assert_eq!(stage.submit(&[stage.read(0)]), Status::WorkRequestFlushed);
}
