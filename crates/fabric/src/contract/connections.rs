//! The beginning and the end of connections.

use std::rc::Rc;

use super::end::{signalled, unsignalled};
use super::operations::{read, send, write};
use super::{Scene, Setup};
use crate::{ConnectionEvent, DeviceError, DisconnectCause, Status};

pub(super) async fn private_data_reaches_the_other_side_both_ways(scene: Rc<Scene>) {
    let largest = scene.node(0).device().capabilities().private_data_size_max;
    assert!(
        largest >= 32,
        "a protocol needs room to name itself: {largest} bytes"
    );
    let (asked, answered) = (pattern(largest, 3), pattern(largest, 5));
    let address = scene.address(1).to_owned();
    let client = scene.end(0, Setup::default(), None, None, None);
    client
        .device()
        .connect(client.qp, &address, &asked)
        .expect("connecting starts");
    let event = scene
        .event(1, "a connection request", |event| {
            matches!(event, ConnectionEvent::Request { .. })
        })
        .await;
    let ConnectionEvent::Request {
        request,
        private_data,
        peer,
    } = event
    else {
        unreachable!("just matched")
    };
    assert_eq!(private_data, asked);
    assert!(!peer.name.is_empty(), "a peer has a name for messages");
    let server = scene.end(1, Setup::default(), None, None, None);
    server
        .device()
        .accept(request, server.qp, &answered)
        .expect("the request can be accepted");
    assert_eq!(scene.established(0, client.qp).await, answered);
    assert_eq!(
        scene.established(1, server.qp).await,
        b"",
        "the accepting side knows its own data"
    );
}

pub(super) async fn a_rejection_carries_its_reason_and_the_queue_pair_can_try_again(
    scene: Rc<Scene>,
) {
    let address = scene.address(1).to_owned();
    let client = scene.end(0, Setup::default(), None, None, None);
    client
        .device()
        .connect(client.qp, &address, b"please")
        .expect("connecting starts");
    let request = scene.request(1).await;
    scene
        .node(1)
        .device()
        .reject(request, "the house is full")
        .expect("the request can be rejected");
    let event = scene
        .event(0, "a rejection", |event| {
            matches!(event, ConnectionEvent::Rejected { .. })
        })
        .await;
    let ConnectionEvent::Rejected {
        qp,
        reason,
        nobody_listens,
    } = event
    else {
        unreachable!("just matched")
    };
    assert!(!nobody_listens, "the one that rejects listens");
    assert_eq!(qp, client.qp);
    assert!(
        reason.contains("the house is full"),
        "the reason arrives: {reason}"
    );

    client
        .device()
        .connect(client.qp, &address, b"again")
        .expect("connecting starts again");
    let request = scene.request(1).await;
    let server = scene.end(1, Setup::default(), None, None, None);
    server
        .device()
        .accept(request, server.qp, b"")
        .expect("the request can be accepted");
    scene.established(0, client.qp).await;
}

pub(super) async fn connecting_to_an_address_without_a_listener_is_rejected(scene: Rc<Scene>) {
    let address = scene.unused_address(1);
    let client = scene.end(0, Setup::default(), None, None, None);
    client
        .device()
        .connect(client.qp, &address, b"")
        .expect("connecting starts");
    let wanted = |event: &ConnectionEvent| {
        let ConnectionEvent::Rejected {
            qp, nobody_listens, ..
        } = event
        else {
            return false;
        };
        *qp == client.qp && *nobody_listens
    };
    scene
        .event(0, "word that nobody listens there", wanted)
        .await;
}

pub(super) async fn a_disconnect_is_reported_to_both_sides_once(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    pair.client
        .device()
        .disconnect(pair.client.qp)
        .expect("the connection can be ended");
    assert_eq!(
        scene.disconnected(0, pair.client.qp).await,
        DisconnectCause::Requested
    );
    assert_eq!(
        scene.disconnected(1, pair.server.qp).await,
        DisconnectCause::Requested
    );
    scene.quiet().await;
    assert_eq!(scene.unasked_events(0), []);
    assert_eq!(scene.unasked_events(1), []);
}

