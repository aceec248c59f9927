//! A node that says a right hello, and then sends messages that are no entries.

use stonecast_fabric::{LocalSpan, Operation, Status};
use stonecast_session::{Endpoint, Queues};

use super::{ADDRESS, Backup, NONCE, Primary};

/// A connection without the rules of a link.
pub fn endpoint(primary: &Primary) -> Endpoint {
    let queues = Queues {
        send_capacity: 16,
        receive_capacity: 4,
        shared_receive_queue: None,
        windows: false,
        rnr_retry_count: 0,
        rnr_retry_delay_ns: 0,
    };
    Endpoint::new(&primary.port, queues).unwrap()
}

/// The hello of a node, byte by byte.
pub fn hello_bytes(node: &str) -> Vec<u8> {
    let mut said = b"stcappnd".to_vec();
    said.extend_from_slice(&1u32.to_le_bytes());
    said.extend_from_slice(NONCE.as_bytes());
    said.extend_from_slice(node.as_bytes());
    said
}

/// Connects as `node`, and sends `entries` all at once, whatever its credits are. The backup stands still meanwhile.
pub fn overspend(primary: &Primary, node: &str, backup: &Backup, entries: &[Vec<u8>]) {
    let endpoint = endpoint(primary);
    let size = entries.iter().map(Vec::len).sum::<usize>() as u64;
    let region = endpoint.allocate(size).unwrap();
    let said = hello_bytes(node);
    let world = &primary.world;
    world
        .block_on(async { endpoint.connect(ADDRESS, &said).await })
        .unwrap();
    // The backup has heard that the connection is established, and has given the first credits.
    primary.sleep(400_000);
    backup.process.pause(200_000);
    let mut offset = 0;
    let sends: Vec<_> = entries
        .iter()
        .map(|entry| {
            let memory = primary.port.device().memory(region);
            memory.write(offset, entry);
            let local = LocalSpan {
                region,
                offset,
                size: entry.len() as u32,
            };
            offset += entry.len() as u64;
            Operation::Send { local }
        })
        .collect();
    let sent = world.block_on(primary.port.submit(endpoint.qp(), &sends));
    assert_eq!(sent.unwrap(), Status::Success);
    primary.sleep(400_000);
}

/// Connects as `node`, sends `count` messages of `size` bytes that are no entries, and leaves.
pub fn babble(primary: &Primary, node: &str, (count, size): (usize, u32)) {
    let endpoint = endpoint(primary);
    let region = endpoint.allocate(size.into()).unwrap();
    let said = hello_bytes(node);
    let world = &primary.world;
    world
        .block_on(async { endpoint.connect(ADDRESS, &said).await })
        .unwrap();
    let local = LocalSpan {
        region,
        offset: 0,
        size,
    };
    let sends = vec![Operation::Send { local }; count];
    let sent = world.block_on(primary.port.submit(endpoint.qp(), &sends));
    assert_eq!(sent.unwrap(), Status::Success);
}
