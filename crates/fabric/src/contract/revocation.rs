//! Memory windows, and the end of keys.

use std::future::poll_fn;
use std::rc::Rc;

use super::end::{End, signalled, unsignalled};
use super::operations::{compare_and_swap, read, send, write, write_immediate};
use super::scene::ALL_ACCESS;
use super::{Pair, Scene, Setup};
use crate::{Access, DeviceError, LocalSpan, MemoryRegion, Operation, RemoteAddress, Rkey, Status};

/// Start of the windows of these stories in their region, and their length.
const START: u64 = 4096;
const SIZE: u64 = 1000;

pub(super) async fn a_window_opens_its_bytes_of_a_closed_region(scene: Rc<Scene>) {
    let (pair, region, rkey) = window(&scene, ALL_ACCESS).await;
    let address = region.address + START;
    assert_eq!(
        try_write(&pair.client, RemoteAddress { address, rkey }, 8).await,
        Status::Success
    );
    let last = RemoteAddress {
        address: address + SIZE - 8,
        rkey,
    };
    assert_eq!(try_write(&pair.client, last, 8).await, Status::Success);
}

pub(super) async fn a_window_opens_nothing_before_itself(scene: Rc<Scene>) {
    let (pair, region, rkey) = window(&scene, ALL_ACCESS).await;
    let before = RemoteAddress {
        address: region.address + START - 1,
        rkey,
    };
    assert_eq!(
        try_write(&pair.client, before, 8).await,
        Status::RemoteAccess
    );
}

pub(super) async fn a_window_opens_nothing_after_itself(scene: Rc<Scene>) {
    let (pair, region, rkey) = window(&scene, ALL_ACCESS).await;
    let across = RemoteAddress {
        address: region.address + START + SIZE - 7,
        rkey,
    };
    assert_eq!(
        try_write(&pair.client, across, 8).await,
        Status::RemoteAccess
    );
}

pub(super) async fn a_window_grants_only_its_own_rights(scene: Rc<Scene>) {
    let (pair, region, rkey) = window(&scene, Access::REMOTE_READ).await;
    let remote = RemoteAddress {
        address: region.address + START,
        rkey,
    };
    assert_eq!(
        try_write(&pair.client, remote, 8).await,
        Status::RemoteAccess
    );
}

pub(super) async fn a_window_opens_nothing_to_another_queue_pair(scene: Rc<Scene>) {
    let (_pair, region, rkey) = window(&scene, ALL_ACCESS).await;
    for windows in [false, true] {
        let other = scene
            .connect(Setup {
                windows,
                ..Setup::default()
            })
            .await;
        let remote = RemoteAddress {
            address: region.address + START,
            rkey,
        };
        assert_eq!(
            try_write(&other.client, remote, 8).await,
            Status::RemoteAccess,
            "made for windows: {windows}"
        );
    }
}

pub(super) async fn a_window_that_leaves_its_region_is_refused(scene: Rc<Scene>) {
    let pair = scene
        .connect(Setup {
            windows: true,
            ..Setup::default()
        })
        .await;
    let server = &pair.server;
    for (offset, size) in [
        (0, server.buffer.size + 1),
        (server.buffer.size, 1),
        (u64::MAX, 2),
    ] {
        let refused = server.device().bind_window(
            server.qp,
            server.buffer,
            offset,
            size,
            Access::REMOTE_READ,
        );
        assert!(
            matches!(refused, Err(DeviceError::Malformed { .. })),
            "{size} bytes from {offset}: {refused:?}"
        );
    }
}

pub(super) async fn an_invalidated_window_opens_nothing(scene: Rc<Scene>) {
    let (pair, region, rkey) = window(&scene, ALL_ACCESS).await;
    invalidate(&pair.server, rkey).await;
    let remote = RemoteAddress {
        address: region.address + START,
        rkey,
    };
    assert_eq!(
        try_write(&pair.client, remote, 8).await,
        Status::RemoteAccess
    );
}

