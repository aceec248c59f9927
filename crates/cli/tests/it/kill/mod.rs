//! kill -9 of server and clients at random moments under load: every acknowledged write is found.
//!
//! ```text
//!   this test    starts and kills; after each death of the server compares what is there with what was said
//!     server     the binary
//!     writers    puts and deletes on keys of their own; write down what they ask before, what was answered after
//!     reader     gets of all keys; writes down what it saw
//! ```
//!
//! A writer's notes are `write`s to a file, and outlive the writer. Each of its keys has one operation at a time. After
//! a death, a key therefore holds the last acknowledged operation or the one that was under way, and nothing older than
//! a value that was read (visible implies durable). A key whose operation was under way when its writer died is not
//! used until the server's next death: an operation without an answer may take effect later.
//!
//! A process that dies loses nothing that it stored in a mapping, so these tests need the code that makes a write count
//! and the code that finds the write again. The tests fail with each of these bugs: a stamp left out now and then, a
//! rebuilt index in which the older record of a key wins, a rebuilt index that forgets tombstones, sequence numbers
//! that start again. Power loss belongs to tests on a medium that can lose bytes.

mod batches;
pub mod model;
pub mod notes;
pub mod work;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};

use crate::support::{Place, Server, Worker, as_worker, start_worker, stonecast};
use model::Model;
use work::{WRITERS, Work};

/// The number of kills in one test.
const MOMENTS: usize = 200;
/// The capacity is small enough that the pool fills and is replaced several times, and large enough that most kills
/// meet a pool with room.
const CAPACITY: &str = "128MiB";
/// Small segments, so that many are opened, filled and sealed.
const SEGMENT_SIZE: &str = "1MiB";
/// A pool fuller than this is replaced by a new one, so that kills meet pools with room.
const FULL_ENOUGH: f64 = 0.6;

#[test]
fn every_acknowledged_write_survives_kills_on_a_disk() {
    run(
        "kill::every_acknowledged_write_survives_kills_on_a_disk",
        options("power", "trusted"),
        Place::on_disk,
    );
}

#[test]
fn every_acknowledged_write_survives_kills_in_volatile_memory() {
    let test = "kill::every_acknowledged_write_survives_kills_in_volatile_memory";
    run(
        test,
        options("process", "trusted"),
        Place::in_volatile_memory,
    );
}

/// The writers overwrite keys without the server: writes that a client publishes while the server is dead are also
/// found.
#[test]
fn every_acknowledged_write_survives_kills_of_clients_that_publish() {
    let test = "kill::every_acknowledged_write_survives_kills_of_clients_that_publish";
    run(
        test,
        options("process", "publishing"),
        Place::in_volatile_memory,
    );
}

fn run(test: &'static str, options: Options, place: fn() -> Place) {
    if let Some(work) = as_worker() {
        return work::run(&Work::parse(&work));
    }
    let seed = seed();
    eprintln!("STONECAST_TEST_SEED={seed}");
    let mut scene = Scene::new(test, options, place(), seed);
    let mut moments = 0;
    while moments < MOMENTS {
        moments += scene.kill_something();
        if scene.is_full() {
            scene.replace_pool();
        }
    }
    scene.finish();
}

/// The seed: from the environment to repeat a run, otherwise from the clock.
fn seed() -> u64 {
    match std::env::var("STONECAST_TEST_SEED") {
        Ok(seed) => seed.parse().expect("STONECAST_TEST_SEED is a number"),
        Err(_) => std::time::UNIX_EPOCH
            .elapsed()
            .expect("a clock after 1970")
            .as_micros() as u64,
    }
}

struct Scene {
    test: &'static str,
    options: Options,
    place: Place,
    random: Random,
    model: Model,
    server: Server,
    /// Writers, then the reader, each with the length of its notes at its start.
    workers: Vec<(Worker, u64)>,
    pools: u32,
    /// Writes that were acknowledged in pools before this one.
    acknowledged_before: u64,
    /// Counts starts of the server; notes are kept for each.
    opening: u32,
    /// Counts starts of workers, so that no two operations have one name.
    sessions: u32,
}

impl Scene {
    fn new(test: &'static str, options: Options, place: Place, seed: u64) -> Self {
        let pool = place.path().join("pool-0");
        let server = Server::start(&pool, options);
        let random = random_from_seed(seed);
        let mut scene = Self {
            test,
            options,
            place,
            random,
            model: Model::default(),
            server,
            workers: Vec::new(),
            pools: 0,
            acknowledged_before: 0,
            opening: 0,
            sessions: 0,
        };
        scene.start_workers();
        scene
    }

