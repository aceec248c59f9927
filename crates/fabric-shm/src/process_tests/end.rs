//! A device with one buffer and the few calls that these tests need, waiting with a deadline.

use std::rc::Rc;
use std::time::{Duration, Instant};

use stonecast_fabric::{
    Access, CompletionQueue, ConnectionEvent, Device, DisconnectCause, LocalSpan, MemoryRegion,
    Operation, Park, QueuePair, QueuePairOptions, ReceiveQueue, ReceiveRequest, RemoteAddress,
    SharedReceiveQueue, WorkCompletion, WorkRequest,
};

use crate::{ShmDevice, ShmOptions};

/// Long enough for any honest peer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
pub(super) const BUFFER_SIZE: u64 = 1 << 16;

pub(super) struct End {
    pub(super) device: Rc<ShmDevice>,
    pub(super) buffer: MemoryRegion,
    pub(super) send_cq: CompletionQueue,
    pub(super) receive_cq: CompletionQueue,
    events: std::cell::RefCell<Vec<ConnectionEvent>>,
}

impl End {
    pub(super) fn new() -> Self {
        Self::with(ShmOptions::default())
    }

    pub(super) fn with(options: ShmOptions) -> Self {
        let device = ShmDevice::new(options).expect("a device");
        let access = Access::REMOTE_READ
            .and(Access::REMOTE_WRITE)
            .and(Access::REMOTE_ATOMIC);
        let buffer = device.allocate(BUFFER_SIZE, access).expect("memory");
        let send_cq = device
            .create_completion_queue(4096)
            .expect("a completion queue");
        let receive_cq = device
            .create_completion_queue(4096)
            .expect("a completion queue");
        Self {
            device,
            buffer,
            send_cq,
            receive_cq,
            events: Default::default(),
        }
    }

    pub(super) fn queue_pair(&self, shared_receive_queue: Option<SharedReceiveQueue>) -> QueuePair {
        let options = QueuePairOptions {
            send_cq: self.send_cq,
            receive_cq: self.receive_cq,
            shared_receive_queue,
            windows: true,
            send_capacity: 64,
            receive_capacity: 64,
            rnr_retry_count: 1_000_000,
            rnr_retry_delay_ns: 1_000_000,
        };
        self.device
            .create_queue_pair(options)
            .expect("a queue pair")
    }

    /// Calls until a peer accepts. Returns the queue pair and the data of the other side.
    pub(super) fn call(&self, address: &str, private_data: &[u8]) -> (QueuePair, Vec<u8>) {
        let qp = self.queue_pair(None);
        let mut is_out = false;
        let answer = self.wait("an accepting peer", || {
            if !is_out {
                self.device
                    .connect(qp, address, private_data)
                    .expect("connecting starts");
                is_out = true;
            }
            match self.next_event()? {
                ConnectionEvent::Established { private_data, .. } => Some(private_data),
                ConnectionEvent::Rejected { .. } => {
                    std::thread::sleep(Duration::from_millis(1));
                    is_out = false;
                    None
                }
                other => panic!("unexpected: {other:?}"),
            }
        });
        (qp, answer)
    }

    /// Accepts the next caller.
    pub(super) fn answer(
        &self,
        srq: Option<SharedReceiveQueue>,
        private_data: &[u8],
    ) -> (QueuePair, Vec<u8>) {
        let qp = self.queue_pair(srq);
        (qp, self.answer_with(qp, private_data))
    }

    /// Accepts the next caller, with a prepared queue pair.
    pub(super) fn answer_with(&self, qp: QueuePair, private_data: &[u8]) -> Vec<u8> {
        let is_request = |event: &ConnectionEvent| matches!(event, ConnectionEvent::Request { .. });
        let ConnectionEvent::Request {
            request,
            private_data: said,
            ..
        } = self.event("a request", is_request)
        else {
            unreachable!("just matched")
        };
        self.device
            .accept(request, qp, private_data)
            .expect("the request can be accepted");
        let is_established = |event: &ConnectionEvent| matches!(event, ConnectionEvent::Established { qp: of, .. } if *of == qp);
        self.event("an established connection", is_established);
        said
    }

    /// The first event that is `wanted`; other events are kept.
    pub(super) fn event(
        &self,
        what: &str,
        wanted: impl Fn(&ConnectionEvent) -> bool,
    ) -> ConnectionEvent {
        self.wait(what, || {
            let mut events = self.events.borrow_mut();
            events.extend(std::iter::from_fn(|| self.device.poll_connection()));
            let position = events.iter().position(&wanted)?;
            Some(events.remove(position))
        })
    }

