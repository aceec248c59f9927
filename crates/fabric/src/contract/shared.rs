//! Receive buffers that many queue pairs share.

use std::rc::Rc;

use super::end::{End, signalled, unsignalled};
use super::failure::hopeless;
use super::operations::{send, write_immediate};
use super::{Pair, Scene, Setup};
use crate::{
    DeviceError, Opcode, Operation, ReceiveQueue, ReceiveRequest, SharedReceiveQueue,
    SharedReceiveQueueOptions, Status,
};

pub(super) async fn shared_buffers_are_used_in_posted_order_by_every_sender(scene: Rc<Scene>) {
    let stage = Shared::new(&scene, 32).await;
    stage.post(0..24);
    for index in 0..24u64 {
        let pair = [&stage.first, &stage.second][(index / 3 % 2) as usize];
        pair.client.set_word(0, index);
        assert_eq!(
            pair.client.execute(send(&pair.client, 0, 8)).await,
            Status::Success
        );
        let arrival = stage.end().received().await;
        assert_eq!((arrival.wr_id, arrival.status), (index, Status::Success));
        assert_eq!(
            arrival.qp, pair.server.qp,
            "the arrival names its queue pair"
        );
        assert_eq!(
            stage.end().word(index * 64),
            index,
            "the message lies in its buffer"
        );
    }
}

pub(super) async fn an_empty_shared_queue_stops_every_sender_until_it_is_filled(scene: Rc<Scene>) {
    let stage = Shared::new(&scene, 32).await;
    for pair in [&stage.first, &stage.second] {
        pair.client.post(&[
            signalled(1, send(&pair.client, 0, 8)),
            signalled(2, send(&pair.client, 0, 8)),
        ]);
    }
    scene.quiet().await;
    assert_eq!(
        (
            stage.first.client.poll_sent(),
            stage.second.client.poll_sent()
        ),
        (None, None)
    );
    stage.post(0..4);
    for pair in [&stage.first, &stage.second] {
        pair.client
            .expect_sent(&[(1, Status::Success), (2, Status::Success)])
            .await;
    }
    // Messages over two connections may be reported in either order.
    let mut filled = Vec::new();
    for _ in 0..4 {
        let arrival = stage.end().received().await;
        assert_eq!(arrival.status, Status::Success);
        filled.push(arrival.wr_id);
    }
    filled.sort_unstable();
    assert_eq!(filled, [0, 1, 2, 3]);
}

pub(super) async fn a_write_with_immediate_takes_a_shared_buffer(scene: Rc<Scene>) {
    let stage = Shared::new(&scene, 32).await;
    stage.post(0..2);
    let (client, server) = (&stage.second.client, &stage.second.server);
    client.post(&[
        unsignalled(0, write_immediate(client, 0, 8, server, 8192, 9)),
        unsignalled(0, send(client, 0, 8)),
    ]);
    let arrival = stage.end().received().await;
    assert_eq!(
        (arrival.wr_id, arrival.opcode, arrival.immediate),
        (0, Opcode::ReceiveWriteWithImmediate, 9)
    );
    let arrival = stage.end().received().await;
    assert_eq!((arrival.wr_id, arrival.opcode), (1, Opcode::Receive));
}

pub(super) async fn a_full_shared_queue_refuses_buffers_whole(scene: Rc<Scene>) {
    let stage = Shared::new(&scene, 4).await;
    stage.post(0..3);
    let buffers = [stage.buffer(7), stage.buffer(8)];
    let refused = stage
        .end()
        .device()
        .post_receive(ReceiveQueue::Shared(stage.queue), &buffers);
    assert!(
        matches!(refused, Err(DeviceError::QueueFull { .. })),
        "{refused:?}"
    );
    stage.post(3..4);
    let client = &stage.first.client;
    client.post(&[0; 4].map(|_| unsignalled(0, send(client, 0, 8))));
    for wr_id in 0..4 {
        assert_eq!(
            stage.end().received().await.wr_id,
            wr_id,
            "nothing of the refused batch is in the queue"
        );
    }
}

