//! The object that `bench ycsb --json` prints.

use serde::Serialize;

/// The result of a run. The field names are an interface, which scripts read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct YcsbResult {
    /// Mix of operations: `a`, `b`, `c`, `update-only`.
    pub workload: String,
    /// The fabric: `shm`, `verbs`.
    pub fabric: String,
    /// Client threads, each with a connection of its own.
    pub clients: u32,
    /// Operations of one client in flight at a time.
    pub in_flight: u32,
    /// Keys in the store.
    pub keys: u64,
    /// Bytes of a value.
    pub value_size: u64,
    /// Operations that ended.
    pub ops: u64,
    /// Wall time of the measured part.
    pub seconds: f64,
    /// `ops` for each of `seconds`.
    pub ops_per_s: f64,
    /// Median latency, of the operations that were timed.
    pub p50_ns: u64,
    /// Latency that 99 % did not exceed.
    pub p99_ns: u64,
    /// Latency that 99.9 % did not exceed.
    pub p999_ns: u64,
    /// Operations that failed.
    pub errors: u64,
    /// CPU time of the whole server process for one operation. `null` if the server may be on another machine.
    pub server_cpu_ns_per_op: Option<f64>,
    /// CPU time of the client threads for one operation.
    pub client_cpu_ns_per_op: f64,
    /// The bare loop of the same run, by as many threads: the speed of this memory without any store. `null` if a GET
    /// is not two reads, as for values of many kilobytes, and for a server with several shards.
    pub limit_ops_per_s: Option<f64>,
    /// Keys that were read by their remembered places, in one round trip.
    pub location_hits: u64,
    /// Keys that were read otherwise.
    pub location_misses: u64,
}

impl YcsbResult {
    /// The names of the fields, in their order.
    pub const FIELDS: [&str; 18] = [
        "workload",
        "fabric",
        "clients",
        "in_flight",
        "keys",
        "value_size",
        "ops",
        "seconds",
        "ops_per_s",
        "p50_ns",
        "p99_ns",
        "p999_ns",
        "errors",
        "server_cpu_ns_per_op",
        "client_cpu_ns_per_op",
        "limit_ops_per_s",
        "location_hits",
        "location_misses",
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_object_has_exactly_the_fields_that_scripts_read_in_their_order() {
        let result = YcsbResult {
            workload: "c".into(),
            fabric: "shm".into(),
            clients: 1,
            in_flight: 1,
            keys: 10,
            value_size: 100,
            ops: 5,
            seconds: 2.0,
            ops_per_s: 2.5,
            p50_ns: 1,
            p99_ns: 2,
            p999_ns: 3,
            errors: 0,
            server_cpu_ns_per_op: Some(0.0),
            client_cpu_ns_per_op: 1.5,
            limit_ops_per_s: Some(3.0),
            location_hits: 4,
            location_misses: 1,
        };
        let expected = "{\"workload\":\"c\",\"fabric\":\"shm\",\"clients\":1,\"in_flight\":1,\"keys\":10,\"value_size\":100,\
             \"ops\":5,\"seconds\":2.0,\"ops_per_s\":2.5,\"p50_ns\":1,\"p99_ns\":2,\"p999_ns\":3,\"errors\":0,\
             \"server_cpu_ns_per_op\":0.0,\"client_cpu_ns_per_op\":1.5,\"limit_ops_per_s\":3.0,\
             \"location_hits\":4,\"location_misses\":1}";
        let printed = serde_json::to_string(&result).unwrap();
        assert_eq!(printed, expected);
        let names = printed
            .split('"')
            .filter(|part| YcsbResult::FIELDS.contains(part));
        assert!(names.eq(YcsbResult::FIELDS));
        assert_eq!(printed.matches("\":").count(), YcsbResult::FIELDS.len());
    }
}
