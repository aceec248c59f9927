//! Executing plans on real and reference providers: persisted updates, refusals, and the meaning of errors.

use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_base::Span;
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, DirectoryBacking, Durability, LogOptions,
    PersistenceDomain, PersistentRegion, Prepared, ReceiveBuffers,
};
use stonecast_persist::execute::{
    ExecuteError, Layout, Payload, REQUESTER_COMPLETIONS, RESPONDER_COMPLETIONS, Rehearsal,
    Requester, Responder, UpdateEffect, recover,
};
use stonecast_persist::{FlushKind, Operation, Plan, Platform, Program, Update, plan_for};

use crate::loopback::POOR;
use crate::providers::{Provider, Reference, providers};

const CAPACITY: u64 = 1 << 20;
const LAYOUT: Layout = Layout {
    data: Span::new(4096, 1 << 16),
    receive_buffers: None,
    buffer_size: 256,
};
const COMPOUND: Update = Update::Compound { large: false };

fn declared(persistence_domain: PersistenceDomain, ddio: Ddio) -> Platform {
    Platform::of(DeclaredPlatform {
        persistence_domain,
        ddio,
        receive_buffers: ReceiveBuffers::Dram,
    })
}

/// A plan for the medium of every machine: a file that is synced.
fn file_plan(operation: Operation, update: Update) -> Plan {
    plan_for(
        &declared(PersistenceDomain::PageFile, Ddio::On),
        operation,
        update,
    )
    .unwrap()
}

/// A log file that is made durable as `durability` requires.
fn region(folder: &Path, durability: Durability) -> Rc<dyn PersistentRegion> {
    let backing = DirectoryBacking::create(&folder.join("log")).unwrap();
    let platform = declared(PersistenceDomain::PageFile, Ddio::On).declared();
    let region = backing
        .open_log(LogOptions {
            capacity: CAPACITY,
            platform,
            durability,
        })
        .unwrap();
    while backing.prepare(Span::new(0, CAPACITY)).unwrap() == Prepared::Pending {
        std::thread::yield_now();
    }
    region
}

/// Starts a responder of `plan`, listening.
fn respond(provider: &dyn Provider, region: Rc<dyn PersistentRegion>, plan: &Plan) {
    let port = provider.port(RESPONDER_COMPLETIONS);
    let responder = Responder::new(&port, region, LAYOUT, plan).unwrap();
    port.device().listen(&provider.address()).unwrap();
    provider.executor().runtime().spawn(Box::pin(async move {
        let Err(error) = responder.serve().await;
        panic!("the responder failed: {error}");
    }));
}

fn read(region: &dyn PersistentRegion, offset: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    region.read(LAYOUT.data.offset + offset, &mut bytes);
    bytes
}

#[test]
fn every_way_to_a_synced_file_is_executed_and_its_writes_are_there() {
    for operation in Operation::PUBLISHED {
        for update in [Update::Single, COMPOUND] {
            let folder = tempfile::tempdir().unwrap();
            for (index, (name, provider)) in providers(folder.path()).into_iter().enumerate() {
                let place = folder.path().join(index.to_string());
                std::fs::create_dir(&place).unwrap();
                let (region, plan) = (
                    region(&place, Durability::Power),
                    file_plan(*operation, update),
                );
                respond(&*provider, region.clone(), &plan);
                let port = provider.port(REQUESTER_COMPLETIONS);
                provider.executor().block_on(async {
                    let mut requester = Requester::connect(&port, &provider.address(), &plan, 128)
                        .await
                        .unwrap();
                    assert_eq!(requester.data_size(), LAYOUT.data.size);
                    for round in 1..=20u64 {
                        let (record, tail) = ([round as u8; 64], round.to_le_bytes());
                        let payload = Payload::single(64 * round, &record);
                        let payload = if update.is_compound() {
                            payload.then(0, &tail)
                        } else {
                            payload
                        };
                        let _persisted = requester.persist(&payload).await.unwrap();
                        assert_eq!(
                            read(&*region, 64 * round, 64),
                            record,
                            "{name}: {}",
                            plan.program()
                        );
                        assert!(
                            !update.is_compound() || read(&*region, 0, 8) == tail,
                            "{name}: {}",
                            plan.program()
                        );
                    }
                });
            }
        }
    }
}

