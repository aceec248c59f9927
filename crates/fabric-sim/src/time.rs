//! Virtual time: the next event, timers, and the cost of a handler's work.
//!
//! A handler (a poll of a task) runs in one piece at the moment of its event, and adds up the time that its work would
//! take on its core: [`Time::charge`]. The handler's clock advances with it; the core is busy until then, and the
//! handler's posts leave at that clock. Hardware is not charged: its times are decided when an event is pushed.
//!
//! Invariants: time never goes back; a charge outside a handler has no effect, so a core, a NIC or a test can touch the
//! same memory.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Timer;
use stonecast_media::Ddio;

use crate::cache::{Cache, Latencies};
use crate::queue::{Event, Queue};

#[derive(Default)]
pub(crate) struct Time {
    now: Cell<Nanoseconds>,
    /// Picoseconds that the running handler has used.
    used: Cell<u64>,
    /// The core whose handler runs.
    core: Cell<Option<usize>>,
    caches: RefCell<Vec<Cache>>,
    queue: RefCell<Queue>,
    timers: RefCell<Timers>,
    next_space: Cell<u32>,
    /// Counts the stores to all persistent memories, in order.
    stores: Rc<Cell<u64>>,
    /// The time at which the NIC's current access is in the memory controller; `None` if no NIC accesses memory.
    nic: Cell<Option<Nanoseconds>>,
    /// Whether the accessing NIC writes into the last-level cache; `None` to follow its machine.
    nic_ddio: Cell<Option<Ddio>>,
    /// The memory that a NIC touched.
    touched: Cell<Option<u32>>,
    /// Whether a handler read an unreadable line.
    poison: Cell<bool>,
}

/// Requested wake-ups. The entry of a slot in the queue is kept when its timer is cancelled and serves the next timer
/// of the slot, so that tasks that set and cancel a timer a million times a second leave no entries.
#[derive(Default)]
struct Timers {
    slots: Vec<Slot>,
    free: Vec<u32>,
    serial: u64,
}

struct Slot {
    /// `None` if free.
    waker: Option<Waker>,
    deadline: Nanoseconds,
    serial: u64,
    /// The time of the slot's entry in the queue; `NEVER` if there is none.
    queued: Nanoseconds,
}

const NEVER: Nanoseconds = Nanoseconds::MAX;
/// Bits of a timer's serial number that name its slot.
const SLOT_BITS: u32 = 24;

impl Time {
    /// The counter of the stores to all persistent memories: their common order.
    pub fn stores(&self) -> &Rc<Cell<u64>> {
        &self.stores
    }

    /// The moment of the running event.
    #[inline]
    pub fn now(&self) -> Nanoseconds {
        self.now.get()
    }

    /// The clock of the caller: for a handler, the moment plus the cost of its work.
    #[inline]
    pub fn clock(&self) -> Nanoseconds {
        self.now.get() + self.used.get() / 1000
    }

    /// Lets `event` happen at `time`.
    pub fn push(&self, time: Nanoseconds, event: Event) {
        self.queue.borrow_mut().push(time, event);
    }

    /// Advances to the next event.
    pub fn advance(&self) -> Option<Event> {
        let (time, event) = self.queue.borrow_mut().pop()?;
        self.now.set(time);
        Some(event)
    }

    /// Drops all future events.
    pub fn clear(&self) {
        self.queue.borrow_mut().clear();
        let slots = std::mem::take(&mut self.timers.borrow_mut().slots);
        // The drop of a waker may end a task that calls back.
        drop(slots);
        self.timers.borrow_mut().free.clear();
    }

    /// Runs `handler` on `core`, and returns its result and the picoseconds of its work.
    pub fn run<T>(&self, core: usize, handler: impl FnOnce() -> T) -> (T, u64) {
        assert!(
            self.core.get().is_none(),
            "a handler does not run inside another one"
        );
        self.core.set(Some(core));
        self.used.set(0);
        let result = handler();
        self.core.set(None);
        (result, self.used.replace(0))
    }

    /// Adds work of the running handler.
    #[inline]
    pub fn charge(&self, nanoseconds: Nanoseconds) {
        self.charge_ps(nanoseconds * 1000);
    }

    /// Like [`Time::charge`].
    #[inline]
    pub fn charge_ps(&self, picoseconds: u64) {
        if self.core.get().is_some() {
            self.used.set(self.used.get() + picoseconds);
        }
    }

    /// Adds the running handler's access to `size` bytes at `offset` of memory `space`.
    #[inline]
    pub fn charge_access(&self, space: u32, offset: u64, size: usize, latencies: &Latencies) {
        if let Some(core) = self.core.get() {
            let cost = self.caches.borrow_mut()[core].access(space, offset, size, latencies);
            self.used.set(self.used.get() + cost);
        }
    }

    /// The core whose handler runs.
    #[inline]
    pub fn core(&self) -> Option<usize> {
        self.core.get()
    }

    /// Runs `access`, a NIC's access to memory. Returns the time at which the access has gone as far as it goes without
    /// help.
    pub fn as_nic<T>(&self, access: impl FnOnce() -> T) -> (T, Nanoseconds) {
        self.nic.set(Some(self.now()));
        let result = access();
        (result, self.nic.take().expect("set above"))
    }

    /// Like [`Time::as_nic`], through a root port with a setting of its own.
    pub fn as_nic_with<T>(
        &self,
        ddio: Option<Ddio>,
        access: impl FnOnce() -> T,
    ) -> (T, Nanoseconds) {
        self.nic_ddio.set(ddio);
        let result = self.as_nic(access);
        self.nic_ddio.set(None);
        result
    }

