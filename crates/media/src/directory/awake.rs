//! Keeps a processor awake while its thread waits for the disk.
//!
//! ```text
//!   server    work |--- fdatasync ---| work |--- fdatasync ---|  ...                      nothing to sync
//!   awake     -----|spins            |------|spins            |------- REST_AFTER --------| sleeps, until the next sync
//!             the same processor: at the lowest priority, so that any other work there runs at once
//! ```
//!
//! An idle processor sleeps and wakes late: the host stops and resumes a virtual processor, and a real one leaves deep
//! states slowly. A sync of a file makes two requests to the disk and waits for each, so every sync pays for two
//! wake-ups (`docs/design/0018` has measurements). A thread of the lowest class (`SCHED_IDLE`) that spins on the same
//! processor takes no time from other work there, and none from any other processor.
//!
//! Only speed depends on this thread. No thread runs where the class or the processor is not available, nor where a
//! control group rations processor time (`CPUQuota` of a service, `--cpus` of a container): spinning would use up time
//! that the work needs.

use std::hint::spin_loop;
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Thread, available_parallelism};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Time after the start of the last sync until the processor may sleep again: many times the pause between two syncs
/// under load.
const REST_AFTER: Duration = Duration::from_millis(1);
/// Checks of the counter between two clock readings.
const LOOKS: u32 = 64;
/// A number of syncs that no run reaches.
const AWAKE: u64 = u64::MAX;

/// State that both threads share.
#[derive(Debug)]
struct Shared {
    /// Number of syncs that have begun.
    syncs: AtomicU64,
    /// The processor of the thread that waits for the syncs.
    processor: AtomicU64,
    /// The number of syncs after which the thread sleeps or is about to sleep; [`AWAKE`] while it spins.
    rests_after: AtomicU64,
    stop: AtomicBool,
}

/// The thread that keeps a processor awake.
#[derive(Debug)]
pub(super) struct Awake {
    shared: Arc<Shared>,
    /// `None` if the thread could not be started.
    thread: Option<Thread>,
}

impl Awake {
    /// Starts the thread, which sleeps at first. Starts none if the processor time of this process is rationed.
    pub fn start() -> Self {
        Self::start_unless(time_is_rationed(
            available_parallelism().ok(),
            sched_getaffinity(None).ok(),
        ))
    }

    fn start_unless(rationed: bool) -> Self {
        let shared = Arc::new(Shared {
            syncs: AtomicU64::new(0),
            processor: AtomicU64::new(0),
            rests_after: AtomicU64::new(AWAKE),
            stop: AtomicBool::new(false),
        });
        if rationed {
            return Self {
                shared,
                thread: None,
            };
        }
        let builder = std::thread::Builder::new().name("stonecast-awake".to_owned());
        let thread = builder.spawn({
            let shared = Arc::clone(&shared);
            move || {
                if take_lowest_class().is_ok() {
                    work(&shared);
                }
            }
        });
        Self {
            shared,
            thread: thread.ok().map(|thread| thread.thread().clone()),
        }
    }

    /// Called on the thread that is about to wait for a sync.
    pub fn note_sync(&self) {
        let Some(thread) = &self.thread else { return };
        self.shared
            .processor
            .store(sched_getcpu() as u64, Ordering::Relaxed);
        // Both threads announce first and check afterwards, so at least one of them sees the other.
        self.shared.syncs.fetch_add(1, Ordering::SeqCst);
        if self.shared.rests_after.load(Ordering::SeqCst) != AWAKE {
            thread.unpark();
        }
    }
}

/// The thread ends by itself as soon as it gets a processor. That may take long on a busy machine, so the drop does not
/// wait.
impl Drop for Awake {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }
}

/// The body of the thread, until it is told to stop.
fn work(shared: &Shared) {
    let mut seen = shared.syncs.load(Ordering::SeqCst);
    let mut here = None;
    loop {
        rest(shared, seen);
        let mut last = Instant::now();
        while last.elapsed() < REST_AFTER {
            if shared.stop.load(Ordering::Relaxed) {
                return;
            }
            let processor = shared.processor.load(Ordering::Relaxed);
            if here != Some(processor) {
                if go_to(processor).is_err() {
                    return;
                }
                here = Some(processor);
            }
            let now = shared.syncs.load(Ordering::Relaxed);
            if now != seen {
                (seen, last) = (now, Instant::now());
            }
            (0..LOOKS).for_each(|_| spin_loop());
        }
    }
}

