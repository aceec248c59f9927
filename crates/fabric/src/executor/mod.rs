//! The executor of real providers.
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
//! - No wake-up is slept through, whichever thread it comes from (`ready.rs`).
//! - Tasks that wake themselves in every turn starve neither ports nor timers.
//! - Tasks end with the executor: dropping the last [`BusyPoll`] drops them, and with them what they hold.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Wake as _, Waker};

use stonecast_base::Nanoseconds;

use self::ready::{Handle, ReadyQueue};
use crate::{Port, Runtime, Timer};

mod ready;

/// What the busy-poll executor needs of a real provider.
///
/// # Results from other threads
///
/// Futures stay on the executor's thread, and their wakers go anywhere. A thread that has a result for a task, such as the
/// thread of a client of another service, hands it over through a channel whose receiving end is a future. The send
/// wakes the task, and [`Park::unpark`] ends the pause of the executor at once:
///
/// ```
/// # fn on(executor: stonecast_fabric::BusyPoll) {
/// let (answer, awaited) = futures_channel::oneshot::channel();
/// let client = std::thread::spawn(move || answer.send(42));
/// assert_eq!(executor.block_on(awaited), Ok(42));
/// # client.join().unwrap().unwrap();
/// # }
/// ```
///
/// A task that ends early drops the receiving end, which the sender sees. In the simulated world no thread exists; what
/// plays such a client is a task, and the same channel carries its result.
pub trait Park {
    /// The monotonic clock.
    fn now(&self) -> Nanoseconds;
    /// Sleeps until something may have happened on the device, or for `timeout` nanoseconds at most. May return early.
    /// Nothing that happened before the call is slept through.
    fn park(&self, timeout: Nanoseconds);
    /// Ends the park that is going on, or else the next one at once; called by other threads that woke a task. Every
    /// provider has one. `None`: such a wake-up is noticed when the park ends by itself.
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
    root: Root,
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

/// The handle of the future that `block_on` drives, and its waker: made once, since a future that is ready at its first poll
/// may take less time than making them. A wake-up of an earlier future costs the present one a spurious poll.
struct Root {
    handle: Arc<Handle>,
    waker: Waker,
}

/// Index of the future that `block_on` drives.
const ROOT: usize = usize::MAX;
/// Longest sleep, so that peers that died without a word are looked for.
const PARK_MAX_NS: Nanoseconds = 50_000_000;
/// Tasks that run between two looks at the ports, so that tasks that wake each other for ever do not keep the rest waiting.
const TASKS_PER_ROUND: usize = 64;
/// How many empty rounds pass between two looks at the clock: reading it costs as much as a round.
const ROUNDS_PER_CLOCK_READ: u32 = 32;

impl Root {
    fn new(ready: &Arc<ReadyQueue>) -> Self {
        let handle = Handle::new(ROOT, ready);
        let waker = Waker::from(handle.clone());
        Self { handle, waker }
    }
}

impl BusyPoll {
    /// An executor that polls for `spin` nanoseconds after the last sign of work and then parks.
    pub fn new(park: Rc<dyn Park>, spin: Nanoseconds) -> Self {
        let ready = ReadyQueue::new(park.unpark());
        let shared = Shared {
            park,
            spin,
            ports: RefCell::default(),
            tasks: RefCell::default(),
            free: RefCell::default(),
            root: Root::new(&ready),
            ready,
            timers: RefCell::default(),
            timer_serial: Cell::new(0),
            state: Cell::new(State::Idle),
        };
        Self {
            owner: Rc::new(Owner {
                shared: Rc::new(shared),
            }),
        }
    }

    /// Polls `port` from now on, until it is dropped.
    pub fn add_port(&self, port: &Rc<Port>) {
        self.owner
            .shared
            .ports
            .borrow_mut()
            .push(Rc::downgrade(port));
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
        let Root { handle, waker } = &shared.root;
        let mut context = Context::from_waker(waker);
        let mut future = pin!(future);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        let mut idle_since = None;
        let mut rounds = 0u32;
        loop {
            let arrived = shared.pump();
            let mut worked = arrived;
            for _ in 0..TASKS_PER_ROUND {
                let Some(index) = shared.ready.pop() else {
                    break;
                };
                worked = true;
                if index == ROOT {
                    handle.begin_poll();
                    if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                        return output;
                    }
                } else {
                    shared.run(index);
                }
            }
            if worked {
                // What a timer started is no sign that a peer has more to say: a task that looks around now and then
                // would otherwise cost a spin each time.
                if arrived {
                    idle_since = None;
                }
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
                let next = shared
                    .timers
                    .borrow()
                    .keys()
                    .next()
                    .map(|timer| timer.deadline.saturating_sub(now));
                let longest = next.unwrap_or(PARK_MAX_NS).min(PARK_MAX_NS);
                shared.ready.unless_ready(|| shared.park.park(longest));
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
        assert!(
            shared.state.get() == State::Idle,
            "block_on is not called inside block_on of the same executor"
        );
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
            self.ports
                .borrow_mut()
                .retain(|port| port.strong_count() > 0);
        }
        worked
    }

    fn run(&self, index: usize) {
        let Some(mut task) = self
            .tasks
            .borrow_mut()
            .get_mut(index)
            .and_then(Option::take)
        else {
            return;
        };
        task.handle.begin_poll();
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
        let handle = Handle::new(index, &self.ready);
        self.tasks.borrow_mut()[index] = Some(Task {
            future,
            handle: handle.clone(),
        });
        handle.wake_by_ref();
    }

    fn wake_at(&self, deadline: Nanoseconds, waker: &Waker) -> Timer {
        let timer = Timer {
            deadline,
            serial: self.timer_serial.get(),
        };
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
mod tests;
