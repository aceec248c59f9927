//! Refusals, and their words.

use std::rc::Rc;

use stonecast_backup::{Intake, IntakeError, NotLinked, Pool};
use stonecast_cluster::Nonce;
use stonecast_fabric::{Operation, RemoteAddress, Status};
use stonecast_fabric_sim::World;
use stonecast_media::Durability;
use stonecast_session::ReceiveBuffers;

use crate::world::{
    ADDRESS, Backup, COMPLETIONS, KEY, Primary, Setup, endpoint, hello, hello_bytes,
};

fn refusal(primary: &Primary) -> String {
    primary.try_link().err().expect("it is refused").to_string()
}

#[test]
fn a_node_that_may_not_append_is_refused_by_name_with_the_reason() {
    let setup = Setup {
        sessions_max: 1,
        ..Setup::one_sided()
    };
    let world = Rc::new(World::new(41));
    let backup = Backup::start(&world, setup);
    let mut primary = Primary::start(&world, &setup, "stranger");
    let refused = refusal(&primary);
    assert!(
        refused.contains("node stranger may not append here"),
        "{refused}"
    );
    primary.options.hello = hello("a");
    primary.options.hello.nonce = Nonce::from_u128(99);
    let refused = refusal(&primary);
    assert!(
        refused.contains("node a belongs to the cluster"),
        "{refused}"
    );
    primary.options.hello = hello("a");
    let _link = primary.link();
    primary.options.hello = hello("b");
    let refused = refusal(&primary);
    assert!(
        refused.contains("this backup has 1 sessions, and takes no more"),
        "{refused}"
    );
    assert_eq!(backup.with(|intake| intake.peers().count()), 1);
}

/// Needs the check of the failure that entries have to outlive.
#[test]
fn a_backup_whose_entries_outlive_processes_alone_is_refused_by_a_node_that_survives_power_cuts() {
    let setup = Setup {
        durability: Durability::Process,
        ..Setup::answered()
    };
    let world = Rc::new(World::new(43));
    let _backup = Backup::start(&world, setup);
    let mut primary = Primary::start(&world, &setup, "a");
    primary.options.durability = Durability::Power;
    let refused = primary.try_link().err().unwrap();
    assert!(matches!(refused, NotLinked::NoAgreement(_)), "{refused}");
}

/// A stranger sends a hello of any length, or sends nothing: neither side waits forever.
#[test]
fn a_hello_that_is_none_is_refused_and_a_backup_without_words_is_given_up() {
    let setup = Setup::one_sided();
    let world = Rc::new(World::new(45));
    let backup = Backup::start(&world, setup);
    let mut primary = Primary::start(&world, &setup, "a");
    for said in [&b""[..], b"stcappnd", &[0xff; 190]] {
        let connected = world.block_on(async { endpoint(&primary).connect(ADDRESS, said).await });
        let refused = connected.unwrap_err().to_string();
        assert!(
            refused.contains("not a client of appends between nodes"),
            "{refused}"
        );
    }
    backup.process.pause(60_000_000);
    primary.options.patience_ns = 500_000;
    let silent = primary.try_link().err().unwrap();
    assert!(
        silent.to_string().starts_with("no word from sim:backup"),
        "{silent}"
    );
}

/// Needs the window: a key of the whole region would let a primary read the records of every client.
#[test]
fn the_key_that_a_peer_gets_opens_eight_bytes_and_not_the_log() {
    let setup = Setup::one_sided();
    let world = Rc::new(World::new(47));
    let _backup = Backup::start(&world, setup);
    let primary = Primary::start(&world, &setup, "a");
    let endpoint = endpoint(&primary);
    let memory = endpoint.allocate(1024).unwrap();
    let device = primary.port.device();
    let buffers = ReceiveBuffers::new(memory, 256);
    let queue = stonecast_fabric::ReceiveQueue::Own(endpoint.qp());
    buffers.post_all(&**device, queue, 2).unwrap();
    let said = hello_bytes("a");
    world
        .block_on(async { endpoint.connect(ADDRESS, &said).await })
        .unwrap();
    world.block_on(endpoint.inbox().activity());
    let arrival = endpoint.inbox().take_received().unwrap();
    let mut notice = Vec::new();
    buffers.copy_out(&**device, &arrival, &mut notice);
    // The terms stand at byte 20 of a notice; address and key at bytes 24 and 32 of the terms.
    let address = u64::from_le_bytes(*notice[44..].first_chunk().unwrap());
    let rkey = stonecast_fabric::Rkey(u32::from_le_bytes(*notice[52..].first_chunk().unwrap()));
    let read = |offset, size| {
        let local = stonecast_fabric::LocalSpan {
            region: memory,
            offset: 512,
            size,
        };
        let remote = RemoteAddress {
            address: address + offset,
            rkey,
        };
        let operation = [Operation::Read { local, remote }];
        world
            .block_on(primary.port.submit(endpoint.qp(), &operation))
            .unwrap()
    };
    assert_eq!(read(0, 8), Status::Success);
    assert_eq!(read(0, 16), Status::RemoteAccess);
}

#[test]
fn an_intake_whose_window_pays_no_longest_entry_does_not_begin() {
    let refused = refused(Setup {
        window_size: 960,
        ..Setup::one_sided()
    });
    assert!(
        matches!(
            refused,
            IntakeError::WindowTooSmall {
                window: 15,
                longest: 16
            }
        ),
        "{refused}"
    );
}

/// Needs the other segments to pay all windows: entries in a full segment free their credits after its search.
#[test]
fn an_intake_whose_segments_do_not_pay_all_windows_does_not_begin() {
    let refused = refused(Setup {
        sessions_max: 4,
        ..Setup::one_sided()
    });
    let (four, pays) = (4 * 4096 / 64, 16 * 1024 / 64);
    assert!(
        matches!(
            refused,
            IntakeError::RoomTooSmall { windows, room } if windows == four && room < pays
        ),
        "{refused}"
    );
}

fn refused(setup: Setup) -> IntakeError {
    let world = Rc::new(World::new(49));
    let machine = world.machine(setup.machine());
    let module = world.module(machine, Default::default());
    let port = world.process(machine).port(COMPLETIONS).unwrap();
    let log = stonecast_media::Backing::open_log(
        &stonecast_fabric_sim::SimBacking::new(&module),
        setup.log(),
    );
    let region = log.unwrap();
    let ledger = setup.share(Default::default(), region.clone());
    let pool = Pool {
        appended: region.clone(),
        region,
        format: setup.format(),
        key: KEY,
        ledger,
        segments: Vec::new(),
        earlier_writers_are_gone: true,
    };
    Intake::start(&port, pool, &setup.options(1)).err().unwrap()
}
