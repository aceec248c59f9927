//! Appends in a pipeline: their costs, the remains of a failure, and refusals.

use std::cell::RefCell;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::append::AppendTerms;
use stonecast_fabric::decorate::{Counts, Meter, Observed};
use stonecast_fabric::{Placing, Port, QueuePair, RemoteAddress, Rkey};
use stonecast_fabric_sim::{
    Features, Machine, MachineOptions, MachineProfile, Module, Process, SimBacking, Survivor, World,
};
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, DirectoryBacking, Durability, LogOptions, Means,
    PersistenceDomain, PersistentRegion, Prepared, ReceiveBuffers,
};
use stonecast_persist::Platform;
use stonecast_persist::execute::{
    Agreement, AppendFailure, AppendReceiver, Appender, ExecuteError, NoAgreement, NotAppended,
    OutOfOrder, Receiving, Standing,
};

use crate::backup::{Backup, COMPLETIONS, Primary, entry, is_whole};
use crate::loopback::POOR;
use crate::providers::{Provider, Reference, providers};

const CAPACITY: u64 = 1 << 16;
/// More credits than any story needs.
const PLENTY: u64 = 1 << 20;
/// Longest time for which a machine delays a message on its way to memory.
const STALL_NS_MAX: Nanoseconds = 4_000;

fn of(persistence_domain: PersistenceDomain, ddio: Ddio) -> Platform {
    Platform::of(DeclaredPlatform {
        persistence_domain,
        ddio,
        receive_buffers: ReceiveBuffers::Dram,
    })
}

fn options(platform: &Platform, durability: Durability) -> LogOptions {
    LogOptions {
        capacity: CAPACITY,
        platform: platform.declared(),
        durability,
    }
}

/// A log file that is made durable as `durability` requires.
fn file(folder: &Path, durability: Durability) -> Rc<dyn PersistentRegion> {
    std::fs::create_dir(folder).unwrap();
    let backing = DirectoryBacking::create(&folder.join("log")).unwrap();
    let platform = of(PersistenceDomain::PageFile, Ddio::On);
    let region = backing.open_log(options(&platform, durability)).unwrap();
    while backing.prepare(Span::new(0, CAPACITY)).unwrap() == Prepared::Pending {
        std::thread::yield_now();
    }
    region
}

/// A backup of `platform` whose primary learns that platform.
fn backup(
    port: &Rc<Port>,
    runtime: Rc<dyn stonecast_fabric::Runtime>,
    region: Rc<dyn PersistentRegion>,
    platform: Platform,
    durability: Durability,
) -> (Backup, Vec<u8>) {
    let receiver = AppendReceiver::new(region.clone(), &platform, durability).unwrap();
    let means = region.means();
    let backup = Backup::new(port, runtime, region, receiver);
    let receiving = Receiving {
        platform,
        durability,
        terms: backup.lent().terms,
        flush: backup.lent().flush,
    };
    let said = receiving.say(means, port.device().placing()).unwrap();
    (backup, said.to_vec())
}

/// An appender to the backup that said `welcome`, with credits for everything.
fn appender(
    port: &Rc<Port>,
    primary: &Primary,
    welcome: &[u8],
    durability: Durability,
) -> Appender {
    let agreement = Agreement::hear(welcome, durability).unwrap();
    let appender =
        Appender::new(port.clone(), primary.qp(), primary.scratch(), &agreement).unwrap();
    appender.add_credits(PLENTY);
    appender
}

#[test]
fn entries_of_three_flushes_are_persisted_in_order_on_every_provider_packed_and_in_slots() {
    let folder = tempfile::tempdir().unwrap();
    for (index, durability) in [Durability::Power, Durability::Process]
        .into_iter()
        .enumerate()
    {
        let place = folder.path().join(index.to_string());
        std::fs::create_dir(&place).unwrap();
        let mut all = providers(&place);
        all.push(("slots", Box::new(Reference::new(POOR))));
        for (name, provider) in all {
            let region = file(&place.join(name), durability);
            run_on(&*provider, region, durability, name);
        }
    }
}

