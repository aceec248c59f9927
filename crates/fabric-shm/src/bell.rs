//! A device's own doorbell: shared by its thread, which sleeps on it, and its control thread, which rings it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::time::Duration;

use stonecast_base::Nanoseconds;
use stonecast_media::{MappedRegion, Sealing};

use crate::doorbell;
use crate::layout::{BELL_SIZE, SLEEPING};

/// Offset of the futex word.
const FUTEX: u64 = 0;

#[derive(Clone, Debug)]
pub(crate) struct Bell {
    memory: Arc<MappedRegion>,
    /// The device page, which tells whether the device sleeps.
    page: Arc<MappedRegion>,
    /// Whether another thread of this process wants to end the current sleep, or the next.
    unparked: Arc<AtomicBool>,
}

impl Bell {
    pub(crate) fn new(page: Arc<MappedRegion>) -> io::Result<Self> {
        let memory = Arc::new(MappedRegion::create_memory(
            "stonecast-bell",
            BELL_SIZE,
            Sealing::None,
        )?);
        Ok(Self {
            memory,
            page,
            unparked: Arc::default(),
        })
    }

    /// The memory that peers of the same user receive.
    pub(crate) fn memory(&self) -> &MappedRegion {
        &self.memory
    }

    /// Sleeps until the bell rings or `timeout` is over. Returns at once if `has_work` is true after the sleep is
    /// announced, or if the bell was woken since the last sleep.
    pub(crate) fn sleep(
        &self,
        reasons: u64,
        timeout: Nanoseconds,
        has_work: impl FnOnce() -> bool,
    ) {
        let word = self.memory.futex_word(FUTEX);
        let ticket = word.load();
        doorbell::announce_sleep(&*self.page, SLEEPING, reasons);
        // The ticket is older than this check: a wake-up after the check has changed the word.
        if !self.unparked.swap(false, Ordering::SeqCst) && !has_work() {
            // The caller looks for work again after every sleep.
            let _ = word.wait(ticket, Some(Duration::from_nanos(timeout)));
        }
        doorbell::awake(&*self.page, SLEEPING);
    }

    /// Wakes the device if it sleeps.
    pub(crate) fn ring(&self) {
        if doorbell::must_wake(&*self.page, SLEEPING, doorbell::ARRIVALS) {
            ring(&self.memory);
        }
    }
}

/// Ends the current sleep, or the next one at once, for every reason for which the device sleeps.
impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unparked.store(true, Ordering::SeqCst);
        ring(&self.memory);
    }
}

/// Rings the bell in `memory`, which may belong to any device.
pub(crate) fn ring(memory: &MappedRegion) {
    let word = memory.futex_word(FUTEX);
    word.fetch_add(1);
    // A ring without a sleeper is not a failure: the sleeper sees the changed word.
    let _ = word.wake(1);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::key_table::KeyTable;

    const LONG_NS: Nanoseconds = 30_000_000_000;

    fn bell() -> Bell {
        Bell::new(KeyTable::new().unwrap().memory().clone()).unwrap()
    }

    /// Needs the change of the futex word in `ring`: without it the wake-up finds no sleeper and the sleep takes its
    /// full time.
    #[test]
    fn a_ring_between_the_last_check_and_the_sleep_is_not_lost() {
        let bell = bell();
        let start = Instant::now();
        bell.sleep(doorbell::ARRIVALS, LONG_NS, || {
            bell.ring();
            false
        });
        assert!(start.elapsed().as_nanos() < u128::from(LONG_NS / 2));
    }

    /// Needs `unparked`: the sleep begins after the wake-up, so the futex word equals the ticket.
    #[test]
    fn a_wake_up_before_the_sleep_ends_only_that_sleep() {
        let bell = bell();
        Arc::new(bell.clone()).wake();
        let start = Instant::now();
        bell.sleep(doorbell::ARRIVALS, LONG_NS, || false);
        assert!(start.elapsed().as_nanos() < u128::from(LONG_NS / 2));
        let mut looked = false;
        bell.sleep(doorbell::ARRIVALS, 1, || {
            looked = true;
            false
        });
        assert!(looked, "the wake-up is used up");
    }

    /// Needs the change of the futex word in `wake_by_ref`.
    #[test]
    fn a_wake_up_between_the_last_check_and_the_sleep_is_not_lost() {
        let bell = bell();
        let waker = Arc::new(bell.clone());
        let start = Instant::now();
        bell.sleep(doorbell::ARRIVALS, LONG_NS, || {
            waker.wake_by_ref();
            false
        });
        assert!(start.elapsed().as_nanos() < u128::from(LONG_NS / 2));
    }

    #[test]
    fn a_device_that_finds_work_at_the_last_check_does_not_sleep() {
        let start = Instant::now();
        bell().sleep(doorbell::ARRIVALS, LONG_NS, || true);
        assert!(start.elapsed().as_nanos() < u128::from(LONG_NS / 2));
    }

    #[test]
    fn a_sleeper_is_woken_only_for_its_reasons() {
        let bell = bell();
        let word = bell.memory.futex_word(FUTEX);
        bell.ring();
        assert_eq!(word.load(), 0, "no device sleeps");
        bell.sleep(doorbell::ARRIVALS, LONG_NS, || {
            assert!(!doorbell::must_wake(
                &*bell.page,
                SLEEPING,
                doorbell::ACKNOWLEDGEMENTS
            ));
            assert!(doorbell::must_wake(
                &*bell.page,
                SLEEPING,
                doorbell::ARRIVALS
            ));
            true
        });
    }
}