/// Needs the fingerprint in the first message of a session: without it two sides with different plans would wait for
/// each other or, worse, not wait.
#[test]
fn a_requester_of_another_plan_and_a_rehearsal_are_turned_away() {
    let folder = tempfile::tempdir().unwrap();
    for (index, (_, provider)) in providers(folder.path()).into_iter().enumerate() {
        let place = folder.path().join(index.to_string());
        std::fs::create_dir(&place).unwrap();
        let plan = file_plan(Operation::Write, Update::Single);
        respond(&*provider, region(&place, Durability::Power), &plan);
        let (first, second) = (
            provider.port(REQUESTER_COMPLETIONS),
            provider.port(REQUESTER_COMPLETIONS),
        );
        provider.executor().block_on(async {
            let other = file_plan(Operation::WriteImmediate, Update::Single);
            let refused = Requester::connect(&first, &provider.address(), &other, 128)
                .await
                .err()
                .unwrap();
            assert!(
                refused.to_string().contains("another plan")
                    && refused.effect() == UpdateEffect::None,
                "{refused}"
            );
            let same_steps = Rehearsal::connect(
                &second,
                &provider.address(),
                plan.program(),
                FlushKind::Read,
                128,
            )
            .await;
            let Some(ExecuteError::Rejected { reason, .. }) = same_steps.err() else {
                panic!("a rehearsal promises nothing");
            };
            assert!(
                reason.contains("client's platform is none (a rehearsal)")
                    && reason.contains("server's is persistence page-file"),
                "{reason}"
            );
            let elsewhere = plan_for(
                &declared(PersistenceDomain::Dmp, Ddio::On),
                Operation::Write,
                Update::Single,
            );
            let refused = Requester::connect(&first, &provider.address(), &elsewhere.unwrap(), 128)
                .await
                .err()
                .unwrap();
            let said = refused.to_string();
            assert!(
                said.contains("client's platform is persistence dmp, ddio on")
                    && said.contains("server's is persistence page-file, ddio on"),
                "{said}"
            );
        });
    }
}

/// Needs the check of the medium: neither a file whose pages are synced nor volatile memory has lines that are written
/// back.
#[test]
fn a_medium_without_the_properties_that_the_plan_relies_on_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let provider = Reference::new(crate::loopback::LIBERAL);
    let port = provider.port(RESPONDER_COMPLETIONS);
    let refuse = |durability, plan: &Plan| {
        let place = tempfile::tempdir_in(folder.path()).unwrap();
        Responder::new(&port, region(place.path(), durability), LAYOUT, plan)
            .err()
            .unwrap()
            .to_string()
    };
    let memory = plan_for(
        &declared(PersistenceDomain::Dmp, Ddio::Off),
        Operation::Write,
        Update::Single,
    )
    .unwrap();
    let refused = refuse(Durability::Power, &memory);
    assert!(
        refused.contains("persistence = dmp") && refused.contains("syncing a file"),
        "{refused}"
    );
    let refused = refuse(
        Durability::Process,
        &file_plan(Operation::Write, Update::Single),
    );
    assert!(
        refused.contains("persistence = page-file") && refused.contains("survives processes only"),
        "{refused}"
    );
}

#[test]
fn a_device_without_atomic_write_is_refused_before_anything_is_done() {
    let provider = Reference::new(POOR);
    let port = provider.port(REQUESTER_COMPLETIONS);
    let plan = plan_for(
        &declared(PersistenceDomain::Dmp, Ddio::Off),
        Operation::Write,
        COMPOUND,
    )
    .unwrap();
    let refused = provider
        .executor()
        .block_on(Requester::connect(&port, &provider.address(), &plan, 128))
        .err()
        .unwrap();
    assert!(refused.to_string().contains("ATOMIC_WRITE"), "{refused}");
    assert_eq!(refused.effect(), UpdateEffect::None);
}

