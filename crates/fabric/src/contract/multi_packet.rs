//! Receiver-placed appends: shared receive buffers that take many messages at a stride.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use super::end::{End, signalled, unsignalled};
use super::operations::{read, send, write_immediate};
use super::scene::Woken;
use super::{Pair, Scene, Setup};
use crate::{
    Appended, MultiPacketOptions, Opcode, Placement, ReceiveQueue, ReceiveRequest,
    SharedReceiveQueue, SharedReceiveQueueOptions, Status, WorkCompletion,
};

const STRIDE: u32 = 64;
/// Bytes of a buffer: 16 strides.
const BUFFER: u32 = 1024;

pub(super) async fn messages_lie_side_by_side_at_multiples_of_the_stride(scene: Rc<Scene>) {
    let stage = Appends::new(&scene, 3).await;
    stage.post(0);
    let client = &stage.first.client;
    // The messages take 1, 2, 1, 1 and 3 strides.
    let mut expected = 0;
    for (index, size) in [10u32, 65, 64, 1, 192].into_iter().enumerate() {
        client.fill(0, &vec![index as u8 + 1; size as usize]);
        assert_eq!(client.execute(send(client, 0, size)).await, Status::Success);
        let arrival = stage.message().await;
        assert_eq!(
            (
                arrival.wr_id,
                arrival.placement.offset,
                arrival.placement.size
            ),
            (0, expected, size)
        );
        assert_eq!(stage.bytes(&arrival), vec![index as u8 + 1; size as usize]);
        expected += size.next_multiple_of(STRIDE);
    }
}

pub(super) async fn messages_of_one_sender_lie_in_the_order_of_their_arrival(scene: Rc<Scene>) {
    let stage = Appends::new(&scene, 3).await;
    stage.post(0);
    let client = &stage.first.client;
    (0..16).for_each(|index| client.set_word(index * 8, 100 + index));
    client.post(&std::array::from_fn::<_, 16, _>(|index| {
        unsignalled(0, send(client, index as u64 * 8, 8))
    }));
    for index in 0..16u64 {
        let arrival = stage.message().await;
        assert_eq!(arrival.placement.offset, index as u32 * STRIDE);
        assert_eq!(stage.bytes(&arrival), (100 + index).to_ne_bytes());
    }
}

pub(super) async fn an_empty_message_takes_one_stride(scene: Rc<Scene>) {
    let stage = Appends::new(&scene, 3).await;
    stage.post(0);
    let client = &stage.first.client;
    client.post(&[
        unsignalled(0, send(client, 0, 0)),
        unsignalled(0, send(client, 0, 8)),
    ]);
    let (empty, next) = (stage.message().await, stage.message().await);
    assert_eq!((empty.placement.offset, empty.placement.size), (0, 0));
    assert_eq!((next.placement.offset, next.placement.size), (STRIDE, 8));
}

pub(super) async fn a_full_buffer_is_given_back_once_after_its_last_message(scene: Rc<Scene>) {
    let stage = Appends::new(&scene, 3).await;
    stage.post(5);
    stage.post(6);
    let client = &stage.first.client;
    client.post(&[0; 16].map(|_| unsignalled(0, send(client, 0, STRIDE))));
    for _ in 0..16 {
        assert_eq!(stage.message().await.wr_id, 5);
    }
    assert_eq!(stage.consumed().await, 5);
    scene.quiet().await;
    assert_eq!(stage.poll_consumed(), [], "it is given back once");
    client.post(&[unsignalled(0, send(client, 0, STRIDE))]);
    let next = stage.end().received().await;
    assert_eq!(
        (next.wr_id, next.opcode, next.placement.offset),
        (6, Opcode::Receive, 0)
    );
}

pub(super) async fn a_message_that_does_not_fit_the_rest_goes_to_the_next_buffer(scene: Rc<Scene>) {
    let stage = Appends::new(&scene, 3).await;
    stage.post(5);
    stage.post(6);
    let client = &stage.first.client;
    client.post(&[
        unsignalled(0, send(client, 0, 15 * STRIDE)),
        unsignalled(0, send(client, 0, STRIDE + 1)),
    ]);
    assert_eq!(stage.message().await.wr_id, 5);
    assert_eq!(stage.consumed().await, 5);
    let message = stage.message().await;
    assert_eq!((message.wr_id, message.placement.offset), (6, 0));
}

