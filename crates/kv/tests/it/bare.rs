//! Peers that use the fabric directly, without client or server: these may send any bytes.

use stonecast_fabric::{Port, QueuePair, QueuePairOptions};
use stonecast_kv::limits::PROTOCOL_VERSION;

/// A queue pair on `port` with room for `sends` and `receives`. A send that finds no buffer is retried
/// `rnr_retry_count` times.
pub fn bare_queue_pair(port: &Port, sends: u32, receives: u32, rnr_retry_count: u32) -> QueuePair {
    let options = QueuePairOptions {
        send_cq: port.send_cq(),
        receive_cq: port.receive_cq(),
        shared_receive_queue: None,
        windows: false,
        send_capacity: sends,
        receive_capacity: receives,
        rnr_retry_count,
        rnr_retry_delay_ns: 10_000,
    };
    port.device().create_queue_pair(options).unwrap()
}

/// The hello of a client.
pub fn proper_hello() -> Vec<u8> {
    let version = PROTOCOL_VERSION.to_le_bytes();
    [b"stonecdk".as_slice(), &version, &[0; 4]].concat()
}
