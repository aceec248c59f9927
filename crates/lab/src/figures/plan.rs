//! The list of figures: the project's targets for speed, each with the ratio to reach.

use super::figure::{Definition, Direction, Judged};

const fn at_least(name: &'static str, what: &'static str, target: f64) -> Definition {
    Definition {
        name,
        what,
        unit: "op/s",
        judged: Judged::Ratio,
        target: Some(target),
        direction: Direction::AtLeast,
    }
}

/// Appends without a receiver's processor beside the least work of any append.
pub const APPEND_SHM_4: Definition = at_least(
    "append-shm-4",
    "appends of 64 B over shared memory, 4 senders, receiver asleep / plain copies under one counter",
    0.7,
);
/// GET beside the bare loop.
pub const GET_LIMIT: Definition = at_least(
    "get-limit",
    "GET zipfian / bare loop over the same memory",
    0.8,
);
/// GET beside the bare loop with the processor reading ahead: the speed that GETs of keys known
/// beforehand could reach.
pub const GET_OVERLAPPING: Definition = Definition {
    target: None,
    ..at_least(
        "get-overlapping",
        "GET zipfian / bare loop, operations overlapping",
        0.0,
    )
};
/// Many GETs at once beside GETs one by one.
pub const MULTI_GET: Definition = at_least(
    "multi-get",
    "multi_get of 16, uniform / GET one by one",
    3.0,
);
/// Two clients beside one.
pub const GET_TWO_CLIENTS: Definition =
    at_least("get-two-clients", "GET zipfian, 2 clients / 1 client", 1.8);
/// The server's part in a read, above the CPU time of an idle server.
pub const GET_SERVER_CPU: Definition = Definition {
    name: "get-server-cpu",
    what: "server CPU per GET, above that of an idle server",
    unit: "ns/op",
    judged: Judged::Excess,
    // The target is zero within the precision of the measurement: the wake-ups of an idle server fall into either
    // measurement.
    target: Some(0.5),
    direction: Direction::AtMost,
};
/// GET beside reads of LMDB, which are also loads, in a snapshot from the beginning of the run.
pub const GET_LMDB: Definition = at_least(
    "get-lmdb",
    "GET zipfian / LMDB in the same process, one snapshot for all reads",
    3.0,
);
/// GET beside reads of LMDB with the promise of a GET.
pub const GET_LMDB_LATEST: Definition = at_least(
    "get-lmdb-latest",
    "GET zipfian / LMDB in the same process, each read the latest value, copied",
    3.0,
);
/// GET beside redis-server, which answers requests.
pub const GET_REDIS: Definition = at_least(
    "get-redis",
    "GET zipfian / redis-server, one at a time",
    60.0,
);
/// The library's handle for one thread, which adds a time limit and an error with the effect of the operation.
pub const HANDLE_LOCAL: Definition = at_least(
    "handle-local",
    "library: GET of the local handle / of the store's client",
    0.98,
);
/// The library's client whose calls wait: each call is a turn of the executor.
pub const HANDLE_BLOCKING: Definition = Definition {
    target: None,
    ..at_least(
        "handle-blocking",
        "library: GET of the blocking client / of the store's client",
        0.0,
    )
};
/// The library's handle for programs on tokio, beside redis-server, each with one connection.
pub const HANDLE_TOKIO_64: Definition = at_least(
    "handle-tokio-64",
    "library: GET of 64 tokio tasks that share a client / redis-server, pipeline 64",
    1.0,
);
/// Writes that survive processes.
pub const PUT_REDIS: Definition = at_least(
    "put-redis",
    "PUT process, 16 in flight / redis no persistence, pipeline 16",
    2.5,
);
/// Writes that survive processes, of a client that publishes without the server.
pub const PUT_PUBLISHED: Definition = at_least(
    "put-published",
    "PUT process, published by the client, 16 in flight / redis no persistence, pipeline 16",
    5.0,
);
/// Durable writes, few at a time.
pub const PUT_DURABLE_16: Definition = at_least(
    "put-durable-16",
    "PUT power on a file, 16 in flight / redis appendfsync always",
    1.5,
);
/// Durable writes, many at a time.
pub const PUT_DURABLE_128: Definition = at_least(
    "put-durable-128",
    "PUT power on a file, 128 in flight / redis appendfsync always",
    3.0,
);
/// Writes into a pool that is cleaned all the time.
pub const PUT_CLEANING: Definition = at_least(
    "put-cleaning",
    "PUT process, 16 in flight, 80 % live data / a pool that never needs cleaning",
    0.7,
);
/// Writes while backups are taken of the same server: a slowdown of 1.3 at most.
pub const PUT_BACKUP: Definition = at_least(
    "put-backup",
    "PUT process, 16 in flight, beside one backup after the other / alone",
    0.77,
);
/// Recovery after a crash.
pub const RESTART_SCAN: Definition = Definition {
    name: "restart-scan",
    what: "recovery of a killed server's pool, bytes of log / s of one core",
    unit: "B/s",
    judged: Judged::Ours,
    target: Some(1e9),
    direction: Direction::AtLeast,
};
/// Memory of the server beside the pool's log and index.
pub const SERVER_MEMORY: Definition = Definition {
    name: "server-memory",
    what: "memory of the server beside log and index",
    unit: "MiB",
    judged: Judged::Ours,
    target: Some(64.0),
    direction: Direction::AtMost,
};