/// Needs the check of the agent that places bytes: over shared memory the requester's processor leaves them in a cache,
/// and a READ behind them proves nothing about memory. A NIC runs the same plan.
#[test]
fn a_plan_that_relies_on_a_nic_is_refused_with_a_remedy_if_a_processor_places() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |ddio| {
        let platform = declared(PersistenceDomain::Dmp, ddio);
        plan_for(&platform, Operation::Write, Update::Single).unwrap()
    };
    for (name, provider) in providers(folder.path()) {
        let port = provider.port(REQUESTER_COMPLETIONS);
        // No responder listens, so a requester that is not refused earlier finds none.
        let refuse = |plan: &Plan| {
            let address = provider.address();
            let connect = Requester::connect(&port, &address, plan, 128);
            provider.executor().block_on(connect).err().unwrap()
        };
        let refused = refuse(&plan(Ddio::Off));
        assert_eq!(refused.effect(), UpdateEffect::None);
        if name == "shared memory" {
            let said = refused.to_string();
            assert!(
                matches!(refused, ExecuteError::Placing(_))
                    && said.contains("the requester's processor places bytes")
                    && said.contains("rq.await(flush)")
                    && said.contains("declare ddio = on"),
                "{said}"
            );
        } else {
            assert!(!matches!(refused, ExecuteError::Placing(_)), "{refused}");
        }
        let refused = refuse(&plan(Ddio::On));
        assert!(!matches!(refused, ExecuteError::Placing(_)), "{refused}");
    }
}

/// A pair that rehearses `program` on the reference provider.
fn rehearse(program: &str, story: impl AsyncFnOnce(Rehearsal, Rc<dyn PersistentRegion>)) {
    let folder = tempfile::tempdir().unwrap();
    let provider = Reference::new(crate::loopback::PLAIN);
    let (region, program): (_, Program) = (
        region(folder.path(), Durability::Process),
        program.parse().unwrap(),
    );
    let port = provider.port(RESPONDER_COMPLETIONS);
    let responder =
        Responder::rehearsing(&port, region.clone(), LAYOUT, &program, FlushKind::Read).unwrap();
    port.device().listen(&provider.address()).unwrap();
    provider.executor().runtime().spawn(Box::pin(async move {
        let Err(error) = responder.serve().await;
        panic!("the responder failed: {error}");
    }));
    let port = provider.port(REQUESTER_COMPLETIONS);
    provider.executor().block_on(async {
        let session =
            Rehearsal::connect(&port, &provider.address(), &program, FlushKind::Read, 512)
                .await
                .unwrap();
        story(session, region).await;
    });
}

#[test]
fn an_update_that_a_plan_cannot_carry_is_refused_and_the_session_continues() {
    let program = "rq.write(a) rq.flush rq.write_atomic(b) rq.flush rq.await(flush)";
    rehearse(program, async |mut session, region| {
        let record = [7; 64];
        for (payload, part) in [
            (
                Payload::single(LAYOUT.data.size - 63, &record).then(0, &[1; 8]),
                "are not in the responder's",
            ),
            (Payload::single(64, &[]).then(0, &[1; 8]), "0 bytes"),
            (
                Payload::single(64, &record).then(4, &[1; 8]),
                "8 aligned bytes",
            ),
            (
                Payload::single(64, &record).then(0, &[1; 9]),
                "8 aligned bytes",
            ),
            (Payload::single(64, &record), "an update of 2 part(s)"),
            (
                Payload::single(64, &[1; 2000]).then(0, &[1; 8]),
                "more than the session was made for",
            ),
        ] {
            let refused = session.run(&payload).await.err().unwrap();
            assert!(
                refused.to_string().contains(part) && refused.effect() == UpdateEffect::None,
                "{refused}"
            );
        }
        let _concluded = session
            .run(&Payload::single(64, &record).then(0, &[1; 8]))
            .await
            .unwrap();
        assert_eq!(
            (read(&*region, 64, 64), read(&*region, 0, 8)),
            (record.to_vec(), vec![1; 8])
        );
    });
    rehearse(
        "rq.write_imm(a) rsp.receive(&a) rsp.send(ack) rq.receive(ack)",
        async |mut session, _| {
            let refused = session
                .run(&Payload::single(8, &[1; 8]))
                .await
                .err()
                .unwrap();
            assert!(refused.to_string().contains("multiples of 64"), "{refused}");
            let _concluded = session.run(&Payload::single(128, &[1; 8])).await.unwrap();
        },
    );
    rehearse(
        "rq.send(a) rsp.receive(a) rsp.copy(a) rsp.send(ack) rq.receive(ack)",
        async |mut session, region| {
            let refused = session
                .run(&Payload::single(0, &[1; 250]))
                .await
                .err()
                .unwrap();
            assert!(
                refused
                    .to_string()
                    .contains("does not fit the responder's buffers of 256 bytes"),
                "{refused}"
            );
            let _concluded = session.run(&Payload::single(0, &[1; 200])).await.unwrap();
            assert_eq!(read(&*region, 0, 200), [1; 200]);
        },
    );
}

