//! Keeps a processor awake while its thread waits for the disk.
//!
//! ```text
//!   server    work |--- fdatasync ---| work |--- fdatasync ---|  ...                      nothing to sync
//!   awake     -----|spins            |------|spins            |------- REST_AFTER --------| sleeps, until the next sync
//!             the same processor: at the lowest priority, so that whoever has work there runs at once
//! ```
//!
//! A processor with nothing to run sleeps, and wakes late: a virtual one is put to sleep and woken by its host, a real one leaves
//! deep states slowly. A sync of a file is two requests of the disk, each waited for, so it is paid for twice
//! (`docs/design/0018` has measurements). A thread of the lowest class (`SCHED_IDLE`) that spins on the same processor takes time
//! from nobody else there, and none of any other processor.
//!
//! Only a matter of speed: where the class or the processor cannot be had, nothing is kept awake. Nor is it where a control group
//! rations processor time (`CPUQuota` of a service, `--cpus` of a container): time spent spinning would be missing for work.

use std::hint::spin_loop;
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Thread, available_parallelism};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// How long after the last sync began the processor may sleep again: many times what is between two syncs under load.
const REST_AFTER: Duration = Duration::from_millis(1);
/// Looks between two looks at the clock.
const LOOKS: u32 = 64;
/// More syncs than there will be.
const AWAKE: u64 = u64::MAX;

/// What both threads share.
#[derive(Debug)]
struct Shared {
    /// Syncs that were begun.
    syncs: AtomicU64,
    /// The processor of the thread that waits for them.
    processor: AtomicU64,
    /// After how many syncs the thread sleeps, or is about to; [`AWAKE`]: it does not.
    rests_after: AtomicU64,
    stop: AtomicBool,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Awake {
    shared: Arc<Shared>,
    /// `None`: it could not be had.
    thread: Option<Thread>,
}

impl Awake {
    /// Starts the thread, which sleeps. None, if this process's processor time is rationed.
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

    /// To be called by the thread that is about to wait for a sync.
    pub fn note_sync(&self) {
        let Some(thread) = &self.thread else { return };
        self.shared
            .processor
            .store(sched_getcpu() as u64, Ordering::Relaxed);
        // Both threads announce first and look then, so one of them sees the other.
        self.shared.syncs.fetch_add(1, Ordering::SeqCst);
        if self.shared.rests_after.load(Ordering::SeqCst) != AWAKE {
            thread.unpark();
        }
    }
}

/// The thread ends by itself, as soon as there is a processor for it. On a busy machine that may take long, so nobody waits.
impl Drop for Awake {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }
}

/// The thread: until told to stop.
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

/// Sleeps until there were more syncs than were `seen`, or it is time to stop.
fn rest(shared: &Shared, seen: u64) {
    shared.rests_after.store(seen, Ordering::SeqCst);
    while shared.syncs.load(Ordering::SeqCst) == seen && !shared.stop.load(Ordering::SeqCst) {
        std::thread::park();
    }
    shared.rests_after.store(AWAKE, Ordering::SeqCst);
}

/// Whether a control group gives less than the processors that this process may run on: the standard library counts how many of
/// them its quota is worth, rounded down. (One processor and less than one are not told apart.)
fn time_is_rationed(worth: Option<NonZero<usize>>, allowed: Option<CpuSet>) -> bool {
    worth
        .zip(allowed)
        .is_some_and(|(worth, allowed)| worth.get() < allowed.count() as usize)
}

/// This thread runs on that processor alone.
fn go_to(processor: u64) -> io::Result<()> {
    let mut one = CpuSet::new();
    one.set(processor as usize);
    Ok(sched_setaffinity(None, &one)?)
}

/// This thread runs when nobody else would.
fn take_lowest_class() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` is a valid `sched_param` for the whole call, which reads it; thread 0 is the calling one.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Waits for what another thread does when it gets a processor, so without taking it.
    fn until(mut happened: impl FnMut() -> bool) {
        for _ in 0..60_000 {
            if happened() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("it does not happen");
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
        // What the system does not tell is no reason.
        assert!(!time_is_rationed(None, allowed(2)) && !time_is_rationed(NonZero::new(1), None));

        let awake = Awake::start_unless(true);
        awake.note_sync();
        assert!(awake.thread.is_none());
    }

    /// Needs the end of the spinning: an idle server must not keep a processor busy.
    #[test]
    fn it_wakes_for_syncs_and_rests_when_there_are_no_more() {
        let awake = Awake::start_unless(false);
        for syncs in 0..4 {
            until(|| awake.shared.rests_after.load(Ordering::SeqCst) == syncs);
            awake.note_sync();
        }
    }

    /// Needs the class and the place: without the one it takes time from the server, without the other it keeps a processor
    /// awake that nobody waits on.
    #[test]
    fn it_runs_at_the_lowest_class_and_on_one_processor_alone() {
        /// Fields of `/proc/PID/task/TID/stat` behind the name: the scheduling class.
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

    /// Needs the look at `stop`, and to be woken for it.
    #[test]
    fn it_ends_with_its_owner_whether_it_rests_or_not() {
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