/// Through the gateway, one at a time.
pub const RESP_GET_1: Definition =
    at_least("resp-get-1", "gateway: GET / redis-server, pipeline 1", 0.9);
/// Through the gateway, some at a time.
pub const RESP_GET_16: Definition = at_least(
    "resp-get-16",
    "gateway: GET / redis-server, pipeline 16",
    1.0,
);
/// Through the gateway, many at a time.
pub const RESP_GET_128: Definition = at_least(
    "resp-get-128",
    "gateway: GET / redis-server, pipeline 128",
    1.0,
);
/// Writes through the gateway that survive processes.
pub const RESP_SET_16: Definition = at_least(
    "resp-set-16",
    "gateway: SET process / redis-server no persistence, pipeline 16",
    0.9,
);
/// Durable writes through the gateway.
pub const RESP_SET_DURABLE_16: Definition = at_least(
    "resp-set-durable-16",
    "gateway: SET power on a file / redis-server appendfsync always, pipeline 16",
    1.2,
);
/// Increments of one key by many connections.
pub const RESP_INCREMENT_50: Definition = at_least(
    "resp-incr-50",
    "gateway: INCR / SET of one key by 50 connections, process",
    0.8,
);
/// Memory of an idle connection.
pub const RESP_IDLE_MEMORY: Definition = Definition {
    name: "resp-idle-memory",
    what: "gateway: memory for each idle connection",
    unit: "KiB",
    judged: Judged::Ours,
    target: Some(32.0),
    direction: Direction::AtMost,
};
/// Errors of many connections at once.
pub const RESP_CONNECTIONS: Definition = Definition {
    name: "resp-2000-connections",
    what: "gateway: errors of 2,000 connections that pipeline 16 SETs and GETs at once",
    unit: "errors",
    judged: Judged::Ours,
    target: Some(0.0),
    direction: Direction::AtMost,
};

/// A change of a configuration beside a put into etcd.
pub const CONFIG_ETCD: Definition = Definition {
    name: "config-etcd",
    what: "change of a configuration through etcd / put of etcd's of as many bytes",
    unit: "us",
    judged: Judged::Ratio,
    target: Some(1.5),
    direction: Direction::AtMost,
};

/// Writes with three copies that survive processes, beside etcd's.
pub const NODES_PUT_ETCD: Definition = at_least(
    "nodes-put-etcd",
    "3 nodes: PUT process, 16 in flight / etcd of 3 members in memory, 16 in flight",
    20.0,
);
/// Writes with three copies that survive processes, beside those of redis-server.
pub const NODES_PUT_REDIS: Definition = at_least(
    "nodes-put-redis",
    "3 nodes: PUT process, 16 in flight / redis with 2 replicas, pipeline 16 and WAIT 2",
    1.5,
);
/// Durable writes with three copies on one disk.
pub const NODES_PUT_DURABLE_ETCD: Definition = at_least(
    "nodes-put-durable-etcd",
    "3 nodes: PUT power on files, 128 in flight / etcd of 3 members, 128 in flight",
    10.0,
);
/// Reads of a store with three copies, beside those of a server alone.
pub const NODES_GET: Definition = at_least(
    "nodes-get",
    "3 nodes: GET zipfian, the lease checked / GET of a server alone",
    0.93,
);
/// The nodes' part in a read, above the CPU time of idle nodes.
pub const NODES_GET_SERVER_CPU: Definition = Definition {
    name: "nodes-get-server-cpu",
    what: "3 nodes: CPU of all nodes per GET, above that of idle ones",
    ..GET_SERVER_CPU
};
/// The part of a core that a node takes for itself.
pub const NODES_IDLE: Definition = Definition {
    name: "nodes-idle",
    what: "3 nodes: CPU of the busiest of them without clients",
    unit: "% of a core",
    judged: Judged::Ours,
    target: Some(2.0),
    direction: Direction::AtMost,
};

/// All figures, in the order of the table.
pub const DEFINITIONS: [Definition; 35] = [
    APPEND_SHM_4,
    GET_LIMIT,
    GET_OVERLAPPING,
    MULTI_GET,
    GET_TWO_CLIENTS,
    GET_SERVER_CPU,
    GET_LMDB,
    GET_LMDB_LATEST,
    GET_REDIS,
    HANDLE_LOCAL,
    HANDLE_BLOCKING,
    HANDLE_TOKIO_64,
    PUT_REDIS,
    PUT_PUBLISHED,
    PUT_DURABLE_16,
    PUT_DURABLE_128,
    PUT_CLEANING,
    PUT_BACKUP,
    RESTART_SCAN,
    SERVER_MEMORY,
    RESP_GET_1,
    RESP_GET_16,
    RESP_GET_128,
    RESP_SET_16,
    RESP_SET_DURABLE_16,
    RESP_INCREMENT_50,
    RESP_IDLE_MEMORY,
    RESP_CONNECTIONS,
    CONFIG_ETCD,
    NODES_PUT_ETCD,
    NODES_PUT_REDIS,
    NODES_PUT_DURABLE_ETCD,
    NODES_GET,
    NODES_GET_SERVER_CPU,
    NODES_IDLE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_figures_share_a_name() {
        let mut names = DEFINITIONS.map(|definition| definition.name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