    /// Whether the accessing NIC writes into the last-level cache; `None` to follow its machine.
    pub fn nic_ddio(&self) -> Option<Ddio> {
        self.nic_ddio.get()
    }

    /// Whether memory is accessed by a NIC at this moment.
    #[inline]
    pub fn is_nic(&self) -> bool {
        self.nic.get().is_some()
    }

    /// The persistent memory that `access` touches, through any wrappers.
    pub fn space_of(&self, access: impl FnOnce()) -> Option<u32> {
        self.touched.set(None);
        self.as_nic(access);
        self.touched.take()
    }

    /// Notes that a NIC touches persistent memory `space`.
    pub fn note_touch(&self, space: u32) {
        self.touched.set(Some(space));
    }

    /// Notes the read of an unreadable line.
    pub fn note_poison(&self) {
        self.poison.set(true);
    }

    /// Whether there was such a read since the last call.
    #[inline]
    pub fn take_poison(&self) -> bool {
        self.poison.take()
    }

    /// Notes that the NIC's access has gone as far as it goes without help only at `at`.
    pub fn note_settled(&self, at: Nanoseconds) {
        self.nic.set(self.nic.get().max(Some(at)));
    }

    /// Makes room for one more core.
    pub fn add_core(&self) -> usize {
        self.caches.borrow_mut().push(Cache::default());
        self.caches.borrow().len() - 1
    }

    /// A number for a piece of memory, for the caches.
    pub fn new_space(&self) -> u32 {
        self.next_space.replace(self.next_space.get() + 1)
    }

    /// Wakes `waker` at `deadline`.
    pub fn wake_at(&self, deadline: Nanoseconds, waker: &Waker) -> Timer {
        let deadline = deadline.max(self.now());
        let timers = &mut *self.timers.borrow_mut();
        let index = timers.free.pop().unwrap_or_else(|| {
            timers.slots.push(Slot {
                waker: None,
                deadline: 0,
                serial: 0,
                queued: NEVER,
            });
            timers.slots.len() as u32 - 1
        });
        assert!(index < 1 << SLOT_BITS, "memory ends before {index} timers");
        timers.serial += 1;
        let slot = &mut timers.slots[index as usize];
        slot.serial = timers.serial << SLOT_BITS | u64::from(index);
        slot.deadline = deadline;
        slot.waker = Some(waker.clone());
        if slot.queued > deadline {
            slot.queued = deadline;
            self.queue.borrow_mut().push(deadline, Event::Timer(index));
        }
        Timer {
            deadline,
            serial: slot.serial,
        }
    }

    /// Forgets a timer.
    pub fn cancel(&self, timer: Timer) {
        let timers = &mut *self.timers.borrow_mut();
        let index = (timer.serial & ((1 << SLOT_BITS) - 1)) as u32;
        let slot = timers
            .slots
            .get_mut(index as usize)
            .filter(|slot| slot.serial == timer.serial);
        if let Some(slot) = slot.filter(|slot| slot.waker.is_some()) {
            slot.waker = None;
            timers.free.push(index);
        }
    }

    /// Handles the entry of timer slot `index`, and returns the waker if it is due.
    pub fn timer_due(&self, index: u32) -> Option<Waker> {
        let now = self.now();
        let timers = &mut *self.timers.borrow_mut();
        let slot = timers
            .slots
            .get_mut(index as usize)
            .filter(|slot| slot.queued == now)?;
        slot.queued = NEVER;
        if slot.waker.is_some() && slot.deadline > now {
            slot.queued = slot.deadline;
            self.queue
                .borrow_mut()
                .push(slot.deadline, Event::Timer(index));
            return None;
        }
        let waker = slot.waker.take()?;
        timers.free.push(index);
        Some(waker)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs to the end of the queue, and returns the times at which `count` was woken.
    fn woken(time: &Time, count: &Arc<Count>) -> Vec<Nanoseconds> {
        let mut times = Vec::new();
        while let Some(event) = time.advance() {
            let Event::Timer(index) = event else {
                panic!("only timers are set")
            };
            if let Some(waker) = time.timer_due(index) {
                waker.wake();
            }
            times.extend(
                (times.len()..count.0.load(Ordering::Relaxed) as usize).map(|_| time.now()),
            );
        }
        times
    }

    #[test]
    fn timers_fire_once_at_their_deadline_and_cancelled_ones_never() {
        let (time, count) = (Time::default(), Arc::new(Count::default()));
        let waker = Waker::from(count.clone());
        let timers = [50, 20, 40, 20].map(|deadline| time.wake_at(deadline, &waker));
        time.cancel(timers[2]);
        time.cancel(timers[2]);
        assert_eq!(woken(&time, &count), [20, 20, 50]);
        time.cancel(timers[0]);
    }

    /// Needs the check of the deadline in `timer_due`: the slot's old entry comes before the new timer is due.
    #[test]
    fn a_timer_in_a_slot_with_an_older_entry_fires_at_its_own_time() {
        let (time, count) = (Time::default(), Arc::new(Count::default()));
        let waker = Waker::from(count.clone());
        time.cancel(time.wake_at(10, &waker));
        let _later = time.wake_at(30, &waker);
        assert_eq!(woken(&time, &count), [30]);
        time.cancel(time.wake_at(90, &waker));
        let _earlier = time.wake_at(60, &waker);
        assert_eq!(woken(&time, &count).last(), Some(&60));
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn timers_that_are_set_and_cancelled_repeatedly_leave_nothing_behind() {
        let (time, count) = (Time::default(), Arc::new(Count::default()));
        let waker = Waker::from(count.clone());
        for round in 0..10_000 {
            time.cancel(time.wake_at(1_000_000 + round, &waker));
        }
        assert_eq!(std::iter::from_fn(|| time.advance()).count(), 1);
    }
}
