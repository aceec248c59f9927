//! WRITE and READ move exactly the bytes that they name.

use std::rc::Rc;

use super::Scene;
use super::end::unsignalled;
use super::operations::{compare_and_swap, fetch_and_add, read, write};
use crate::{Access, LocalSpan, Operation, RemoteAddress, Status};

/// Sizes around the thresholds at which copying code changes its method: words, cache lines, pages.
const SIZES: [u32; 19] = [
    1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 4095, 4097,
];

pub(super) async fn a_write_of_any_size_and_alignment_changes_exactly_its_bytes(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.fill(0, &pattern(8192));
    for size in SIZES {
        for (from, to) in [(0, 64), (1, 64), (3, 69), (8, 71), (13, 77), (64, 65)] {
            server.fill(0, &[0xee; 8192]);
            assert_eq!(
                client.execute(write(client, from, size, server, to)).await,
                Status::Success
            );
            let mut expected = vec![0xee; 8192];
            expected[to as usize..][..size as usize]
                .copy_from_slice(&pattern(8192)[from as usize..][..size as usize]);
            // A completion means that the responder has the WRITE; a READ after it shows that the WRITE took effect.
            assert_eq!(
                client.execute(read(client, 32_768, 8, server, 0)).await,
                Status::Success
            );
            assert!(
                server.bytes(0, 8192) == expected,
                "{size} bytes from {from} to {to}"
            );
        }
    }
}

pub(super) async fn a_read_of_any_size_and_alignment_returns_exactly_its_bytes(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.fill(0, &pattern(8192));
    for size in SIZES {
        for (from, to) in [(0, 64), (1, 64), (3, 69), (8, 71), (13, 77), (64, 65)] {
            client.fill(0, &[0xee; 8192]);
            assert_eq!(
                client.execute(read(client, to, size, server, from)).await,
                Status::Success
            );
            let mut expected = vec![0xee; 8192];
            expected[to as usize..][..size as usize]
                .copy_from_slice(&pattern(8192)[from as usize..][..size as usize]);
            assert!(
                client.bytes(0, 8192) == expected,
                "{size} bytes from {from} to {to}"
            );
        }
    }
}

pub(super) async fn a_megabyte_travels_whole_in_both_directions(scene: Rc<Scene>) {
    const SIZE: u32 = 1 << 20;
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    let both = Access::REMOTE_READ.and(Access::REMOTE_WRITE);
    let near = client
        .device()
        .allocate(2 * u64::from(SIZE), Access::NONE)
        .expect("memory");
    let far = server
        .device()
        .allocate(u64::from(SIZE), both)
        .expect("memory");
    let memory = client.device().memory(near);
    memory.write(0, &pattern(SIZE as usize));
    let remote = RemoteAddress {
        address: far.address,
        rkey: far.rkey,
    };
    let there = Operation::Write {
        local: LocalSpan {
            region: near,
            offset: 0,
            size: SIZE,
        },
        remote,
    };
    let back = Operation::Read {
        local: LocalSpan {
            region: near,
            offset: u64::from(SIZE),
            size: SIZE,
        },
        remote,
    };
    client.post(&[unsignalled(0, there)]);
    assert_eq!(client.execute(back).await, Status::Success);
    let mut found = vec![0; SIZE as usize];
    memory.read(u64::from(SIZE), &mut found);
    assert!(
        found == pattern(SIZE as usize),
        "the bytes written are read back"
    );
}

pub(super) async fn an_empty_write_and_an_empty_read_at_the_end_of_a_region_succeed(
    scene: Rc<Scene>,
) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    let end = RemoteAddress {
        address: server.buffer.address + server.buffer.size,
        rkey: server.buffer.rkey,
    };
    let local = client.local(client.buffer.size, 0);
    assert_eq!(
        client
            .execute(Operation::Write { local, remote: end })
            .await,
        Status::Success
    );
    assert_eq!(
        client.execute(Operation::Read { local, remote: end }).await,
        Status::Success
    );
}

pub(super) async fn one_sided_operations_need_no_help_of_the_responder(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.set_word(0, 7);
    scene.hold(1);
    assert_eq!(
        client.execute(write(client, 0, 8, server, 64)).await,
        Status::Success
    );
    assert_eq!(
        client
            .execute(fetch_and_add(client.local(8, 8), server.remote(64), 1))
            .await,
        Status::Success
    );
    assert_eq!(
        client
            .execute(compare_and_swap(
                client.local(16, 8),
                server.remote(64),
                8,
                9
            ))
            .await,
        Status::Success
    );
    assert_eq!(
        client.execute(read(client, 24, 8, server, 64)).await,
        Status::Success
    );
    assert_eq!([8, 16, 24].map(|offset| client.word(offset)), [7, 8, 9]);
}

pub(super) async fn allocated_memory_is_zeroed(scene: Rc<Scene>) {
    let device = scene.node(0).device().clone();
    for size in [1, 8, 4096, 100_000] {
        let region = device.allocate(size, Access::NONE).expect("memory");
        assert_eq!(region.size, size, "the handle has the length of the region");
        let mut bytes = vec![1; size as usize];
        device.memory(region).read(0, &mut bytes);
        assert!(bytes.iter().all(|&byte| byte == 0), "{size} bytes");
    }
}

fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|index| (index % 251) as u8).collect()
}
