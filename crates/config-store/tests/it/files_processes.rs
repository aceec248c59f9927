//! Several processes that write one store of files, and are stopped and killed in between.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use rustix::process::{Pid, Signal, kill_process};
use stonecast_base::random_from_seed;
use stonecast_cluster::{Revision, StoreError, Swap};

use crate::support::finish;

const ADDRESS: &str = "STONECAST_WRITER_ADDRESS";
const NAME: &str = "STONECAST_WRITER_NAME";
const LAST: &str = "STONECAST_WRITER_LAST";
/// Longer than any story takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The part of a writer of the stories below, in a process of its own: it changes the value again and again, and prints
/// the changes that were reported as done.
#[test]
fn a_writer_of_these_stories() {
    let Ok(address) = env::var(ADDRESS) else {
        return;
    };
    let name = env::var(NAME).unwrap();
    let last: u64 = env::var(LAST).unwrap().parse().unwrap();
    let store = stonecast_config_store::open(&address).unwrap();
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let newest = finish(store.read())
            .unwrap()
            .map_or(0, |stored| stored.revision.0);
        if newest >= last {
            return;
        }
        let expected = (newest > 0).then_some(Revision(newest));
        let value = format!("{} of {name}", newest + 1);
        match finish(store.compare_and_set(expected, value.as_bytes())) {
            Ok(Swap::Done(revision)) => {
                // One write, so that a kill leaves whole lines.
                let line = format!("\ndone {} {value}\n", revision.0);
                std::io::stdout().write_all(line.as_bytes()).unwrap();
            }
            // The outcome for a writer that was stopped for long is unknown. The winner of the revision claims it.
            Ok(Swap::Conflict) | Err(StoreError::Unknown { .. }) => {}
            Err(refused) => panic!("{refused}"),
        }
    }
}

/// A writer in a process of its own.
struct Writer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Writer {
    fn start(folder: &Path, name: &str, last: u64) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "files_processes::a_writer_of_these_stories",
                "--nocapture",
            ])
            .env(ADDRESS, format!("file:{}", folder.display()))
            .env(NAME, name)
            .env(LAST, last.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// The changes that were reported to it as done, once it has ended.
    fn claims(mut self) -> Vec<(u64, String)> {
        let lines = (&mut self.output).lines().map_while(Result::ok);
        let claims = lines.filter_map(|line| {
            let (revision, value) = line.strip_prefix("done ")?.split_once(' ')?;
            Some((revision.parse().ok()?, value.to_owned()))
        });
        let claims = claims.collect();
        self.child.wait().unwrap();
        claims
    }
}

/// The values that were claimed, by revision; each was won once.
#[derive(Default)]
struct Won(BTreeMap<u64, String>);

impl Won {
    fn add(&mut self, claims: Vec<(u64, String)>) {
        for (revision, value) in claims {
            if let Some(other) = self.0.insert(revision, value.clone()) {
                panic!("revision {revision} was won by `{other}` and by `{value}`");
            }
        }
    }

    /// Compares the newest value with the claim on its revision.
    fn compare_newest(&self, folder: &Path) -> u64 {
        let store = stonecast_config_store::open(&format!("file:{}", folder.display())).unwrap();
        let Some(stored) = finish(store.read()).unwrap() else {
            assert!(self.0.is_empty());
            return 0;
        };
        let revision = stored.revision.0;
        let value = String::from_utf8(stored.bytes).unwrap();
        assert!(value.starts_with(&format!("{revision} of ")), "{value}");
        if let Some(claimed) = self.0.get(&revision) {
            assert_eq!(*claimed, value);
        }
        let highest = self.0.keys().next_back().copied().unwrap_or(0);
        assert!(
            revision >= highest,
            "{highest} was done, and {revision} is the newest"
        );
        revision
    }
}

#[test]
fn each_revision_is_won_by_exactly_one_of_four_processes() {
    const LAST: u64 = 200;
    let folder = tempfile::tempdir().unwrap();
    let writers: Vec<_> = (0..4)
        .map(|name| Writer::start(folder.path(), &name.to_string(), LAST))
        .collect();
    let mut won = Won::default();
    writers
        .into_iter()
        .for_each(|writer| won.add(writer.claims()));
    assert!(won.0.keys().copied().eq(1..=LAST), "{:?}", won.0.keys());
    assert_eq!(won.compare_newest(folder.path()), LAST);
}

#[test]
fn a_writer_that_is_killed_at_any_moment_leaves_the_old_value_or_its_own() {
    const SEED: u64 = 5;
    println!("seed {SEED}");
    let random = &mut random_from_seed(SEED);
    let folder = tempfile::tempdir().unwrap();
    let mut won = Won::default();
    let mut newest = 0;
    for round in 0..40 {
        let writer = Writer::start(folder.path(), &format!("{round}"), u64::MAX);
        thread::sleep(Duration::from_micros(random.random_range(0..40_000)));
        writer.signal(Signal::KILL);
        won.add(writer.claims());
        let found = won.compare_newest(folder.path());
        assert!(
            found >= newest,
            "{newest} was there, and {found} is the newest"
        );
        newest = found;
    }
    assert!(newest > 40, "the writers wrote: {newest}");
}

#[test]
fn a_writer_that_was_stopped_wins_nothing_that_others_won_meanwhile() {
    const SEED: u64 = 6;
    println!("seed {SEED}");
    let random = &mut random_from_seed(SEED);
    let folder = tempfile::tempdir().unwrap();
    let store = stonecast_config_store::open(&format!("file:{}", folder.path().display())).unwrap();
    let newest = || {
        finish(store.read())
            .unwrap()
            .map_or(0, |stored| stored.revision.0)
    };
    let writers = [0, 1, 2].map(|name| Writer::start(folder.path(), &name.to_string(), 2_000));
    let end = Instant::now() + PATIENCE;
    let mut stops = 0;
    while newest() < 1_900 && Instant::now() < end {
        let stopped = &writers[random.random_range(0..writers.len())];
        stopped.signal(Signal::STOP);
        stops += 1;
        // Longer than old values are kept.
        let until = newest() + 20;
        while newest() < until.min(1_990) && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        stopped.signal(Signal::CONT);
        thread::sleep(Duration::from_micros(random.random_range(0..5_000)));
    }
    let mut won = Won::default();
    writers
        .into_iter()
        .for_each(|writer| won.add(writer.claims()));
    assert!(won.0.keys().copied().eq(1..=2_000), "each was won once");
    assert!(stops > 10, "{stops} stops");
}
