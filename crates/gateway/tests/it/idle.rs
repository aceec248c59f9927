//! The cost of an idle gateway, and many connections.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stonecast_media::Durability;

use crate::support::{Client, Process, Reply, not_run};

/// Files that this process may have open; false if the system does not allow so many.
pub fn allow_files(count: u64) -> bool {
    let limit = getrlimit(Resource::Nofile);
    let enough = limit.current.is_none_or(|current| current >= count);
    enough
        || setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(count),
                maximum: limit.maximum,
            },
        )
        .is_ok()
}

fn clients(address: SocketAddr, count: usize) -> Vec<Client> {
    (0..count).map(|_| Client::connect(address)).collect()
}

/// Needs an idle thread to sleep.
#[test]
fn an_idle_gateway_burns_no_core() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start(directory.path(), Durability::Process);
    let mut client = Client::connect(process.address);
    assert_eq!(client.words("SET k v"), Reply::simple("OK"));
    std::thread::sleep(Duration::from_millis(300));
    let before = process.processor_seconds();
    std::thread::sleep(Duration::from_secs(2));
    let used = process.processor_seconds() - before;
    assert!(
        used < 0.2,
        "{used} seconds of processor time in 2 seconds of nothing"
    );
}

/// Needs buffers to go back to the stock.
#[test]
fn an_idle_connection_costs_less_than_32_kib() {
    let count = 1000;
    if !allow_files(count as u64 + 200) {
        return not_run(
            "idle::an_idle_connection_costs_less_than_32_kib",
            "too few open files allowed",
        );
    }
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start(directory.path(), Durability::Process);
    let use_once = |client: &mut Client| {
        let value = "x".repeat(2000);
        let set = format!("SET k {value}");
        let replies = client.pipeline(vec![set.as_str(); 16]);
        assert!(replies.iter().all(|reply| *reply == Reply::simple("OK")));
        assert_eq!(client.words("GET k").bytes().len(), 2000);
    };
    // The first connections pay for the memory that all connections share.
    let mut first = clients(process.address, 50);
    first.iter_mut().for_each(use_once);
    let before = process.private_memory();
    let mut all = clients(process.address, count);
    all.iter_mut().for_each(use_once);
    let each = process.private_memory().saturating_sub(before) / count as u64;
    println!("{each} bytes for each idle connection");
    assert!(each < 32 << 10, "{each} bytes for each idle connection");
}

#[test]
fn two_thousand_connections_pipeline_without_an_error() {
    let count = 2000;
    if !allow_files(count as u64 + 200) {
        return not_run(
            "idle::two_thousand_connections_pipeline_without_an_error",
            "too few open files allowed",
        );
    }
    let directory = tempfile::tempdir().unwrap();
    let process = Process::start(directory.path(), Durability::Process);
    let mut clients = clients(process.address, count);
    for round in 0..3 {
        for (index, client) in clients.iter_mut().enumerate() {
            let commands = (0..8).flat_map(|n| {
                [
                    format!("SET c{index}:{n} {round}:{n}"),
                    format!("GET c{index}:{n}"),
                ]
            });
            let bytes: Vec<u8> = commands
                .flat_map(|command| crate::support::request(command.split(' ')))
                .collect();
            client.send(bytes);
        }
        for client in &mut clients {
            for n in 0..8 {
                assert_eq!(client.reply(), Reply::simple("OK"));
                assert_eq!(client.reply(), Reply::bulk(format!("{round}:{n}")));
            }
        }
    }
}
