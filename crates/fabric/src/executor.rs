//! Running protocol code: what it may ask of whoever runs it, and the executor of real providers.
//!
//! The simulated world has an executor of its own (virtual time); this one polls the device as fast as it can while
//! there is work, and falls asleep when there is none, because an idle server must not burn a core.
//!
//! ```text
//!   round:  pump every port -> run up to TASKS_PER_ROUND woken tasks -> fire timers
//!             |                                                          |
//!             +---- anything done: next round <--------------------------+
//!             +---- nothing for `spin` nanoseconds: park until the next timer, a device, or a wake-up
//! ```
//!
//! Invariants:
//! - Nothing is borrowed while a task is polled or dropped, a waker called or a port pumped, so each of them may spawn,
//!   wake, sleep and post.
//! - No wake-up is slept through: whoever wakes a task looks whether the executor is parked after it queued the task, and
//!   the executor looks for queued tasks after it said that it parks.
//! - Tasks that wake themselves in every turn starve neither ports nor timers.
//! - Tasks end with the executor: dropping the last [`BusyPoll`] drops them, and with them what they hold.

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
    /// Wakes `waker` once, at `deadline` or later, unless that is cancelled.
    fn wake_at(&self, deadline: Nanoseconds, waker: &Waker) -> Timer;
    /// Forgets a wake-up. One that has happened already is no error.
    fn cancel(&self, timer: Timer);
}

/// A wake-up that a [`Runtime`] was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer {
    /// When.
    pub deadline: Nanoseconds,
    /// Tells timers with the same deadline apart; they fire in its order.
    pub serial: u64,
}

impl dyn Runtime {
    /// Waits until `deadline`.
    pub fn sleep_until(&self, deadline: Nanoseconds) -> Sleep<'_> {
        Sleep { runtime: self, deadline, registered: None }
    }

    /// Waits for `duration` nanoseconds.
    pub fn sleep(&self, duration: Nanoseconds) -> Sleep<'_> {
        self.sleep_until(self.now().saturating_add(duration))
    }
}

/// Waits for a moment. Leaves nothing behind when it is dropped, however often it was polled.
pub struct Sleep<'a> {
    runtime: &'a dyn Runtime,
    deadline: Nanoseconds,
    registered: Option<(Timer, Waker)>,
}

impl Sleep<'_> {
    fn cancel(&mut self) {
        if let Some((timer, _)) = self.registered.take() {
            self.runtime.cancel(timer);
        }
    }
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.runtime.now() >= self.deadline {
            self.cancel();
            return Poll::Ready(());
        }
        if !self.registered.as_ref().is_some_and(|(_, waker)| waker.will_wake(context.waker())) {
            self.cancel();
            let timer = self.runtime.wake_at(self.deadline, context.waker());
            self.registered = Some((timer, context.waker().clone()));
        }
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// What the busy-poll executor needs of a real provider.
pub trait Park {
    /// The monotonic clock.
    fn now(&self) -> Nanoseconds;
    /// Sleeps until something may have happened on the device, or for `timeout` nanoseconds at most. May return early.
    /// Nothing that happened before the call is slept through.
    fn park(&self, timeout: Nanoseconds);
    /// Ends the park that is going on, or else the next one at once; called by other threads that woke a task. `None`:
    /// such a wake-up is noticed when the park ends by itself.
    fn unpark(&self) -> Option<Waker> {
        None
    }
}

/// The executor of real providers: one thread, polls its ports, falls asleep when idle.
#[derive(Clone)]
pub struct BusyPoll {
    owner: Rc<Owner>,
}

/// Ends the tasks with the last handle of the executor. Tasks hold the runtime themselves, so it alone would live on.
struct Owner {
    shared: Rc<Shared>,
}

struct Shared {
    park: Rc<dyn Park>,
    spin: Nanoseconds,
    ports: RefCell<Vec<Weak<Port>>>,
    tasks: RefCell<Vec<Option<Task>>>,
    free: RefCell<Vec<usize>>,
    ready: Arc<ReadyQueue>,
    timers: RefCell<BTreeMap<Timer, Waker>>,
    timer_serial: Cell<u64>,
    state: Cell<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Running,
    /// No handle is left: nothing will run any more.
    Ended,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    handle: Arc<Handle>,
}

struct ReadyQueue {
    indexes: Mutex<VecDeque<usize>>,
    any: AtomicBool,
    parked: AtomicBool,
    unpark: Option<Waker>,
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
/// Tasks that run between two looks at the ports, so that tasks that wake each other for ever do not keep the rest waiting.
const TASKS_PER_ROUND: usize = 64;
/// How many empty rounds pass between two looks at the clock: reading it costs as much as a round.
const ROUNDS_PER_CLOCK_READ: u32 = 32;

impl Wake for Handle {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        self.ready.indexes.lock().expect("no holder panics").push_back(self.index);
        // Sequentially consistent with `park_until`: either this sees `parked`, or that sees `any`.
        self.ready.any.store(true, Ordering::SeqCst);
        if let Some(unpark) = &self.ready.unpark
            && self.ready.parked.load(Ordering::SeqCst)
        {
            unpark.wake_by_ref();
        }
    }
}

