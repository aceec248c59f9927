//! The stage of a story: nodes, connections between them, and the passing of time.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use stonecast_base::Nanoseconds;

use super::{End, PATIENCE_NS, World};
use crate::{
    Access, CompletionQueue, ConnectionEvent, DisconnectCause, Port, QueuePair, QueuePairOptions,
    Runtime, SharedReceiveQueue,
};

/// Nodes that a story may use.
const NODE_COUNT: usize = 3;
/// Bytes of the buffer of each [`End`].
pub(super) const BUFFER_SIZE: u64 = 1 << 16;
/// The rights of peers unless a story states others. FLUSH is missing, because some devices cannot grant it.
pub(super) const ALL_ACCESS: Access = Access::REMOTE_READ
    .and(Access::REMOTE_WRITE)
    .and(Access::REMOTE_ATOMIC);
/// The time that a story waits to see that nothing (more) happens.
const QUIET_NS: Nanoseconds = 5_000_000;

/// The nodes of a world and their events. Node 0 is the client, node 1 the server, node 2 another client.
pub struct Scene {
    world: Rc<dyn World>,
    runtime: Rc<dyn Runtime>,
    nodes: [OnceCell<Node>; NODE_COUNT],
}

struct Node {
    port: Rc<Port>,
    address: OnceCell<String>,
    /// Connection events that no step of the story has requested yet.
    events: RefCell<Vec<ConnectionEvent>>,
    /// Whether the node is neither killed nor held.
    polled: Cell<bool>,
}

/// Options of a [`Pair`]. `Default` suits most stories.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The node that connects and posts.
    pub client: usize,
    /// The node that listens and responds.
    pub server: usize,
    /// Of both queue pairs.
    pub send_capacity: u32,
    /// Of both queue pairs.
    pub receive_capacity: u32,
    /// The capacity of the client's completion queues and, unless `server_receive_cq` is given, of the
    /// server's.
    pub completion_capacity: u32,
    /// Of both queue pairs.
    pub rnr_retry_count: u32,
    /// Of both queue pairs, nanoseconds.
    pub rnr_retry_delay_ns: u64,
    /// The shared queue from which the server takes its receive buffers.
    pub server_queue: Option<SharedReceiveQueue>,
    /// The queue of the server's arrivals, for servers with several queue pairs.
    pub server_receive_cq: Option<CompletionQueue>,
    /// The queue of the client's completions, for clients with several queue pairs.
    pub client_send_cq: Option<CompletionQueue>,
    /// The rights of peers on the buffers of both ends.
    pub access: Access,
    /// Whether both queue pairs are made for windows.
    pub windows: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            client: 0,
            server: 1,
            send_capacity: 64,
            receive_capacity: 64,
            completion_capacity: 256,
            rnr_retry_count: 1_000,
            rnr_retry_delay_ns: 1_000_000,
            server_queue: None,
            server_receive_cq: None,
            client_send_cq: None,
            access: ALL_ACCESS,
            windows: false,
        }
    }
}

/// Two connected ends.
pub struct Pair {
    /// The side that connected.
    pub client: End,
    /// The side that accepted.
    pub server: End,
}

