//! The effect of a failed operation on its queue pair, and its lack of effect on anything else.

use std::rc::Rc;

use super::end::{End, signalled, unsignalled};
use super::operations::{read, send, write};
use super::{Scene, Setup};
use crate::{
    Access, DeviceError, DisconnectCause, FlushPlacement, LocalSpan, MemoryRegion, Operation,
    ReceiveQueue, ReceiveRequest, RemoteAddress, Rkey, SharedReceiveQueueOptions, Status,
    WorkRequest,
};

pub(super) async fn requests_after_a_failed_one_are_flushed_in_posting_order(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.post(&[
        signalled(1, hopeless(client)),
        signalled(2, write(client, 0, 8, server, 0)),
        signalled(3, read(client, 8, 8, server, 0)),
        signalled(4, send(client, 0, 8)),
        signalled(5, write(client, 0, 8, server, 0)),
    ]);
    client.expect_sent(&[(1, Status::RemoteAccess)]).await;
    client
        .expect_sent(&[2, 3, 4, 5].map(|wr_id| (wr_id, Status::WorkRequestFlushed)))
        .await;
}

pub(super) async fn a_failed_request_completes_even_if_it_was_unsignalled(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    pair.client.post(&[unsignalled(1, hopeless(&pair.client))]);
    pair.client.expect_sent(&[(1, Status::RemoteAccess)]).await;
}

pub(super) async fn a_flushed_request_completes_even_if_it_was_unsignalled(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.post(&[
        signalled(1, hopeless(client)),
        unsignalled(2, write(client, 0, 8, server, 0)),
        unsignalled(3, send(client, 0, 8)),
    ]);
    client.expect_sent(&[(1, Status::RemoteAccess)]).await;
    client
        .expect_sent(&[2, 3].map(|wr_id| (wr_id, Status::WorkRequestFlushed)))
        .await;
}

pub(super) async fn requests_before_a_failed_one_complete_and_take_effect(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.receive(0, 1024, 64);
    client.set_word(0, 7);
    client.post(&[
        signalled(1, write(client, 0, 8, server, 0)),
        signalled(2, send(client, 0, 8)),
        signalled(3, read(client, 8, 8, server, 0)),
        signalled(4, hopeless(client)),
    ]);
    client
        .expect_sent(&[1, 2, 3].map(|wr_id| (wr_id, Status::Success)))
        .await;
    client.expect_sent(&[(4, Status::RemoteAccess)]).await;
    server.expect_received(&[(0, Status::Success)]).await;
    assert_eq!(
        (server.word(0), server.word(1024), client.word(8)),
        (7, 7, 7)
    );
}

pub(super) async fn a_write_after_a_failed_one_changes_nothing(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.set_word(0, 7);
    client.post(&[
        unsignalled(1, hopeless(client)),
        unsignalled(2, write(client, 0, 8, server, 0)),
    ]);
    client
        .expect_sent(&[(1, Status::RemoteAccess), (2, Status::WorkRequestFlushed)])
        .await;
    scene.quiet().await;
    assert_eq!(server.word(0), 0);
}

pub(super) async fn a_failed_queue_pair_accepts_posts_and_flushes_them(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    assert_eq!(client.execute(hopeless(client)).await, Status::RemoteAccess);
    for round in 1..=3 {
        client.post(&[
            signalled(10 * round, write(client, 0, 8, server, 0)),
            unsignalled(10 * round + 1, send(client, 0, 8)),
        ]);
        client.receive(round, 0, 64);
        client
            .expect_sent(
                &[10 * round, 10 * round + 1].map(|wr_id| (wr_id, Status::WorkRequestFlushed)),
            )
            .await;
        client
            .expect_received(&[(round, Status::WorkRequestFlushed)])
            .await;
    }
}

pub(super) async fn own_receive_buffers_of_both_sides_are_flushed_in_order(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    for end in [&pair.client, &pair.server] {
        (1..=5).for_each(|wr_id| end.receive(wr_id, 1024, 64));
    }
    assert_eq!(
        pair.client.execute(hopeless(&pair.client)).await,
        Status::RemoteAccess
    );
    for end in [&pair.client, &pair.server] {
        end.expect_received(&[1, 2, 3, 4, 5].map(|wr_id| (wr_id, Status::WorkRequestFlushed)))
            .await;
    }
}