    /// Waits for a random moment under load, then kills; returns the number of kills.
    fn kill_something(&mut self) -> usize {
        let until = Duration::from_micros(self.random.random_range(0..60_000));
        std::thread::sleep(until);
        if self.random.random_bool(0.4) {
            let index = self.random.random_range(0..self.workers.len());
            self.workers[index].0.kill();
            self.workers[index] = self.start_worker(index);
            self.wait_for_load();
            return 1;
        }
        let kills = self.kill_server();
        self.start_workers();
        kills
    }

    /// Kills the server, sometimes also during recovery, and compares the pool's content with the notes.
    fn kill_server(&mut self) -> usize {
        self.server.kill();
        self.workers.clear();
        let mut kills = 1;
        while self.random.random_bool(0.25) {
            self.server = Server::launch(&self.pool(), self.options);
            std::thread::sleep(Duration::from_micros(self.random.random_range(0..20_000)));
            self.server.kill();
            kills += 1;
        }
        for worker in 0..=WRITERS {
            self.model
                .read_notes(&notes_of(self.place.path(), self.opening, worker));
        }
        self.opening += 1;
        self.server = Server::start(&self.pool(), self.options);
        let exported = self.server.client(&["export"]);
        self.model.compare(exported.text());
        kills
    }

    fn is_full(&self) -> bool {
        let stat = self.server.client(&["stat", "--json"]).json();
        let bytes = |name: &str| stat[name].as_f64().expect("stat has the field");
        bytes("used_bytes") / bytes("capacity_bytes") > FULL_ENOUGH
    }

    /// Ends the pool with a kill and a full check, and continues with a new one.
    fn replace_pool(&mut self) {
        self.verify();
        std::fs::remove_dir_all(self.pool()).expect("a pool that nobody serves can be removed");
        self.pools += 1;
        self.opening += 1;
        self.acknowledged_before += std::mem::take(&mut self.model).acknowledged;
        self.server = Server::start(&self.pool(), self.options);
        self.start_workers();
    }

    fn finish(mut self) {
        self.verify();
        let acknowledged = self.acknowledged_before + self.model.acknowledged;
        assert!(
            acknowledged > 1000,
            "there was load: {acknowledged} writes acknowledged"
        );
    }

    fn verify(&mut self) {
        self.kill_server();
        self.server.kill();
        let verified = stonecast(["verify".as_ref(), self.pool().as_os_str()]);
        assert_eq!(verified.code, Some(0), "{}", verified.stderr);
    }

    fn pool(&self) -> PathBuf {
        self.place.path().join(format!("pool-{}", self.pools))
    }

    fn start_workers(&mut self) {
        self.workers = (0..=WRITERS)
            .map(|index| self.start_worker(index))
            .collect();
        self.wait_for_load();
    }

    fn start_worker(&mut self, worker: usize) -> (Worker, u64) {
        self.sessions += 1;
        let notes = notes_of(self.place.path(), self.opening, worker);
        let noted = size_of(&notes);
        let work = Work {
            address: self.server.address(),
            notes,
            worker,
            session: self.sessions,
        };
        (
            start_worker(
                self.test,
                &work.to_string(),
                &self.place.path().join("words"),
            ),
            noted,
        )
    }

    /// Waits until every worker has written notes, so that the kill comes under load.
    fn wait_for_load(&mut self) {
        let start = Instant::now();
        for index in 0..self.workers.len() {
            let notes = notes_of(self.place.path(), self.opening, index);
            while size_of(&notes) == self.workers[index].1 {
                assert!(
                    self.workers[index].0.runs(),
                    "worker {index} ended: {}",
                    self.words()
                );
                assert!(
                    start.elapsed() < Duration::from_secs(60),
                    "worker {index} does nothing: {}",
                    self.words()
                );
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn words(&self) -> String {
        std::fs::read_to_string(self.place.path().join("words")).unwrap_or_default()
    }
}

/// The options of the servers.
type Options = [&'static str; 8];

fn options(durability: &'static str, clients: &'static str) -> Options {
    [
        "--durability",
        durability,
        "--clients",
        clients,
        "--capacity",
        CAPACITY,
        "--segment-size",
        SEGMENT_SIZE,
    ]
}

fn size_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn notes_of(place: &Path, opening: u32, worker: usize) -> PathBuf {
    place.join(format!("notes-{opening}-{worker}"))
}