fn run_on(
    provider: &dyn Provider,
    region: Rc<dyn PersistentRegion>,
    durability: Durability,
    name: &str,
) {
    const ENTRIES: u64 = 9;
    let port = provider.port(COMPLETIONS);
    port.device().listen(&provider.address()).unwrap();
    let platform = of(PersistenceDomain::PageFile, Ddio::On);
    let runtime = provider.executor().runtime();
    let (backup, welcome) = backup(&port, runtime.clone(), region.clone(), platform, durability);
    let terms = backup.lent().terms;
    runtime.spawn(Box::pin(backup.serve(welcome, ENTRIES)));
    let port = provider.port(COMPLETIONS);
    provider.executor().block_on(async {
        let mut primary = Primary::new(&port);
        let welcome = primary.connect(&provider.address()).await;
        let mut appender = appender(&port, &primary, &welcome, durability);
        for number in 1..=ENTRIES {
            assert_eq!(primary.append(&mut appender).unwrap(), number);
            if number % 3 == 0 {
                appender.flush().unwrap();
            }
        }
        for expected in 1..=ENTRIES {
            let (number, _persisted) = primary.next(&mut appender).await.unwrap();
            assert_eq!(number, expected, "{name}");
            assert!(is_whole(&*region, terms, number), "{name}: entry {number}");
        }
        let end = ENTRIES + 1;
        let standing = Standing {
            persisted: ENTRIES,
            unknown: end..=ENTRIES,
            never_sent: end..=ENTRIES,
        };
        assert_eq!(appender.standing(), standing);
    });
    if durability == Durability::Power {
        let syncs = region.persist_counts().syncs;
        assert!((1..=ENTRIES).contains(&syncs), "{name}: {syncs} syncs");
    }
}

/// A backup and a primary in the simulated world, connected.
struct Pair {
    world: Rc<World>,
    machine: Machine,
    region: Rc<dyn PersistentRegion>,
    meter: Rc<Meter>,
    primary: Rc<RefCell<Primary>>,
    appender: Rc<RefCell<Appender>>,
    processes: [Process; 2],
}

impl Pair {
    fn new(platform: Platform, entries: u64) -> Self {
        Self::in_world(&Rc::new(World::new(7)), "sim:backup", platform, entries)
    }

    fn in_world(world: &Rc<World>, address: &str, platform: Platform, entries: u64) -> Self {
        Self::stalling(world, address, platform, entries, 0)
    }

    /// A pair on machines that delay messages on their way to memory.
    fn stalling(
        world: &Rc<World>,
        address: &str,
        platform: Platform,
        entries: u64,
        inbound_stall_ns_max: Nanoseconds,
    ) -> Self {
        let world = world.clone();
        let machine_options = MachineOptions {
            platform: platform.declared(),
            features: Features::ALL,
            inbound_stall_ns_max,
            ..MachineOptions::new(MachineProfile::MODERN)
        };
        let (machine, other) = (
            world.machine(machine_options),
            world.machine(machine_options),
        );
        let (server, client) = (world.process(machine), world.process(other));
        let module = world.module(machine, Survivor::default());
        let region = SimBacking::new(&module)
            .open_log(options(&platform, Durability::Power))
            .unwrap();
        let port = server.port(COMPLETIONS).unwrap();
        port.device().listen(address).unwrap();
        let runtime = server.runtime();
        let (backup, welcome) = backup(
            &port,
            runtime.clone(),
            region.clone(),
            platform,
            Durability::Power,
        );
        runtime.spawn(Box::pin(backup.serve(welcome, entries)));
        let meter = Rc::<Meter>::default();
        let device = Rc::new(Observed::new(client.open_device(), meter.clone()));
        let port = client.port_on(device, COMPLETIONS).unwrap();
        let primary = Primary::new(&port);
        let welcome = world.block_on(primary.connect(address));
        let appender = appender(&port, &primary, &welcome, Durability::Power);
        // Until the backup also knows of the connection.
        let runtime = client.runtime();
        world.block_on(async { runtime.sleep(1_000_000).await });
        Self {
            world,
            machine,
            region,
            meter,
            primary: Rc::new(RefCell::new(primary)),
            appender: Rc::new(RefCell::new(appender)),
            processes: [server, client],
        }
    }

    fn append(&self, count: u64) {
        for _ in 0..count {
            let mut primary = self.primary.borrow_mut();
            primary.append(&mut *self.appender.borrow_mut()).unwrap();
        }
    }

    fn flush(&self) {
        self.appender.borrow_mut().flush().unwrap();
    }

    /// The next entry that is persisted, or the failure.
    fn next(&self) -> Result<u64, AppendFailure> {
        let (primary, mut appender) = (self.primary.borrow(), self.appender.borrow_mut());
        let next = self.world.block_on(primary.next(&mut *appender));
        next.map(|(number, _persisted)| number)
    }
}

