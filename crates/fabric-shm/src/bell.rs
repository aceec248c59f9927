//! The own doorbell of a device: shared by its thread, which sleeps on it, and its control thread, which rings it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use stonecast_base::Nanoseconds;
use stonecast_media::{MappedRegion, Sealing};

use crate::doorbell;
use crate::layout::{BELL_SIZE, SLEEPING};

/// Where the futex word lies.
const FUTEX: u64 = 0;

/// See the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct Bell {
    memory: Arc<MappedRegion>,
    /// The device page, which says whether the device sleeps.
    page: Arc<MappedRegion>,
}

impl Bell {
    pub(crate) fn new(page: Arc<MappedRegion>) -> io::Result<Self> {
        let memory = Arc::new(MappedRegion::create_memory("stonecast-bell", BELL_SIZE, Sealing::None)?);
        Ok(Self { memory, page })
    }

    /// The memory that peers of the same user get.
    pub(crate) fn memory(&self) -> &MappedRegion {
        &self.memory
    }

    /// Sleeps until the bell rings or `timeout` is over, unless `has_work` once the sleep is announced.
    pub(crate) fn sleep(&self, reasons: u64, timeout: Nanoseconds, has_work: impl FnOnce() -> bool) {
        let word = self.memory.futex_word(FUTEX);
        let ticket = word.load();
        doorbell::announce_sleep(&*self.page, SLEEPING, reasons);
        if !has_work() {
            // Whatever ended the sleep, the caller looks for work again.
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

/// Rings the bell in `memory`, whoever's it is.
pub(crate) fn ring(memory: &MappedRegion) {
    let word = memory.futex_word(FUTEX);
    word.fetch_add(1);
    // Waking nobody is no failure: the sleeper sees the changed word.
    let _ = word.wake(1);
}