pub(super) async fn shared_receive_buffers_survive_the_failure_of_a_queue_pair(scene: Rc<Scene>) {
    let device = scene.node(1).device().clone();
    let options = SharedReceiveQueueOptions {
        capacity: 8,
        multi_packet: None,
        in_order: false,
    };
    let queue = device
        .create_shared_receive_queue(options)
        .expect("a shared queue");
    let cq = device
        .create_completion_queue(64)
        .expect("a completion queue");
    let setup = Setup {
        server_queue: Some(queue),
        server_receive_cq: Some(cq),
        ..Setup::default()
    };
    let (failing, other) = (scene.connect(setup).await, scene.connect(setup).await);
    let buffer = |wr_id| ReceiveRequest {
        wr_id,
        local: other.server.local(wr_id * 64, 64),
    };
    device
        .post_receive(ReceiveQueue::Shared(queue), &[buffer(1), buffer(2)])
        .expect("room in the shared queue");
    assert_eq!(
        failing.client.execute(hopeless(&failing.client)).await,
        Status::RemoteAccess
    );
    scene.disconnected(1, failing.server.qp).await;
    other.client.post(&[
        unsignalled(0, send(&other.client, 0, 8)),
        unsignalled(0, send(&other.client, 0, 8)),
    ]);
    other
        .server
        .expect_received(&[(1, Status::Success), (2, Status::Success)])
        .await;
}

pub(super) async fn another_queue_pair_of_the_same_devices_is_unharmed(scene: Rc<Scene>) {
    let (failing, other) = (scene.pair().await, scene.pair().await);
    assert_eq!(
        failing.client.execute(hopeless(&failing.client)).await,
        Status::RemoteAccess
    );
    scene.disconnected(1, failing.server.qp).await;
    other.server.receive(1, 64, 64);
    assert_eq!(
        other
            .client
            .execute(write(&other.client, 0, 8, &other.server, 0))
            .await,
        Status::Success
    );
    assert_eq!(
        other.client.execute(send(&other.client, 0, 8)).await,
        Status::Success
    );
    other.server.expect_received(&[(1, Status::Success)]).await;
}

pub(super) async fn a_failure_ends_the_connection_on_both_sides_once(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    assert_eq!(
        pair.client.execute(hopeless(&pair.client)).await,
        Status::RemoteAccess
    );
    assert_eq!(
        scene.disconnected(0, pair.client.qp).await,
        DisconnectCause::QueuePairError
    );
    assert_ne!(
        scene.disconnected(1, pair.server.qp).await,
        DisconnectCause::PeerDied
    );
    scene.quiet().await;
    assert_eq!(scene.unasked_events(0), []);
    assert_eq!(scene.unasked_events(1), []);
}

pub(super) async fn a_source_outside_its_region_is_a_local_protection_error(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    let local = client.local(client.buffer.size - 63, 64);
    let status = client
        .execute(Operation::Write {
            local,
            remote: server.remote(0),
        })
        .await;
    assert_eq!(status, Status::LocalProtection);
    assert_eq!(server.bytes(0, 64), [0; 64]);
}

pub(super) async fn a_message_outside_its_region_is_a_local_protection_error(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    pair.server.receive(0, 0, 64);
    let status = pair
        .client
        .execute(Operation::Send {
            local: pair.client.local(u64::MAX - 7, 16),
        })
        .await;
    assert_eq!(status, Status::LocalProtection);
}

pub(super) async fn a_destination_outside_its_region_is_a_local_protection_error(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.fill(0, &[7; 64]);
    let local = client.local(client.buffer.size - 63, 64);
    let status = client
        .execute(Operation::Read {
            local,
            remote: server.remote(0),
        })
        .await;
    assert_eq!(status, Status::LocalProtection);
    assert_eq!(client.bytes(client.buffer.size - 64, 64), [0; 64]);
}

pub(super) async fn a_region_handle_with_a_forged_size_opens_nothing_more(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let region = MemoryRegion {
        size: 1 << 40,
        ..pair.client.buffer
    };
    let local = LocalSpan {
        region,
        offset: pair.client.buffer.size - 8,
        size: 64,
    };
    let status = pair
        .client
        .execute(Operation::Write {
            local,
            remote: pair.server.remote(0),
        })
        .await;
    assert_eq!(status, Status::LocalProtection);
}

