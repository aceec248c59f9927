//! Peers that write nonsense into the memory that they share with a device. The device ends that connection with an
//! error; other connections of the same device never notice, and nothing panics.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use stonecast_fabric::{
    Access, CompletionQueue, ConnectionEvent, Device, DisconnectCause, LocalSpan, MemoryRegion,
    MultiPacketOptions, Operation, QueuePair, QueuePairOptions, ReadInto, ReceiveQueue,
    ReceiveRequest, RemoteAddress, Rkey, SharedReceiveQueueOptions, Status, WorkRequest,
};
use stonecast_media::{MappedRegion, Region};

use crate::key_table::{Key, key_offset};
use crate::process_tests::{Stage, stage};
use crate::{ShmDevice, ShmOptions};

const ALL: Access = Access::REMOTE_READ
    .and(Access::REMOTE_WRITE)
    .and(Access::REMOTE_ATOMIC)
    .and(Access::REMOTE_FLUSH);

/// A device that is attacked, its attacker, and an honest peer of it.
struct Scene {
    victim: Rc<ShmDevice>,
    attacker: Rc<ShmDevice>,
    honest: Rc<ShmDevice>,
    /// The victim's queue pairs: to the attacker, to the honest peer.
    attacked: QueuePair,
    healthy: QueuePair,
    /// The peers' queue pairs.
    attacking: QueuePair,
    relying: QueuePair,
    cq: CompletionQueue,
    /// The last field, so that the devices are dropped before the next test begins.
    _stage: Stage,
}

fn device() -> (Rc<ShmDevice>, CompletionQueue) {
    let device = ShmDevice::new(ShmOptions::default()).unwrap();
    let cq = device.create_completion_queue(256).unwrap();
    (device, cq)
}

