//! Memory goes to the next peer only after no window of the previous peer opens it.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::{
    Access, LocalSpan, MemoryRegion, Operation, QueuePair, RemoteAddress, Rkey, Status,
};
use stonecast_session::{
    Ending, Endpoint, Lease, Leases, Lessor, Opening, Revocations, Revoked, accept,
};

use crate::world::{Node, QUEUES, on_every_provider};

/// A cell of 64 bytes of the server's memory.
#[derive(Debug, PartialEq, Eq)]
struct Cell(u64);

/// A server with memory, and the queue pairs of its clients.
struct Landlord {
    node: Node,
    memory: MemoryRegion,
    revocations: Revocations<Cell>,
}

impl Landlord {
    fn new(node: Node) -> Self {
        node.listen();
        let memory = node
            .port
            .device()
            .allocate(4096, Access::NONE)
            .expect("memory");
        let (port, runtime) = (node.port.clone(), node.runtime.clone());
        Self {
            revocations: Revocations::new(port, runtime, 4),
            node,
            memory,
        }
    }

    /// A client that connects, and its queue pair here.
    async fn tenant(&self, node: &Node) -> (Tenant, QueuePair) {
        let endpoint = Endpoint::new(&node.port, QUEUES).expect("a queue pair");
        let local = endpoint.allocate(64).expect("memory");
        let connecting = endpoint.connect(&self.node.address, b"");
        let accepting = async {
            let (request, _) = self.node.request().await;
            accept(&self.node.port, request, |making| {
                making.queue_pair(QUEUES)?;
                Ok((Vec::new(), ()))
            })
        };
        let (said, accepted) = both(connecting, accepting).await;
        said.expect("accepted");
        (
            Tenant { endpoint, local },
            accepted.expect("the request waits").0,
        )
    }

    fn lessor(&self) -> Lessor<'_> {
        Lessor {
            port: &self.node.port,
            epoch: 5,
        }
    }

    /// An opening of all of the memory, and an opening behind its end.
    fn good_and_outside(&self) -> [Opening; 2] {
        let good = Opening::whole(self.memory, Access::REMOTE_WRITE);
        let outside = Opening {
            span: Span::new(4096, 64),
            ..good
        };
        [good, outside]
    }

    fn lease(&self, qp: QueuePair, cell: Cell) -> Lease<Cell> {
        let opening = Opening {
            region: self.memory,
            span: Span::new(cell.0 * 64, 64),
            access: Access::REMOTE_WRITE,
        };
        self.lessor()
            .grant(qp, cell, &[opening], self.node.runtime.now())
            .expect("a window")
    }

    async fn revoke(&self, lease: Lease<Cell>) -> Revoked<Cell> {
        self.revocations.begin(Ending {
            leases: vec![lease],
            ..Ending::default()
        });
        assert!(
            self.revocations.take_ended().is_empty(),
            "the ending has only begun"
        );
        while self.revocations.under_way() > 0 {
            self.node.runtime.sleep(10_000).await;
        }
        let mut ended = self.revocations.take_ended();
        let mut together = ended.pop().expect("the lease has ended");
        assert!(ended.is_empty() && together.unquiesced.is_empty());
        together.revoked.pop().expect("the lease is over")
    }

    fn byte(&self, cell: u64) -> u8 {
        let mut byte = [0];
        self.node
            .port
            .device()
            .memory(self.memory)
            .read(cell * 64, &mut byte);
        byte[0]
    }
}

struct Tenant {
    endpoint: Endpoint,
    local: MemoryRegion,
}