/// Remembers that a task was woken.
#[derive(Default)]
pub(super) struct Woken(pub AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Scene {
    /// The stage of `world`; each node is made at its first use.
    pub(super) fn new(world: Rc<dyn World>) -> Rc<Self> {
        let runtime = world.runtime();
        Rc::new(Self {
            world,
            runtime,
            nodes: Default::default(),
        })
    }

    /// The port of node `index`.
    pub fn node(&self, index: usize) -> &Rc<Port> {
        &self.made(index).port
    }

    /// The address at which node `index` listens. The first call starts listening.
    pub fn address(&self, index: usize) -> &str {
        self.made(index).address.get_or_init(|| {
            let address = self.world.address(index);
            self.node(index)
                .device()
                .listen(&address)
                .expect("the world's address can be listened at");
            address
        })
    }

    /// An address without a listener.
    pub fn unused_address(&self, index: usize) -> String {
        assert!(
            self.made(index).address.get().is_none(),
            "the story made node {index} listen"
        );
        self.world.address(index)
    }

    /// The world's clock and timers.
    pub fn runtime(&self) -> &Rc<dyn Runtime> {
        &self.runtime
    }

    /// The world, for services that only it provides.
    pub fn world(&self) -> &Rc<dyn World> {
        &self.world
    }

    /// Kills node `index`.
    pub fn kill(&self, index: usize) {
        self.made(index).polled.set(false);
        self.world.kill(index);
    }

    /// Leaves node `index` without processor time from now on.
    pub fn hold(&self, index: usize) {
        self.made(index).polled.set(false);
        self.world.hold(index);
    }

    /// A connected pair with buffers, made with `setup`. The events of the connection are consumed.
    pub async fn connect(self: &Rc<Self>, setup: Setup) -> Pair {
        let address = self.address(setup.server);
        let client = self.end(setup.client, setup, None, None, setup.client_send_cq);
        client
            .device()
            .connect(client.qp, address, b"")
            .expect("connecting starts");
        let request = self.request(setup.server).await;
        let server = self.end(
            setup.server,
            setup,
            setup.server_queue,
            setup.server_receive_cq,
            None,
        );
        server
            .device()
            .accept(request, server.qp, b"")
            .expect("the request can be accepted");
        self.established(setup.server, server.qp).await;
        self.established(setup.client, client.qp).await;
        Pair { client, server }
    }

    /// A connected pair with the default setup.
    pub async fn pair(self: &Rc<Self>) -> Pair {
        self.connect(Setup::default()).await
    }

    /// An unconnected end on node `node`.
    pub fn end(
        self: &Rc<Self>,
        node: usize,
        setup: Setup,
        queue: Option<SharedReceiveQueue>,
        receive_cq: Option<CompletionQueue>,
        send_cq: Option<CompletionQueue>,
    ) -> End {
        let device = self.node(node).device().clone();
        let new_cq = || {
            device
                .create_completion_queue(setup.completion_capacity)
                .expect("a completion queue")
        };
        let options = QueuePairOptions {
            send_cq: send_cq.unwrap_or_else(new_cq),
            receive_cq: receive_cq.unwrap_or_else(new_cq),
            shared_receive_queue: queue,
            windows: setup.windows,
            send_capacity: setup.send_capacity,
            receive_capacity: setup.receive_capacity,
            rnr_retry_count: setup.rnr_retry_count,
            rnr_retry_delay_ns: setup.rnr_retry_delay_ns,
        };
        let qp = device.create_queue_pair(options).expect("a queue pair");
        let buffer = device.allocate(BUFFER_SIZE, setup.access).expect("memory");
        End::new(self.clone(), node, qp, options, buffer)
    }

    /// Waits until a peer asks node `node` for a connection.
    pub async fn request(&self, node: usize) -> crate::ConnectionRequest {
        let event = self
            .event(node, "a connection request", |event| {
                matches!(event, ConnectionEvent::Request { .. })
            })
            .await;
        let ConnectionEvent::Request { request, .. } = event else {
            unreachable!("just matched")
        };
        request
    }

    /// Waits until `qp` is connected, and returns the data of the accepting side.
    pub async fn established(&self, node: usize, qp: QueuePair) -> Vec<u8> {
        let wanted = |event: &ConnectionEvent| matches!(event, ConnectionEvent::Established { qp: of, .. } if *of == qp);
        let event = self.event(node, "an established connection", wanted).await;
        let ConnectionEvent::Established { private_data, .. } = event else {
            unreachable!("just matched")
        };
        private_data
    }

    /// Waits until `qp` is disconnected, and returns the cause.
    pub async fn disconnected(&self, node: usize, qp: QueuePair) -> DisconnectCause {
        let wanted = |event: &ConnectionEvent| matches!(event, ConnectionEvent::Disconnected { qp: of, .. } if *of == qp);
        let event = self.event(node, "the end of a connection", wanted).await;
        let ConnectionEvent::Disconnected { cause, .. } = event else {
            unreachable!("just matched")
        };
        cause
    }

    /// Waits for the first event of node `node` that is `wanted`, and leaves other events for later.
    pub async fn event(
        &self,
        node: usize,
        what: &str,
        wanted: impl Fn(&ConnectionEvent) -> bool,
    ) -> ConnectionEvent {
        self.wait_for(&format!("{what} at node {node}"), || {
            let events = &mut *self.made(node).events.borrow_mut();
            events
                .iter()
                .position(&wanted)
                .map(|position| events.remove(position))
        })
        .await
    }

    /// Connection events of node `node` that no step has requested.
    pub fn unasked_events(&self, node: usize) -> Vec<ConnectionEvent> {
        self.pump();
        self.made(node).events.borrow().clone()
    }

    /// Waits until `look` finds something, with progress for every node.
    pub async fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = self.runtime.now() + PATIENCE_NS;
        let mut pause = 1_000;
        loop {
            self.pump();
            if let Some(found) = look() {
                return found;
            }
            assert!(
                self.runtime.now() < deadline,
                "waited {} s in vain for {what}",
                PATIENCE_NS / 1_000_000_000
            );
            self.runtime.sleep(pause).await;
            pause = (pause * 2).min(1_000_000);
        }
    }

    /// Waits for `future`, polling it again only when it asked for a poll, with progress for every node.
    pub async fn finish<F: Future>(&self, what: &str, future: F) -> F::Output {
        let mut future = pin!(future);
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(woken.clone());
        self.wait_for(what, || {
            if !woken.0.swap(false, Ordering::AcqRel) {
                return None;
            }
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => Some(output),
                Poll::Pending => None,
            }
        })
        .await
    }

    /// Lets `duration` nanoseconds pass, with progress for every node.
    pub async fn pass(&self, duration: Nanoseconds) {
        let until = self.runtime.now() + duration;
        while self.runtime.now() < until {
            self.pump();
            self.runtime.sleep(100_000).await;
        }
        self.pump();
    }

    /// Lets enough time pass for every pending event.
    pub async fn quiet(&self) {
        self.pass(QUIET_NS).await;
    }

    /// Makes progress for every node that is alive and not held, and collects its connection events.
    pub fn pump(&self) {
        for node in self
            .nodes
            .iter()
            .filter_map(OnceCell::get)
            .filter(|node| node.polled.get())
        {
            node.port.pump();
            node.events
                .borrow_mut()
                .extend(std::iter::from_fn(|| node.port.take_event()));
        }
    }

    fn made(&self, index: usize) -> &Node {
        self.nodes[index].get_or_init(|| Node {
            port: self.world.node(index),
            address: OnceCell::new(),
            events: RefCell::default(),
            polled: Cell::new(true),
        })
    }
}
