//! A back-end, a writer and a reader in processes of their own, killed and stopped at random moments.
//!
//! The test binary runs itself again as each of them; an environment variable chooses the part. The writer prints the
//! number of each update that was acknowledged.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use stonecast::Durability;
use stonecast::structures::{BTree, Connection, Error, Queue, Server, connect};
use stonecast_base::random_from_seed;

const PART: &str = "STONECAST_TEST_PART";
const DATA: &str = "STONECAST_TEST_DATA";
const LEASE: Duration = Duration::from_millis(100);
const KILLS: u32 = 40;
const STOPS: u32 = 10;

type Index = BTree<u64, u64>;
type Jobs = Queue<u64>;

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
        .capacity(32 << 20)
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

/// The part of a process of its own; the test itself does nothing.
#[test]
fn plays_its_part() {
    let (Ok(part), Ok(data)) = (std::env::var(PART), std::env::var(DATA)) else {
        return;
    };
    let data = PathBuf::from(data);
    match &*part {
        "back-end" => back_end(&data),
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

    fn signal(&self, signal: &str) {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("kill -{signal} {}", self.0.id())]);
        assert!(command.status().unwrap().success());
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn kills_and_stops_of_writer_reader_and_back_end_lose_nothing_that_was_acknowledged() {
    use rand::RngExt as _;
    const SEED: u64 = 19;
    let mut random = random_from_seed(SEED);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("pool");
    let acknowledged = Arc::<AtomicU64>::default();
    let mut server = Process::start("back-end", &data);
    let mut writer = Process::writer(&data, &acknowledged);
    let mut reader = Process::start("reader", &data);
    let progress = |than: u64| {
        while acknowledged.load(Ordering::Relaxed) <= than {
            thread::sleep(Duration::from_millis(1));
        }
    };
    for round in 0..KILLS {
        // Every process gets to work before the next one dies.
        progress(acknowledged.load(Ordering::Relaxed));
        thread::sleep(Duration::from_micros(random.random_range(0..20_000)));
        match random.random_range(0..4) {
            0 => {
                assert!(
                    reader.is_alive(),
                    "round {round}: the reader saw something wrong"
                );
                reader = Process::start("reader", &data);
            }
            1 => {
                drop(server);
                server = Process::start("back-end", &data);
            }
            _ => {
                assert!(writer.is_alive(), "round {round}: the writer has failed");
                drop(writer);
                writer = Process::writer(&data, &acknowledged);
            }
        }
    }
    for round in 0..STOPS {
        progress(acknowledged.load(Ordering::Relaxed));
        thread::sleep(Duration::from_micros(random.random_range(0..5_000)));
        writer.signal("STOP");
        thread::sleep(LEASE * 2);
        if round % 3 == 2 {
            // A back-end that is replaced while a front-end is stopped, perhaps in a store.
            drop(server);
            server = Process::start("back-end", &data);
        }
        let before = acknowledged.load(Ordering::Relaxed);
        let successor = Process::writer(&data, &acknowledged);
        progress(before);
        writer.signal("CONT");
        progress(acknowledged.load(Ordering::Relaxed) + 20);
        assert!(
            reader.is_alive(),
            "stop {round}: the reader saw something wrong"
        );
        assert!(
            writer.is_alive(),
            "stop {round}: the stopped writer has failed"
        );
        drop(writer);
        writer = successor;
    }
    assert!(reader.is_alive() && writer.is_alive() && server.is_alive());
    drop(writer);
    let told = acknowledged.load(Ordering::Relaxed);
    let connection = connected(&data);
    let (index, jobs) = connection
        .run(async |session| {
            let wait = Duration::from_secs(30);
            // The hand-over executes what was acknowledged and not published.
            drop(session.writer_within::<Index>("index", wait).await?);
            drop(session.writer_within::<Jobs>("jobs", wait).await?);
            let index = session.reader::<Index>("index").await?.entries().await?;
            let jobs = session.reader::<Jobs>("jobs").await?.values().await?;
            Ok::<_, Error>((index, jobs))
        })
        .unwrap();
    println!(
        "{told} updates were acknowledged, {} are there",
        index.len()
    );
    let expected: Vec<(u64, u64)> = (0..index.len() as u64)
        .map(|key| (key, value_of(key)))
        .collect();
    assert_eq!(index, expected);
    assert!(index.len() as u64 >= told);
    assert_eq!(
        jobs,
        (0..jobs.len() as u64).collect::<Vec<_>>(),
        "in order, and once"
    );
    assert!(jobs.len() as u64 >= told);
}