pub(super) async fn a_queue_pair_that_shares_a_queue_has_no_buffers_of_its_own(scene: Rc<Scene>) {
    let stage = Shared::new(&scene, 4).await;
    let own = ReceiveQueue::Own(stage.end().qp);
    let refused = stage.end().device().post_receive(own, &[stage.buffer(0)]);
    assert!(
        matches!(refused, Err(DeviceError::Malformed { .. })),
        "{refused:?}"
    );
}

/// Needs each buffer of such a queue to keep its place: if a buffer is put after others, the third message lies in
/// front of the first.
pub(super) async fn a_refused_request_does_not_change_the_order_of_a_queue_that_keeps_it(
    scene: Rc<Scene>,
) {
    let stage = Shared::in_order(&scene, 8).await;
    stage.post(1..4);
    let (first, second) = (&stage.first.client, &stage.second.client);
    let Operation::Write { local, remote } = hopeless(first) else {
        unreachable!("it is a WRITE")
    };
    let refused = Operation::WriteWithImmediate {
        local,
        remote,
        immediate: 1,
    };
    assert_eq!(first.execute(refused).await, Status::RemoteAccess);
    scene.disconnected(1, stage.first.server.qp).await;
    scene.quiet().await;
    let mut used_up = Vec::new();
    while let Some(arrival) = stage.end().poll_received() {
        assert_eq!(arrival.status, Status::WorkRequestFlushed);
        used_up.push(arrival.wr_id);
    }
    stage.post(4..6);
    second.post(&[1, 2, 3].map(|wr_id| unsignalled(wr_id, send(second, 0, 8))));
    let mut taken = Vec::new();
    while taken.len() < 3 {
        let arrival = stage.second.server.received().await;
        assert_eq!(arrival.status, Status::Success);
        taken.push(arrival.wr_id);
    }
    // The device may have fetched one buffer for the request, and then reports it.
    let all: Vec<u64> = used_up.iter().chain(&taken).copied().collect();
    assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>());
}

/// Two clients whose messages go to one shared queue of a server; both report to one completion queue.
struct Shared {
    first: Pair,
    second: Pair,
    queue: SharedReceiveQueue,
}

impl Shared {
    async fn new(scene: &Rc<Scene>, capacity: u32) -> Self {
        Self::of(scene, capacity, false).await
    }

    async fn in_order(scene: &Rc<Scene>, capacity: u32) -> Self {
        Self::of(scene, capacity, true).await
    }

    async fn of(scene: &Rc<Scene>, capacity: u32, in_order: bool) -> Self {
        let device = scene.node(1).device();
        let options = SharedReceiveQueueOptions {
            capacity,
            multi_packet: None,
            in_order,
        };
        let queue = device
            .create_shared_receive_queue(options)
            .expect("a shared queue");
        let cq = device
            .create_completion_queue(256)
            .expect("a completion queue");
        let setup = Setup {
            server_queue: Some(queue),
            server_receive_cq: Some(cq),
            ..Setup::default()
        };
        let first = scene.connect(setup).await;
        let second = scene.connect(Setup { client: 2, ..setup }).await;
        Self {
            first,
            second,
            queue,
        }
    }

    /// The end whose buffer holds the shared receive buffers, and which sees all arrivals.
    fn end(&self) -> &End {
        &self.first.server
    }

    fn buffer(&self, wr_id: u64) -> ReceiveRequest {
        ReceiveRequest {
            wr_id,
            local: self.end().local(wr_id * 64, 64),
        }
    }

    fn post(&self, wr_ids: std::ops::Range<u64>) {
        let buffers: Vec<_> = wr_ids.map(|wr_id| self.buffer(wr_id)).collect();
        self.end()
            .device()
            .post_receive(ReceiveQueue::Shared(self.queue), &buffers)
            .expect("room in the shared queue");
    }
}
