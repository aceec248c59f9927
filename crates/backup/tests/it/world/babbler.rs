//! A node that says a right hello, and then sends messages that are no entries.

use stonecast_fabric::{LocalSpan, Operation, Status};
use stonecast_session::{Endpoint, Queues};

use super::{ADDRESS, NONCE, Primary};

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
