//! Running protocol code: what it may ask of whoever runs it, and the executor of real providers.
//!
//! The simulated world has an executor of its own (virtual time); this one polls the device as fast as it can while
//! there is work, and falls asleep when there is none, because an idle server must not burn a core.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use stonecast_base::Nanoseconds;

use crate::Port;

/// What protocol code may ask of its surroundings.
pub trait Runtime {
    /// The clock: wall time or virtual time.
    fn now(&self) -> Nanoseconds;
    /// Runs `task` beside the caller.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()>>>);
    /// Wakes `waker` once, at `deadline` or later.
    fn wake_at(&self, deadline: Nanoseconds, waker: &Waker);
}

impl dyn Runtime {
    /// Waits until `deadline`.
    pub fn sleep_until(&self, deadline: Nanoseconds) -> Sleep<'_> {
        Sleep { runtime: self, deadline }
    }

    /// Waits for `duration` nanoseconds.
    pub fn sleep(&self, duration: Nanoseconds) -> Sleep<'_> {
        self.sleep_until(self.now().saturating_add(duration))
    }
}

/// Waits for a moment. Dropping it is harmless.
pub struct Sleep<'a> {
    runtime: &'a dyn Runtime,
    deadline: Nanoseconds,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.runtime.now() >= self.deadline {
            return Poll::Ready(());
        }
        self.runtime.wake_at(self.deadline, context.waker());
        Poll::Pending
    }
}

/// What the busy-poll executor needs of a real provider.
pub trait Park {
    /// The monotonic clock.
    fn now(&self) -> Nanoseconds;
    /// Sleeps until something may have happened on the device, or for `timeout` nanoseconds at most. May return early.
    /// Nothing that happened before the call is slept through.
    fn park(&self, timeout: Nanoseconds);
}

/// The executor of real providers: one thread, polls its ports, falls asleep when idle.
#[derive(Clone)]
pub struct BusyPoll {
    shared: Rc<Shared>,
}

struct Shared {
    park: Rc<dyn Park>,
    spin: Cell<Nanoseconds>,
    ports: RefCell<Vec<Weak<Port>>>,
    tasks: RefCell<Vec<Option<Task>>>,
    free: RefCell<Vec<usize>>,
    ready: Arc<ReadyQueue>,
    timers: RefCell<BTreeMap<(Nanoseconds, u64), Waker>>,
    timer_serial: Cell<u64>,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    handle: Arc<Handle>,
}

#[derive(Default)]
struct ReadyQueue {
    indexes: Mutex<VecDeque<usize>>,
    any: AtomicBool,
}

/// A task's waker. May outlive the task; a wake-up of a finished task finds an empty or another slot and costs one
/// spurious poll.
struct Handle {
    index: usize,
    queued: AtomicBool,
    ready: Arc<ReadyQueue>,
}

/// Index of the future that `block_on` drives.
const ROOT: usize = usize::MAX;
/// Longest sleep, so that peers that died without a word are looked for.
const PARK_MAX_NS: Nanoseconds = 50_000_000;
/// How many empty rounds pass between two looks at the clock: reading it costs as much as a round.
const ROUNDS_PER_CLOCK_READ: u32 = 32;

impl Wake for Handle {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.indexes.lock().expect("no holder panics").push_back(self.index);
            self.ready.any.store(true, Ordering::Release);
        }
    }
}

impl BusyPoll {
    /// An executor that polls for `spin` nanoseconds after the last sign of work and then parks.
    pub fn new(park: Rc<dyn Park>, spin: Nanoseconds) -> Self {
        Self {
            shared: Rc::new(Shared {
                park,
                spin: Cell::new(spin),
                ports: RefCell::default(),
                tasks: RefCell::default(),
                free: RefCell::default(),
                ready: Arc::default(),
                timers: RefCell::default(),
                timer_serial: Cell::new(0),
            }),
        }
    }

    /// Polls `port` from now on, until it is dropped.
    pub fn add_port(&self, port: &Rc<Port>) {
        self.shared.ports.borrow_mut().push(Rc::downgrade(port));
    }

    /// This executor as protocol code sees it.
    pub fn runtime(&self) -> Rc<dyn Runtime> {
        self.shared.clone()
    }

    /// Runs `future` to its end, and spawned tasks beside it as long as it takes.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let shared = &*self.shared;
        let root = Arc::new(Handle { index: ROOT, queued: AtomicBool::new(false), ready: shared.ready.clone() });
        let waker = Waker::from(root.clone());
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        let mut idle_since = None;
        let mut rounds = 0;
        loop {
            let mut worked = shared.pump();
            while let Some(index) = shared.ready.pop() {
                worked = true;
                if index == ROOT {
                    root.queued.store(false, Ordering::Release);
                    if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                        return output;
                    }
                } else {
                    shared.run(index);
                }
            }
            if worked {
                idle_since = None;
                rounds = 0;
                if !shared.timers.borrow().is_empty() {
                    shared.fire_timers(shared.park.now());
                }
                continue;
            }
            rounds += 1;
            if rounds % ROUNDS_PER_CLOCK_READ != 0 && shared.timers.borrow().is_empty() {
                std::hint::spin_loop();
                continue;
            }
            let now = shared.park.now();
            let fired = shared.fire_timers(now);
            let since = *idle_since.get_or_insert(now);
            if !fired && now.saturating_sub(since) >= shared.spin.get() {
                let until = shared.timers.borrow().keys().next().map_or(PARK_MAX_NS, |timer| timer.0.saturating_sub(now));
                shared.park.park(until.min(PARK_MAX_NS));
            }
        }
    }
}

