//! One side of a connection in a story: its buffer, its posts, its expected completions.

use std::cell::Cell;
use std::rc::Rc;

use super::Scene;
use crate::{
    CompletionQueue, Device, LocalSpan, MemoryRegion, Operation, QueuePair, QueuePairOptions,
    ReceiveQueue, ReceiveRequest, RemoteAddress, Status, WorkCompletion, WorkRequest,
};

/// A queue pair with a buffer of 64 KiB, and completion queues that the story polls itself.
pub struct End {
    /// The queue pair.
    pub qp: QueuePair,
    /// The node of the queue pair.
    pub node: usize,
    /// The buffer, zeroed at first.
    pub buffer: MemoryRegion,
    options: QueuePairOptions,
    scene: Rc<Scene>,
    device: Rc<dyn Device>,
    next_wr_id: Cell<u64>,
}

/// A signalled request.
pub fn signalled(wr_id: u64, operation: Operation) -> WorkRequest {
    WorkRequest {
        wr_id,
        operation,
        signalled: true,
        fence: false,
    }
}

/// A request whose success makes no completion.
pub fn unsignalled(wr_id: u64, operation: Operation) -> WorkRequest {
    WorkRequest {
        wr_id,
        operation,
        signalled: false,
        fence: false,
    }
}

/// A signalled request that waits for earlier non-posted ones.
pub fn fenced(wr_id: u64, operation: Operation) -> WorkRequest {
    WorkRequest {
        wr_id,
        operation,
        signalled: true,
        fence: true,
    }
}

impl End {
    pub(super) fn new(
        scene: Rc<Scene>,
        node: usize,
        qp: QueuePair,
        options: QueuePairOptions,
        buffer: MemoryRegion,
    ) -> Self {
        let device = scene.node(node).device().clone();
        Self {
            qp,
            node,
            buffer,
            options,
            scene,
            device,
            next_wr_id: Cell::new(1 << 32),
        }
    }

    /// The device.
    pub fn device(&self) -> &Rc<dyn Device> {
        &self.device
    }

    /// The scene.
    pub fn scene(&self) -> &Rc<Scene> {
        &self.scene
    }

    /// The options of the queue pair.
    pub fn options(&self) -> &QueuePairOptions {
        &self.options
    }

    /// `size` bytes of this end's buffer from `offset`.
    pub fn local(&self, offset: u64, size: u32) -> LocalSpan {
        LocalSpan {
            region: self.buffer,
            offset,
            size,
        }
    }

    /// The place in this buffer as the peer addresses it.
    pub fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress {
            address: self.buffer.address + offset,
            rkey: self.buffer.rkey,
        }
    }

    /// Copies `bytes` into this end's buffer.
    pub fn fill(&self, offset: u64, bytes: &[u8]) {
        self.device.memory(self.buffer).write(offset, bytes);
    }

    /// Copies out of this end's buffer.
    pub fn bytes(&self, offset: u64, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        self.device.memory(self.buffer).read(offset, &mut bytes);
        bytes
    }

    /// The aligned word at `offset` of this end's buffer.
    pub fn word(&self, offset: u64) -> u64 {
        self.device.memory(self.buffer).load(offset)
    }

    /// Stores the aligned word at `offset` of this end's buffer.
    pub fn set_word(&self, offset: u64, value: u64) {
        self.device.memory(self.buffer).store(offset, value);
    }

    /// Posts one batch, which must be accepted.
    pub fn post(&self, requests: &[WorkRequest]) {
        self.device
            .post_send(self.qp, requests)
            .expect("the batch is accepted");
    }

    /// Posts one receive buffer: a piece of this end's buffer, to its queue.
    pub fn receive(&self, wr_id: u64, offset: u64, size: u32) {
        let request = ReceiveRequest {
            wr_id,
            local: self.local(offset, size),
        };
        self.device
            .post_receive(ReceiveQueue::Own(self.qp), &[request])
            .expect("the receive buffer is accepted");
    }

    /// Executes one operation and returns its status.
    pub async fn execute(&self, operation: Operation) -> Status {
        let wr_id = self.next_wr_id.replace(self.next_wr_id.get() + 1);
        self.post(&[signalled(wr_id, operation)]);
        let completion = self.sent().await;
        assert_eq!(
            completion.wr_id, wr_id,
            "the completion belongs to the latest post: {completion:?}"
        );
        completion.status
    }

    /// Waits for the next completion of a request.
    pub async fn sent(&self) -> WorkCompletion {
        let what = format!("a completion of node {}", self.node);
        self.scene.wait_for(&what, || self.poll_sent()).await
    }

    /// Waits for the next arrival.
    pub async fn received(&self) -> WorkCompletion {
        let what = format!("an arrival at node {}", self.node);
        self.scene.wait_for(&what, || self.poll_received()).await
    }

    /// Waits for completions of requests and compares `wr_id` and status, in order.
    pub async fn expect_sent(&self, expected: &[(u64, Status)]) {
        for (position, expected) in expected.iter().enumerate() {
            let found = self.sent().await;
            assert_eq!(
                (found.wr_id, found.status),
                *expected,
                "completion {position} of node {}: {found:?}",
                self.node
            );
            assert_eq!(found.qp, self.qp, "the completion names its queue pair");
        }
    }

    /// Waits for arrivals and compares `wr_id` and status, in order.
    pub async fn expect_received(&self, expected: &[(u64, Status)]) {
        for (position, expected) in expected.iter().enumerate() {
            let found = self.received().await;
            assert_eq!(
                (found.wr_id, found.status),
                *expected,
                "arrival {position} at node {}: {found:?}",
                self.node
            );
            assert_eq!(found.qp, self.qp, "the arrival names its queue pair");
        }
    }

    /// The next completion of a request, if there is one.
    pub fn poll_sent(&self) -> Option<WorkCompletion> {
        self.poll(self.options.send_cq)
    }

    /// The next arrival, if there is one. If several queue pairs share the completion queue, it may belong to any of
    /// them.
    pub fn poll_received(&self) -> Option<WorkCompletion> {
        self.poll(self.options.receive_cq)
    }

    fn poll(&self, cq: CompletionQueue) -> Option<WorkCompletion> {
        let mut fresh = Vec::new();
        let count = self.device.poll(cq, 1, &mut fresh);
        assert_eq!(
            count,
            fresh.len(),
            "poll returns the number of completions that it appended"
        );
        assert!(count <= 1, "poll keeps to its limit");
        fresh.pop()
    }
}
