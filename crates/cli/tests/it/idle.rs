//! The processor time of an idle server with ten idle clients connected.

use std::rc::Rc;
use std::time::{Duration, Instant};

use stonecast_fabric::{BusyPoll, Port};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_kv::{CLIENT_COMPLETIONS, Client};

use crate::support::{Place, Server, Worker, as_worker, start_worker};

const CLIENTS: u32 = 10;
const WATCHED: Duration = Duration::from_secs(5);
/// The most processor time of the server: a hundredth of a core.
const SHARE_MAX: f64 = 0.01;

/// Needs the executor to park: an executor that spins takes a whole core.
#[test]
fn an_idle_server_with_ten_idle_clients_takes_less_than_a_hundredth_of_a_core() {
    if let Some(address) = as_worker() {
        return be_idle(&address);
    }
    let place = Place::in_volatile_memory();
    let server = Server::start(
        &place.pool(),
        ["--durability", "process", "--capacity", "64MiB"],
    );
    let test = "idle::an_idle_server_with_ten_idle_clients_takes_less_than_a_hundredth_of_a_core";
    let work = server.address();
    let words = place.path().join("words");
    let mut clients: Vec<Worker> = (0..CLIENTS)
        .map(|_| start_worker(test, &work, &words))
        .collect();
    let start = Instant::now();
    // The `stat` command is one more client.
    while server.client(&["stat", "--json"]).json()["clients"] != CLIENTS + 1 {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "the clients connect"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = processor_time(server.process());
    let watched = Instant::now();
    std::thread::sleep(WATCHED);
    let share =
        (processor_time(server.process()) - before).as_secs_f64() / watched.elapsed().as_secs_f64();
    assert!(
        clients.iter_mut().all(Worker::runs),
        "the clients are still there"
    );
    assert!(
        share < SHARE_MAX,
        "an idle server took {:.2} % of a core",
        share * 100.0
    );
}

/// Connects a client that does one operation and then nothing.
fn be_idle(address: &str) {
    let device = ShmDevice::new(ShmOptions::default()).expect("a device");
    let executor = BusyPoll::new(device.clone(), 20_000);
    let port = Rc::new(Port::new(device, CLIENT_COMPLETIONS).expect("a port"));
    executor.add_port(&port);
    executor.block_on(async {
        let client = Client::connect(port, executor.runtime(), address)
            .await
            .expect("the server is there");
        client.stat().await.expect("the server answers");
        std::future::pending::<()>().await;
    });
}

/// User and system time of a process so far.
fn processor_time(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("the process runs");
    // The times are fields 14 and 15 of proc(5), after the name in parentheses, in ticks of a hundredth of a second.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .expect("a name in parentheses")
        .1
        .split_whitespace()
        .collect();
    let ticks: u64 = fields[11..13]
        .iter()
        .map(|field| field.parse::<u64>().expect("a number"))
        .sum();
    Duration::from_millis(ticks * 10)
}