/// Needs one batch for all entries and the READ: a doorbell or a flush for each entry would show.
#[test]
fn k_entries_under_one_flush_cost_one_doorbell_one_signalled_request_and_one_wait() {
    use PersistenceDomain::{Dmp, Mhp, Wsp};
    const ENTRIES: u64 = 8;
    // Every third entry is two messages long.
    let messages: u64 = (1..=ENTRIES)
        .map(|number| (entry(number).len() as u64).div_ceil(256))
        .sum();
    for (platform, reads, write_backs) in [
        (of(Wsp, Ddio::On), 0, false),
        (of(Mhp, Ddio::On), 1, false),
        (of(Dmp, Ddio::Off), 1, false),
        (of(Dmp, Ddio::On), 0, true),
    ] {
        let pair = Pair::new(platform, ENTRIES);
        let (before, persists) = (pair.meter.counts(), pair.region.persist_counts());
        pair.append(ENTRIES);
        assert_eq!(
            pair.meter.counts(),
            before,
            "nothing is sent before the flush"
        );
        pair.flush();
        for number in 1..=ENTRIES {
            assert_eq!(pair.next(), Ok(number));
        }
        let cost = pair.meter.counts() - before;
        let sent = Counts {
            doorbells: cost.doorbells,
            sends: cost.sends,
            reads: cost.reads,
            signalled: cost.signalled,
            completions: cost.completions,
            ..Counts::default()
        };
        let expected = Counts {
            doorbells: 1,
            sends: messages,
            reads,
            signalled: 1,
            completions: 1,
            ..Counts::default()
        };
        assert_eq!(sent, expected, "{platform:?}");
        let after = pair.region.persist_counts();
        let lines: u64 = (1..=ENTRIES)
            .map(|number| entry(number).len() as u64 / 64)
            .sum();
        let expected = if write_backs { lines } else { 0 };
        assert_eq!(
            after.write_backs - persists.write_backs,
            expected,
            "{platform:?}"
        );
    }
}

/// A store with two copies: the number that both have reached counts.
#[test]
fn a_primary_of_two_backups_on_different_platforms_has_an_appender_for_each_and_joins_their_numbers()
 {
    const ENTRIES: u64 = 4;
    let world = Rc::new(World::new(9));
    let pair = |address, platform| Pair::in_world(&world, address, platform, ENTRIES);
    let backups = [
        pair("sim:first", of(PersistenceDomain::Dmp, Ddio::Off)),
        pair("sim:second", of(PersistenceDomain::PageFile, Ddio::On)),
    ];
    let mut committed = Vec::new();
    for backup in &backups {
        backup.append(ENTRIES);
        backup.flush();
    }
    for _ in 0..ENTRIES {
        let reached = backups.each_ref().map(|backup| backup.next().unwrap());
        committed.push(reached.into_iter().min().unwrap());
    }
    assert_eq!(committed, [1, 2, 3, 4]);
    // One backup fails, and the other continues.
    backups[0].world.cut_power(backups[0].machine);
    for backup in &backups {
        backup.append(1);
        backup.flush();
    }
    assert_eq!(backups[0].next().unwrap_err().standing.persisted, ENTRIES);
    assert_eq!(backups[1].appender.borrow().standing().persisted, ENTRIES);
}

/// A receiver whose appends the test puts into its memory: no sender and no network.
struct Alone {
    world: World,
    module: Rc<Module>,
    region: Rc<dyn PersistentRegion>,
    receiver: AppendReceiver,
}

impl Alone {
    fn on(platform: Platform) -> Self {
        let world = World::new(1);
        let machine = world.machine(MachineOptions {
            platform: platform.declared(),
            ..MachineOptions::new(MachineProfile::MODERN)
        });
        let module = world.module(machine, Survivor::default());
        let region = SimBacking::new(&module)
            .open_log(options(&platform, Durability::Power))
            .unwrap();
        let receiver = AppendReceiver::new(region.clone(), &platform, Durability::Power).unwrap();
        Self {
            world,
            module,
            region,
            receiver,
        }
    }
}

