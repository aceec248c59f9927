//! Power cuts: load in a machine that is killed, and a comparison of the pool's content with the notes afterwards.
//!
//! ```text
//!   in the machine   each boot: verify the pool, serve it, export it, then load until the machine is gone
//!   outside          after each boot: read the notes of all boots before, compare with the export
//! ```
//!
//! `cargo xtask guest` calls both, starts the machine and kills the machine. The folder of a site lies outside the
//! machine, and a write to that folder returns once the bytes are outside. A note is therefore outside before the
//! announced operation is sent, and an acknowledged write is known outside as soon as the writer continues.
//!
//! ```text
//!   notes-B-W    of worker W in boot B       verified-B   what `verify` found before boot B served the pool
//!   export-B     what boot B found           loading-B    made when every worker of boot B has something to say
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::kill::model::Model;
use crate::kill::work::{self, OPERATIONS_PER_SESSION, WRITERS, Work};
use crate::support::{Server, as_worker, start_worker, stonecast};

const LOAD: &str = "power_cuts::loads_a_pool_until_the_power_is_cut";
/// Software emulation is slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// The place of a pool and of the notes about it, from the environment.
pub struct Site {
    /// Notes and exports.
    folder: PathBuf,
    /// Counts boots from 0.
    pub boot: u32,
}

impl Site {
    pub fn from_environment() -> Self {
        let value = |name: &str| {
            std::env::var(name).unwrap_or_else(|_| panic!("`cargo xtask guest` sets {name}"))
        };
        Self {
            folder: value("STONECAST_SITE").into(),
            boot: value("STONECAST_BOOT").parse().expect("a number"),
        }
    }

    /// Whether this boot only verifies.
    pub fn is_the_last_boot(&self) -> bool {
        std::env::var_os("STONECAST_LAST_BOOT").is_some()
    }

    /// The first number of the operations of a worker in this boot.
    pub fn first_operation(&self, worker: usize) -> u64 {
        u64::from(self.session(worker)) * OPERATIONS_PER_SESSION
    }

    fn session(&self, worker: usize) -> u32 {
        self.boot * 10 + worker as u32 + 1
    }

    /// Waits until each of these workers has written a note.
    pub fn wait_for_notes(&self, workers: usize) {
        let start = Instant::now();
        let is_noted = |worker| {
            fs::metadata(self.notes(self.boot, worker)).is_ok_and(|status| status.len() > 0)
        };
        while !(0..workers).all(is_noted) {
            assert!(start.elapsed() < PATIENCE, "the workers do nothing");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn file(&self, what: &str, boot: u32) -> PathBuf {
        self.folder.join(format!("{what}-{boot}"))
    }

    /// Writes a file that is complete or absent after a loss of the machine's power.
    pub fn leave(&self, what: &str, bytes: &[u8]) {
        let half = self.folder.join("half");
        fs::write(&half, bytes).expect("the folder of the site can be written");
        fs::rename(&half, self.file(what, self.boot)).expect("a file of the site can be renamed");
    }

    pub fn notes(&self, boot: u32, worker: usize) -> PathBuf {
        self.file("notes", boot).with_extension(worker.to_string())
    }
}

#[test]
#[ignore = "a machine whose power is cut runs it: cargo xtask guest"]
fn loads_a_pool_until_the_power_is_cut() {
    if let Some(work) = as_worker() {
        return work::run(&Work::parse(&work));
    }
    let site = Site::from_environment();
    let pool = PathBuf::from(
        std::env::var_os("STONECAST_POOL").expect("`cargo xtask guest` says where the pool is"),
    );
    let options = std::env::var("STONECAST_SERVE_OPTIONS").unwrap_or_default();
    site.leave("opening", b"");
    if site.boot > 0 {
        site.leave("verified", verdict(&["verify"], &pool).as_bytes());
    }
    let server = Server::start(&pool, options.split_whitespace());
    site.leave("export", server.client(&["export"]).text().as_bytes());
    if site.is_the_last_boot() {
        return;
    }
    let words = site.folder.join("words");
    let start_one = |worker: usize| {
        let session = site.session(worker);
        let work = Work {
            address: server.address(),
            notes: site.notes(site.boot, worker),
            worker,
            session,
        };
        start_worker(LOAD, &work.to_string(), &words)
    };
    let mut workers: Vec<_> = (0..=WRITERS).map(start_one).collect();
    site.wait_for_notes(WRITERS + 1);
    site.leave("loading", b"");
    while workers.iter_mut().all(|worker| worker.runs()) {
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!(
        "a worker ended: {}",
        fs::read_to_string(words).unwrap_or_default()
    );
}

/// `good`, or the findings of the command `verify`.
pub fn verdict(verify: &[&str], pool: &Path) -> String {
    // The first boot may have ended before the creation of the pool.
    let verify = verify.iter().map(AsRef::as_ref);
    let verified = stonecast(verify.chain([pool.as_os_str()]));
    match verified.code {
        Some(0) => "good".to_owned(),
        _ if verified.stderr.contains("there is no pool at") => "none".to_owned(),
        code => format!(
            "{code:?} {}{}",
            String::from_utf8_lossy(&verified.stdout),
            verified.stderr
        ),
    }
}

/// Needs, on a page file, the sync before the acknowledgement: without it, writes that were reported as durable are
/// only in the machine's page cache. On persistent memory, a machine that is killed loses nothing, so this test does
/// not detect an omitted write-back; the simulated world does.
#[test]
#[ignore = "judges what a machine left whose power was cut: cargo xtask guest"]
fn every_acknowledged_write_is_there_after_power_cuts() {
    let site = Site::from_environment();
    let mut model = Model::default();
    let (mut had_pool, mut compared) = (false, 0);
    for boot in 0..=site.boot {
        if let Ok(verdict) = fs::read_to_string(site.file("verified", boot)) {
            let is_right = verdict == "good" || verdict == "none" && !had_pool;
            assert!(
                is_right,
                "before boot {boot} the pool does not verify: {verdict}"
            );
        }
        if let Ok(exported) = fs::read_to_string(site.file("export", boot)) {
            model.compare(&exported);
            (had_pool, compared) = (true, boot);
        }
        for worker in 0..=WRITERS {
            model.read_notes(&site.notes(boot, worker));
        }
    }
    assert!(had_pool, "no boot got as far as an export");
    println!(
        "boot {compared} compared, {} writes acknowledged so far",
        model.acknowledged
    );
}
