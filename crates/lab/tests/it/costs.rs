//! The costs of each operation, compared with the recorded ones: `tests/costs.txt`.
//!
//! `STONECAST_WRITE_COSTS=1 cargo test --package stonecast-lab costs` updates the file; a commit
//! that changes it says which costs changed, and why.

use std::fs;
use std::path::Path;

use stonecast_fabric_sim::MachineProfile;
use stonecast_lab::sim::{Cost, costs, move_cost, print_costs, print_move_cost};

const UPDATE: &str = "STONECAST_WRITE_COSTS";
const EXPLANATION: &str = "\
What one operation of the KV store costs, one at a time. Sizes are bytes, times nanoseconds of virtual time.

trips     batches of work requests that the client posts and waits for
requests  work requests of client + server
doorbells of client + server, posting receive buffers again among them
sent, fetched, answer     bytes of the client's WRITEs and SENDs, of its READs, of the server's SENDs
lines, fences, syncs      cache lines that the server writes back, fences, syncs of files
nvm, media                bytes that reach the persistent medium in lines, and that it writes in blocks
server    CPU time of the server
latency   from call to answer, without the client's own CPU time
";

const MOVES: &str = "\
What a record costs that cleaning moves, on average: puts of one client into a pool of which two thirds are live, less the same
puts into a roomy one. Records that were left behind, headers and seals of freed segments are in it.
";

fn everything() -> Vec<(MachineProfile, Vec<Cost>)> {
    MachineProfile::ALL
        .into_iter()
        .map(|profile| (profile, costs(&profile).expect("nothing fails here")))
        .collect()
}

#[test]
fn operations_cost_what_they_did() {
    let tables: Vec<String> = everything()
        .iter()
        .map(|(profile, costs)| print_costs(profile, costs))
        .collect();
    let moves = MachineProfile::ALL.iter().map(|profile| {
        let cost = move_cost(profile).expect("nothing fails here");
        assert!(cost.moved > 1000 && cost.reads_by_clients == 0, "{cost:?}");
        print_move_cost(profile, &cost)
    });
    let found = format!(
        "{EXPLANATION}\n{}\n{MOVES}\n{}",
        tables.join("\n"),
        moves.collect::<String>()
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/costs.txt");
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, found).expect("the folder of the tests can be written");
        return;
    }
    let expected = fs::read_to_string(&path).expect("the file is a part of the sources");
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(
            found, expected,
            "\nif this is intended, update tests/costs.txt with {UPDATE}=1"
        );
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}

/// The promises of the design, whatever the profile: reads cost the server nothing, a write is one round trip that
/// carries its data once, and the medium gets the data once.
#[test]
fn reads_are_one_sided_and_writes_are_one_trip_with_one_copy() {
    for (profile, costs) in everything() {
        for cost in costs {
            let what = format!("{}: {cost:?}", profile.name);
            // The bytes of a put: stamp, tag and facts, the version that is compared, key, value.
            let stamp = 24;
            let moment = if cost.operation == "compare-and-put" {
                8
            } else {
                0
            };
            let key = if cost.operation == "compare-and-put" {
                21
            } else {
                25
            };
            let record = stamp + 16 + moment + key + cost.value_size as u64;
            let lines = record.next_multiple_of(64);
            match cost.operation {
                "get, there"
                | "get, place not known"
                | "get, absent"
                | "multi_get of 16"
                | "multi_get, places not known" => {
                    assert_eq!(
                        (cost.server_ns, cost.work_requests[1], cost.doorbells[1]),
                        (0, 0, 0),
                        "{what}"
                    );
                    assert_eq!(
                        (cost.bytes[0], cost.nvm_bytes, cost.fences),
                        (0, 0, 0),
                        "{what}"
                    );
                    // A known place lets one trip fetch bucket and record together; long values take another trip for
                    // the rest.
                    let trips = if cost.operation.ends_with("not known") {
                        2
                    } else {
                        1
                    };
                    assert!(
                        cost.round_trips == trips || cost.value_size > 4096,
                        "{what}"
                    );
                }
                "put, new" | "put, again" | "compare-and-put" => {
                    assert_eq!(
                        (cost.round_trips, cost.work_requests, cost.bytes[1]),
                        (1, [1, 1], 0),
                        "{what}"
                    );
                    assert_eq!(cost.bytes[0], record - stamp, "{what}");
                    // The lines of the record are written once. If the NIC's write bypasses the caches, the stamp
                    // follows as a separate line; if no software writes back, NIC and core meet in the caches. After
                    // each 16 KiB, a line tells the segment's neighbour which bytes are durable.
                    let witness = if cost.value_size >= 16 << 10 { 64 } else { 0 };
                    let apart = cost.nvm_bytes - lines;
                    assert!([0, 64, witness, 64 + witness].contains(&apart), "{what}");
                    assert!(cost.fences <= 1 && cost.syncs == 0, "{what}");
                }
                "put, published" => {
                    // The trips: bucket; start of the record; sequence; report, record and word.
                    assert_eq!(
                        (cost.round_trips, cost.work_requests, cost.answer_bytes),
                        (4, [6, 0], 0),
                        "{what}"
                    );
                    let report = 32;
                    assert_eq!(cost.bytes[0], record - 4 + report, "{what}");
                }
                "delete" => assert_eq!(
                    (cost.round_trips, cost.work_requests),
                    (1, [1, 1]),
                    "{what}"
                ),
                "delete, absent" | "compare-and-put, other version" => {
                    assert_eq!(cost.round_trips, 1, "{what}")
                }
                other => panic!("there is no rule for {other}"),
            }
        }
    }
}
