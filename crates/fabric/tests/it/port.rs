//! Ports on the reference provider: behaviour that the contract cannot observe from outside.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use stonecast_fabric::contract::World as _;
use stonecast_fabric::decorate::{Observed, Observer};
use stonecast_fabric::{
    Access, ChangeNow, ConnectionEvent, DeviceError, Inbox, LocalSpan, MemoryRegion, Operation,
    Port, QueuePair, QueuePairOptions, ReadInto, ReceiveQueue, ReceiveRequest, RemoteAddress,
    Status, WorkRequest,
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

/// A waker that uses its own port when it is called and when it is dropped.
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

/// Needs the port to have nothing borrowed while a waker is called or dropped.
#[test]
fn a_waker_may_use_the_port_that_calls_or_drops_it() {
    let stage = connected(PLAIN);
    PORT.set(Some(stage.client.clone()));
    let fresh = || Waker::from(Arc::new(Reentrant));
    // Long enough for several polls; each poll replaces the previous waker.
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
    assert!(CALLED.get() >= 1, "the port dropped the first waker");
    let before = CALLED.get();
    for _ in 0..20 {
        stage.client.pump();
    }
    assert!(CALLED.get() > before, "the port called the second waker");
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

/// Needs the registration to end with its future, and only one registration per future.
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

/// Needs the count of turns: the READs of this provider are done before a task can wait for them.
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
            assert!(count < 10_000, "the other task never ran");
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

/// Needs the abandoned slots to be freed by their completion, and not earlier.
#[test]
fn slots_are_reused_after_their_completion_and_not_before() {
    let stage = connected(PLAIN);
    // The server has no receive buffer, so the messages stay outstanding.
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
        "no slot is reused before its completion"
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
    assert_eq!(again, [0, 1, 2, 3], "all slots are reused afterwards");
}

/// Needs the slot to keep the value that its batch holds, and to drop it in each case: a future waits, no future waits,
/// or the queue pair is gone.
#[test]
fn reads_drop_their_held_value_when_they_have_ended_and_not_before() {
    is_held_until_the_end(|stage, scratch, remote, held| {
        Box::pin(async move {
            let mut bytes = [0; 8];
            let mut reads = [ReadInto {
                remote,
                into: &mut bytes,
            }];
            let read = stage.client.read(stage.qp, &mut reads, scratch, held);
            read.await.map(drop)
        })
    });
}

/// Needs the hold: if the memory is lent again while an abandoned change is still sent from it, the change sends
/// foreign bytes to its target.
#[test]
fn changes_drop_their_held_value_when_they_have_ended_and_not_before() {
    is_held_until_the_end(|stage, scratch, remote, held| {
        Box::pin(async move {
            let mut changes = [ChangeNow::Write {
                remote,
                from: &[7; 8],
            }];
            let change = stage.client.change(stage.qp, &mut changes, scratch, held);
            change.await.map(drop)
        })
    });
}

type Given<'a> = Pin<Box<dyn Future<Output = Result<(), DeviceError>> + 'a>>;

/// Abandons the future that `begin` begins, and checks when it drops the value that it holds.
fn is_held_until_the_end(
    begin: impl for<'a> Fn(&'a Connected, LocalSpan, RemoteAddress, Option<Rc<dyn Any>>) -> Given<'a>,
) {
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
        let mut begun = begin(&stage, scratch, remote, Some(held.clone()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(begun.as_mut().poll(&mut context).is_pending());
    };
    // Requests behind a message without a buffer stay outstanding.
    let send = || {
        stage
            .client
            .post(stage.qp, [stage.send()])
            .expect("room in the send queue")
    };
    send();
    give_up();
    assert_eq!(Rc::strong_count(&held), 2, "the request is outstanding");
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
    assert_eq!(Rc::strong_count(&held), 1, "the request has completed");
    send();
    give_up();
    stage
        .client
        .destroy_queue_pair(stage.qp)
        .expect("there is one");
    assert_eq!(Rc::strong_count(&held), 1, "no completion follows");
}

/// Needs the port to forget a destroyed queue pair: its number may come back.
#[test]
fn the_port_forgets_everything_of_a_destroyed_queue_pair() {
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

/// The status of a batch arrives even if the executor that polls its future never pumps the port.
#[test]
fn a_waiting_future_pumps_a_port_that_its_executor_does_not_pump() {
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

/// A node that serves at `address` and has no connections yet.
fn serving(world: &LoopbackWorld, number: usize, address: &str) -> (Rc<Port>, MemoryRegion) {
    let port = world.node(number);
    let memory = port.device().allocate(64, Access::NONE).expect("memory");
    port.device().listen(address).expect("a free address");
    (port, memory)
}

/// A queue pair of `port` with one receive buffer, numbered `wr_id`.
fn queue_pair(port: &Port, memory: MemoryRegion, wr_id: u64) -> QueuePair {
    let options = QueuePairOptions {
        send_cq: port.send_cq(),
        receive_cq: port.receive_cq(),
        shared_receive_queue: None,
        windows: false,
        send_capacity: 4,
        receive_capacity: 4,
        rnr_retry_count: 1_000_000,
        rnr_retry_delay_ns: 1_000_000,
    };
    let qp = port.device().create_queue_pair(options).expect("one");
    let local = span(memory);
    port.device()
        .post_receive(ReceiveQueue::Own(qp), &[ReceiveRequest { wr_id, local }])
        .expect("room");
    qp
}

fn span(region: MemoryRegion) -> LocalSpan {
    LocalSpan {
        region,
        offset: 0,
        size: 8,
    }
}

/// Needs the routes: without them the server takes the answer that its own client waits for, and the client takes the
/// request that the server waits for.
#[test]
fn a_server_that_is_also_a_client_on_the_same_thread_keeps_its_arrivals_apart() {
    let world = LoopbackWorld::new(PLAIN, Fault::Nothing);
    let (here, here_memory) = serving(&world, 0, "here");
    let (there, there_memory) = serving(&world, 1, "there");
    let pump = || {
        for _ in 0..100 {
            here.pump();
            there.pump();
        }
    };
    // Each node is a client of the other.
    let connect = |port: &Rc<Port>, memory, address| {
        let inbox = Inbox::new(port);
        let qp = queue_pair(port, memory, 7);
        inbox.claim(qp);
        port.device().connect(qp, address, b"").expect("a listener");
        (inbox, qp)
    };
    let (to_there, upwards) = connect(&here, here_memory, "there");
    let (to_here, _) = connect(&there, there_memory, "here");
    pump();
    let accept = |port: &Port, memory| {
        let Some(ConnectionEvent::Request { request, .. }) = port.take_event() else {
            panic!("a request comes to the port itself")
        };
        let qp = queue_pair(port, memory, 9);
        port.device()
            .accept(request, qp, b"")
            .expect("the request waits");
        qp
    };
    let (clients_end_here, _) = (accept(&here, here_memory), accept(&there, there_memory));
    pump();
    for inbox in [&to_there, &to_here] {
        let event = inbox.take_event();
        assert!(
            matches!(event, Some(ConnectionEvent::Established { .. })),
            "{event:?}"
        );
        assert!(!inbox.has_activity());
    }
    for port in [&here, &there] {
        let event = port.take_event();
        assert!(
            matches!(event, Some(ConnectionEvent::Established { .. })),
            "{event:?}"
        );
    }
    // The node here requests as a client, and answers as a server.
    for qp in [upwards, clients_end_here] {
        let local = span(here_memory);
        here.post(qp, [Operation::Send { local }]).expect("room");
    }
    pump();
    let asked = there.take_received().expect("the request");
    let answered = to_here.take_received().expect("the answer");
    assert_eq!((asked.wr_id, answered.wr_id), (9, 7));
    assert!(!there.has_activity() && !to_here.has_activity());
}

/// Needs the arrivals to move with their queue pair, and the inbox to return the queue pair.
#[test]
fn earlier_arrivals_move_to_the_inbox_and_later_ones_return_to_the_port() {
    let stage = connected(PLAIN);
    stage
        .server
        .device()
        .disconnect(QueuePair(7))
        .expect("the server's first queue pair");
    stage.client.pump();
    assert!(stage.client.has_activity());
    let inbox = Inbox::new(&stage.client);
    inbox.claim(stage.qp);
    assert!(inbox.has_activity() && !stage.client.has_activity());
    assert!(matches!(
        inbox.take_event(),
        Some(ConnectionEvent::Disconnected { .. })
    ));
    drop(inbox);
    let buffers = [ReceiveRequest {
        wr_id: 0,
        local: span(stage.local),
    }];
    let _flushed = stage
        .client
        .device()
        .post_receive(ReceiveQueue::Own(stage.qp), &buffers);
    for _ in 0..10 {
        stage.client.pump();
    }
    assert_eq!(
        stage.client.take_received().map(|arrival| arrival.status),
        Some(Status::WorkRequestFlushed)
    );
}

/// Needs a waiting list for each inbox: a single list for the port wakes waiters that have nothing to take.
#[test]
fn a_waiter_at_an_inbox_is_woken_only_by_arrivals_there() {
    let stage = connected(PLAIN);
    let idle = Inbox::new(&stage.client);
    let busy = Inbox::new(&stage.client);
    busy.claim(stage.qp);
    let (at_idle, at_busy) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
    let mut idly = pin!(idle.activity());
    let mut busily = pin!(busy.activity());
    let wait = |woken: &Arc<Woken>, future: std::pin::Pin<&mut dyn Future<Output = ()>>| {
        let waker = Waker::from(woken.clone());
        future.poll(&mut Context::from_waker(&waker)).is_pending()
    };
    assert!(wait(&at_idle, idly.as_mut()) && wait(&at_busy, busily.as_mut()));
    stage
        .server
        .device()
        .disconnect(QueuePair(7))
        .expect("the server's first queue pair");
    stage.client.pump();
    let count = |woken: &Woken| woken.0.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((count(&at_idle), count(&at_busy)), (0, 1));
    assert!(!wait(&at_busy, busily.as_mut()) && wait(&at_idle, idly.as_mut()));
}

#[derive(Default)]
struct Woken(std::sync::atomic::AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}