/// Sleeps until more than `seen` syncs have begun, or the thread is told to stop.
fn rest(shared: &Shared, seen: u64) {
    shared.rests_after.store(seen, Ordering::SeqCst);
    while shared.syncs.load(Ordering::SeqCst) == seen && !shared.stop.load(Ordering::SeqCst) {
        std::thread::park();
    }
    shared.rests_after.store(AWAKE, Ordering::SeqCst);
}

/// Whether a control group gives this process less time than its processors have. The standard library reports the
/// number of processors that the quota is worth, rounded down. (One processor and less than one look the same.)
fn time_is_rationed(worth: Option<NonZero<usize>>, allowed: Option<CpuSet>) -> bool {
    worth
        .zip(allowed)
        .is_some_and(|(worth, allowed)| worth.get() < allowed.count() as usize)
}

/// Binds this thread to the processor.
fn go_to(processor: u64) -> io::Result<()> {
    let mut one = CpuSet::new();
    one.set(processor as usize);
    Ok(sched_setaffinity(None, &one)?)
}

/// Lets this thread run only when no other thread would run.
fn take_lowest_class() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` is a valid `sched_param` for the whole call, which reads it; thread 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Waits for another thread, and yields the processor to it.
    fn until(mut happened: impl FnMut() -> bool) {
        for _ in 0..60_000 {
            if happened() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("the other thread did not act in time");
    }

    #[test]
    fn a_quota_of_less_than_the_allowed_processors_keeps_none_awake() {
        let allowed = |processors| {
            let mut set = CpuSet::new();
            (0..processors).for_each(|processor| set.set(processor));
            Some(set)
        };
        for (worth, processors, rationed) in
            [(1, 2, true), (3, 4, true), (2, 2, false), (1, 1, false)]
        {
            assert_eq!(
                time_is_rationed(NonZero::new(worth), allowed(processors)),
                rationed,
                "{worth} of {processors}"
            );
        }
        // A quota that the system does not report does not count.
        assert!(!time_is_rationed(None, allowed(2)) && !time_is_rationed(NonZero::new(1), None));

        let awake = Awake::start_unless(true);
        awake.note_sync();
        assert!(awake.thread.is_none());
    }

    /// Needs the end of the spinning: an idle server must not keep a processor busy.
    #[test]
    fn the_thread_wakes_for_syncs_and_rests_when_no_more_come() {
        let awake = Awake::start_unless(false);
        for syncs in 0..4 {
            until(|| awake.shared.rests_after.load(Ordering::SeqCst) == syncs);
            awake.note_sync();
        }
    }

    /// Needs the class and the processor: without the class the thread takes time from the server; without the
    /// processor it keeps a processor awake on which no thread waits.
    #[test]
    fn the_thread_runs_in_the_lowest_class_and_on_one_processor_only() {
        /// Fields of `/proc/PID/task/TID/stat` after the name: the scheduling class.
        const POLICY: usize = 38;
        let is_as_it_should = |task: &fs::DirEntry| {
            let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let (stat, status) = (read("stat"), read("status"));
            let Some((name, fields)) = stat.rsplit_once(") ") else {
                return false;
            };
            let policy = fields.split(' ').nth(POLICY);
            let processors = status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            name.ends_with("(stonecast-awake")
                && policy == Some(&libc::SCHED_IDLE.to_string())
                && processors.is_some_and(|list| list.trim().parse::<u32>().is_ok())
        };
        let awake = Awake::start_unless(false);
        until(|| {
            awake.note_sync();
            fs::read_dir("/proc/self/task")
                .unwrap()
                .flatten()
                .any(|task| is_as_it_should(&task))
        });
    }

    /// Needs the check of `stop`, and the wake-up for it.
    #[test]
    fn the_thread_ends_with_its_owner_whether_it_rests_or_not() {
        for rests in [false, true] {
            let awake = Awake::start_unless(false);
            awake.note_sync();
            until(|| !rests || awake.shared.rests_after.load(Ordering::SeqCst) == 1);
            let shared = Arc::clone(&awake.shared);
            drop(awake);
            until(|| Arc::strong_count(&shared) == 1);
        }
    }
}