pub(super) async fn buffers_are_filled_in_posted_order_and_can_be_posted_again(scene: Rc<Scene>) {
    let stage = Appends::new(&scene, 3).await;
    (0..3).for_each(|wr_id| stage.post(wr_id));
    let client = &stage.first.client;
    for buffer in (0..12).map(|round| round % 3) {
        for _ in 0..4 {
            assert_eq!(
                client.execute(send(client, 0, 4 * STRIDE)).await,
                Status::Success
            );
            assert_eq!(stage.message().await.wr_id, buffer);
        }
        assert_eq!(stage.consumed().await, buffer);
        stage.post(buffer);
    }
}

pub(super) async fn an_exhausted_multi_packet_queue_stops_senders_until_it_is_filled(
    scene: Rc<Scene>,
) {
    let stage = Appends::new(&scene, 3).await;
    stage.post(0);
    let client = &stage.first.client;
    client.set_word(0, 7);
    client.post(&[0; 16].map(|_| unsignalled(0, send(client, 0, STRIDE))));
    client.post(&[signalled(1, send(client, 0, 8))]);
    for _ in 0..16 {
        stage.message().await;
    }
    scene.quiet().await;
    assert_eq!(
        client.poll_sent(),
        None,
        "without room the SEND is not done"
    );
    stage.post(1);
    client.expect_sent(&[(1, Status::Success)]).await;
    assert_eq!(stage.consumed().await, 0);
    let arrival = stage.message().await;
    assert_eq!(
        (arrival.wr_id, stage.bytes(&arrival)),
        (1, 7u64.to_ne_bytes().to_vec())
    );
}

pub(super) async fn a_multi_packet_queue_that_stays_exhausted_is_receiver_not_ready(
    scene: Rc<Scene>,
) {
    let stage = Appends::new(&scene, 3).await;
    assert_eq!(
        stage
            .first
            .client
            .execute(send(&stage.first.client, 0, 8))
            .await,
        Status::RnrRetryExceeded
    );
}

pub(super) async fn messages_of_two_senders_interleave_without_overlap(scene: Rc<Scene>) {
    let stage = Appends::new(&scene, 3).await;
    (0..3).for_each(|wr_id| stage.post(wr_id));
    let size = |index: u64| (index * 37 % 150 + 8) as u32;
    const EACH: u64 = 10;
    for index in 0..EACH {
        for (sender, pair) in [&stage.first, &stage.second].into_iter().enumerate() {
            let slot = index * 256;
            pair.client.fill(
                slot,
                &vec![(sender as u8) << 7 | index as u8; size(index) as usize],
            );
            pair.client
                .post(&[unsignalled(0, send(&pair.client, slot, size(index)))]);
        }
    }
    let mut arrivals: Vec<WorkCompletion> = Vec::new();
    while arrivals.len() < 2 * EACH as usize {
        arrivals.push(stage.message().await);
    }
    for (sender, pair) in [&stage.first, &stage.second].into_iter().enumerate() {
        let own: Vec<_> = arrivals
            .iter()
            .filter(|arrival| arrival.qp == pair.server.qp)
            .collect();
        assert_eq!(
            own.len() as u64,
            EACH,
            "each message of sender {sender} arrives once"
        );
        for (index, arrival) in (0..).zip(own) {
            let expected = vec![(sender as u8) << 7 | index as u8; size(index) as usize];
            assert_eq!(
                stage.bytes(arrival),
                expected,
                "message {index} of sender {sender}, in its order and whole"
            );
        }
    }
}

pub(super) async fn an_append_and_a_read_of_it_need_nothing_of_the_receiver(scene: Rc<Scene>) {
    let stage = Appends::new(&scene, 3).await;
    stage.post(0);
    let (client, server) = (&stage.first.client, &stage.first.server);
    client.set_word(0, 7);
    scene.hold(1);
    client.post(&[
        signalled(0, send(client, 0, 8)),
        signalled(1, read(client, 8, 8, server, 0)),
    ]);
    client
        .expect_sent(&[(0, Status::Success), (1, Status::Success)])
        .await;
    assert_eq!(client.word(8), 7);
}