impl BusyPoll {
    /// An executor that polls for `spin` nanoseconds after the last sign of work and then parks.
    pub fn new(park: Rc<dyn Park>, spin: Nanoseconds) -> Self {
        let ready = ReadyQueue {
            indexes: Mutex::default(),
            any: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            unpark: park.unpark(),
        };
        let shared = Shared {
            park,
            spin,
            ports: RefCell::default(),
            tasks: RefCell::default(),
            free: RefCell::default(),
            ready: Arc::new(ready),
            timers: RefCell::default(),
            timer_serial: Cell::new(0),
            state: Cell::new(State::Idle),
        };
        Self { owner: Rc::new(Owner { shared: Rc::new(shared) }) }
    }

    /// Polls `port` from now on, until it is dropped.
    pub fn add_port(&self, port: &Rc<Port>) {
        self.owner.shared.ports.borrow_mut().push(Rc::downgrade(port));
    }

    /// This executor as protocol code sees it. Keeps no task alive: what is spawned after the last [`BusyPoll`] was
    /// dropped is dropped at once.
    pub fn runtime(&self) -> Rc<dyn Runtime> {
        self.owner.shared.clone()
    }

    /// Runs `future` to its end, and spawned tasks beside it as long as it takes. Not from inside a task: the inner call
    /// would take the wake-ups of the outer one.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let shared = &*self.owner.shared;
        let _running = Running::start(shared);
        let root = Arc::new(Handle { index: ROOT, queued: AtomicBool::new(false), ready: shared.ready.clone() });
        let waker = Waker::from(root.clone());
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        let mut idle_since = None;
        let mut rounds = 0u32;
        loop {
            let mut worked = shared.pump();
            for _ in 0..TASKS_PER_ROUND {
                let Some(index) = shared.ready.pop() else { break };
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
            rounds = rounds.wrapping_add(1);
            if !rounds.is_multiple_of(ROUNDS_PER_CLOCK_READ) && shared.timers.borrow().is_empty() {
                std::hint::spin_loop();
                continue;
            }
            let now = shared.park.now();
            let fired = shared.fire_timers(now);
            let since = *idle_since.get_or_insert(now);
            if !fired && now.saturating_sub(since) >= shared.spin {
                let next = shared.timers.borrow().keys().next().map(|timer| timer.deadline.saturating_sub(now));
                shared.park_for(next.unwrap_or(PARK_MAX_NS).min(PARK_MAX_NS));
            }
        }
    }
}

/// That an executor runs, until this is dropped.
struct Running<'a> {
    shared: &'a Shared,
}

