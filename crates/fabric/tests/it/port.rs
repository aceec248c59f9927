//! Ports on the reference provider: what the contract cannot see from outside.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use stonecast_fabric::contract::World as _;
use stonecast_fabric::decorate::{Observed, Observer};
use stonecast_fabric::{
    Access, ConnectionEvent, LocalSpan, MemoryRegion, Operation, Port, QueuePair, QueuePairOptions,
    ReadInto, ReceiveQueue, ReceiveRequest, RemoteAddress, Status, WorkRequest,
};

use crate::loopback::{Fault, Flavour, LIBERAL, LoopbackWorld, PLAIN};

/// A client with its port and a server with memory, connected.
struct Connected {
    world: Rc<LoopbackWorld>,
    client: Rc<Port>,
    server: Rc<Port>,
    qp: QueuePair,
    local: MemoryRegion,
    remote: MemoryRegion,
    numbers: Rc<Numbers>,
}

fn connected(flavour: Flavour) -> Connected {
    let world = LoopbackWorld::new(flavour, Fault::Nothing);
    let (inner, server) = (world.node(0), world.node(1));
    let numbers = Rc::new(Numbers::default());
    let device = Rc::new(Observed::new(inner.device().clone(), numbers.clone()));
    let client = Rc::new(Port::new(device, 64).expect("completion queues"));
    world.executor().add_port(&client);
    let new_qp = |port: &Port| {
        let options = QueuePairOptions {
            send_cq: port.send_cq(),
            receive_cq: port.receive_cq(),
            shared_receive_queue: None,
            windows: false,
            send_capacity: 64,
            receive_capacity: 64,
            rnr_retry_count: 1_000_000,
            rnr_retry_delay_ns: 1_000_000,
        };
        port.device()
            .create_queue_pair(options)
            .expect("a queue pair")
    };
    let access = Access::REMOTE_READ.and(Access::REMOTE_WRITE);
    let local = client
        .device()
        .allocate(4096, Access::NONE)
        .expect("memory");
    let remote = server.device().allocate(4096, access).expect("memory");
    let qp = new_qp(&client);
    server.device().listen("here").expect("a free address");
    client
        .device()
        .connect(qp, "here", b"")
        .expect("connecting starts");
    server.pump();
    let Some(ConnectionEvent::Request { request, .. }) = server.take_event() else {
        panic!("a request")
    };
    server
        .device()
        .accept(request, new_qp(&server), b"")
        .expect("accepted");
    server.pump();
    client.pump();
    assert!(matches!(
        client.take_event(),
        Some(ConnectionEvent::Established { .. })
    ));
    assert!(matches!(
        server.take_event(),
        Some(ConnectionEvent::Established { .. })
    ));
    Connected {
        world,
        client,
        server,
        qp,
        local,
        remote,
        numbers,
    }
}

impl Connected {
    fn write(&self) -> Operation {
        let remote = RemoteAddress {
            address: self.remote.address,
            rkey: self.remote.rkey,
        };
        Operation::Write {
            local: LocalSpan {
                region: self.local,
                offset: 0,
                size: 8,
            },
            remote,
        }
    }

    fn send(&self) -> Operation {
        Operation::Send {
            local: LocalSpan {
                region: self.local,
                offset: 0,
                size: 8,
            },
        }
    }
}

thread_local! {
    static PORT: RefCell<Option<Rc<Port>>> = const { RefCell::new(None) };
    static CALLED: Cell<u32> = const { Cell::new(0) };
}

/// A waker that uses the port in which it lies, when it is called and when it is dropped.
struct Reentrant;

impl Reentrant {
    fn use_the_port() {
        let port = PORT.with(|port| port.borrow().clone());
        if let Some(port) = port {
            port.pump();
            port.has_activity();
            port.take_received();
            CALLED.set(CALLED.get() + 1);
        }
    }
}

impl Wake for Reentrant {
    fn wake(self: Arc<Self>) {
        Self::use_the_port();
    }
}

impl Drop for Reentrant {
    fn drop(&mut self) {
        // A second panic would end the process and hide the first.
        if !std::thread::panicking() {
            Self::use_the_port();
        }
    }
}

