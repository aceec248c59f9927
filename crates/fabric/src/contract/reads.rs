//! [`Port::read`](crate::Port::read) keeps the promises of a posted READ, even if the provider reads in the call, and
//! so does [`Device::read_soon`](crate::Device::read_soon).

use std::future::Future;
use std::rc::Rc;

use super::end::{End, signalled, unsignalled};
use super::failure::hopeless;
use super::operations::{send, write};
use super::scene::{ALL_ACCESS, BUFFER_SIZE};
use super::{Scene, Setup};
use crate::{Access, LocalSpan, ReadInto, RemoteAddress, Rkey, Status, WorkRequest};

pub(super) async fn reading_sees_every_earlier_write_of_its_queue_pair(scene: Rc<Scene>) {
    let (client, server) = readers(&scene, ALL_ACCESS).await;
    for round in 1..=16u8 {
        client.fill(0, &[round; 16_000]);
        scene
            .node(0)
            .post(client.qp, [write(&client, 0, 16_000, &server, 0)])
            .expect("the batch is accepted");
        let (status, bytes) = read(&client, &[(server.remote(0), 16_000)]).await;
        assert_eq!(
            (status, bytes),
            (Status::Success, vec![vec![round; 16_000]]),
            "round {round}"
        );
    }
}

pub(super) async fn reading_sees_the_payload_of_an_earlier_send(scene: Rc<Scene>) {
    let (client, server) = readers(&scene, ALL_ACCESS).await;
    client.set_word(0, 7);
    scene
        .node(0)
        .post(client.qp, [send(&client, 0, 8)])
        .expect("the batch is accepted");
    let place = [(server.remote(64), 8)];
    let reading = read(&client, &place);
    let posting = async {
        // The SEND waits for its buffer, and the READ after it waits, too.
        scene.quiet().await;
        server.receive(1, 64, 64);
    };
    let ((status, bytes), ()) = both(reading, posting).await;
    assert_eq!(
        (status, bytes),
        (Status::Success, vec![7u64.to_ne_bytes().to_vec()])
    );
}

pub(super) async fn several_places_are_read_into_their_own_destinations(scene: Rc<Scene>) {
    let (client, server) = readers(&scene, ALL_ACCESS).await;
    server.fill(0, &(0..=255).collect::<Vec<u8>>());
    let (status, bytes) = read(
        &client,
        &[
            (server.remote(3), 5),
            (server.remote(100), 64),
            (server.remote(0), 0),
            (server.remote(255), 1),
        ],
    )
    .await;
    assert_eq!(status, Status::Success);
    assert_eq!(
        bytes,
        [
            (3..8).collect::<Vec<u8>>(),
            (100..164).collect(),
            vec![],
            vec![255]
        ]
    );
}

pub(super) async fn reading_without_the_right_is_refused(scene: Rc<Scene>) {
    let (client, server) = readers(&scene, Access::REMOTE_WRITE).await;
    refused(&client, server.remote(0)).await;
}

pub(super) async fn reading_beyond_the_region_is_refused(scene: Rc<Scene>) {
    let (client, server) = readers(&scene, ALL_ACCESS).await;
    refused(&client, server.remote(BUFFER_SIZE - 7)).await;
}

pub(super) async fn reading_before_the_region_is_refused(scene: Rc<Scene>) {
    let (client, server) = readers(&scene, ALL_ACCESS).await;
    refused(
        &client,
        RemoteAddress {
            address: server.buffer.address - 1,
            rkey: server.buffer.rkey,
        },
    )
    .await;
}

pub(super) async fn reading_a_range_that_wraps_around_is_refused(scene: Rc<Scene>) {
    let (client, server) = readers(&scene, ALL_ACCESS).await;
    refused(
        &client,
        RemoteAddress {
            address: u64::MAX - 3,
            rkey: server.buffer.rkey,
        },
    )
    .await;
}