#[test]
fn all_that_arrived_together_costs_its_receiver_one_fence_and_each_sender_one_answer() {
    let mut alone = Alone::on(of(PersistenceDomain::Dmp, Ddio::On));
    let Alone {
        world,
        region,
        receiver,
        ..
    } = &mut alone;
    let before = region.persist_counts();
    for number in 1..=5 {
        for sender in [QueuePair(1), QueuePair(2)] {
            let span = Span::new((2 * number + u64::from(sender.0)) * 64, 64);
            region.write(span.offset, &[7; 64]);
            receiver.arrived(sender, number, &[span]).unwrap();
        }
    }
    assert_eq!(receiver.take_answers().count(), 0, "nothing is durable yet");
    world.block_on(receiver.persist()).unwrap();
    let after = region.persist_counts();
    assert_eq!(
        (
            after.write_backs - before.write_backs,
            after.fences - before.fences
        ),
        (10, 1)
    );
    let answers: Vec<_> = receiver.take_answers().collect();
    assert_eq!(answers, [(QueuePair(1), 5), (QueuePair(2), 5)]);
    assert_eq!(
        receiver.take_answers().count(),
        0,
        "each answer is given once"
    );
}

/// Needs the check of numbers: an answer up to 3 would speak for entry 2, which never came.
#[test]
fn a_missing_entry_is_noticed_and_never_answered() {
    let mut alone = Alone::on(of(PersistenceDomain::PageFile, Ddio::On));
    let Alone {
        world,
        module,
        receiver,
        ..
    } = &mut alone;
    let (sender, span) = (QueuePair(3), Span::new(0, 64));
    receiver.arrived(sender, 1, &[span]).unwrap();
    for number in [0, 1, 3] {
        let refused = OutOfOrder {
            sender,
            found: number,
            expected: 2,
        };
        assert_eq!(receiver.arrived(sender, number, &[span]), Err(refused));
    }
    world.block_on(receiver.persist()).unwrap();
    assert_eq!(receiver.take_answers().collect::<Vec<_>>(), [(sender, 1)]);
    // The error of a failed sync is trusted, and no sender gets an answer.
    receiver.arrived(sender, 2, &[span]).unwrap();
    module.fail_next_sync();
    world.block_on(receiver.persist()).unwrap_err();
    assert_eq!(receiver.take_answers().count(), 0);
    receiver.forget(sender);
    receiver.arrived(sender, 1, &[span]).unwrap();
}

#[test]
fn a_failure_names_the_entries_that_are_persisted_unknown_and_never_sent() {
    for ddio in [Ddio::Off, Ddio::On] {
        let pair = Pair::new(of(PersistenceDomain::Dmp, ddio), 6);
        pair.append(2);
        pair.flush();
        assert_eq!((pair.next(), pair.next()), (Ok(1), Ok(2)));
        pair.append(2);
        pair.flush();
        pair.append(2);
        pair.world.cut_power(pair.machine);
        let failure = pair.next().unwrap_err();
        let standing = Standing {
            persisted: 2,
            unknown: 3..=4,
            never_sent: 5..=6,
        };
        assert_eq!(failure.standing, standing, "{failure}");
        assert_eq!(pair.next(), Err(failure.clone()), "the failure stays");
        let said = failure.to_string();
        assert!(
            said.contains("up to 2 are persisted, 2 may be, 2 were never sent"),
            "{said}"
        );
        let mut appender = pair.appender.borrow_mut();
        assert!(matches!(appender.flush(), Err(NotAppended::Ended(_))));
    }
}

/// Needs the check against the entries that were sent: without it an entry that is not even posted would be taken for
/// persisted.
#[test]
fn an_answer_beyond_the_sent_entries_or_without_need_ends_the_connection() {
    for (ddio, number) in [(Ddio::On, 3), (Ddio::Off, 1)] {
        let pair = Pair::new(of(PersistenceDomain::Dmp, ddio), 3);
        pair.append(2);
        pair.flush();
        pair.append(1);
        let mut appender = pair.appender.borrow_mut();
        let wrong = appender.answered(number).unwrap_err();
        assert_eq!((wrong.found, wrong.posted), (number, 2));
        // A receiver that has answered nonsense is not believed later.
        appender.answered(number - 1).unwrap();
        let Poll::Ready(Err(failure)) = look(&mut appender) else {
            panic!("nothing more is persisted here");
        };
        assert_eq!(failure.standing.persisted, 0);
    }
}

/// The next entry that is persisted at this moment, or the failure.
fn look(appender: &mut Appender) -> Poll<Result<u64, AppendFailure>> {
    let context = &mut Context::from_waker(Waker::noop());
    let next = appender.poll_persisted(context);
    next.map_ok(|(number, _persisted)| number)
}

