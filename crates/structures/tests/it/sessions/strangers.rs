//! Strangers on the control channel.

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric as fabric;
use stonecast_fabric::LocalSpan;
use stonecast_fabric_sim::{MachineOptions, MachineProfile};
use stonecast_session::{ConnectError, Endpoint, Greeting, Protocol, Queues};
use stonecast_structures::shapes::StructureKind;

use super::scene::{ADDRESS, Scene, create, insert, keys};

/// The version of the protocol that the server speaks.
const VERSION: u32 = 8;
/// The highest first word of a message that strangers choose: beyond those of all requests.
const CODE_MAX: u64 = 24;

/// A stranger on the control channel: it greets, and sends messages of its own.
async fn stranger(scene: &Scene, version: u32, messages: &[&[u8]]) -> Result<(), ConnectError> {
    let process = scene.world.process(
        scene
            .world
            .machine(MachineOptions::new(MachineProfile::MODERN)),
    );
    let port = process.port(64).expect("a port");
    let queues = Queues {
        send_capacity: 8,
        receive_capacity: 8,
        shared_receive_queue: None,
        windows: false,
        rnr_retry_count: 10,
        rnr_retry_delay_ns: 100_000,
    };
    let endpoint = Endpoint::new(&port, queues)?;
    let local = endpoint.allocate(4096)?;
    let greeting = Greeting::of(Protocol {
        magic: *b"stonstru",
        name: "data structures",
        version,
    });
    endpoint.connect(ADDRESS, &greeting.say(b"")).await?;
    for message in messages {
        port.device().memory(local).write(0, message);
        let local = LocalSpan {
            region: local,
            offset: 0,
            size: message.len() as u32,
        };
        let sent = [fabric::Operation::Send { local }];
        let _ = port.submit(endpoint.qp(), &sent).await;
    }
    scene.rest(5_000_000).await;
    Ok(())
}

/// A number as a program without sense sends it: often a small one, which may mean something.
fn number(random: &mut Random) -> u64 {
    match random.random_range(0..6) {
        0 => u64::MAX,
        1 => 1 << random.random_range(0..64),
        2 => random.random(),
        _ => random.random_range(0..6),
    }
}

/// A message as a program without sense sends it: a request with any numbers, or bytes of any length.
fn nonsense(random: &mut Random) -> Vec<u8> {
    let count: usize = random.random_range(0..17);
    if random.random_range(0..4) == 0 {
        return (0..count * 8).map(|_| random.random()).collect();
    }
    let more = match random.random() {
        true => count.saturating_sub(2),
        false => 0,
    };
    let mut words = vec![random.random_range(0..=CODE_MAX), number(random)];
    words.extend((0..more).map(|_| number(random)));
    let mut message: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    if random.random_range(0..8) == 0 {
        message.pop();
    }
    message
}

/// Needs the bounds of each request: the strangers take leases, domains and slabs as any front-end may, and nothing
/// else.
#[test]
fn random_messages_by_the_thousand_disturb_no_writer_and_no_reader() {
    const SEED: u64 = 20;
    println!("seed {SEED}");
    let scene = Scene::new(SEED);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let (_process, back_end) = scene.front_end().await;
        let domain = back_end.create_domain(3).await.expect("there is room");
        let mut writer = back_end.writer(domain).await.expect("the domain is free");
        let table = create(&mut writer, StructureKind::HashTable).await;
        let mut random = random_from_seed(SEED);
        for round in 0..400 {
            let messages: Vec<Vec<u8>> = (0..10).map(|_| nonsense(&mut random)).collect();
            let messages: Vec<&[u8]> = messages.iter().map(|message| &**message).collect();
            // A stranger that says nonsense may lose its connection in the middle.
            stranger(&scene, VERSION, &messages)
                .await
                .expect("it is accepted");
            insert(&mut writer, table, round).await;
            writer.publish().await.expect("the tenure lasts");
        }
        let expected: Vec<u64> = (0..400).collect();
        assert_eq!(keys(&back_end, domain, table, 401).await, expected);
        let stat = back_end.stat(domain).await.expect("there is the domain");
        assert_eq!((stat.tenure, stat.staged), (writer.tenure(), 0));
        writer.renew().await.expect("the tenure lasts");
    });
}

/// Needs the check of each message, and that a request about the tenure of another owner does nothing.
#[test]
fn strangers_on_the_control_channel_disturb_nobody() {
    let scene = Scene::new(3);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let (_process, back_end) = scene.front_end().await;
        let domain = back_end.create_domain(2).await.expect("there is room");
        let mut writer = back_end.writer(domain).await.expect("the domain is free");
        let table = create(&mut writer, StructureKind::HashTable).await;
        let words = |words: [u64; 2]| words.map(u64::to_le_bytes).concat();
        // Notify, release and a slab for a domain of another front-end; domains that are none; garbage of any length.
        let (notify, release, slab) = (words([6, 0]), words([7, 0]), words([3, 0]));
        let (nowhere, unknown) = (words([5, 99]), words([6, u64::MAX]));
        let asked: [&[u8]; 4] = [&notify, &release, &slab, &nowhere];
        stranger(&scene, VERSION, &asked)
            .await
            .expect("it is accepted");
        for garbage in [&b""[..], b"x", &[0xff; 16], &[7; 64], &unknown] {
            stranger(&scene, VERSION, &[garbage])
                .await
                .expect("it is accepted");
        }
        let refused = stranger(&scene, VERSION + 1, &[]).await.unwrap_err();
        let words = "the client speaks protocol version 9 of data structures, the server version 8";
        assert!(refused.to_string().starts_with(words), "{refused}");
        insert(&mut writer, table, 1).await;
        writer.publish().await.expect("the tenure lasts");
        assert_eq!(keys(&back_end, domain, table, 3).await, [1]);
    });
}