pub(super) async fn reading_through_an_unknown_key_is_refused(scene: Rc<Scene>) {
    let (client, server) = readers(&scene, ALL_ACCESS).await;
    refused(
        &client,
        RemoteAddress {
            rkey: Rkey(u32::MAX),
            ..server.remote(0)
        },
    )
    .await;
}

pub(super) async fn reading_through_a_revoked_key_is_refused(scene: Rc<Scene>) {
    let (client, server) = readers(&scene, ALL_ACCESS).await;
    assert_eq!(
        read(&client, &[(server.remote(0), 8)]).await.0,
        Status::Success
    );
    let revoked = scene
        .finish(
            "an invalidation",
            scene.node(1).invalidate(server.buffer.rkey),
        )
        .await;
    revoked.expect("a live peer leaves the memory");
    refused(&client, server.remote(0)).await;
}

pub(super) async fn reading_fails_whole_when_one_place_is_refused(scene: Rc<Scene>) {
    let (client, server) = readers(&scene, ALL_ACCESS).await;
    let (status, _) = read(
        &client,
        &[
            (server.remote(0), 8),
            (server.remote(BUFFER_SIZE), 8),
            (server.remote(8), 8),
        ],
    )
    .await;
    assert_eq!(status, Status::RemoteAccess);
}

pub(super) async fn a_refused_reading_puts_the_queue_pair_into_the_error_state(scene: Rc<Scene>) {
    let (client, server) = readers(&scene, Access::REMOTE_WRITE).await;
    refused(&client, server.remote(0)).await;
    let status = scene
        .finish(
            "a submission",
            scene
                .node(0)
                .submit(client.qp, &[write(&client, 0, 8, &server, 0)]),
        )
        .await;
    assert_eq!(
        status.expect("a failed queue pair accepts posts"),
        Status::WorkRequestFlushed
    );
    scene.disconnected(0, client.qp).await;
    scene.disconnected(1, server.qp).await;
}

pub(super) async fn reading_on_a_failed_queue_pair_is_flushed(scene: Rc<Scene>) {
    let (client, server) = readers(&scene, ALL_ACCESS).await;
    let status = scene
        .finish(
            "a submission",
            scene.node(0).submit(client.qp, &[hopeless(&client)]),
        )
        .await;
    assert_eq!(status.expect("the batch is accepted"), Status::RemoteAccess);
    assert_eq!(
        read(&client, &[(server.remote(0), 8)]).await.0,
        Status::WorkRequestFlushed
    );
}

pub(super) async fn reads_that_end_in_the_call_return_their_bytes_and_no_completion(
    scene: Rc<Scene>,
) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    for round in 1..=40u8 {
        server.fill(0, &[round; 200]);
        let reads = [
            (client.local(4096, 64), server.remote(64)),
            (client.local(4160, 100), server.remote(3)),
        ];
        if !in_the_call(client, &reads, u64::from(round)) {
            client
                .expect_sent(&[(u64::from(round), Status::Success)])
                .await;
        }
        assert_eq!(client.bytes(4096, 164), [round; 164], "round {round}");
        assert_eq!(
            client.poll_sent(),
            None,
            "round {round}: an end is reported once"
        );
    }
}

pub(super) async fn reads_that_are_late_for_the_call_complete_like_posted_reads(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    server.fill(0, &[7; 64]);
    client.set_word(0, 1);
    // A SEND without a buffer delays the requests that are posted after it.
    client.post(&[signalled(1, send(client, 0, 8))]);
    assert!(
        !in_the_call(client, &[(client.local(4096, 64), server.remote(0))], 2),
        "the earlier SEND has not ended"
    );
    server.receive(3, 128, 64);
    client
        .expect_sent(&[(1, Status::Success), (2, Status::Success)])
        .await;
    assert_eq!(client.bytes(4096, 64), [7; 64]);
}