pub(super) async fn a_send_longer_than_its_buffer_fails_on_both_sides(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.fill(0, &[7; 65]);
    server.receive(1, 0, 64);
    server.receive(2, 128, 64);
    assert_eq!(
        client.execute(send(client, 0, 65)).await,
        Status::RemoteInvalidRequest
    );
    server
        .expect_received(&[(1, Status::LocalLength), (2, Status::WorkRequestFlushed)])
        .await;
    assert_eq!(
        server.bytes(64, 64),
        [0; 64],
        "nothing beyond the buffer changed"
    );
}

pub(super) async fn a_send_longer_than_the_device_sends_is_refused_and_harms_nothing(
    scene: Rc<Scene>,
) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    let Some(size) = client.device().capabilities().send_size_max.checked_add(1) else {
        return;
    };
    let region = client
        .device()
        .allocate(u64::from(size), Access::NONE)
        .expect("memory");
    let long = Operation::Send {
        local: LocalSpan {
            region,
            offset: 0,
            size,
        },
    };
    let batch = [
        signalled(1, write(client, 0, 8, server, 0)),
        signalled(2, long),
    ];
    let refused = client.device().post_send(client.qp, &batch);
    assert!(
        matches!(refused, Err(DeviceError::Limit { .. })),
        "{refused:?}"
    );
    assert_eq!(
        client.execute(write(client, 0, 8, server, 0)).await,
        Status::Success,
        "no part of the batch was accepted"
    );
}

pub(super) async fn a_receive_buffer_outside_its_region_is_refused(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    let bad = [
        ReceiveRequest {
            wr_id: 1,
            local: server.local(0, 64),
        },
        ReceiveRequest {
            wr_id: 2,
            local: server.local(server.buffer.size - 63, 64),
        },
    ];
    let refused = server
        .device()
        .post_receive(ReceiveQueue::Own(server.qp), &bad);
    assert!(
        matches!(refused, Err(DeviceError::Malformed { .. })),
        "{refused:?}"
    );
    server.receive(3, 0, 64);
    client.post(&[unsignalled(0, send(client, 0, 8))]);
    server.expect_received(&[(3, Status::Success)]).await;
}

pub(super) async fn an_operation_that_the_device_lacks_is_refused_and_harms_nothing(
    scene: Rc<Scene>,
) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    let has = client.device().capabilities().clone();
    let remote = server.remote(0);
    let flush = |placement| Operation::Flush {
        remote,
        size: 8,
        placement,
    };
    let lacking = [
        (has.flush_global, flush(FlushPlacement::Global)),
        (has.flush_persistent, flush(FlushPlacement::Persistent)),
        (
            has.atomic_write,
            Operation::AtomicWrite { remote, value: 9 },
        ),
    ];
    for operation in lacking
        .iter()
        .filter(|(has, _)| !has)
        .map(|(_, operation)| *operation)
    {
        let refused = client
            .device()
            .post_send(client.qp, &[signalled(1, operation)]);
        assert!(
            matches!(refused, Err(DeviceError::Unsupported { .. })),
            "{operation:?}: {refused:?}"
        );
    }
    assert_eq!(
        client.execute(write(client, 8, 8, server, 8)).await,
        Status::Success
    );
    assert_eq!(server.word(0), 0);
}

pub(super) async fn an_unknown_queue_pair_is_refused(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client
        .device()
        .destroy_queue_pair(client.qp)
        .expect("it exists");
    let request: WorkRequest = signalled(1, write(client, 0, 8, server, 0));
    let refused = client.device().post_send(client.qp, &[request]);
    assert!(
        matches!(refused, Err(DeviceError::NoSuch { .. })),
        "{refused:?}"
    );
}

/// An operation that ends with [`Status::RemoteAccess`].
pub(super) fn hopeless(client: &End) -> Operation {
    Operation::Write {
        local: client.local(0, 8),
        remote: RemoteAddress {
            address: 0,
            rkey: Rkey(u32::MAX),
        },
    }
}