impl Tenant {
    /// Fills a cell of the server's memory with `byte`.
    async fn write(&self, landlord: &Landlord, rkey: Rkey, cell: u64, byte: u8) -> Status {
        let device = self.endpoint.port().device();
        device.memory(self.local).write(0, &[byte; 64]);
        let local = LocalSpan {
            region: self.local,
            offset: 0,
            size: 64,
        };
        let remote = RemoteAddress {
            address: landlord.memory.address + cell * 64,
            rkey,
        };
        let write = Operation::Write { local, remote };
        let status = self
            .endpoint
            .port()
            .submit(self.endpoint.qp(), &[write])
            .await;
        status.expect("the device accepts the batch")
    }
}

async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(move |context| {
        if first.is_none()
            && let std::task::Poll::Ready(done) = one.as_mut().poll(context)
        {
            first = Some(done);
        }
        if second.is_none()
            && let std::task::Poll::Ready(done) = other.as_mut().poll(context)
        {
            second = Some(done);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => std::task::Poll::Ready((a, b)),
            unfinished => {
                (first, second) = unfinished;
                std::task::Poll::Pending
            }
        }
    })
    .await
}

/// Needs the revocation in `end_leases`: without it the first tenant writes into memory of the second.
#[test]
fn a_cell_that_goes_to_the_next_tenant_is_closed_to_the_previous_one() {
    on_every_provider(|[server, one, other]| async move {
        let landlord = Landlord::new(server);
        let (first, first_qp) = landlord.tenant(&one).await;
        let lease = landlord.lease(first_qp, Cell(3));
        let rkey = lease.windows()[0];
        assert_eq!(first.write(&landlord, rkey, 3, 0xaa).await, Status::Success);
        assert_eq!(
            (landlord.byte(3), lease.epoch(), lease.owner()),
            (0xaa, 5, first_qp)
        );

        let revoked = landlord.revoke(lease).await;
        assert_eq!((revoked.object(), revoked.epoch()), (&Cell(3), 5));
        let (second, second_qp) = landlord.tenant(&other).await;
        let lease = landlord.lease(second_qp, revoked.into_object());
        let key = lease.windows()[0];
        assert_eq!(second.write(&landlord, key, 3, 0xbb).await, Status::Success);
        let late = first.write(&landlord, rkey, 3, 0xaa).await;
        assert_ne!(late, Status::Success);
        assert_eq!(landlord.byte(3), 0xbb);
        let _over = landlord.revoke(lease).await;
    });
}

/// Needs the windows of a partial grant to come back with the lease.
#[test]
fn a_lease_that_the_device_grants_in_part_ends_like_any_other() {
    on_every_provider(|[server, client, _]| async move {
        let landlord = Landlord::new(server);
        let (tenant, qp) = landlord.tenant(&client).await;
        let lessor = landlord.lessor();
        let [good, outside] = landlord.good_and_outside();
        let granted = lessor.grant(qp, Cell(0), &[good, outside], 0);
        let (part, _) = granted.expect_err("the second window lies outside its region");
        let rkey = part.windows()[0];
        assert_eq!(part.windows().len(), 1);
        assert_eq!(landlord.revoke(part).await.into_object(), Cell(0));
        assert_ne!(tenant.write(&landlord, rkey, 0, 1).await, Status::Success);
        assert_eq!(landlord.byte(0), 0);
    });
}

#[test]
fn an_object_without_windows_comes_out_of_its_lease_at_once() {
    on_every_provider(|[server, client, _]| async move {
        let landlord = Landlord::new(server);
        let (_tenant, qp) = landlord.tenant(&client).await;
        let lessor = landlord.lessor();
        let [good, outside] = landlord.good_and_outside();
        let (part, _) = lessor
            .grant(qp, Cell(0), &[outside], 0)
            .expect_err("outside");
        assert_eq!(part.into_unopened().ok(), Some(Cell(0)));
        let (part, _) = lessor
            .grant(qp, Cell(1), &[good, outside], 0)
            .expect_err("outside");
        let part = part.into_unopened().expect_err("it has a window");
        let _over = landlord.revoke(part).await;
    });
}

