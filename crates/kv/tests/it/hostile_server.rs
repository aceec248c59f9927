//! Hostile servers: a client ends with an error, whatever the server sends.

use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric::{
    Access, ConnectionEvent, LocalSpan, Operation, Port, QueuePair, ReceiveQueue, ReceiveRequest,
    Runtime,
};
use stonecast_kv::limits::PROTOCOL_VERSION;
use stonecast_kv::{Client, Values};

use crate::bare::bare_queue_pair;
use crate::fabric::on_every_provider;
use crate::world::World;

const BUFFER: u64 = 2048;
const BUFFERS: u64 = 64;

/// Accepts one client, and answers each request with random bytes or numbers.
async fn serve(port: Rc<Port>, runtime: Rc<dyn Runtime>, mut random: Random) {
    let device = port.device().clone();
    let memory = device
        .allocate(BUFFER * (BUFFERS + 1), Access::REMOTE_READ)
        .unwrap();
    let request = loop {
        port.activity().await;
        if let Some(ConnectionEvent::Request { request, .. }) = port.take_event() {
            break request;
        }
    };
    let qp = bare_queue_pair(&port, 512, BUFFERS as u32, 10);
    for n in 0..BUFFERS {
        let local = LocalSpan {
            region: memory,
            offset: n * BUFFER,
            size: BUFFER as u32,
        };
        device
            .post_receive(ReceiveQueue::Own(qp), &[ReceiveRequest { wr_id: n, local }])
            .unwrap();
    }
    device.accept(request, qp, &welcome(&mut random)).unwrap();
    let mut is_first = true;
    for _ in 0..200 {
        // A bound on the wait keeps the loop bounded.
        let _ = runtime.within(2_000_000, port.activity()).await;
        while port.take_event().is_some() {}
        while port.take_received().is_some() {
            answer(
                &port,
                qp,
                memory,
                std::mem::take(&mut is_first),
                &mut random,
            );
        }
    }
    device.disconnect(qp).unwrap();
}

/// In most cases a proper welcome with one wrong number.
fn welcome(random: &mut Random) -> Vec<u8> {
    let mut bytes = b"stonecdk".to_vec();
    bytes.extend_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    bytes.extend_from_slice(&[1, 0, 0, 0]);
    bytes.extend_from_slice(&[7; 16]);
    bytes.extend_from_slice(&(1u64 << 20).to_le_bytes());
    bytes.extend_from_slice(&16u32.to_le_bytes());
    let staging: u32 = if random.random_bool(0.3) { 4 << 20 } else { 0 };
    bytes.extend_from_slice(&staging.to_le_bytes());
    bytes.extend_from_slice(&[9; 24]);
    bytes.extend_from_slice(&random.random_range(0..2u16).to_le_bytes());
    let shards = [1u16, 1, 7][random.random_range(0..3)];
    bytes.extend_from_slice(&shards.to_le_bytes());
    bytes.extend_from_slice(&[9; 8]);
    if random.random_bool(0.3) {
        let at = random.random_range(0..bytes.len());
        bytes[at] = random.random();
    }
    bytes
}

/// An answer with some tag and any numbers.
fn answer(
    port: &Port,
    qp: QueuePair,
    memory: stonecast_fabric::MemoryRegion,
    is_first: bool,
    random: &mut Random,
) {
    let small = |random: &mut Random| match random.random_range(0..4) {
        0 => random.random::<u32>(),
        1 => 0,
        _ => random.random_range(0..40),
    };
    let mut bytes = Vec::new();
    // The first request is for access, and most of the others are for leases, or for rights to publish.
    match random.random_range(0..10) {
        kind if kind < if is_first { 1 } else { 6 } => {
            bytes.push(0x40);
            bytes.extend_from_slice(&random.random_range(0..9u32).to_le_bytes());
            (0..5).for_each(|_| bytes.extend_from_slice(&small(random).to_le_bytes()));
            bytes.extend_from_slice(&memory.rkey.0.to_le_bytes());
        }
        6 => {
            bytes.push(0x43);
            bytes.extend_from_slice(&small(random).to_le_bytes());
            bytes.extend_from_slice(&memory.rkey.0.to_le_bytes());
            for _ in 0..2 {
                let address = if random.random_bool(0.7) {
                    memory.address & !63
                } else {
                    random.random()
                };
                bytes.extend_from_slice(&address.to_le_bytes());
            }
            (0..2).for_each(|_| bytes.extend_from_slice(&memory.rkey.0.to_le_bytes()));
            bytes.extend_from_slice(&[3; 16]);
        }
        9 => {
            bytes.push(random.random_range(0..14));
            bytes.extend_from_slice(&random.random::<u64>().to_le_bytes());
        }
        _ => {
            bytes.push(0x42);
            bytes.extend_from_slice(&small(random).to_le_bytes());
            bytes.extend_from_slice(&(small(random) % 12).to_le_bytes());
            for _ in 0..3 {
                let address = if random.random_bool(0.7) {
                    memory.address & !63
                } else {
                    random.random()
                };
                bytes.extend_from_slice(&address.to_le_bytes());
            }
            (0..3).for_each(|_| bytes.extend_from_slice(&memory.rkey.0.to_le_bytes()));
            bytes.extend_from_slice(&random.random::<u64>().to_le_bytes());
        }
    }
    let offset = BUFFER * BUFFERS;
    port.device().memory(memory).write(offset, &bytes);
    let local = LocalSpan {
        region: memory,
        offset,
        size: bytes.len() as u32,
    };
    let _ = port.post(qp, [Operation::Send { local }]);
}

/// Fails without the checks of `Welcome::parse`, `Accesses::fault` and `Extents::fault`: an underflow, an overflow, or
/// a record that fits no memory stops the client.
#[test]
fn a_client_of_a_hostile_server_ends_with_an_error_and_never_with_a_panic() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let mut connected = 0;
            for seed in 0..150 {
                let (listener, address) = world.listener();
                listener.device().listen(&address).unwrap();
                world.runtime().spawn(Box::pin(serve(
                    listener,
                    world.runtime(),
                    random_from_seed(seed),
                )));
                let (port, runtime) = world.port();
                let Ok(client) = Client::connect(port, runtime, &address).await else {
                    continue;
                };
                connected += 1;
                let mut read = Vec::new();
                for n in 0..5u8 {
                    let _ = client.put(&[n + 1], &[n; 300]).await;
                    let _ = client.get(&[n + 1], &mut read).await;
                    let _ = client.delete(&[n + 1]).await;
                    let _ = client
                        .multi_get(&[b"a", b"b"], &mut Values::default())
                        .await;
                    let _ = client.stat().await;
                    let _ = client.entries().await.map(|entries| entries.len());
                }
            }
            assert!(connected > 5, "some clients connected: {connected}");
        });
    });
}