/// Needs that nothing is borrowed while a waker is called or dropped.
#[test]
fn a_waker_may_use_the_port_that_calls_or_drops_it() {
    let stage = connected(PLAIN);
    PORT.set(Some(stage.client.clone()));
    let fresh = || Waker::from(Arc::new(Reentrant));
    // Long enough for several polls; each replaces the waker of the one before.
    let remote = RemoteAddress {
        address: stage.remote.address,
        rkey: stage.remote.rkey,
    };
    let long = [Operation::Write {
        local: LocalSpan {
            region: stage.local,
            offset: 0,
            size: 4096,
        },
        remote,
    }];
    let mut called = pin!(stage.client.submit(stage.qp, &long));
    for _ in 0..2 {
        assert!(
            called
                .as_mut()
                .poll(&mut Context::from_waker(&fresh()))
                .is_pending()
        );
    }
    assert!(CALLED.get() >= 1, "the first waker was dropped by the port");
    let before = CALLED.get();
    for _ in 0..20 {
        stage.client.pump();
    }
    assert!(CALLED.get() > before, "the second was called by it");
    let sends = [stage.send()];
    {
        let mut dropped = pin!(stage.client.submit(stage.qp, &sends));
        assert!(
            dropped
                .as_mut()
                .poll(&mut Context::from_waker(&fresh()))
                .is_pending(),
            "there is no receive buffer"
        );
        let mut waiting = pin!(stage.client.activity());
        assert!(
            waiting
                .as_mut()
                .poll(&mut Context::from_waker(&fresh()))
                .is_pending()
        );
        assert!(
            waiting
                .as_mut()
                .poll(&mut Context::from_waker(&fresh()))
                .is_pending()
        );
    }
    let mut waiting = pin!(stage.client.activity());
    assert!(
        waiting
            .as_mut()
            .poll(&mut Context::from_waker(&fresh()))
            .is_pending()
    );
    stage
        .server
        .device()
        .disconnect(QueuePair(7))
        .expect("the server's first queue pair");
    while !stage.client.has_activity() {
        stage.client.pump();
    }
    PORT.set(None);
}

struct Counted;

impl Wake for Counted {
    fn wake(self: Arc<Self>) {}
}

/// Needs the registration to end with its future, and one future to have one.
#[test]
fn waiting_for_activity_leaves_nothing_behind() {
    let stage = connected(PLAIN);
    let counted = Arc::new(Counted);
    let waker = Waker::from(counted.clone());
    for _ in 0..100 {
        let mut waiting = pin!(stage.client.activity());
        for _ in 0..10 {
            assert!(
                waiting
                    .as_mut()
                    .poll(&mut Context::from_waker(&waker))
                    .is_pending()
            );
        }
        assert_eq!(
            Arc::strong_count(&counted),
            3,
            "the test, its waker, and one registration"
        );
    }
    assert_eq!(Arc::strong_count(&counted), 2);
}

/// Needs the count of turns: the READs of this provider are done before they can be waited for.
#[test]
fn a_loop_of_reads_that_are_ready_at_once_lets_other_tasks_run() {
    let stage = connected(LIBERAL);
    let others_ran = Rc::new(Cell::new(false));
    let flag = others_ran.clone();
    stage
        .world
        .runtime()
        .spawn(Box::pin(async move { flag.set(true) }));
    let scratch = LocalSpan {
        region: stage.local,
        offset: 0,
        size: 8,
    };
    stage.world.run(Box::pin(async move {
        let mut count = 0;
        while !others_ran.get() {
            count += 1;
            assert!(count < 10_000, "the other task never had its turn");
            let remote = RemoteAddress {
                address: stage.remote.address,
                rkey: stage.remote.rkey,
            };
            let mut bytes = [0; 8];
            let status = stage
                .client
                .read(
                    stage.qp,
                    &mut [ReadInto {
                        remote,
                        into: &mut bytes,
                    }],
                    scratch,
                    None,
                )
                .await;
            assert_eq!(status.expect("connected"), Status::Success);
        }
    }));
}

#[derive(Default)]
struct Numbers {
    seen: RefCell<Vec<u64>>,
}

impl Observer for Numbers {
    fn sent(&self, _: QueuePair, requests: &[WorkRequest]) {
        self.seen
            .borrow_mut()
            .extend(requests.iter().map(|request| request.wr_id));
    }
}