pub(super) async fn private_data_that_is_too_long_is_refused(scene: Rc<Scene>) {
    let size = scene.node(0).device().capabilities().private_data_size_max + 1;
    let address = scene.address(1).to_owned();
    let client = scene.end(0, Setup::default(), None, None, None);
    let refused = client
        .device()
        .connect(client.qp, &address, &pattern(size, 1));
    assert!(
        matches!(refused, Err(DeviceError::Limit { .. })),
        "{refused:?}"
    );

    client
        .device()
        .connect(client.qp, &address, b"")
        .expect("connecting starts");
    let request = scene.request(1).await;
    let server = scene.end(1, Setup::default(), None, None, None);
    let refused = server
        .device()
        .accept(request, server.qp, &pattern(size, 1));
    assert!(
        matches!(refused, Err(DeviceError::Limit { .. })),
        "{refused:?}"
    );
    server
        .device()
        .accept(request, server.qp, b"")
        .expect("the request is still valid");
    scene.established(0, client.qp).await;
}

pub(super) async fn an_address_in_use_is_refused(scene: Rc<Scene>) {
    let address = scene.address(1).to_owned();
    let refused = scene.node(2).device().listen(&address);
    assert!(
        matches!(refused, Err(DeviceError::Address { .. })),
        "{refused:?}"
    );
    scene.pair().await;
}

pub(super) async fn buffers_posted_before_the_connection_take_its_first_messages(scene: Rc<Scene>) {
    let address = scene.address(1).to_owned();
    let client = scene.end(0, Setup::default(), None, None, None);
    client.receive(1, 0, 64);
    client
        .device()
        .connect(client.qp, &address, b"")
        .expect("connecting starts");
    let request = scene.request(1).await;
    let server = scene.end(1, Setup::default(), None, None, None);
    server.receive(2, 0, 64);
    server
        .device()
        .accept(request, server.qp, b"")
        .expect("the request can be accepted");
    scene.established(1, server.qp).await;
    scene.established(0, client.qp).await;
    for (sender, receiver, wr_id) in [(&client, &server, 2), (&server, &client, 1)] {
        assert_eq!(sender.execute(send(sender, 0, 8)).await, Status::Success);
        receiver.expect_received(&[(wr_id, Status::Success)]).await;
    }
}

pub(super) async fn a_send_before_the_connection_is_refused(scene: Rc<Scene>) {
    let client = scene.end(0, Setup::default(), None, None, None);
    let refused = client
        .device()
        .post_send(client.qp, &[signalled(1, send(&client, 0, 8))]);
    assert!(
        matches!(refused, Err(DeviceError::Malformed { .. })),
        "{refused:?}"
    );
}

pub(super) async fn connections_between_the_same_two_nodes_are_separate(scene: Rc<Scene>) {
    let mut pairs = Vec::new();
    for _ in 0..5 {
        pairs.push(scene.pair().await);
    }
    for (index, pair) in [1, 2, 3, 4, 5].into_iter().zip(&pairs) {
        pair.server.receive(index, 0, 64);
        pair.client.set_word(0, 100 + index);
        pair.client
            .post(&[signalled(index, send(&pair.client, 0, 8))]);
    }
    for (index, pair) in [1, 2, 3, 4, 5].into_iter().zip(&pairs).rev() {
        pair.server
            .expect_received(&[(index, Status::Success)])
            .await;
        pair.client.expect_sent(&[(index, Status::Success)]).await;
        assert_eq!(pair.server.word(0), 100 + index);
    }
}

pub(super) async fn both_sides_of_a_connection_can_post(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    pair.server.set_word(0, 7);
    assert_eq!(
        pair.server
            .execute(write(&pair.server, 0, 8, &pair.client, 64))
            .await,
        Status::Success
    );
    assert_eq!(
        pair.server
            .execute(read(&pair.server, 8, 8, &pair.client, 64))
            .await,
        Status::Success
    );
    assert_eq!((pair.client.word(64), pair.server.word(8)), (7, 7));
}