pub(super) async fn the_end_of_one_window_leaves_others_of_the_region_open(scene: Rc<Scene>) {
    let (pair, region, rkey) = window(&scene, ALL_ACCESS).await;
    let server = &pair.server;
    let other = server
        .device()
        .bind_window(server.qp, region, START, SIZE, ALL_ACCESS)
        .expect("a window");
    invalidate(server, rkey).await;
    let remote = RemoteAddress {
        address: region.address + START,
        rkey: other,
    };
    assert_eq!(try_write(&pair.client, remote, 8).await, Status::Success);
}

pub(super) async fn an_old_window_key_stays_closed_when_the_bytes_are_bound_again(
    scene: Rc<Scene>,
) {
    let (pair, region, rkey) = window(&scene, ALL_ACCESS).await;
    let server = &pair.server;
    let mut seen = vec![rkey];
    for _ in 0..64 {
        invalidate(server, seen[seen.len() - 1]).await;
        let fresh = server
            .device()
            .bind_window(server.qp, region, START, SIZE, ALL_ACCESS)
            .expect("a window");
        assert!(
            !seen.contains(&fresh),
            "key {fresh:?} came back after {} bindings",
            seen.len()
        );
        seen.push(fresh);
    }
    let remote = RemoteAddress {
        address: region.address + START,
        rkey,
    };
    assert_eq!(
        try_write(&pair.client, remote, 8).await,
        Status::RemoteAccess
    );
}

pub(super) async fn an_invalidated_region_key_opens_nothing(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    invalidate(&pair.server, pair.server.buffer.rkey).await;
    assert_eq!(
        try_write(&pair.client, pair.server.remote(0), 8).await,
        Status::RemoteAccess
    );
    assert_eq!(pair.server.word(0), 0);
}

pub(super) async fn nothing_is_written_after_an_invalidation_returned(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.fill(0, &[7; 30_000]);
    let requests: Vec<_> = (0..32)
        .map(|index| unsignalled(index, write(client, 0, 30_000, server, 8 * index)))
        .collect();
    client.post(&requests);
    scene.pump();
    invalidate(server, server.buffer.rkey).await;
    server.fill(0, &[0; 32_768]);
    scene.quiet().await;
    assert!(
        server.bytes(0, 32_768).iter().all(|&byte| byte == 0),
        "earlier posts write nothing afterwards"
    );
}

pub(super) async fn nothing_is_written_after_the_end_of_a_window(scene: Rc<Scene>) {
    let pair = scene
        .connect(Setup {
            windows: true,
            ..Setup::default()
        })
        .await;
    let (client, server) = (&pair.client, &pair.server);
    let rkey = server
        .device()
        .bind_window(server.qp, server.buffer, 0, 32_768, ALL_ACCESS)
        .expect("a window");
    client.fill(0, &[7; 30_000]);
    let requests: Vec<_> = (0..32)
        .map(|index| {
            let remote = RemoteAddress {
                address: server.buffer.address + 8 * index,
                rkey,
            };
            unsignalled(
                index,
                Operation::Write {
                    local: client.local(0, 30_000),
                    remote,
                },
            )
        })
        .collect();
    client.post(&requests);
    scene.pump();
    invalidate(server, rkey).await;
    server.fill(0, &[0; 32_768]);
    scene.quiet().await;
    assert!(
        server.bytes(0, 32_768).iter().all(|&byte| byte == 0),
        "earlier posts write nothing afterwards"
    );
}

