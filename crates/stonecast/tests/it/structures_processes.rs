//! A back-end, a writer and readers in processes of their own, killed and stopped at random moments.
//!
//! The test binary runs itself again as each of them; an environment variable chooses the part. The writer prints the
//! number of each update that was acknowledged.
//!
//! `STONECAST_STRUCTURES_KILLS=200` sets the number of kills, of which a campaign has more than CI; a quarter as many
//! processes are stopped.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use stonecast::Durability;
use stonecast::structures::{
    BTree, Connection, Cursor, Error, MvBTree, Queue, Server, Session, Transaction, connect,
    connect_blocking,
};
use stonecast_base::{Random, random_from_seed};

const PART: &str = "STONECAST_TEST_PART";
const DATA: &str = "STONECAST_TEST_DATA";
const LEASE: Duration = Duration::from_millis(100);
/// The number of kills, unless [`KILLS_WANTED`] names another one.
const KILLS: u32 = 40;
const KILLS_WANTED: &str = "STONECAST_STRUCTURES_KILLS";
/// Kills for each stop.
const KILLS_PER_STOP: u32 = 4;
/// Bytes of the pool for each kill: updates between two of them stay.
const CAPACITY_PER_KILL: u64 = 1 << 20;

type Index = BTree<u64, u64>;
type Jobs = Queue<u64>;
type Accounts = MvBTree<u64, Vec<u8>>;

/// Bytes of each value of the accounts.
const VERSION_SIZE: usize = 20_000;
/// The words before the number of a job that a consumer has, and of one that is done.
const TAKEN: &str = "the consumer has job";
const DONE: &str = "the consumer is done with job";
/// Jobs of a queue.
const JOBS: u64 = 600;
/// The line by which a holder of a snapshot says that it has read the snapshot.
const HOLDS: &str = "the snapshot is held";

fn kills() -> u32 {
    let wanted = std::env::var(KILLS_WANTED).ok();
    wanted.map_or(KILLS, |kills| kills.parse().expect("a number of kills"))
}

fn value_of(key: u64) -> u64 {
    key * 3 + 1
}

fn url(data: &Path) -> String {
    format!("shm:{}", data.join("socket").display())
}