pub(super) async fn a_disconnect_flushes_outstanding_requests_on_both_sides(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.receive(1, 0, 64);
    server.post(&[signalled(2, send(server, 0, 8))]);
    client.expect_received(&[(1, Status::Success)]).await;
    server.expect_sent(&[(2, Status::Success)]).await;
    // Neither side has a buffer for these messages.
    client.post(&[3, 4].map(|wr_id| signalled(wr_id, send(client, 0, 8))));
    server.post(&[5, 6].map(|wr_id| unsignalled(wr_id, send(server, 0, 8))));
    server
        .device()
        .disconnect(server.qp)
        .expect("the connection can be ended");
    client
        .expect_sent(&[3, 4].map(|wr_id| (wr_id, Status::WorkRequestFlushed)))
        .await;
    server
        .expect_sent(&[5, 6].map(|wr_id| (wr_id, Status::WorkRequestFlushed)))
        .await;
}

pub(super) async fn destroying_a_queue_pair_disconnects_its_peer(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    pair.server
        .device()
        .destroy_queue_pair(pair.server.qp)
        .expect("it exists");
    assert_eq!(
        scene.disconnected(0, pair.client.qp).await,
        DisconnectCause::Requested
    );
    let flushed = pair
        .client
        .execute(write(&pair.client, 0, 8, &pair.server, 0))
        .await;
    assert_eq!(flushed, Status::WorkRequestFlushed);
}

pub(super) async fn nodes_can_connect_again_after_a_disconnect(scene: Rc<Scene>) {
    for round in 1..=5 {
        let pair = scene.pair().await;
        pair.client.set_word(0, round);
        assert_eq!(
            pair.client
                .execute(write(&pair.client, 0, 8, &pair.server, 0))
                .await,
            Status::Success
        );
        assert_eq!(
            pair.client
                .execute(read(&pair.client, 8, 8, &pair.server, 0))
                .await,
            Status::Success
        );
        assert_eq!(pair.server.word(0), round);
        pair.client
            .device()
            .destroy_queue_pair(pair.client.qp)
            .expect("it exists");
        scene.disconnected(1, pair.server.qp).await;
        pair.server
            .device()
            .destroy_queue_pair(pair.server.qp)
            .expect("it exists");
    }
}

pub(super) async fn the_death_of_a_peer_is_reported_once(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    scene.kill(1);
    assert_eq!(
        scene.disconnected(0, pair.client.qp).await,
        DisconnectCause::PeerDied
    );
    scene.quiet().await;
    assert_eq!(scene.unasked_events(0), []);
}

pub(super) async fn requests_outstanding_when_the_peer_dies_complete_with_an_error(
    scene: Rc<Scene>,
) {
    let pair = scene.pair().await;
    let client = &pair.client;
    client.receive(1, 0, 64);
    // The server has no buffer, so these requests are outstanding when it dies.
    client.post(&[2, 3].map(|wr_id| signalled(wr_id, send(client, 0, 8))));
    scene.quiet().await;
    scene.kill(1);
    for wr_id in [2, 3] {
        let found = client.sent().await;
        let expected = matches!(
            found.status,
            Status::RetryExceeded | Status::WorkRequestFlushed
        );
        assert!(
            found.wr_id == wr_id && expected,
            "request {wr_id}: {found:?}"
        );
    }
    client
        .expect_received(&[(1, Status::WorkRequestFlushed)])
        .await;
}

pub(super) async fn the_death_of_one_peer_leaves_others_connected(scene: Rc<Scene>) {
    let (doomed, other) = (
        scene.pair().await,
        scene
            .connect(Setup {
                client: 2,
                ..Setup::default()
            })
            .await,
    );
    scene.kill(0);
    assert_eq!(
        scene.disconnected(1, doomed.server.qp).await,
        DisconnectCause::PeerDied
    );
    other.server.receive(1, 64, 64);
    assert_eq!(
        other.client.execute(send(&other.client, 0, 8)).await,
        Status::Success
    );
    other.server.expect_received(&[(1, Status::Success)]).await;
}

pub(super) async fn connecting_to_a_dead_node_is_rejected(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let address = scene.address(1).to_owned();
    scene.kill(1);
    scene.disconnected(0, pair.client.qp).await;
    let client = scene.end(0, Setup::default(), None, None, None);
    client
        .device()
        .connect(client.qp, &address, b"")
        .expect("connecting starts");
    let wanted = |event: &ConnectionEvent| matches!(event, ConnectionEvent::Rejected { qp, .. } if *qp == client.qp);
    scene.event(0, "a rejection", wanted).await;
}

fn pattern(size: usize, step: usize) -> Vec<u8> {
    (0..size).map(|index| (index * step) as u8).collect()
}