pub(super) async fn reads_in_the_call_that_are_refused_complete_like_posted_reads(
    scene: Rc<Scene>,
) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    let reads = [
        (client.local(0, 8), server.remote(0)),
        (client.local(8, 8), server.remote(BUFFER_SIZE - 7)),
    ];
    assert!(!in_the_call(client, &reads, 5));
    client.expect_sent(&[(5, Status::RemoteAccess)]).await;
    assert!(
        !in_the_call(client, &reads[..1], 6),
        "the queue pair is in the error state"
    );
    client.expect_sent(&[(6, Status::WorkRequestFlushed)]).await;
    scene.disconnected(0, client.qp).await;
    scene.disconnected(1, server.qp).await;
}

pub(super) async fn reads_in_the_call_see_the_effects_of_earlier_posts(scene: Rc<Scene>) {
    let pair = scene.pair().await;
    let (client, server) = (&pair.client, &pair.server);
    for round in 1..=16u8 {
        client.fill(0, &[round; 8000]);
        client.post(&[unsignalled(0, write(client, 0, 8000, server, 0))]);
        if !in_the_call(
            client,
            &[(client.local(8192, 8000), server.remote(0))],
            u64::from(round),
        ) {
            client
                .expect_sent(&[(u64::from(round), Status::Success)])
                .await;
        }
        assert_eq!(client.bytes(8192, 8000), [round; 8000], "round {round}");
    }
}

/// Executes READs in the call if the device can, and returns whether they ended there; otherwise posts them.
fn in_the_call(client: &End, reads: &[(LocalSpan, RemoteAddress)], wr_id: u64) -> bool {
    if client.device().capabilities().read_soon {
        return client
            .device()
            .read_soon(client.qp, reads, wr_id, 1000)
            .expect("the batch is accepted");
    }
    client.post(&WorkRequest::reads(reads, wr_id));
    false
}

/// A pair whose client completes into its port.
async fn readers(scene: &Rc<Scene>, access: Access) -> (End, End) {
    let cq = scene.node(0).send_cq();
    let pair = scene
        .connect(Setup {
            access,
            client_send_cq: Some(cq),
            ..Setup::default()
        })
        .await;
    (pair.client, pair.server)
}

/// Reads the places, and returns the status and the bytes.
async fn read(client: &End, places: &[(RemoteAddress, usize)]) -> (Status, Vec<Vec<u8>>) {
    let mut bytes: Vec<Vec<u8>> = places.iter().map(|(_, size)| vec![0; *size]).collect();
    let mut reads: Vec<ReadInto<'_>> = places
        .iter()
        .zip(&mut bytes)
        .map(|(&(remote, _), into)| ReadInto { remote, into })
        .collect();
    let port = client.scene().node(client.node);
    let scratch = client.local(32_768, 32_768);
    let status = client
        .scene()
        .finish("a reading", port.read(client.qp, &mut reads, scratch, None))
        .await;
    (status.expect("the READs are accepted"), bytes)
}

async fn refused(client: &End, remote: RemoteAddress) {
    assert_eq!(read(client, &[(remote, 8)]).await.0, Status::RemoteAccess);
}

/// Runs two futures concurrently.
async fn both<A: Future, B: Future>(first: A, second: B) -> (A::Output, B::Output) {
    let (mut first, mut second) = (std::pin::pin!(first), std::pin::pin!(second));
    let (mut one, mut other) = (None, None);
    std::future::poll_fn(|context| {
        if one.is_none() {
            one = poll_once(first.as_mut(), context);
        }
        if other.is_none() {
            other = poll_once(second.as_mut(), context);
        }
        if one.is_some() && other.is_some() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    (one.expect("just finished"), other.expect("just finished"))
}

fn poll_once<F: Future>(
    future: std::pin::Pin<&mut F>,
    context: &mut std::task::Context<'_>,
) -> Option<F::Output> {
    match future.poll(context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}
