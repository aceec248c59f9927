//! The recovery cases of a back-end with a mirror: each process is killed in the middle of its work, and no
//! acknowledged operation is lost.
//!
//! A front-end in a process of its own inserts the numbers from 0 on, and notes each that was acknowledged.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use stonecast::structures::{BTree, Connection, Error, NoMirrorLog, connect};

use crate::cluster::etcd::Etcd;
use crate::gateway::address;
use crate::support::{
    Place, Server, Worker, as_worker, command, http_get, not_run, start_worker, stonecast,
};

type Index = BTree<u64, u64>;

/// A time that only a hang exceeds.
const LIMIT: Duration = Duration::from_secs(60);
/// Short for a promotion, and long for a process that waits for a processor.
const LEASE: &str = "1s";
/// Operations that are acknowledged before and after each end.
const SOME: u64 = 20;
/// Bytes at the end of the notes that are read: some hundred lines.
const NOTES_READ: u64 = 4096;

/// A back-end, its mirror and a front-end.
struct Trio {
    place: Place,
    back_end: Server,
    mirror: Server,
    /// The store of the standing record.
    store: Option<String>,
}

impl Trio {
    /// The pool `first` with the mirror `second`, which has everything.
    fn begin() -> Self {
        Self::begin_in(Place::on_disk(), None)
    }

    /// The pool `first` with the mirror `second`, and their standing record in `store`.
    fn begin_in(place: Place, store: Option<String>) -> Self {
        let mirror = serve(&place, "second", &flags(&AS_MIRROR, store.as_deref()));
        let url = url(&place, "second");
        let back_end = flags(&["--structures-mirror", &url], store.as_deref());
        let back_end = serve(&place, "first", &back_end);
        await_whole(&back_end);
        Self {
            place,
            back_end,
            mirror,
            store,
        }
    }

    /// The process of a pool, anew: the back-end `name` with the mirror `mirror`.
    fn serve_back_end(&mut self, name: &str, mirror: &str) {
        let mirror = url(&self.place, mirror);
        let with_mirror = ["--structures-mirror", &mirror];
        let flags = flags(&with_mirror, self.store.as_deref());
        self.back_end = serve(&self.place, name, &flags);
    }

    fn serve_mirror(&mut self, name: &str) {
        let flags = flags(&AS_MIRROR, self.store.as_deref());
        self.mirror = serve(&self.place, name, &flags);
    }

    /// A front-end that makes each number visible, or leaves a transaction open.
    fn front_end(&self, work: &str) -> Worker {
        let work = format!("{work} {}", self.place.path().display());
        start_worker("mirrors::plays_the_front_end", &work, &self.notes())
    }

    fn notes(&self) -> PathBuf {
        self.place.path().join("acknowledged")
    }

    /// Numbers that were acknowledged. They ascend, so the end of the notes tells: a fast front-end notes millions.
    fn acknowledged(&self) -> u64 {
        let Ok(mut notes) = fs::File::open(self.notes()) else {
            return 0;
        };
        let size = notes.metadata().map_or(0, |notes| notes.len());
        let mut last = Vec::new();
        let read = notes
            .seek(SeekFrom::Start(size.saturating_sub(NOTES_READ)))
            .and_then(|_| notes.read_to_end(&mut last));
        read.expect("the notes can be read");
        let last = String::from_utf8_lossy(&last);
        // The first line may be cut off; the last one may be under way.
        let whole = last.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let skipped = usize::from(size > NOTES_READ);
        let numbers = whole.lines().skip(skipped);
        let numbers = numbers.filter_map(|line| line.parse::<u64>().ok());
        numbers.max().map_or(0, |last| last + 1)
    }