/// Needs the abandoned slots to be freed by their completion, and not before.
#[test]
fn slots_are_used_again_when_their_completion_has_come_and_not_before() {
    let stage = connected(PLAIN);
    // The server has no receive buffer, so what is sent stays on its way.
    let operations = [stage.send()];
    let abandon_four = || {
        for _ in 0..4 {
            let mut abandoned = pin!(stage.client.submit(stage.qp, &operations));
            assert!(
                abandoned
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()))
                    .is_pending()
            );
        }
        stage
            .numbers
            .seen
            .take()
            .into_iter()
            .map(|wr_id| wr_id >> 1)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        abandon_four(),
        [0, 1, 2, 3],
        "none is used again before its completion"
    );
    let region = stage
        .server
        .device()
        .allocate(64, Access::NONE)
        .expect("memory");
    let buffers = [0; 4].map(|wr_id| ReceiveRequest {
        wr_id,
        local: LocalSpan {
            region,
            offset: 0,
            size: 64,
        },
    });
    stage
        .server
        .device()
        .post_receive(ReceiveQueue::Own(QueuePair(7)), &buffers)
        .expect("the server's first queue pair");
    for _ in 0..4 {
        while stage.server.take_received().is_none() {
            stage.server.pump();
            stage.client.pump();
        }
    }
    stage.client.pump();
    let mut again = abandon_four();
    again.sort_unstable();
    assert_eq!(again, [0, 1, 2, 3], "and all are used again after it");
}

/// Needs the slot to keep what its batch holds, and to let go of it: whoever waits, nobody, or the queue pair is gone.
#[test]
fn what_reads_hold_is_let_go_when_they_have_ended_and_not_before() {
    let stage = connected(PLAIN);
    let scratch = LocalSpan {
        region: stage.local,
        offset: 0,
        size: 8,
    };
    let remote = RemoteAddress {
        address: stage.remote.address,
        rkey: stage.remote.rkey,
    };
    let held = Rc::new(());
    let give_up = || {
        let mut bytes = [0; 8];
        let mut reads = [ReadInto {
            remote,
            into: &mut bytes,
        }];
        let mut read = pin!(
            stage
                .client
                .read(stage.qp, &mut reads, scratch, Some(held.clone()))
        );
        assert!(
            read.as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
    };
    // What comes behind a message that nobody has a buffer for stays on its way.
    let send = || {
        stage
            .client
            .post(stage.qp, [stage.send()])
            .expect("room in the send queue")
    };
    send();
    give_up();
    assert_eq!(Rc::strong_count(&held), 2, "the READ is on its way");
    let region = stage
        .server
        .device()
        .allocate(64, Access::NONE)
        .expect("memory");
    let buffer = ReceiveRequest {
        wr_id: 0,
        local: LocalSpan {
            region,
            offset: 0,
            size: 64,
        },
    };
    stage
        .server
        .device()
        .post_receive(ReceiveQueue::Own(QueuePair(7)), &[buffer])
        .expect("the server's first queue pair");
    while stage.server.take_received().is_none() {
        stage.server.pump();
        stage.client.pump();
    }
    for _ in 0..10 {
        stage.client.pump();
    }
    assert_eq!(Rc::strong_count(&held), 1, "it has completed");
    send();
    give_up();
    stage
        .client
        .destroy_queue_pair(stage.qp)
        .expect("there is one");
    assert_eq!(Rc::strong_count(&held), 1, "nothing of it comes any more");
}

/// Needs the port to forget a destroyed queue pair: its number may come back.
#[test]
fn nothing_of_a_destroyed_queue_pair_is_taken_from_the_port() {
    let stage = connected(PLAIN);
    stage
        .client
        .device()
        .disconnect(stage.qp)
        .expect("connected");
    stage.client.pump();
    assert!(
        stage.client.has_activity(),
        "the port holds the end of the connection"
    );
    stage
        .client
        .destroy_queue_pair(stage.qp)
        .expect("it exists");
    assert_eq!(stage.client.take_event(), None);
}

/// The status of a batch whose future was polled by an executor that never pumps the port still arrives.
#[test]
fn a_port_that_nobody_pumps_is_pumped_by_who_waits() {
    let stage = connected(PLAIN);
    let operations = [stage.write()];
    let mut submission = pin!(stage.client.submit(stage.qp, &operations));
    let mut context = Context::from_waker(Waker::noop());
    let status = (0..1_000).find_map(|_| match submission.as_mut().poll(&mut context) {
        Poll::Ready(status) => Some(status.expect("accepted")),
        Poll::Pending => None,
    });
    assert_eq!(status, Some(Status::Success));
}