pub(super) async fn a_message_longer_than_a_multi_packet_buffer_is_invalid(scene: Rc<Scene>) {
    let stage = Appends::new(&scene, 3).await;
    stage.post(0);
    stage.post(1);
    let client = &stage.first.client;
    client.fill(0, &[7; 2048]);
    assert_eq!(
        client.execute(send(client, 0, BUFFER + 1)).await,
        Status::RemoteInvalidRequest
    );
    assert_eq!(stage.end().bytes(0, 2048), [0; 2048]);
}

pub(super) async fn a_write_with_immediate_to_a_multi_packet_queue_is_invalid(scene: Rc<Scene>) {
    let stage = Appends::new(&scene, 3).await;
    stage.post(0);
    let (client, server) = (&stage.first.client, &stage.first.server);
    client.set_word(0, 7);
    let status = client
        .execute(write_immediate(client, 0, 8, server, 8192, 1))
        .await;
    assert_eq!(
        (status, server.word(8192)),
        (Status::RemoteInvalidRequest, 0)
    );
}

/// Needs a queue that reports its buffers by itself: a report through a queue pair of a sender, or its connection,
/// would lose their number and leak memory.
pub(super) async fn a_consumed_buffer_is_given_back_even_if_its_senders_are_gone(scene: Rc<Scene>) {
    let stage = Appends::new(&scene, 3).await;
    stage.post(5);
    stage.post(6);
    for pair in [&stage.first, &stage.second] {
        let client = &pair.client;
        client.post(&[0; 8].map(|_| unsignalled(0, send(client, 0, STRIDE))));
    }
    for _ in 0..16 {
        assert_eq!(stage.message().await.wr_id, 5);
    }
    for pair in [&stage.first, &stage.second] {
        let server = &pair.server;
        let destroyed = server.device().destroy_queue_pair(server.qp);
        destroyed.expect("a queue pair can be destroyed");
    }
    assert_eq!(stage.consumed().await, 5);
    scene.quiet().await;
    assert_eq!(stage.poll_consumed(), [], "the other buffer is not full");
}

/// The completion queue has room for one arrival, so a queue that reports in spite of its silence also breaks the
/// completion queue.
pub(super) async fn a_silent_multi_packet_queue_makes_no_completions(scene: Rc<Scene>) {
    let stage = Appends::with(&scene, 3, MultiPacketOptions::silent(STRIDE), 1).await;
    stage.post(0);
    stage.post(1);
    for (index, pair) in (0..).zip([&stage.first, &stage.second]) {
        let client = &pair.client;
        client.set_word(0, 100 + index);
        for _ in 0..10 {
            let sent = client.execute(send(client, 0, 8)).await;
            assert_eq!(sent, Status::Success);
        }
    }
    assert_eq!(stage.consumed().await, 0);
    scene.quiet().await;
    assert_eq!(stage.end().poll_received(), None);
    let words: Vec<u64> = (0..20)
        .map(|place| stage.end().word(place * u64::from(STRIDE)))
        .collect();
    assert_eq!(words, [[100; 10], [101; 10]].concat());
}