/// The bytes of an entry belong to the device until its batch has completed. After a failure no caller waits for that.
#[test]
fn an_answer_that_overtakes_the_completion_waits_for_it_and_counts_alone_when_the_connection_fails()
{
    let pair = Pair::new(of(PersistenceDomain::Dmp, Ddio::On), 3);
    pair.append(2);
    pair.flush();
    pair.append(1);
    pair.flush();
    let mut appender = pair.appender.borrow_mut();
    appender.answered(2).unwrap();
    assert!(look(&mut appender).is_pending(), "the device has the bytes");
    appender.fail("the connection ended");
    assert_eq!(look(&mut appender), Poll::Ready(Ok(1)));
    assert_eq!(look(&mut appender), Poll::Ready(Ok(2)));
    let Poll::Ready(Err(failure)) = look(&mut appender) else {
        panic!("the fate of the third entry is unknown");
    };
    assert_eq!(
        (failure.standing.persisted, failure.standing.unknown),
        (2, 3..=3)
    );
}

/// Needs answers to be ignored after a failure, and outstanding batches to be left alone once the failure was reported:
/// the store has acted on the report.
#[test]
fn after_a_reported_failure_neither_an_answer_nor_a_completion_concludes_an_entry() {
    for ddio in [Ddio::On, Ddio::Off] {
        let pair = Pair::new(of(PersistenceDomain::Dmp, ddio), 2);
        pair.append(2);
        pair.flush();
        pair.appender.borrow_mut().fail("the connection ended");
        let told = pair.next().unwrap_err();
        assert_eq!(
            (told.standing.persisted, told.standing.unknown.clone()),
            (0, 1..=2)
        );
        // Both entries arrive, and their batch ends well.
        let runtime = pair.processes[1].runtime();
        pair.world
            .block_on(async { runtime.sleep(1_000_000).await });
        assert_eq!(pair.next(), Err(told), "{ddio:?}");
    }
}

/// Needs entries to stay until they are durable: otherwise the next call would answer for entries that were never
/// synced.
#[test]
fn a_persist_that_is_dropped_half_way_is_answered_to_no_one_and_repeated() {
    let mut alone = Alone::on(of(PersistenceDomain::PageFile, Ddio::On));
    let Alone {
        world,
        region,
        receiver,
        ..
    } = &mut alone;
    let sender = QueuePair(3);
    receiver.arrived(sender, 1, &[Span::new(0, 64)]).unwrap();
    {
        let mut half = pin!(receiver.persist());
        let context = &mut Context::from_waker(Waker::noop());
        assert!(half.as_mut().poll(context).is_pending());
    }
    assert_eq!(receiver.take_answers().count(), 0);
    let syncs = region.persist_counts().syncs;
    world.block_on(receiver.persist()).unwrap();
    assert_eq!(region.persist_counts().syncs, syncs + 1);
    assert_eq!(receiver.take_answers().collect::<Vec<_>>(), [(sender, 1)]);
}

#[test]
fn an_entry_without_credit_and_a_batch_that_does_not_fit_the_queue_pair_are_refused_whole() {
    let pair = Pair::new(of(PersistenceDomain::Dmp, Ddio::Off), 0);
    // The queue pair takes 64 requests, and each third entry is two of them.
    pair.append(60);
    let refused = pair.appender.borrow_mut().flush();
    assert!(
        matches!(refused, Err(NotAppended::Refused(_))),
        "{refused:?}"
    );
    let standing = pair.appender.borrow().standing();
    assert_eq!(
        (standing.persisted, standing.never_sent.clone()),
        (0, 1..=60)
    );
    let mut appender = pair.appender.borrow_mut();
    let credits = appender.credits();
    assert!(credits < PLENTY);
    let entry = stonecast_fabric::LocalSpan {
        size: u32::MAX,
        ..pair.primary.borrow().scratch()
    };
    let refused = appender.append(entry);
    assert!(
        matches!(refused, Err(NotAppended::NoCredit(_))),
        "{refused:?}"
    );
    assert_eq!(
        (appender.credits(), appender.standing()),
        (credits, standing)
    );
}

#[test]
fn a_receiver_on_an_undeclared_medium_or_where_nothing_survives_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let region = file(&folder.path().join("power"), Durability::Power);
    let refusal = |platform| {
        let refused = AppendReceiver::new(region.clone(), &platform, Durability::Power);
        refused.map(drop).unwrap_err()
    };
    let medium = refusal(of(PersistenceDomain::Dmp, Ddio::Off));
    assert!(matches!(medium, ExecuteError::Medium { .. }), "{medium}");
    let nothing = refusal(of(PersistenceDomain::Volatile, Ddio::Off));
    assert!(matches!(nothing, ExecuteError::NoPlan(_)), "{nothing}");
}