    fn next_event(&self) -> Option<ConnectionEvent> {
        self.device.poll_connection()
    }

    /// Waits for the end of a connection.
    pub(super) fn disconnected(&self, qp: QueuePair) -> DisconnectCause {
        let wanted = |event: &ConnectionEvent| matches!(event, ConnectionEvent::Disconnected { qp: of, .. } if *of == qp);
        let ConnectionEvent::Disconnected { cause, .. } =
            self.event("the end of a connection", wanted)
        else {
            unreachable!("just matched")
        };
        cause
    }

    /// Events of `qp` that no step has requested.
    pub(super) fn more_events(&self, qp: QueuePair) -> usize {
        let mut events = self.events.borrow_mut();
        events.extend(std::iter::from_fn(|| self.device.poll_connection()));
        let of = |event: &&ConnectionEvent| matches!(event, ConnectionEvent::Disconnected { qp: of, .. } if *of == qp);
        events.iter().filter(of).count()
    }

    /// Drops the events so far that are `unwanted`.
    pub(super) fn forget(&self, unwanted: impl Fn(&ConnectionEvent) -> bool) {
        let mut events = self.events.borrow_mut();
        events.extend(std::iter::from_fn(|| self.device.poll_connection()));
        events.retain(|event| !unwanted(event));
    }

    pub(super) fn poll(&self, cq: CompletionQueue) -> Vec<WorkCompletion> {
        let mut found = Vec::new();
        self.device.poll(cq, 64, &mut found);
        found
    }

    /// Waits for `count` completions.
    pub(super) fn completions(&self, cq: CompletionQueue, count: usize) -> Vec<WorkCompletion> {
        let mut found = Vec::new();
        self.wait("completions", || {
            self.device.poll(cq, count - found.len(), &mut found);
            (found.len() == count).then_some(())
        });
        found
    }

    pub(super) fn post(&self, qp: QueuePair, operation: Operation, signalled: bool) {
        let request = WorkRequest {
            wr_id: 1,
            operation,
            signalled,
            fence: false,
        };
        self.device
            .post_send(qp, &[request])
            .expect("the batch is accepted");
    }

    /// Posts one batch with every request signalled.
    pub(super) fn post_all(&self, qp: QueuePair, operations: &[Operation]) {
        let requests: Vec<_> = operations
            .iter()
            .map(|&operation| WorkRequest {
                wr_id: 1,
                operation,
                signalled: true,
                fence: false,
            })
            .collect();
        self.device
            .post_send(qp, &requests)
            .expect("the batch is accepted");
    }

    /// A SEND of the first `size` bytes.
    pub(super) fn send_of(&self, size: u32) -> Operation {
        Operation::Send {
            local: self.local(0, size),
        }
    }

    pub(super) fn receive(&self, queue: ReceiveQueue, wr_id: u64, offset: u64, size: u32) {
        let request = ReceiveRequest {
            wr_id,
            local: self.local(offset, size),
        };
        self.device
            .post_receive(queue, &[request])
            .expect("the buffer is accepted");
    }

    pub(super) fn local(&self, offset: u64, size: u32) -> LocalSpan {
        LocalSpan {
            region: self.buffer,
            offset,
            size,
        }
    }

    pub(super) fn word(&self, offset: u64) -> u64 {
        self.device.memory(self.buffer).load(offset)
    }

    pub(super) fn set_word(&self, offset: u64, value: u64) {
        self.device.memory(self.buffer).store(offset, value);
    }

    /// The message that tells a peer the place of the buffer.
    pub(super) fn invitation(&self) -> Vec<u8> {
        [
            self.buffer.address.to_le_bytes().as_slice(),
            &self.buffer.rkey.0.to_le_bytes(),
        ]
        .concat()
    }

    /// Waits until `look` finds something; the device makes progress and sleeps in between.
    pub(super) fn wait<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < deadline, "waited in vain for {what}");
            self.device.park(1_000_000);
        }
    }
}

/// The place `offset` in the buffer of an invitation.
pub(super) fn place(invitation: &[u8], offset: u64) -> RemoteAddress {
    let address = u64::from_le_bytes(invitation[..8].try_into().expect("8 bytes"));
    let rkey = u32::from_le_bytes(invitation[8..12].try_into().expect("4 bytes"));
    RemoteAddress {
        address: address + offset,
        rkey: stonecast_fabric::Rkey(rkey),
    }
}