/// Both sides post, receive, and reach each other's buffers through windows alone.
pub(super) async fn queue_pairs_with_windows_do_everything_else_too(scene: Rc<Scene>) {
    let Pair {
        mut client,
        mut server,
    } = scene
        .connect(Setup {
            windows: true,
            ..Setup::default()
        })
        .await;
    for end in [&mut client, &mut server] {
        // From here on the peer addresses the buffer by the key of a window.
        let opened = end
            .device()
            .bind_window(end.qp, end.buffer, 0, end.buffer.size, ALL_ACCESS);
        end.buffer.rkey = opened.expect("a window");
    }
    for (from, to) in [(&client, &server), (&server, &client)] {
        from.set_word(0, 5);
        assert_eq!(
            from.execute(write(from, 0, 8, to, 64)).await,
            Status::Success
        );
        assert_eq!(to.word(64), 5, "written");
        assert_eq!(
            from.execute(read(from, 128, 8, to, 64)).await,
            Status::Success
        );
        assert_eq!(from.word(128), 5, "read back");
        let swap = compare_and_swap(from.local(192, 8), to.remote(64), 5, 6);
        assert_eq!(from.execute(swap).await, Status::Success);
        assert_eq!((from.word(192), to.word(64)), (5, 6), "swapped");
        to.receive(1, 256, 64);
        assert_eq!(from.execute(send(from, 0, 8)).await, Status::Success);
        to.expect_received(&[(1, Status::Success)]).await;
        assert_eq!(to.word(256), 5, "the message lies in its buffer");
        to.receive(2, 256, 64);
        assert_eq!(
            from.execute(write_immediate(from, 0, 8, to, 320, 9)).await,
            Status::Success
        );
        assert_eq!(
            (to.received().await.immediate, to.word(320)),
            (9, 5),
            "number and bytes"
        );
    }
}

pub(super) async fn invalidating_a_key_twice_is_harmless(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let other = pair
        .server
        .device()
        .allocate(64, ALL_ACCESS)
        .expect("memory");
    invalidate(&pair.server, other.rkey).await;
    invalidate(&pair.server, other.rkey).await;
    assert_eq!(
        try_write(&pair.client, pair.server.remote(0), 8).await,
        Status::Success,
        "other keys are unharmed"
    );
}

pub(super) async fn a_region_with_a_valid_key_is_not_deregistered(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let server = &pair.server;
    let refused = server.device().deregister(server.buffer);
    assert!(
        matches!(refused, Err(DeviceError::Malformed { .. })),
        "{refused:?}"
    );
    assert_eq!(
        try_write(&pair.client, server.remote(0), 8).await,
        Status::Success
    );
}

pub(super) async fn the_key_of_a_deregistered_region_opens_nothing(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let server = &pair.server;
    invalidate(server, server.buffer.rkey).await;
    server
        .device()
        .deregister(server.buffer)
        .expect("a region without valid keys can be deregistered");
    assert_eq!(
        try_write(&pair.client, server.remote(0), 8).await,
        Status::RemoteAccess
    );
}

pub(super) async fn a_key_can_be_invalidated_after_its_peer_died(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.post(&[signalled(0, write(client, 0, 30_000, server, 0))]);
    scene.kill(0);
    scene.disconnected(1, server.qp).await;
    invalidate(server, server.buffer.rkey).await;
}

/// A pair, a closed region of the server, and a window on a part of it for the client.
async fn window(scene: &Rc<Scene>, access: Access) -> (Pair, MemoryRegion, Rkey) {
    let pair = scene
        .connect(Setup {
            windows: true,
            ..Setup::default()
        })
        .await;
    let device = pair.server.device();
    let region = device.allocate(16_384, Access::NONE).expect("memory");
    let rkey = device
        .bind_window(pair.server.qp, region, START, SIZE, access)
        .expect("a window");
    (pair, region, rkey)
}

async fn try_write(client: &End, remote: RemoteAddress, size: u32) -> Status {
    client
        .execute(Operation::Write {
            local: LocalSpan {
                region: client.buffer,
                offset: 0,
                size,
            },
            remote,
        })
        .await
}

async fn invalidate(owner: &End, rkey: Rkey) {
    let result = owner
        .scene()
        .finish(
            "an invalidation",
            poll_fn(|context| owner.device().poll_invalidate(rkey, context)),
        )
        .await;
    result.expect("a live peer leaves the memory, and a dead peer is not in it");
}