/// Needs the check of the agent that places entries, on both sides: over shared memory they end in a cache of the
/// appender, and over the simulated network in memory, where the READ of the same plan proves it.
#[test]
fn a_receiver_without_ddio_is_refused_by_a_placing_appender_and_refuses_if_its_processor_places() {
    let folder = tempfile::tempdir().unwrap();
    let shared = providers(folder.path()).pop().unwrap().1.port(COMPLETIONS);
    let pair = Pair::new(of(PersistenceDomain::Dmp, Ddio::Off), 1);
    let simulated = pair.primary.borrow().port().clone();
    let receiving = |ddio| Receiving {
        platform: of(PersistenceDomain::Dmp, ddio),
        durability: Durability::Power,
        terms: AppendTerms {
            grain: 64,
            message_size_max: 256,
        },
        flush: RemoteAddress {
            address: 1 << 20,
            rkey: Rkey(1),
        },
    };
    let appends = |port: &Rc<Port>, ddio| {
        let said = receiving(ddio).say(Means::WriteBack, Placing::Nic).unwrap();
        let agreement = Agreement::hear(&said, Durability::Power).unwrap();
        let (qp, scratch) = (QueuePair(0), pair.primary.borrow().scratch());
        Appender::new(port.clone(), qp, scratch, &agreement).map(drop)
    };
    let refused = appends(&shared, Ddio::Off).unwrap_err();
    let said = refused.to_string();
    assert!(
        matches!(refused, NoAgreement::Placing(_))
            && said.contains("the requester's processor places bytes")
            && said.contains("rq.append(a) rq.read")
            && said.contains("declare ddio = on"),
        "{said}"
    );
    assert_eq!(appends(&shared, Ddio::On), Ok(()));
    assert_eq!(appends(&simulated, Ddio::Off), Ok(()));
    for placing in [Placing::RequesterProcessor, Placing::ResponderProcessor] {
        let says = |ddio| receiving(ddio).say(Means::WriteBack, placing);
        let refused = says(Ddio::Off).unwrap_err();
        assert!(
            matches!(&refused, ExecuteError::Placing(found) if found.placing == placing),
            "{refused}"
        );
        assert!(says(Ddio::On).is_ok());
    }
}

/// Whether persisted entries are gone after a reset of the receiver's NIC at the moment of their persistence.
fn loses_to_a_reset(platform: Platform, seed: u64) -> bool {
    const ENTRIES: u64 = 3;
    let world = Rc::new(World::new(seed));
    let pair = Pair::stalling(&world, "sim:backup", platform, 0, STALL_NS_MAX);
    pair.append(ENTRIES);
    pair.flush();
    let mut persisted = 0;
    while persisted == 0 {
        assert!(world.step(), "seed {seed}: the batch completes");
        while let Poll::Ready(next) = look(&mut pair.appender.borrow_mut()) {
            persisted = next.unwrap();
        }
    }
    world.reset_nic(pair.machine);
    let runtime = pair.processes[0].runtime();
    world.block_on(async { runtime.sleep(1_000_000).await });
    let terms = AppendTerms {
        grain: 64,
        message_size_max: 256,
    };
    (1..=persisted).any(|number| !is_whole(&*pair.region, terms, number))
}

/// Needs the READ: a SEND completes when the receiver's NIC has it, and while the power is on a reset of that NIC
/// destroys messages that it has not placed. A platform that trusts NIC buffers has no READ, as it declares, and shows
/// that the reset destroys something.
#[test]
fn a_reset_of_the_receivers_nic_destroys_no_persisted_entry_if_nic_buffers_are_not_trusted() {
    let trusting = |trusted_nic_buffers| Platform {
        trusted_nic_buffers,
        ..of(PersistenceDomain::Wsp, Ddio::On)
    };
    let lost = (1..=20).filter(|&seed| loses_to_a_reset(trusting(true), seed));
    assert!(
        lost.count() > 0,
        "a reset destroys messages that the NIC had accepted"
    );
    for seed in 1..=20 {
        assert!(!loses_to_a_reset(trusting(false), seed), "seed {seed}");
        let dmp = of(PersistenceDomain::Dmp, Ddio::Off);
        assert!(!loses_to_a_reset(dmp, seed), "seed {seed}");
    }
}