/// A device may follow messages or not. One that does names them, and wakes the task that waits for the next one.
pub(super) async fn a_device_that_follows_messages_names_each_once_where_it_lies(scene: Rc<Scene>) {
    let stage = Appends::with(&scene, 3, MultiPacketOptions::silent(STRIDE), 1).await;
    let (device, mut named) = (stage.end().device(), Vec::new());
    let are_all = device.poll_appended(stage.queue, None, &mut named);
    assert!(!are_all && named.is_empty(), "the first call begins");
    stage.post(0);
    stage.post(1);
    let client = &stage.first.client;
    for size in [10, 15 * STRIDE - 1, 8] {
        let sent = client.execute(send(client, 0, size)).await;
        assert_eq!(sent, Status::Success);
    }
    scene.quiet().await;
    let woken = Arc::new(Woken::default());
    let waiter = Waker::from(woken.clone());
    if !device.poll_appended(stage.queue, Some(&waiter), &mut named) {
        return assert!(named.is_empty(), "the device names all or none");
    }
    let place = |wr_id, offset, size| Appended {
        wr_id,
        placement: Placement { offset, size },
    };
    let lie = [
        place(0, 0, 10),
        place(0, STRIDE, 15 * STRIDE - 1),
        place(1, 0, 8),
    ];
    assert_eq!(named, lie);
    assert!(!woken.0.load(Ordering::SeqCst), "nothing has arrived since");
    let sent = client.execute(send(client, 0, 8)).await;
    assert_eq!(sent, Status::Success);
    let look = || woken.0.load(Ordering::SeqCst).then_some(());
    scene.wait_for("a wake-up", look).await;
    named.clear();
    assert!(device.poll_appended(stage.queue, None, &mut named));
    assert_eq!(named, [place(1, STRIDE, 8)]);
}

/// Two clients that append to one multi-packet queue of a server.
struct Appends {
    first: Pair,
    second: Pair,
    queue: SharedReceiveQueue,
}

impl Appends {
    async fn new(scene: &Rc<Scene>, capacity: u32) -> Self {
        Self::with(scene, capacity, MultiPacketOptions::telling(STRIDE), 256).await
    }

    async fn with(
        scene: &Rc<Scene>,
        capacity: u32,
        multi_packet: MultiPacketOptions,
        completions: u32,
    ) -> Self {
        let device = scene.node(1).device();
        let options = SharedReceiveQueueOptions {
            capacity,
            multi_packet: Some(multi_packet),
            in_order: false,
        };
        let queue = device
            .create_shared_receive_queue(options)
            .expect("a shared queue");
        let cq = device
            .create_completion_queue(completions)
            .expect("a completion queue");
        // Few retries, so that the story of the queue that stays empty is short.
        let retries = Setup {
            rnr_retry_count: 200,
            ..Setup::default()
        };
        let setup = Setup {
            server_queue: Some(queue),
            server_receive_cq: Some(cq),
            ..retries
        };
        let first = scene.connect(setup).await;
        let second = scene.connect(Setup { client: 2, ..setup }).await;
        Self {
            first,
            second,
            queue,
        }
    }

    /// The end whose buffer holds the receive buffers, and which sees all arrivals.
    fn end(&self) -> &End {
        &self.first.server
    }

    fn post(&self, wr_id: u64) {
        let buffer = ReceiveRequest {
            wr_id,
            local: self.end().local(wr_id % 8 * u64::from(BUFFER), BUFFER),
        };
        self.end()
            .device()
            .post_receive(ReceiveQueue::Shared(self.queue), &[buffer])
            .expect("room in the shared queue");
    }

    /// Buffers that were given back and not yet requested.
    fn poll_consumed(&self) -> Vec<u64> {
        let mut buffers = Vec::new();
        let count = self.end().device().poll_consumed(self.queue, &mut buffers);
        assert_eq!(
            count,
            buffers.len(),
            "poll returns the number that it appended"
        );
        buffers
    }

    /// Waits until one buffer is given back.
    async fn consumed(&self) -> u64 {
        let look = || {
            let buffers = self.poll_consumed();
            assert!(buffers.len() < 2, "one at a time: {buffers:?}");
            buffers.first().copied()
        };
        self.first.server.scene().wait_for("a buffer", look).await
    }

    async fn message(&self) -> WorkCompletion {
        let arrival = self.end().received().await;
        assert_eq!(
            (arrival.status, arrival.opcode),
            (Status::Success, Opcode::Receive),
            "{arrival:?}"
        );
        arrival
    }

    /// The bytes of a message.
    fn bytes(&self, arrival: &WorkCompletion) -> Vec<u8> {
        let buffer = arrival.wr_id % 8 * u64::from(BUFFER);
        self.end().bytes(
            buffer + u64::from(arrival.placement.offset),
            arrival.placement.size as usize,
        )
    }
}