fn options(cq: CompletionQueue) -> QueuePairOptions {
    QueuePairOptions {
        send_cq: cq,
        receive_cq: cq,
        shared_receive_queue: None,
        windows: false,
        send_capacity: 16,
        receive_capacity: 16,
        rnr_retry_count: 1_000_000,
        rnr_retry_delay_ns: 1_000_000,
    }
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

fn scene(with_append: bool) -> Scene {
    let stage = stage();
    let (victim, cq) = device();
    victim.listen(&stage.address).unwrap();
    let srq = with_append.then(|| {
        let options = SharedReceiveQueueOptions {
            capacity: 4,
            multi_packet: Some(MultiPacketOptions::telling(64)),
            in_order: false,
        };
        victim.create_shared_receive_queue(options).unwrap()
    });
    let call = |shared| {
        let (peer, peer_cq) = device();
        let ours = peer.create_queue_pair(options(peer_cq)).unwrap();
        let theirs = victim
            .create_queue_pair(QueuePairOptions {
                shared_receive_queue: shared,
                ..options(cq)
            })
            .unwrap();
        peer.connect(ours, &stage.address, b"").unwrap();
        let request = until("a request", || match victim.poll_connection()? {
            ConnectionEvent::Request { request, .. } => Some(request),
            _ => None,
        });
        victim.accept(request, theirs, b"").unwrap();
        until("a connection", || peer.poll_connection());
        until("a connection", || victim.poll_connection());
        (peer, ours, theirs)
    };
    let (attacker, attacking, attacked) = call(srq);
    let (honest, relying, healthy) = call(None);
    Scene {
        _stage: stage,
        victim,
        attacker,
        honest,
        attacked,
        healthy,
        attacking,
        relying,
        cq,
    }
}

impl Scene {
    /// The connection area of the attacker, which may write anything there, and its direction.
    fn area(
        &self,
    ) -> (
        Rc<MappedRegion>,
        crate::layout::Direction,
        crate::layout::Direction,
    ) {
        let state = self.attacker.state.borrow();
        let connection = state
            .qps
            .get(self.attacking.0)
            .unwrap()
            .connection
            .as_ref()
            .unwrap();
        (connection.area.clone(), connection.out, connection.inward)
    }

    /// The victim notices, ends that connection, and serves the honest peer as before.
    fn assert_contained(&self) {
        let cause = until("the end of the attacker's connection", || {
            self.victim.poll(self.cq, 16, &mut Vec::new());
            match self.victim.poll_connection()? {
                ConnectionEvent::Disconnected { qp, cause } if qp == self.attacked => Some(cause),
                other => panic!("unexpected: {other:?}"),
            }
        });
        assert_eq!(cause, DisconnectCause::QueuePairError);
        let region = self.victim.allocate(4096, Access::NONE).unwrap();
        let local = LocalSpan {
            region,
            offset: 0,
            size: 64,
        };
        self.victim
            .post_receive(
                ReceiveQueue::Own(self.healthy),
                &[ReceiveRequest { wr_id: 5, local }],
            )
            .unwrap();
        let region = self.honest.allocate(4096, Access::NONE).unwrap();
        let send = Operation::Send {
            local: LocalSpan {
                region,
                offset: 0,
                size: 8,
            },
        };
        self.honest
            .post_send(self.relying, &[request(send)])
            .unwrap();
        let mut found = Vec::new();
        until("an honest message", || {
            (self.victim.poll(self.cq, 1, &mut found) > 0).then_some(())
        });
        assert_eq!(
            (found[0].qp, found[0].wr_id, found[0].status),
            (self.healthy, 5, Status::Success)
        );
    }

    /// The status of a post of the victim to the attacker.
    fn status_of(&self, operation: Operation) -> Status {
        self.victim
            .post_send(self.attacked, &[request(operation)])
            .unwrap();
        let mut found = Vec::new();
        until("a completion", || {
            (self.victim.poll(self.cq, 1, &mut found) > 0).then_some(())
        });
        found[0].status
    }

    fn post_receive(&self) -> MemoryRegion {
        let region = self.victim.allocate(1 << 17, Access::NONE).unwrap();
        let local = LocalSpan {
            region,
            offset: 0,
            size: 1 << 17,
        };
        self.victim
            .post_receive(
                ReceiveQueue::Own(self.attacked),
                &[ReceiveRequest { wr_id: 9, local }],
            )
            .unwrap();
        region
    }
}

fn request(operation: Operation) -> WorkRequest {
    WorkRequest {
        wr_id: 1,
        operation,
        signalled: true,
        fence: false,
    }
}

/// Needs the checks of the consumer.
#[test]
fn nonsense_in_the_ring_ends_the_connection() {
    let attacks: [fn(&MappedRegion, crate::ring::RingLayout); 6] = [
        |area, ring| area.store(ring.tail, 1),
        |area, ring| area.store(ring.tail, u64::MAX),
        |area, ring| area.store(ring.tail, ring.capacity + 64),
        |area, ring| area.store(ring.tail, 64),
        |area, ring| {
            area.store(ring.data, 1 | 0xffff_ffff << 32);
            area.store(ring.tail, ring.capacity);
        },
        |area, ring| {
            area.store(ring.data, 1 | 1000 << 32);
            area.store(ring.tail, 64);
        },
    ];
    for attack in attacks {
        let scene = scene(false);
        scene.post_receive();
        let (area, out, _) = scene.area();
        attack(&area, out.ring());
        scene.assert_contained();
    }
}

/// Needs the check of the producer.
#[test]
fn a_nonsense_acknowledgement_ends_the_connection() {
    let scene = scene(false);
    let (area, _, inward) = scene.area();
    let region = scene.victim.allocate(4096, Access::NONE).unwrap();
    area.store(inward.ring().head, 1 << 40);
    let send = Operation::Send {
        local: LocalSpan {
            region,
            offset: 0,
            size: 8,
        },
    };
    scene
        .victim
        .post_send(scene.attacked, &[request(send)])
        .unwrap();
    scene.assert_contained();
}

#[test]
fn an_unprovoked_verdict_fails_only_outstanding_requests() {
    let scene = scene(false);
    let (area, _, inward) = scene.area();
    area.store(inward.verdict(), u64::MAX);
    let region = scene.victim.allocate(4096, Access::NONE).unwrap();
    let send = Operation::Send {
        local: LocalSpan {
            region,
            offset: 0,
            size: 8,
        },
    };
    scene
        .victim
        .post_send(scene.attacked, &[request(send)])
        .unwrap();
    scene.assert_contained();
}

/// A key that promises more than exists. Needs the checks against the actual mapping: without them the copy panics.
#[test]
fn false_keys_open_nothing() {
    let lies: [fn(Key) -> Key; 7] = [
        |key| Key {
            size: 1 << 40,
            ..key
        },
        |key| Key {
            size: u64::MAX,
            address: 0,
            ..key
        },
        |key| Key {
            offset: 1 << 40,
            ..key
        },
        |key| Key {
            offset: u64::MAX - 4,
            ..key
        },
        |key| Key { region: 77, ..key },
        |key| Key {
            queue_pair: 12345,
            ..key
        },
        |key| Key {
            offset: 8190,
            ..key
        },
    ];
    for lie in lies {
        for writes in [false, true] {
            let scene = scene(false);
            let region = scene.attacker.allocate(8192, ALL).unwrap();
            let (rkey, address) = {
                let state = &mut *scene.attacker.state.borrow_mut();
                let key = lie(*state.keys.get(region.rkey).unwrap());
                (state.keys.insert(key).unwrap(), key.address)
            };
            // The last bytes of the actual region, and some more.
            let far = if address == 0 {
                1 << 41
            } else {
                address + 8184
            };
            let own = scene.victim.allocate(4096, Access::NONE).unwrap();
            let local = LocalSpan {
                region: own,
                offset: 0,
                size: 64,
            };
            let remote = RemoteAddress { address: far, rkey };
            let mut into = [0; 64];
            let read_now = scene.victim.read_now(
                scene.attacked,
                &mut [ReadInto {
                    remote,
                    into: &mut into,
                }],
            );
            assert_eq!(read_now, None, "unusual READs are left to posted READs");
            let operation = if writes {
                Operation::Write { local, remote }
            } else {
                Operation::Read { local, remote }
            };
            assert_eq!(scene.status_of(operation), Status::RemoteAccess);
            scene.assert_contained();
        }
    }
}

#[test]
fn a_key_with_unknown_rights_opens_nothing() {
    let scene = scene(false);
    let region = scene.attacker.allocate(8192, ALL).unwrap();
    let table = scene.attacker.state.borrow().keys.memory().clone();
    let at = key_offset(region.rkey);
    Region::store(&*table, at, Region::load(&*table, at) | 0xff << 32);
    let own = scene.victim.allocate(4096, Access::NONE).unwrap();
    let local = LocalSpan {
        region: own,
        offset: 0,
        size: 64,
    };
    let remote = RemoteAddress {
        address: region.address,
        rkey: region.rkey,
    };
    assert_eq!(
        scene.status_of(Operation::Read { local, remote }),
        Status::RemoteAccess
    );
    assert_eq!(
        scene.status_of(Operation::Read {
            local,
            remote: RemoteAddress {
                address: 0,
                rkey: Rkey(0)
            }
        }),
        Status::WorkRequestFlushed
    );
}

/// Needs the checks of the append queue's receiver.
#[test]
fn nonsense_in_the_append_queue_ends_the_connections_that_use_it() {
    let scene = scene(true);
    {
        let state = scene.attacker.state.borrow();
        let connection = state
            .qps
            .get(scene.attacking.0)
            .unwrap()
            .connection
            .as_ref()
            .unwrap();
        let append = connection.append.as_ref().unwrap();
        Region::store(&append.memory, 0, u64::MAX);
    }
    scene.assert_contained();
}

/// A file that its owner can truncate is mapped only if this side made the call, or for its own user: touching a
/// truncated part would kill this process. Needs `trusts_files`.
#[test]
fn memory_that_a_stranger_can_truncate_is_not_mapped() {
    let stage = stage();
    let (strange, _) = device();
    let victim = ShmDevice::new(ShmOptions {
        copying_only: true,
        ..ShmOptions::default()
    })
    .unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(8192).unwrap();
    let memory = MappedRegion::map(file.into(), 0, 8192, stonecast_media::Writable::Yes).unwrap();
    let region = strange
        .register(Rc::new(memory), Access::REMOTE_READ)
        .unwrap();
    for victim_calls in [true, false] {
        let address = format!("{}{victim_calls}", stage.address);
        let (caller, server) = if victim_calls {
            (&victim, &strange)
        } else {
            (&strange, &victim)
        };
        server.listen(&address).unwrap();
        let new = |device: &ShmDevice| {
            let cq = device.create_completion_queue(16).unwrap();
            (device.create_queue_pair(options(cq)).unwrap(), cq)
        };
        let ((calling, calling_cq), (called, called_cq)) = (new(caller), new(server));
        caller.connect(calling, &address, b"").unwrap();
        let asked = until("a request", || match server.poll_connection()? {
            ConnectionEvent::Request { request, .. } => Some(request),
            _ => None,
        });
        server.accept(asked, called, b"").unwrap();
        until("a connection", || caller.poll_connection());
        let (qp, cq) = if victim_calls {
            (calling, calling_cq)
        } else {
            (called, called_cq)
        };
        let own = victim.allocate(4096, Access::NONE).unwrap();
        let remote = RemoteAddress {
            address: region.address,
            rkey: region.rkey,
        };
        let read = Operation::Read {
            local: LocalSpan {
                region: own,
                offset: 0,
                size: 64,
            },
            remote,
        };
        victim.post_send(qp, &[request(read)]).unwrap();
        let mut found = Vec::new();
        until("a completion", || {
            (victim.poll(cq, 1, &mut found) > 0).then_some(())
        });
        let expected = if victim_calls {
            Status::Success
        } else {
            Status::RemoteOperation
        };
        assert_eq!(found[0].status, expected);
    }
}

/// Needs the check whether the connection is quiet: a peer that enters again finds the connection closed, but may be
/// stopped before it has left, and would delay every revocation for longer than the connection lasts.
#[test]
fn a_quiet_peer_that_is_inside_again_delays_no_revocation() {
    let scene = scene(false);
    let mut context = Context::from_waker(Waker::noop());
    let regions = [(); 2].map(|()| scene.victim.allocate(4096, ALL).unwrap());
    until("quiet", || {
        let quiet = scene.victim.poll_quiesce(scene.attacked, &mut context);
        quiet.is_ready().then_some(())
    });
    let (area, out, _) = scene.area();
    let entered = area.load(out.announcement()) | 1;
    area.store(out.announcement(), entered);
    let mut revoke = |region: MemoryRegion| {
        let revoked = scene.victim.poll_invalidate(region.rkey, &mut context);
        assert!(matches!(revoked, Poll::Ready(Ok(()))), "{revoked:?}");
    };
    revoke(regions[0]);
    scene.victim.destroy_queue_pair(scene.attacked).unwrap();
    revoke(regions[1]);
}