impl Shared {
    fn pump(&self) -> bool {
        let mut worked = false;
        let mut gone = false;
        let count = self.ports.borrow().len();
        for index in 0..count {
            let port = self.ports.borrow()[index].upgrade();
            match port {
                Some(port) => worked |= port.pump(),
                None => gone = true,
            }
        }
        if gone {
            self.ports.borrow_mut().retain(|port| port.strong_count() > 0);
        }
        worked
    }

    fn run(&self, index: usize) {
        let Some(mut task) = self.tasks.borrow_mut().get_mut(index).and_then(Option::take) else { return };
        task.handle.queued.store(false, Ordering::Release);
        let waker = Waker::from(task.handle.clone());
        match task.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => self.tasks.borrow_mut()[index] = Some(task),
            Poll::Ready(()) => self.free.borrow_mut().push(index),
        }
    }

    fn fire_timers(&self, now: Nanoseconds) -> bool {
        let mut fired = false;
        loop {
            let mut timers = self.timers.borrow_mut();
            match timers.first_entry() {
                Some(entry) if entry.key().0 <= now => {
                    let waker = entry.remove();
                    drop(timers);
                    waker.wake();
                    fired = true;
                }
                _ => return fired,
            }
        }
    }
}

impl ReadyQueue {
    fn pop(&self) -> Option<usize> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut indexes = self.indexes.lock().expect("no holder panics");
        let index = indexes.pop_front();
        if indexes.is_empty() {
            self.any.store(false, Ordering::Release);
        }
        index
    }
}

impl Runtime for Shared {
    fn now(&self) -> Nanoseconds {
        self.park.now()
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()>>>) {
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut tasks = self.tasks.borrow_mut();
            tasks.push(None);
            tasks.len() - 1
        });
        let handle = Arc::new(Handle { index, queued: AtomicBool::new(false), ready: self.ready.clone() });
        self.tasks.borrow_mut()[index] = Some(Task { future, handle: handle.clone() });
        handle.wake_by_ref();
    }

    fn wake_at(&self, deadline: Nanoseconds, waker: &Waker) {
        let serial = self.timer_serial.get();
        self.timer_serial.set(serial + 1);
        self.timers.borrow_mut().insert((deadline, serial), waker.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that never has anything, on a clock that advances by a microsecond a look and by what it parks.
    struct Idle {
        now: Cell<Nanoseconds>,
        parked: Cell<u32>,
    }

    impl Park for Idle {
        fn now(&self) -> Nanoseconds {
            self.now.set(self.now.get() + 1_000);
            self.now.get()
        }
        fn park(&self, timeout: Nanoseconds) {
            self.now.set(self.now.get() + timeout);
            self.parked.set(self.parked.get() + 1);
        }
    }

    fn executor() -> (Rc<Idle>, BusyPoll) {
        let idle = Rc::new(Idle { now: Cell::new(0), parked: Cell::new(0) });
        (idle.clone(), BusyPoll::new(idle, 50_000))
    }

    #[test]
    fn an_idle_executor_parks_instead_of_spinning() {
        let (idle, executor) = executor();
        let runtime = executor.runtime();
        executor.block_on(runtime.sleep(1_000_000_000));
        assert!(idle.parked.get() >= 1, "one second of idleness passes in parks");
        assert!(idle.parked.get() <= 30, "each park lasts as long as it may: {}", idle.parked.get());
    }

    #[test]
    fn sleepers_wake_in_the_order_of_their_deadlines_and_tasks_end_before_their_slot_is_reused() {
        let (_, executor) = executor();
        let runtime = executor.runtime();
        let order = Rc::new(RefCell::new(Vec::new()));
        for delay in [30_000u64, 10_000, 20_000] {
            let (order, runtime2) = (order.clone(), executor.runtime());
            runtime.spawn(Box::pin(async move {
                runtime2.sleep(delay).await;
                order.borrow_mut().push(delay);
            }));
        }
        executor.block_on(runtime.sleep(100_000));
        assert_eq!(*order.borrow(), [10_000, 20_000, 30_000]);
        let order2 = order.clone();
        runtime.spawn(Box::pin(async move { order2.borrow_mut().push(1) }));
        executor.block_on(runtime.sleep(100_000));
        assert_eq!(order.borrow().last(), Some(&1));
    }
}