/// Needs leases to count until they are taken: a lease that has ended and waits to be taken is still in progress.
#[test]
fn a_lease_counts_as_ending_from_the_call_that_ends_it_until_it_is_taken() {
    on_every_provider(|[server, client, _]| async move {
        let landlord = Landlord::new(server);
        let (_tenant, qp) = landlord.tenant(&client).await;
        landlord.revocations.begin(Ending {
            leases: vec![landlord.lease(qp, Cell(0)), landlord.lease(qp, Cell(1))],
            ..Ending::default()
        });
        assert_eq!(landlord.revocations.leases_to_come(), 2);
        while landlord.revocations.under_way() > 0 {
            landlord.node.runtime.sleep(10_000).await;
        }
        assert_eq!(landlord.revocations.leases_to_come(), 2);
        let ended = landlord.revocations.take_ended();
        assert_eq!((ended.len(), landlord.revocations.leases_to_come()), (1, 0));
    });
}

/// Needs the disconnect first, and the end of the queue pair before that of its memory.
#[test]
fn everything_that_a_client_held_comes_back_when_its_connection_ends() {
    on_every_provider(|[server, client, _]| async move {
        let landlord = Rc::new(Landlord::new(server));
        let (tenant, qp) = landlord.tenant(&client).await;
        let mut leases: Leases<Cell, 4> = Leases::default();
        for number in 0..3 {
            let slot = leases.free_slot().expect("a slot");
            leases.hold(slot, landlord.lease(qp, Cell(number)));
        }
        let keys: Vec<Rkey> = leases.held().map(|lease| lease.windows()[0]).collect();
        let memory = landlord
            .node
            .port
            .device()
            .allocate(64, Access::NONE)
            .expect("memory");
        landlord.revocations.begin(Ending {
            connection: Some(qp),
            windows: Vec::new(),
            leases: leases.into_held().collect(),
            regions: vec![memory],
        });
        while landlord.revocations.under_way() > 0 {
            landlord.node.runtime.sleep(10_000).await;
        }
        let ended = landlord.revocations.take_ended();
        let cells: Vec<u64> = ended
            .into_iter()
            .flat_map(|together| together.revoked)
            .map(|revoked| revoked.into_object().0)
            .collect();
        assert_eq!(cells, [0, 1, 2]);
        assert_ne!(
            tenant.write(&landlord, keys[1], 1, 1).await,
            Status::Success
        );
        assert_eq!(landlord.byte(1), 0);
        let gone = landlord.node.port.destroy_queue_pair(qp);
        assert!(gone.is_err(), "the queue pair ended with the connection");
    });
}

#[test]
fn a_slot_that_was_reclaimed_stays_taken_until_its_owner_returns_it() {
    on_every_provider(|[server, client, _]| async move {
        let landlord = Landlord::new(server);
        let (_tenant, qp) = landlord.tenant(&client).await;
        let mut leases: Leases<Cell, 2> = Leases::default();
        leases.hold(0, landlord.lease(qp, Cell(7)));
        leases.hold(1, landlord.lease(qp, Cell(8)));
        let mut reclaimed = leases.reclaim(|lease| lease.object().0 == 7);
        let revoked = landlord.revoke(reclaimed.pop().expect("one")).await;
        assert!(reclaimed.is_empty() && leases.is_reclaimed(0) && !leases.is_reclaimed(1));
        assert!(leases.get(0).is_none() && leases.free_slot().is_none());
        assert!(
            leases.give_back(0).is_none(),
            "the lease was reclaimed before"
        );
        assert_eq!(leases.free_slot(), Some(0));
        leases.hold(0, landlord.lease(qp, revoked.into_object()));
        assert!(leases.give_back(2).is_none(), "there is no such slot");
        let returned = leases.give_back(0).expect("the lease is held");
        assert_eq!(landlord.revoke(returned).await.object(), &Cell(7));
        for lease in leases.into_held() {
            let _over = landlord.revoke(lease).await;
        }
    });
}