    /// Waits until the front-end has got on.
    fn progress(&self) {
        let (before, end) = (self.acknowledged(), Instant::now() + LIMIT);
        while self.acknowledged() < before + SOME {
            assert!(
                Instant::now() < end,
                "the front-end has stopped at {before}"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Expects every acknowledged number at the back-end, and no gap.
    fn expect_everything(&self, name: &str) {
        let connection = connected(&[url(&self.place, name)]);
        let found = connection.run(async |session| {
            // The back-end has executed what the last front-end left.
            drop(session.writer_within::<Index>("index", LIMIT).await?);
            session.reader::<Index>("index").await?.entries().await
        });
        let (found, told) = (found.expect("the index is there"), self.acknowledged());
        let expected: Vec<(u64, u64)> = (0..found.len() as u64).map(|key| (key, key * 3)).collect();
        assert_eq!(found, expected);
        assert!(found.len() as u64 >= told, "{} of {told}", found.len());
    }
}

const AS_MIRROR: [&str; 2] = ["--structures-role", "mirror"];

/// The flags of a server that shares a standing record in `store`, if there is one.
fn flags<'a>(of_server: &[&'a str], store: Option<&'a str>) -> Vec<&'a str> {
    let record = store.map(|store| ["--structures-cluster", store]);
    let record = record.into_iter().flatten();
    of_server.iter().copied().chain(record).collect()
}

fn url(place: &Place, name: &str) -> String {
    format!("shm:{}", place.path().join(name).join("socket").display())
}

fn serve_command(place: &Place, name: &str, flags: &[&str]) -> (std::process::Command, PathBuf) {
    let data = place.path().join(name);
    let mut serve = command();
    serve.arg("serve").arg("--structures").arg(&data);
    serve.args(["--durability", "process", "--structures-capacity", "16MiB"]);
    serve.args(["--structures-mirror-lease", LEASE]).args(flags);
    (serve, data)
}

fn serve(place: &Place, name: &str, flags: &[&str]) -> Server {
    let (serve, data) = serve_command(place, name, flags);
    Server::of(serve, &data)
}

fn await_whole(back_end: &Server) {
    let end = Instant::now() + LIMIT;
    while back_end.client(&["structures", "stat", "--json"]).json()["mirror"]["state"] != "whole" {
        assert!(Instant::now() < end, "the mirror is never whole");
    }
}

/// Connects to the first of the servers that is a back-end, as soon as one is.
fn connected(urls: &[String]) -> Connection {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(connection) = urls.iter().find_map(|url| connect(url).ok()) {
            return connection;
        }
        assert!(Instant::now() < end, "nobody serves");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Inserts the next numbers until the back-end is gone.
async fn write(connection: &Connection, leaves_open: bool) -> Result<(), Error> {
    let session = connection.session();
    let mut index = session.writer_within::<Index>("index", LIMIT).await?;
    if leaves_open && let Err(reason) = index.mirror_log() {
        let is_promoted = matches!(*reason, NoMirrorLog::NoMirror);
        assert!(is_promoted, "staged numbers go to both logs: {reason}");
    }
    let last = session.reader::<Index>("index").await?.last().await?;
    for number in last.map_or(0, |(key, _)| key + 1).. {
        match leaves_open {
            true => index.stage(&number, &(number * 3)).await?.await?,
            false => drop(index.insert(&number, &(number * 3)).await?),
        }
        // One write for each line: a kill between a number and its end would join two numbers.
        let line = format!("{number}\n");
        eprint!("{line}");
    }
    Ok(())
}

/// The front-end in its process; the test itself does nothing.
#[test]
fn plays_the_front_end() {
    let Some(work) = as_worker() else { return };
    let (work, folder) = work.split_once(' ').expect("the work and the place");
    let urls = ["first", "second"].map(|name| format!("shm:{folder}/{name}/socket"));
    loop {
        let connection = connected(&urls);
        // Whatever ended the work: another back-end goes on, or the same.
        let _ = connection.run(async |_| write(&connection, work == "open").await);
    }
}

/// Needs the appends to both logs, and each window at the mirror to end with its tenure.
#[test]
fn an_operation_that_both_logs_have_outlives_whoever_is_killed_under_load() {
    let mut trio = Trio::begin();
    let mut front_end = trio.front_end("open");
    for _ in 0..3 {
        trio.progress();
        front_end.kill();
        front_end = trio.front_end("open");
        trio.progress();
        trio.back_end.kill();
        trio.serve_back_end("first", "second");
        trio.progress();
        trio.mirror.kill();
        trio.back_end.wait();
        trio.serve_mirror("second");
        trio.serve_back_end("first", "second");
    }
    trio.progress();
    trio.back_end.kill();
    let promoted = trio.mirror.client(&["structures", "promote", "--json"]);
    assert_eq!(promoted.json()["generation"], 2);
    trio.progress();
    drop(front_end);
    trio.expect_everything("second");
}

#[test]
fn case_1_a_front_end_that_was_killed_goes_on_behind_everything_that_was_acknowledged() {
    let trio = Trio::begin();
    for work in ["open", "visible"] {
        let mut front_end = trio.front_end(work);
        trio.progress();
        front_end.kill();
    }
    let _front_end = trio.front_end("visible");
    trio.progress();
    drop(_front_end);
    trio.expect_everything("first");
}

#[test]
fn case_2_what_a_front_end_left_for_good_is_executed_by_the_back_end() {
    let mut trio = Trio::begin();
    let mut front_end = trio.front_end("open");
    trio.progress();
    front_end.kill();
    trio.expect_everything("first");
    // The mirror has the work of the back-end, too.
    trio.back_end.kill();
    let promoted = trio.mirror.client(&["structures", "promote", "--json"]);
    assert_eq!(promoted.json()["generation"], 2);
    trio.expect_everything("second");
}

#[test]
fn case_3_a_back_end_that_was_killed_restarts_with_and_without_an_open_transaction() {
    let mut trio = Trio::begin();
    for work in ["open", "visible"] {
        let front_end = trio.front_end(work);
        trio.progress();
        trio.back_end.kill();
        trio.serve_back_end("first", "second");
        trio.progress();
        drop(front_end);
        trio.expect_everything("first");
    }
}

/// Needs the promotion to be asked for once more by the word of the operator alone, and the old pool to be refused as
/// anything but a mirror.
#[test]
fn case_4_the_mirror_takes_the_place_of_a_back_end_that_is_gone_for_good() {
    let mut trio = Trio::begin();
    let front_end = trio.front_end("visible");
    trio.progress();
    let early = ["structures", "promote", "--within", "1500ms"];
    let early = trio.mirror.client(&early);
    assert!(early.refusal(7).contains("its back-end lives"));
    trio.back_end.kill();
    let promoted = trio.mirror.client(&["structures", "promote", "--json"]);
    assert_eq!(promoted.json()["generation"], 2);
    trio.progress();
    assert!(trio.mirror.wait_until_ready(), "it is the back-end");

    // The old back-end knows that it was succeeded, and returns as the mirror.
    let mirror = url(&trio.place, "second");
    let (old, data) = serve_command(&trio.place, "first", &["--structures-mirror", &mirror]);
    let mut old = Server::spawn(old, &data);
    assert!(!old.wait_until_ready());
    let words = "was promoted and is the back-end of generation 2";
    assert!(old.heard().contains(words), "{}", old.heard());
    trio.mirror.stop();
    trio.serve_mirror("first");
    trio.serve_back_end("second", "first");
    trio.progress();
    await_whole(&trio.back_end);
    trio.progress();
    trio.back_end.kill();
    let promoted = trio.mirror.client(&["structures", "promote", "--json"]);
    assert_eq!(promoted.json()["generation"], 3);
    trio.progress();
    drop(front_end);
    trio.expect_everything("first");
}

/// Needs the end of the back-end, and the statement of the operator.
#[test]
fn case_5_nothing_is_acknowledged_without_the_mirror_until_it_is_back_or_detached() {
    let mut trio = Trio::begin();
    let front_end = trio.front_end("visible");
    trio.progress();
    trio.mirror.kill();
    assert_eq!(trio.back_end.wait().code(), Some(1));
    let heard = trio.back_end.heard_to_the_end();
    assert!(heard.contains("the mirror is lost"), "{heard}");
    let (alone, data) = serve_command(&trio.place, "first", &[]);
    let alone = crate::support::run(alone, b"");
    assert!(alone.refusal(1).contains("is bound to its mirror"));
    trio.serve_mirror("second");
    trio.serve_back_end("first", "second");
    trio.progress();

    trio.mirror.kill();
    trio.back_end.wait();
    let data = data.to_str().expect("a name in UTF-8");
    let silent = stonecast(["structures", "detach", data]);
    assert!(silent.refusal(2).contains("--mirror-is-destroyed"));
    let detached = [
        "structures",
        "detach",
        data,
        "--mirror-is-destroyed",
        "--json",
    ];
    assert_eq!(stonecast(detached).json()["generation"], 2);
    let again = stonecast(detached).json_failure(1, "failed");
    assert!(again["message"].to_string().contains("has no mirror"));
    trio.back_end = serve(&trio.place, "first", &[]);
    trio.progress();
    drop(front_end);
    trio.expect_everything("first");
}

#[test]
fn both_sides_that_were_killed_at_once_start_again_with_everything() {
    let mut trio = Trio::begin();
    for work in ["open", "visible"] {
        let front_end = trio.front_end(work);
        trio.progress();
        trio.back_end.kill();
        trio.mirror.kill();
        drop(front_end);
        trio.serve_mirror("second");
        trio.serve_back_end("first", "second");
        trio.expect_everything("first");
    }
    trio.back_end.kill();
    trio.mirror.client(&["structures", "promote"]).text();
    trio.expect_everything("second");
}

/// Needs the state of the mirror at every place where an operator looks.
#[test]
fn a_mirror_is_shown_by_stat_list_and_metrics_and_says_itself_that_it_is_one() {
    let place = Place::on_disk();
    let admin = ["--admin", "127.0.0.1:0"];
    let mirror = [&["--structures-role", "mirror"], &admin[..]].concat();
    let mut mirror = serve(&place, "second", &mirror);
    let mirror_admin = address(&mut mirror, "http://");
    let url = url(&place, "second");
    let back_end = [&["--structures-mirror", &url], &admin[..]].concat();
    let mut back_end = serve(&place, "first", &back_end);
    let admin = address(&mut back_end, "http://");
    await_whole(&back_end);
    let import = ["structures", "import", "words"];
    let line = b"{\"key\":\"a\",\"value\":\"b\"}\n";
    back_end.client_with_input(&import, line).text();

    let told = back_end.client(&["structures", "stat", "--json"]).json();
    assert_eq!(told["mirror"]["generation"], 1);
    assert_eq!(told["mirror"]["bytes_to_copy"], 0);
    let told = back_end.client(&["structures", "stat"]);
    assert!(
        told.text().contains("whole, generation 1"),
        "{}",
        told.text()
    );
    let listed = back_end.client(&["structures", "list", "--json"]).json();
    assert_eq!(listed[0]["mirror"], "whole");
    let listed = back_end.client(&["structures", "list"]);
    assert!(listed.text().contains("domain 0, mirror whole"));
    let metrics = http_get(admin, "/metrics").1;
    let page = include_str!("../../../../docs/gateway.md");
    for name in [
        "generation",
        "mirror_missing_bytes",
        "mirror_batches",
        "mirror_silent_seconds",
        "mirror_bound",
        "standing_waits",
    ] {
        let name = format!("stonecast_structures_{name}");
        assert!(
            metrics.contains(&format!("\n{name} ")),
            "{name} in {metrics}"
        );
        assert!(
            page.contains(&format!("`{name}`")),
            "{name} in docs/gateway.md"
        );
    }

    assert_eq!(http_get(admin, "/readyz").0, 200);
    let (status, words) = http_get(mirror_admin, "/readyz");
    assert_eq!(status, 503);
    assert!(words.contains("is a mirror of data structures"), "{words}");
    let refused = mirror.client(&["structures", "list"]);
    let words = "is a mirror of generation 1 that has everything";
    assert!(refused.refusal(1).contains(words), "{}", refused.stderr);
    mirror.stop();
    let nobody = mirror.client(&["structures", "promote", "--json"]);
    nobody.json_failure(4, "unreachable");
}

#[test]
fn with_a_store_in_files_a_mirror_promotes_itself_and_a_detachment_needs_no_statement() {
    let place = Place::on_disk();
    let store = format!("file:{}", place.path().join("record").display());
    tell_of_a_record(place, store);
}

#[test]
fn with_an_etcd_a_mirror_promotes_itself_and_a_detachment_needs_no_statement() {
    match Etcd::start() {
        Some(etcd) => tell_of_a_record(Place::on_disk(), etcd.address()),
        None => not_run(
            "promotion by a standing record in etcd",
            "etcd is not installed",
        ),
    }
}

/// Needs the record: nobody says a word when the back-end is gone, and the statement at a detachment is left out.
fn tell_of_a_record(place: Place, store: String) {
    let mut trio = Trio::begin_in(place, Some(store.clone()));
    let front_end = trio.front_end("visible");
    trio.progress();
    let told = trio
        .back_end
        .client(&["structures", "stat", "--json"])
        .json();
    assert_eq!(told["mirror"]["store"], "reached");
    trio.back_end.kill();
    trio.progress();
    assert!(trio.mirror.wait_until_ready(), "it is the back-end");

    // The old back-end learns from the record that it was succeeded, whoever is there.
    let absent = url(&trio.place, "nowhere");
    let with_absent = flags(&["--structures-mirror", &absent], Some(&store));
    let (old, data) = serve_command(&trio.place, "first", &with_absent);
    let refused = crate::support::run(old, b"");
    let words = "it was succeeded. Serve it as the mirror";
    assert!(refused.refusal(1).contains(words), "{}", refused.stderr);
    let (without, _) = serve_command(&trio.place, "first", &["--structures-mirror", &absent]);
    let refused = crate::support::run(without, b"");
    assert!(refused.refusal(1).contains("--structures-cluster"));
    let data = data.to_str().expect("a name in UTF-8");
    let detach = ["structures", "detach", data, "--structures-cluster", &store];
    let refused = stonecast(detach);
    let words = "is the back-end of generation 2, as the standing record";
    assert!(refused.refusal(1).contains(words), "{}", refused.stderr);

    // It returns as the mirror, and is detached.
    trio.mirror.stop();
    trio.serve_mirror("first");
    trio.serve_back_end("second", "first");
    trio.progress();
    await_whole(&trio.back_end);
    trio.progress();
    trio.mirror.kill();
    assert_eq!(trio.back_end.wait().code(), Some(1));
    let second = trio.place.path().join("second");
    let second = second.to_str().expect("a name in UTF-8");
    let detach = [
        "structures",
        "detach",
        second,
        "--structures-cluster",
        &store,
        "--json",
    ];
    assert_eq!(stonecast(detach).json()["generation"], 3);
    trio.back_end = serve(&trio.place, "second", &flags(&[], Some(&store)));
    trio.progress();

    // The mirror was not destroyed, and follows nobody.
    trio.serve_mirror("first");
    let promote = ["structures", "promote", "--within", "30s"];
    let refused = trio.mirror.client(&promote);
    let words = "the standing record, of generation 3, does not name this mirror";
    assert!(refused.refusal(1).contains(words), "{}", refused.stderr);
    trio.progress();
    drop(front_end);
    trio.expect_everything("second");
}

/// Needs the mirror to wait for the store, and to say so.
#[test]
fn a_mirror_without_its_store_is_promoted_when_the_store_is_back() {
    let place = Place::on_disk();
    let folder = place.path().join("record");
    let away = place.path().join("away");
    let store = format!("file:{}", folder.display());
    let mut trio = Trio::begin_in(place, Some(store));
    let front_end = trio.front_end("visible");
    trio.progress();
    fs::rename(&folder, &away).expect("the folder is there");
    trio.progress();
    trio.back_end.kill();
    let told = trio.acknowledged();
    let early = ["structures", "promote", "--within", "3s"];
    let early = trio.mirror.client(&early);
    let words = "the store of the standing record is away";
    assert!(early.refusal(7).contains(words), "{}", early.stderr);
    assert!(trio.acknowledged() <= told + 1, "nobody serves");
    fs::rename(&away, &folder).expect("the folder is there");
    trio.progress();
    drop(front_end);
    trio.expect_everything("second");
    trio.mirror.stop();
    let heard = trio.mirror.heard_to_the_end();
    assert!(heard.contains("promotion and binding wait"), "{heard}");
}
