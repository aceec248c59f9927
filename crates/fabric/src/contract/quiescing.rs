//! The end of a peer's influence, SENDs included.

use std::future::poll_fn;
use std::rc::Rc;

use super::end::{End, signalled, unsignalled};
use super::operations::{send, write};
use super::{Scene, Setup};
use crate::{DeviceError, DisconnectCause, Status};

/// Bytes of a message in these stories: long enough to be in transit for a while.
const MESSAGE: u32 = 4_096;
const COUNT: u64 = 16;

/// Sends all messages of a story with one doorbell.
fn send_all(client: &End) {
    let send = |index| unsignalled(index, send(client, 0, MESSAGE));
    let sends: Vec<_> = (0..COUNT).map(send).collect();
    client.post(&sends);
}

pub(super) async fn nothing_of_a_peer_lands_after_quiescing(scene: Rc<Scene>) {
    // Each round lets more of the messages land first.
    for pause in [0, 1_000, 3_000, 10_000, 100_000] {
        let pair = scene.pair().await;
        let (client, server) = (&pair.client, &pair.server);
        client.fill(0, &[7; MESSAGE as usize]);
        for index in 0..COUNT {
            server.receive(index, index * u64::from(MESSAGE), MESSAGE);
        }
        send_all(client);
        scene.runtime().sleep(pause).await;
        quiesce(server).await;
        let all = COUNT as usize * MESSAGE as usize;
        server.fill(0, &vec![0; all]);
        scene.quiet().await;
        let landed = server
            .bytes(0, all)
            .iter()
            .filter(|&&byte| byte != 0)
            .count();
        assert_eq!(
            landed, 0,
            "bytes that landed later, quiesced after {pause} ns"
        );
    }
}

pub(super) async fn every_completion_of_a_quiet_queue_pair_can_be_polled(scene: Rc<Scene>) {
    for pause in [0, 1_000, 3_000, 10_000, 100_000] {
        let pair = scene.pair().await;
        let (client, server) = (&pair.client, &pair.server);
        for index in 0..COUNT {
            server.receive(index, index * u64::from(MESSAGE), MESSAGE);
        }
        send_all(client);
        scene.runtime().sleep(pause).await;
        quiesce(server).await;
        let polled: Vec<_> = std::iter::from_fn(|| server.poll_received())
            .map(|completion| completion.wr_id)
            .collect();
        let all: Vec<_> = (0..COUNT).collect();
        assert_eq!(polled, all, "buffers, quiesced after {pause} ns");
        scene.quiet().await;
        assert_eq!(server.poll_received(), None, "nothing comes later");
    }
}

pub(super) async fn no_write_of_a_peer_lands_after_quiescing(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.fill(0, &[7; 30_000]);
    let writes: Vec<_> = (0..32)
        .map(|index| unsignalled(index, write(client, 0, 30_000, server, 8 * index)))
        .collect();
    client.post(&writes);
    scene.pump();
    quiesce(server).await;
    server.fill(0, &[0; 32_768]);
    scene.quiet().await;
    assert!(
        server.bytes(0, 32_768).iter().all(|&byte| byte == 0),
        "earlier posts write nothing afterwards"
    );
}

pub(super) async fn quiescing_ends_the_connection_and_may_be_repeated(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    quiesce(server).await;
    assert_eq!(
        scene.disconnected(1, server.qp).await,
        DisconnectCause::Requested
    );
    scene.disconnected(0, client.qp).await;
    quiesce(server).await;
    client.post(&[signalled(1, send(client, 0, 8))]);
    client.expect_sent(&[(1, Status::WorkRequestFlushed)]).await;
}

pub(super) async fn quiescing_one_queue_pair_leaves_others_alone(scene: Rc<Scene>) {
    let (pair, other) = (scene.pair().await, scene.pair().await);
    quiesce(&pair.server).await;
    other.client.set_word(0, 7);
    let written = other
        .client
        .execute(write(&other.client, 0, 8, &other.server, 0));
    assert_eq!(written.await, Status::Success);
    assert_eq!(other.server.word(0), 7);
}

pub(super) async fn a_queue_pair_can_be_quiesced_after_its_peer_died(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    client.post(&[signalled(0, write(client, 0, 30_000, server, 0))]);
    scene.kill(0);
    scene.disconnected(1, server.qp).await;
    quiesce(server).await;
    server.fill(0, &[0; 32_768]);
    scene.quiet().await;
    assert!(server.bytes(0, 32_768).iter().all(|&byte| byte == 0));
}

pub(super) async fn a_queue_pair_that_was_never_connected_is_not_quiesced(scene: Rc<Scene>) {
    let end = scene.end(1, Setup::default(), None, None, None);
    let refused = try_quiesce(&end).await;
    assert!(
        matches!(refused, Err(DeviceError::Malformed { .. })),
        "{refused:?}"
    );
}

async fn quiesce(end: &End) {
    try_quiesce(end)
        .await
        .expect("a live peer becomes quiet, and a dead peer is not inside");
}

async fn try_quiesce(end: &End) -> Result<(), DeviceError> {
    end.scene()
        .finish(
            "a queue pair to be quiet",
            poll_fn(|context| end.device().poll_quiesce(end.qp, context)),
        )
        .await
}