/// Connects as soon as a back-end is there.
fn connected(data: &Path) -> Connection {
    loop {
        match connect(&url(data)) {
            Ok(connection) => return connection,
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Serves until it is killed.
fn back_end(data: &Path) {
    let pool = Server::builder(data)
        .durability(Durability::Process)
        .capacity(u64::from(kills().max(KILLS)) * CAPACITY_PER_KILL)
        .lease(LEASE);
    let mut server = pool.open().expect("the pool opens");
    server.run(&|| false).expect("the medium is sound");
}

/// Updates both structures with numbers one after the other, and prints each that was acknowledged. Ends when its
/// tenure is over or the back-end is gone.
async fn write(connection: &Connection) -> Result<(), Error> {
    let session = connection.session();
    let wait = Duration::from_secs(30);
    let mut index = session.writer_within::<Index>("index", wait).await?;
    let mut jobs = session.writer_within::<Jobs>("jobs", wait).await?;
    let last = session.reader::<Index>("index").await?.last().await?;
    let mut number = last.map_or(0, |(key, _)| key + 1);
    let queued = session.reader::<Jobs>("jobs").await?.values().await?;
    let mut pushed = queued.last().map_or(0, |last| last + 1);
    loop {
        // The queue may be an update behind, or ahead.
        while pushed <= number {
            jobs.push(&pushed).await?;
            pushed += 1;
        }
        match number % 3 {
            0 => drop(index.insert(&number, &value_of(number)).await?),
            // Not published: the hand-over executes it.
            1 => index.stage(&number, &value_of(number)).await?.await?,
            _ => {
                let _ticket = index.stage(&number, &value_of(number)).await?;
                index.publish().await?;
            }
        }
        println!("{number}");
        std::io::stdout().flush().expect("the test reads");
        number += 1;
    }
}

/// Reads the whole index again and again: it holds all numbers up to some number, which never becomes lower.
async fn read(connection: &Connection, seen: &mut u64) -> Result<(), Error> {
    let session = connection.session();
    let mut index = session.reader::<Index>("index").await?;
    loop {
        let all = index.range(..).collect().await?;
        for (place, (key, value)) in all.iter().enumerate() {
            assert_eq!((*key, *value), (place as u64, value_of(place as u64)));
        }
        assert!(all.len() as u64 >= *seen, "{} after {seen}", all.len());
        *seen = all.len() as u64;
    }
}

/// Holds a snapshot, says so, and reads it until it is too old.
fn hold(data: &Path) {
    let connection = connected(data);
    connection.run(async |session| {
        let snapshot = session.snapshot("bank").await.expect("the writer made it");
        let accounts = snapshot.reader::<Accounts>("accounts").await;
        let mut accounts = accounts.expect("the writer made it");
        let value = vec![0; VERSION_SIZE];
        let ended = loop {
            match accounts.get(&7).await {
                Ok(found) => assert!(found.as_ref() == Some(&value), "another version"),
                Err(error) => break error,
            }
            println!("{HOLDS}");
            std::io::stdout().flush().expect("the test reads");
        };
        assert!(matches!(ended, Error::TooOld { .. }), "{ended}");
    });
}

/// Takes jobs of the queue and ends them, and says both: the job is taken before the first line, and its end is durable
/// before the second. Ends behind the last job.
async fn consume(connection: &Connection) -> Result<(), Error> {
    let say = |what: &str, number: u64| {
        println!("{what} {number}");
        std::io::stdout().flush().expect("the test reads");
    };
    let mut worker = connection
        .session()
        .consumer::<u64>("jobs", "worker")
        .await?;
    let mut jobs = worker.unfinished().await?;
    loop {
        for job in jobs.drain(..) {
            assert_eq!(job.value, value_of(job.number));
            say(TAKEN, job.number);
            assert!(worker.done(job.number).await?);
            say(DONE, job.number);
            if job.number + 1 == JOBS {
                return worker.release().await;
            }
        }
        // Two jobs at a time: either may be in the record when the process dies.
        for _ in 0..2 {
            jobs.extend(worker.take().await?);
        }
        worker.renew().await?;
    }
}

/// The part of a process of its own; the test itself does nothing.
#[test]
fn plays_its_part() {
    let (Ok(part), Ok(data)) = (std::env::var(PART), std::env::var(DATA)) else {
        return;
    };
    let data = PathBuf::from(data);
    match &*part {
        "back-end" => back_end(&data),
        "holder" => hold(&data),
        "consumer" => loop {
            let connection = connected(&data);
            match connection.run(async |_| consume(&connection).await) {
                Ok(()) => break,
                // The end of the consumer before is under way, or the queue is still to be made.
                Err(Error::Held { .. } | Error::NotFound { .. }) => {
                    thread::sleep(Duration::from_millis(1));
                }
                other => panic!("{other:?}"),
            }
        },
        "writer" => loop {
            let connection = connected(&data);
            let ended = connection.run(async |_| write(&connection).await);
            match ended {
                Err(
                    Error::Gone { .. }
                    | Error::TenureOver { .. }
                    | Error::Held { .. }
                    | Error::Connect(_),
                ) => {}
                other => panic!("{other:?}"),
            }
        },
        _ => {
            let mut seen = 0;
            loop {
                let connection = connected(&data);
                match connection.run(async |_| read(&connection, &mut seen).await) {
                    Err(Error::Gone { .. } | Error::NotFound { .. } | Error::Connect(_)) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

/// A process that is killed when it is dropped.
struct Process(Child);

impl Process {
    fn start(part: &str, data: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "structures_processes::plays_its_part",
            "--nocapture",
        ]);
        command.env(PART, part).env(DATA, data);
        command.stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// A writer, whose acknowledged numbers are noted in `acknowledged`.
    fn writer(data: &Path, acknowledged: &Arc<AtomicU64>) -> Self {
        let mut process = Self::start("writer", data);
        let lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
        let acknowledged = acknowledged.clone();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The test harness prints lines, too.
                if let Ok(number) = line
                    .trim_start_matches("test structures_processes::plays_its_part ... ")
                    .parse::<u64>()
                {
                    acknowledged.fetch_max(number + 1, Ordering::Relaxed);
                }
            }
        });
        process
    }

    /// Kills the process.
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Stops the process as a debugger does. None of its threads runs when the call returns.
    fn pause(&self) {
        let process = Pid::from_child(&self.0);
        kill_process(process, Signal::STOP).unwrap();
        // The signal is sent before the last thread has stopped.
        waitpid(Some(process), WaitOptions::UNTRACED).unwrap();
    }

    fn go_on(&self) {
        kill_process(Pid::from_child(&self.0), Signal::CONT).unwrap();
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A process of the story.
#[derive(Clone, Copy, Debug)]
enum Part {
    Writer,
    Reader,
    BackEnd,
}

const PARTS: [Part; 3] = [Part::Writer, Part::Reader, Part::BackEnd];
const READERS: usize = 2;

/// A back-end, a writer and readers, each a process.
struct Scene<'a> {
    data: &'a Path,
    random: Random,
    acknowledged: Arc<AtomicU64>,
    server: Process,
    writer: Process,
    readers: [Process; READERS],
}

impl<'a> Scene<'a> {
    fn start(data: &'a Path, seed: u64) -> Self {
        let acknowledged = Arc::<AtomicU64>::default();
        Self {
            data,
            random: random_from_seed(seed),
            server: Process::start("back-end", data),
            writer: Process::writer(data, &acknowledged),
            readers: std::array::from_fn(|_| Process::start("reader", data)),
            acknowledged,
        }
    }

    fn told(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Waits until more than `than` updates were acknowledged.
    fn progress(&self, than: u64) {
        while self.told() <= than {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn a_moment(&mut self, longest_us: u64) {
        self.progress(self.told());
        thread::sleep(Duration::from_micros(
            self.random.random_range(0..longest_us),
        ));
    }

    fn check(&mut self, when: &str) {
        for reader in &mut self.readers {
            assert!(reader.is_alive(), "{when}: a reader saw something wrong");
        }
        assert!(self.writer.is_alive(), "{when}: the writer has failed");
    }

    /// Kills a process, and starts it again. Every process gets to work before the next one dies.
    fn kill_one(&mut self, round: u32) {
        self.a_moment(20_000);
        self.check(&format!("round {round}"));
        match self.random.random_range(0..4) {
            0 => {
                let reader = self.random.random_range(0..READERS);
                self.readers[reader].end();
                self.readers[reader] = Process::start("reader", self.data);
            }
            1 => self.replace_back_end(),
            _ => {
                self.writer.end();
                self.writer = Process::writer(self.data, &self.acknowledged);
            }
        }
    }

    fn replace_back_end(&mut self) {
        // The old one has to be gone before the next one serves its pool.
        self.server.end();
        self.server = Process::start("back-end", self.data);
    }

    /// Stops a process for longer than the leases, and lets it go on.
    fn stop_one(&mut self, part: Part, round: u32) {
        self.a_moment(5_000);
        match part {
            Part::Writer => self.stop_writer(),
            Part::Reader => {
                let reader = self.random.random_range(0..READERS);
                self.readers[reader].pause();
                thread::sleep(LEASE * 2);
                // Nobody waits for a reader.
                self.progress(self.told() + 20);
                self.readers[reader].go_on();
            }
            Part::BackEnd => {
                self.server.pause();
                thread::sleep(LEASE * 2);
                self.server.go_on();
            }
        }
        self.progress(self.told() + 20);
        self.check(&format!("stop {round}, of the {part:?}"));
    }

    /// A successor writes before the stopped writer goes on.
    fn stop_writer(&mut self) {
        self.writer.pause();
        thread::sleep(LEASE * 2);
        if self.random.random_range(0..2) == 0 {
            // A back-end that is replaced while a front-end is stopped, perhaps in a store.
            self.replace_back_end();
        }
        let before = self.told();
        let successor = Process::writer(self.data, &self.acknowledged);
        self.progress(before);
        self.writer.go_on();
        self.progress(self.told() + 20);
        assert!(self.writer.is_alive(), "the stopped writer has failed");
        self.writer = successor;
    }

    /// Ends the writer, and compares both structures with what was acknowledged.
    fn end(mut self) {
        self.check("at the end");
        assert!(self.server.is_alive(), "the back-end has failed");
        self.writer.end();
        let told = self.told();
        let connection = connected(self.data);
        let (index, jobs) = connection
            .run(async |session| contents(session).await)
            .unwrap();
        println!(
            "{told} updates were acknowledged, {} are there",
            index.len()
        );
        let count = index.len() as u64;
        let expected: Vec<(u64, u64)> = (0..count).map(|key| (key, value_of(key))).collect();
        assert_eq!(index, expected);
        assert!(count >= told);
        let in_order: Vec<u64> = (0..jobs.len() as u64).collect();
        assert_eq!(jobs, in_order, "in order, and once");
        assert!(jobs.len() as u64 >= told);
    }
}

/// Everything in both structures, with what was acknowledged and not published: the hand-over executes it.
async fn contents(session: &Session) -> Result<(Vec<(u64, u64)>, Vec<u64>), Error> {
    let wait = Duration::from_secs(30);
    drop(session.writer_within::<Index>("index", wait).await?);
    drop(session.writer_within::<Jobs>("jobs", wait).await?);
    let index = session.reader::<Index>("index").await?.entries().await?;
    let jobs = session.reader::<Jobs>("jobs").await?.values().await?;
    Ok((index, jobs))
}

/// Each part is stopped as often as the others, in an order that the seed draws.
#[test]
fn kills_and_stops_of_writer_readers_and_back_end_lose_nothing_that_was_acknowledged() {
    const SEED: u64 = 19;
    println!("seed {SEED}");
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("pool");
    let mut scene = Scene::start(&data, SEED);
    for round in 0..kills() {
        scene.kill_one(round);
    }
    let mut parts = PARTS;
    for round in 0..kills() / KILLS_PER_STOP {
        let turn = round as usize % PARTS.len();
        if turn == 0 {
            parts.shuffle(&mut scene.random);
        }
        scene.stop_one(parts[turn], round);
    }
    scene.end();
}

/// Needs the reclaiming of old versions whoever reads them: all versions together are longer than the pool.
#[test]
fn a_stopped_reader_with_a_snapshot_holds_up_neither_the_writer_nor_the_memory_and_is_told_later() {
    const ROUNDS: u8 = 120;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("pool");
    let capacity = 32 << 20;
    let server = Server::builder(&data)
        .durability(Durability::Process)
        .capacity(capacity)
        .serve()
        .unwrap();
    let session = connect_blocking(&server.address().to_string()).unwrap();
    let mut bank = session.domain("bank").unwrap();
    let accounts = bank.structure::<Accounts>("accounts").unwrap();
    let mut put = |round: u8| {
        let mut transaction = Transaction::default();
        for key in 0..16 {
            transaction.insert(&accounts, &key, &vec![round; VERSION_SIZE]);
        }
        bank.commit(&transaction).unwrap();
    };
    put(0);
    let mut holder = Process::start("holder", &data);
    let mut lines = BufReader::new(holder.0.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(HOLDS)));
    holder.pause();

    let mut memory = Vec::new();
    for round in 1..=ROUNDS {
        put(round);
        let state = &session.stat().unwrap()[0];
        assert!(
            state.old_versions < 5 << 20,
            "{} bytes of old versions",
            state.old_versions
        );
        memory.push(state.memory);
    }
    let written = u64::from(ROUNDS) * 16 * VERSION_SIZE as u64;
    assert!(written > capacity, "{written} bytes");
    let half = memory.len() / 2;
    assert_eq!(memory[half..].iter().max(), memory[..half].iter().max());

    holder.go_on();
    // The output of the holder must not fill the pipe.
    lines.for_each(drop);
    assert!(holder.0.wait().unwrap().success(), "the holder has failed");
    put(0);
    drop(server);
}

/// The number behind `what` in a line of a process.
fn number_behind(what: &str, line: &str) -> Option<usize> {
    line.rsplit_once(what)?.1.trim().parse().ok()
}

/// Puts jobs in, never many more than are done, and removes what is done, until all jobs are.
fn produce(url: &str) {
    let session = connect_blocking(url).unwrap();
    let mut jobs = session.writer::<Jobs>("jobs").unwrap();
    let (mut pushed, mut removed) = (0, 0);
    while removed < JOBS {
        while pushed < JOBS.min(removed + 30) {
            jobs.push(&value_of(pushed)).unwrap();
            pushed += 1;
        }
        match session.reader::<Cursor<u64>>("worker") {
            Ok(mut cursor) => removed += jobs.remove_below(cursor.floor().unwrap()).unwrap(),
            // No consumer was there yet.
            Err(error) => assert!(matches!(error, Error::NotFound { .. }), "{error}"),
        }
        jobs.renew().unwrap();
        thread::sleep(Duration::from_millis(1));
    }
}

/// Needs the record of what is taken, in the consumer's own lock domain, and the floor below it: the producer goes on,
/// removes what is done, and asks no consumer.
#[test]
fn jobs_outlive_the_deaths_of_their_consumers_and_each_is_ended_once() {
    const SEED: u64 = 21;
    const DEATHS: usize = 20;
    println!("seed {SEED}");
    let mut random = random_from_seed(SEED);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("pool");
    // Ends of connections alone end tenures.
    let server = Server::builder(&data)
        .durability(Durability::Process)
        .capacity(32 << 20)
        .lease(Duration::from_secs(600))
        .serve()
        .unwrap();
    let url = url(&data);
    let producer = thread::spawn({
        let url = url.clone();
        move || produce(&url)
    });
    let (mut given, mut done) = (vec![0; JOBS as usize], vec![false; JOBS as usize]);
    for life in 0.. {
        let mut consumer = Process::start("consumer", &data);
        let lines = BufReader::new(consumer.0.stdout.take().unwrap()).lines();
        // The last consumer lives until everything is done.
        let mut left = (life < DEATHS).then(|| random.random_range(1..40));
        for line in lines.map_while(Result::ok) {
            if let Some(number) = number_behind(TAKEN, &line) {
                assert!(!done[number], "life {life}: {number} is given again");
                given[number] += 1;
            } else if let Some(number) = number_behind(DONE, &line) {
                assert!(!done[number], "life {life}: {number} is ended twice");
                done[number] = true;
            } else {
                continue;
            }
            if left == Some(0) {
                consumer.0.kill().unwrap();
            }
            left = left.map(|left: u32| left.saturating_sub(1));
        }
        if left.is_none() {
            assert!(
                consumer.0.wait().unwrap().success(),
                "the consumer has failed"
            );
            break;
        }
    }
    producer.join().unwrap();
    // A consumer may die between the end of a job and the line that says so.
    assert!(
        given.iter().all(|times| *times > 0),
        "jobs are lost: {given:?}"
    );
    let session = connect_blocking(&url).unwrap();
    let mut cursor = session.reader::<Cursor<u64>>("worker").unwrap();
    assert_eq!((cursor.floor().unwrap(), cursor.len().unwrap()), (JOBS, 0));
    assert!(session.reader::<Jobs>("jobs").unwrap().is_empty().unwrap());
    let again = given.iter().filter(|times| **times > 1).count();
    println!("{again} jobs were given to a second consumer");
    drop(server);
}