/// Needs the mark that an execution has begun: outstanding requests still read the buffer of the session.
#[test]
fn an_update_that_was_abandoned_half_way_ends_the_session() {
    rehearse(
        "rq.send(a) rsp.receive(a) rsp.copy(a) rsp.send(ack) rq.receive(ack)",
        async |mut session, _| {
            {
                let record = [7; 64];
                let payload = Payload::single(64, &record);
                let given_up = pin!(session.run(&payload));
                assert!(matches!(
                    given_up.poll(&mut Context::from_waker(Waker::noop())),
                    Poll::Pending
                ));
            }
            let refused = session
                .run(&Payload::single(64, &[8; 64]))
                .await
                .err()
                .unwrap();
            assert!(
                matches!(refused, ExecuteError::Spent) && refused.effect() == UpdateEffect::None,
                "{refused}"
            );
        },
    );
}

/// Needs the clearing before a persistent buffer is posted again: otherwise the messages of an ended session would be
/// finished once more after a crash, over the data of a later session.
#[test]
fn a_recovery_finds_no_message_that_is_already_at_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let provider = Reference::new(crate::loopback::PLAIN);
    let region = region(folder.path(), Durability::Process);
    let layout = Layout {
        receive_buffers: Some(Span::new(1 << 18, 16 * 256)),
        ..LAYOUT
    };
    let program: Program = "rq.send(a) rq.flush rq.await(flush)".parse().unwrap();
    let port = provider.port(RESPONDER_COMPLETIONS);
    let responder = Rc::new(
        Responder::rehearsing(&port, region.clone(), layout, &program, FlushKind::Read).unwrap(),
    );
    port.device().listen(&provider.address()).unwrap();
    let (serving, executor) = (responder.clone(), provider.executor());
    executor.runtime().spawn(Box::pin(async move {
        let Err(error) = serving.serve().await;
        panic!("the responder failed: {error}");
    }));
    let mut sent = 0;
    for value in [[1; 64], [1; 64], [1; 64], [2; 64]].chunks(3) {
        let port = provider.port(REQUESTER_COMPLETIONS);
        executor.block_on(async {
            let session =
                Rehearsal::connect(&port, &provider.address(), &program, FlushKind::Read, 512)
                    .await;
            let mut session = session.unwrap();
            for value in value {
                let _concluded = session.run(&Payload::single(64, value)).await.unwrap();
                sent += 1;
            }
            // The responder copies messages to their places without telling the requester.
            while responder.served() < sent || read(&*region, 64, 64) != value[0] {
                executor.runtime().sleep(1_000).await;
            }
            executor.runtime().sleep(1_000_000).await;
        });
    }
    let found = executor.block_on(recover(&*region, &layout)).unwrap();
    assert_eq!((found.messages, found.misplaced), (0, 0));
    assert_eq!(read(&*region, 64, 64), [2; 64]);
}
