//! The cost of a one-sided READ, beside a bare loop over the same mapping that looks nothing up and checks nothing.
//!
//! `cargo run --release -p stonecast-fabric-shm --example reads`

use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

use stonecast_base::random_from_seed;
use stonecast_fabric::{
    Access, ConnectionEvent, Device, LocalSpan, MemoryRegion, Operation, QueuePair,
    QueuePairOptions, ReadInto, RemoteAddress, Status, WorkRequest,
};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_media::Region;

const REGION_SIZE: u64 = 256 << 20;
const BATCH: usize = 16;

fn main() {
    let folder = std::env::temp_dir().join(format!("stonecast-reads-{}", std::process::id()));
    let address = format!("shm:{}", folder.display());
    let (server, client) = (device(), device());
    server.listen(&address).expect("the address is free");
    let region = server
        .allocate(REGION_SIZE, Access::REMOTE_READ.and(Access::REMOTE_WRITE))
        .expect("memory");
    let memory = server.memory(region);
    for offset in (0..REGION_SIZE).step_by(4096) {
        memory.store(offset, offset);
    }
    let qp = connect(&server, &client, &address);
    let local = client.allocate(1 << 20, Access::NONE).expect("memory");
    map(&client, qp, region, local);

    let (mapping, start) = client
        .peer_memory(qp, at(region, 0))
        .expect("the region is mapped");
    assert_eq!(start, 0);
    let random = &mut random_from_seed(7);
    let places: Vec<u64> = (0..1 << 16)
        .map(|_| random_below(random, REGION_SIZE / 64 - 3) * 64)
        .collect();

    let mut into = [0u8; 4096];
    for size in [8usize, 64, 192, 1024, 4096] {
        let hot = per_operation(4_000_000, |index| {
            let remote = at(region, (index % 64) * 64);
            let status = client.read_now(
                qp,
                &mut [ReadInto {
                    remote,
                    into: &mut into[..size],
                }],
            );
            assert_eq!(black_box(status), Some(Status::Success));
            black_box(&into);
        });
        let bare = per_operation(4_000_000, |index| {
            mapping.read(black_box((index % 64) * 64), &mut into[..size]);
            black_box(&into);
        });
        println!("read_now of {size} B in cache: {hot:.1} ns, bare copy {bare:.1} ns");
    }
    let mut buffers = [[0u8; 192]; BATCH];
    let batches = 200_000;
    let batch = per_operation(batches, |index| {
        let first = index as usize * BATCH;
        let mut reads = buffers.each_mut().map(|into| ReadInto {
            remote: at(region, 0),
            into: &mut into[..],
        });
        for (read, place) in reads
            .iter_mut()
            .zip(&places[first % (places.len() - BATCH)..])
        {
            read.remote = at(region, *place);
        }
        assert_eq!(client.read_now(qp, &mut reads), Some(Status::Success));
    });
    let bare = per_operation(batches, |index| {
        let places = &places[index as usize * BATCH % (places.len() - BATCH)..][..BATCH];
        for place in places {
            mapping.prefetch(*place, 192);
        }
        for (into, place) in buffers.iter_mut().zip(places) {
            mapping.read(*place, into);
        }
        black_box(&buffers);
    });
    let each = |ns: f64| ns / BATCH as f64;
    println!(
        "batch of {BATCH} random 192-B reads: {:.1} ns each, bare prefetch and copy {:.1} ns each",
        each(batch),
        each(bare)
    );

    let request = |operation| WorkRequest {
        wr_id: 1,
        operation,
        signalled: false,
        fence: false,
    };
    let mut completions = Vec::new();
    let cq = client
        .create_completion_queue(64)
        .expect("a completion queue");
    let write = per_operation(1_000_000, |index| {
        let span = LocalSpan {
            region: local,
            offset: 0,
            size: 64,
        };
        let write = Operation::Write {
            local: span,
            remote: at(region, (index % 64) * 64),
        };
        client
            .post_send(qp, &[request(write)])
            .expect("there is room");
    });
    println!("post_send of an unsignalled 64-B WRITE: {write:.1} ns");
    let poll = per_operation(1_000_000, |_| {
        black_box(client.poll(cq, 16, &mut completions));
    });
    println!("poll of one idle connection: {poll:.1} ns");
}

fn device() -> Rc<ShmDevice> {
    ShmDevice::new(ShmOptions::default()).expect("a device")
}

fn at(region: MemoryRegion, offset: u64) -> RemoteAddress {
    RemoteAddress {
        address: region.address + offset,
        rkey: region.rkey,
    }
}

fn random_below(random: &mut stonecast_base::Random, limit: u64) -> u64 {
    use rand::RngExt;
    random.random_range(0..limit)
}

fn connect(server: &ShmDevice, client: &ShmDevice, address: &str) -> QueuePair {
    let new = |device: &ShmDevice| {
        let cq = device
            .create_completion_queue(1024)
            .expect("a completion queue");
        let options = QueuePairOptions {
            send_cq: cq,
            receive_cq: cq,
            shared_receive_queue: None,
            windows: false,
            send_capacity: 64,
            receive_capacity: 64,
            rnr_retry_count: 7,
            rnr_retry_delay_ns: 1_000_000,
        };
        device.create_queue_pair(options).expect("a queue pair")
    };
    let (theirs, ours) = (new(server), new(client));
    client
        .connect(ours, address, b"")
        .expect("connecting starts");
    loop {
        if let Some(ConnectionEvent::Request { request, .. }) = server.poll_connection() {
            server
                .accept(request, theirs, b"")
                .expect("it can be accepted");
        }
        if let Some(ConnectionEvent::Established { .. }) = client.poll_connection() {
            return ours;
        }
    }
}

/// Executes the first READ and WRITE, which fetch the region.
fn map(client: &ShmDevice, qp: QueuePair, region: MemoryRegion, local: MemoryRegion) {
    let span = LocalSpan {
        region: local,
        offset: 0,
        size: 8,
    };
    let read = Operation::Read {
        local: span,
        remote: at(region, 0),
    };
    let write = Operation::Write {
        local: span,
        remote: at(region, 0),
    };
    let request = |operation| WorkRequest {
        wr_id: 1,
        operation,
        signalled: false,
        fence: false,
    };
    client
        .post_send(qp, &[request(read), request(write)])
        .expect("there is room");
    let cq = client
        .create_completion_queue(1)
        .expect("a completion queue");
    while client
        .read_now(
            qp,
            &mut [ReadInto {
                remote: at(region, 0),
                into: &mut [0; 8],
            }],
        )
        .is_none()
    {
        client.poll(cq, 1, &mut Vec::new());
    }
}

/// Nanoseconds per operation over `count` operations, the best of five rounds.
fn per_operation(count: u64, mut operation: impl FnMut(u64)) -> f64 {
    let round = || {
        let start = Instant::now();
        (0..count).for_each(&mut operation);
        start.elapsed().as_nanos() as f64 / count as f64
    };
    std::iter::repeat_with(round)
        .take(5)
        .fold(f64::INFINITY, f64::min)
}