impl<'a> Running<'a> {
    fn start(shared: &'a Shared) -> Self {
        assert!(shared.state.get() == State::Idle, "block_on is not called inside block_on of the same executor");
        shared.state.set(State::Running);
        Self { shared }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.shared.state.set(State::Idle);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.state.set(State::Ended);
        // Taken out first: what a dropped task drops may come back here.
        let tasks = self.shared.tasks.take();
        drop(tasks);
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

    /// Parks unless a task is ready, also one that another thread wakes at this moment.
    fn park_for(&self, timeout: Nanoseconds) {
        self.ready.parked.store(true, Ordering::SeqCst);
        if !self.ready.any.load(Ordering::SeqCst) {
            self.park.park(timeout);
        }
        self.ready.parked.store(false, Ordering::SeqCst);
    }

    fn fire_timers(&self, now: Nanoseconds) -> bool {
        let mut fired = false;
        loop {
            let mut timers = self.timers.borrow_mut();
            match timers.first_entry() {
                Some(entry) if entry.key().deadline <= now => {
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
        if self.state.get() == State::Ended {
            return;
        }
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut tasks = self.tasks.borrow_mut();
            tasks.push(None);
            tasks.len() - 1
        });
        let handle = Arc::new(Handle { index, queued: AtomicBool::new(false), ready: self.ready.clone() });
        self.tasks.borrow_mut()[index] = Some(Task { future, handle: handle.clone() });
        handle.wake_by_ref();
    }

    fn wake_at(&self, deadline: Nanoseconds, waker: &Waker) -> Timer {
        let timer = Timer { deadline, serial: self.timer_serial.get() };
        self.timer_serial.set(timer.serial + 1);
        self.timers.borrow_mut().insert(timer, waker.clone());
        timer
    }

    fn cancel(&self, timer: Timer) {
        let waker = self.timers.borrow_mut().remove(&timer);
        // A waker may own what cancels other timers when it goes.
        drop(waker);
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

    /// Needs the bound of [`TASKS_PER_ROUND`].
    #[test]
    fn tasks_that_wake_themselves_do_not_keep_timers_waiting() {
        let (_, executor) = executor();
        let runtime = executor.runtime();
        let turns = Rc::new(Cell::new(0));
        let counted = turns.clone();
        runtime.spawn(Box::pin(std::future::poll_fn(move |context| {
            counted.set(counted.get() + 1);
            assert!(counted.get() < 1_000_000, "the timer never had its turn");
            context.waker().wake_by_ref();
            Poll::Pending
        })));
        executor.block_on(runtime.sleep(1_000_000));
        assert!(turns.get() > 0, "and the task had its turns");
    }

    /// Needs the check of the registered waker, and the cancellation on drop.
    #[test]
    fn a_sleep_has_one_timer_however_often_it_is_polled_and_none_when_it_is_dropped() {
        let (_, executor) = executor();
        let runtime = executor.runtime();
        let timers = || executor.owner.shared.timers.borrow().len();
        let waker = Waker::noop();
        {
            let mut sleep = pin!(runtime.sleep(1 << 40));
            for _ in 0..100 {
                assert!(sleep.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
            }
            assert_eq!(timers(), 1);
            let other = Waker::from(Arc::new(Handle {
                index: 3,
                queued: AtomicBool::new(false),
                ready: executor.owner.shared.ready.clone(),
            }));
            assert!(sleep.as_mut().poll(&mut Context::from_waker(&other)).is_pending());
            assert_eq!(timers(), 1, "another waker replaces the first");
        }
        assert_eq!(timers(), 0);
    }

    #[test]
    #[should_panic(expected = "not called inside")]
    fn a_nested_block_on_is_refused() {
        let (_, executor) = executor();
        executor.block_on(async { executor.block_on(async {}) });
    }

    #[test]
    fn an_executor_whose_task_panicked_can_run_again() {
        let (_, executor) = executor();
        let block = std::panic::AssertUnwindSafe(|| executor.block_on(async { panic!("as it must") }));
        assert!(std::panic::catch_unwind(block).is_err());
        executor.block_on(executor.runtime().sleep(10_000));
    }

    /// Needs the drop of the owner: tasks hold the runtime, and the runtime holds the tasks.
    #[test]
    fn tasks_end_with_the_last_handle_of_their_executor() {
        struct SpawnsInDrop(Rc<dyn Runtime>, Rc<()>);
        impl Drop for SpawnsInDrop {
            fn drop(&mut self) {
                let held = self.1.clone();
                self.0.spawn(Box::pin(async move { drop(held) }));
            }
        }
        let (_, executor) = executor();
        let runtime = executor.runtime();
        let held = Rc::new(());
        let guard = SpawnsInDrop(runtime.clone(), held.clone());
        runtime.spawn(Box::pin(async move {
            guard.0.sleep(1 << 40).await;
        }));
        executor.block_on(runtime.sleep(10_000));
        assert_eq!(Rc::strong_count(&held), 2);
        let second = executor.clone();
        drop(executor);
        assert_eq!(Rc::strong_count(&held), 2, "one handle is left");
        drop(second);
        assert_eq!(Rc::strong_count(&held), 1);
    }

    /// A thread that wakes a task at the worst moment: when the executor has found nothing to do and goes to sleep.
    struct WokenWhileParking {
        clock: Idle,
        task: RefCell<Option<Waker>>,
        unparked: Arc<AtomicBool>,
    }

    struct Unpark(Arc<AtomicBool>);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    impl Park for WokenWhileParking {
        fn now(&self) -> Nanoseconds {
            self.clock.now()
        }
        fn park(&self, timeout: Nanoseconds) {
            if let Some(task) = self.task.take() {
                task.wake();
            }
            if !self.unparked.swap(false, Ordering::SeqCst) {
                self.clock.park(timeout);
            }
        }
        fn unpark(&self) -> Option<Waker> {
            Some(Waker::from(Arc::new(Unpark(self.unparked.clone()))))
        }
    }

    /// Needs the look at `parked` in the waker.
    #[test]
    fn a_wake_up_from_outside_ends_the_park() {
        let clock = Idle { now: Cell::new(0), parked: Cell::new(0) };
        let park = Rc::new(WokenWhileParking { clock, task: RefCell::default(), unparked: Arc::default() });
        let executor = BusyPoll::new(park.clone(), 1_000);
        let mut polls = 0;
        executor.block_on(std::future::poll_fn(|context| {
            polls += 1;
            if polls == 4 {
                return Poll::Ready(());
            }
            park.task.replace(Some(context.waker().clone()));
            Poll::Pending
        }));
        assert_eq!(park.clock.parked.get(), 0, "nothing was slept through");
    }
}
