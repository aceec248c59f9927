//! Connected devices for tests of single operations.

use std::rc::Rc;
use std::time::{Duration, Instant};

use stonecast_fabric::{
    Access, CompletionQueue, ConnectionEvent, Device, MemoryRegion, QueuePair, QueuePairOptions,
    SharedReceiveQueue, WorkCompletion,
};

const PATIENCE: Duration = Duration::from_secs(20);

pub fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn queue_pair(
    device: &dyn Device,
    cq: CompletionQueue,
    shared: Option<SharedReceiveQueue>,
) -> QueuePair {
    make(device, queue_pair_options(cq, shared))
}

fn make(device: &dyn Device, options: QueuePairOptions) -> QueuePair {
    device.create_queue_pair(options).expect("a queue pair")
}

/// Options of a queue pair without windows.
pub fn queue_pair_options(
    cq: CompletionQueue,
    shared: Option<SharedReceiveQueue>,
) -> QueuePairOptions {
    QueuePairOptions {
        send_cq: cq,
        receive_cq: cq,
        shared_receive_queue: shared,
        windows: false,
        send_capacity: 32,
        receive_capacity: 1,
        rnr_retry_count: 0,
        rnr_retry_delay_ns: 0,
    }
}

/// A client: its device, queue pair and memory, and the server's queue pair for it.
pub struct Client {
    pub device: Rc<dyn Device>,
    pub cq: CompletionQueue,
    pub qp: QueuePair,
    pub memory: MemoryRegion,
    pub there: QueuePair,
}

pub fn one(device: &dyn Device, cq: CompletionQueue) -> Option<WorkCompletion> {
    let mut found = Vec::new();
    device.poll(cq, 1, &mut found);
    found.pop()
}

/// Connects to `server`, which makes its queue pair with the options `there`.
pub fn connect(
    device: Rc<dyn Device>,
    server: &dyn Device,
    there: QueuePairOptions,
    address: &str,
) -> Client {
    let cq = device
        .create_completion_queue(64)
        .expect("a completion queue");
    let qp = queue_pair(&*device, cq, None);
    let memory = device.allocate(4096, Access::NONE).expect("memory");
    device.connect(qp, address, b"").expect("connecting starts");
    let request = wait("a request", || match server.poll_connection() {
        Some(ConnectionEvent::Request { request, .. }) => Some(request),
        _ => None,
    });
    let there = make(server, there);
    server
        .accept(request, there, b"")
        .expect("the request can be accepted");
    let mut open = 0;
    wait("a connection", || {
        for side in [&*device, server] {
            open += usize::from(matches!(
                side.poll_connection(),
                Some(ConnectionEvent::Established { .. })
            ));
        }
        (open == 2).then_some(())
    });
    Client {
        device,
        cq,
        qp,
        memory,
        there,
    }
}
