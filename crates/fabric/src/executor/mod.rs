//! The executor of real providers.
//!
//! The simulated world has an executor of its own (virtual time). This executor polls the device as fast as it can
//! while there is work, and falls asleep when there is none, because an idle server must not burn a core.
//!
//! ```text
//!   round:  pump every port -> run up to TASKS_PER_ROUND woken tasks -> fire timers
//!             |                                                          |
//!             +---- anything done: next round <--------------------------+
//!             +---- nothing for the length of a spin (`spins.rs`): park until the next timer, a device, or a wake-up
//! ```
//!
//! Invariants:
//! - Nothing is borrowed while a task is polled or dropped, a waker is called or a port is pumped, so each of them may
//!   spawn, wake, sleep and post.
//! - The executor sleeps through no wake-up, whichever thread it comes from (`ready.rs`).
//! - Tasks that wake themselves in every turn starve neither ports nor timers.
//! - Tasks end with the executor: dropping the last [`BusyPoll`] drops them, and with them everything that they hold.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Wake as _, Waker};

use stonecast_base::Nanoseconds;

use self::ready::{Handle, ReadyQueue};
use self::spins::{Crowd, Pace, Spins};
use crate::boot_time::wall_time;
use crate::{Port, Runtime, Timer};

mod ready;
mod spins;

/// The services of a real provider that the busy-poll executor needs.
///
/// # Results from other threads
///
/// Futures stay on the executor's thread, and their wakers go anywhere. A thread that has a result for a task, such as
/// the thread of a client of another service, hands it over through a channel whose receiving end is a future. The send
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
/// A task that ends early drops the receiving end, and the sender notices. The simulated world has no threads; there a
/// task takes the part of such a client, and the same channel carries its result.
pub trait Park {
    /// The clock, which never goes back. That of a provider is [`boot_time`](crate::boot_time()): it goes on while the
    /// host is suspended.
    fn now(&self) -> Nanoseconds;
    /// A bound of the time, as [`Runtime::now_at_most`] describes it.
    #[inline]
    fn now_at_most(&self) -> Nanoseconds {
        self.now()
    }
    /// Sleeps until something may have happened on the device, or for at most `timeout` nanoseconds. May return early.
    /// Events before the call end the sleep, too. A suspension of the host need not count as sleep: the executor reads
    /// the clock after each park, and the time of a park is bounded.
    fn park(&self, timeout: Nanoseconds);
    /// Lets other threads run that wait for this processor, and returns at its next turn: at once if no thread waits.
    fn yield_processor(&self) {}
    /// Ends the current park, or else the next one at once. Other threads that woke a task call this waker. Every
    /// provider has one. `None`: such a wake-up is noticed only when the park ends by itself.
    fn unpark(&self) -> Option<Waker> {
        None
    }
}

/// The executor of real providers: one thread that polls its ports and falls asleep when idle.
#[derive(Clone)]
pub struct BusyPoll {
    owner: Rc<Owner>,
}

/// Ends the tasks with the last handle of the executor. Tasks hold the runtime, which would otherwise live on.
struct Owner {
    shared: Rc<Shared>,
}

struct Shared {
    park: Rc<dyn Park>,
    spins: Spins,
    /// Kept from one call of `block_on` to the next: each call of a blocking client is one.
    crowd: RefCell<Crowd>,
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
    /// No handle is left, so no task will run.
    Ended,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    handle: Arc<Handle>,
}

/// The handle of the future that `block_on` drives, and its waker. Both are made once, because a future that is ready
/// at its first poll may take less time than making them. A wake-up of an earlier future costs the present future a
/// spurious poll.
struct Root {
    handle: Arc<Handle>,
    waker: Waker,
}

/// Index of the future that `block_on` drives.
const ROOT: usize = usize::MAX;
/// Longest sleep. The bound lets the executor notice peers that died silently and, soon after a suspension of the host,
/// the deadlines that passed during it: time-outs of the kernel stand still while the host is suspended.
const PARK_MAX_NS: Nanoseconds = 50_000_000;
/// Tasks that run between two polls of the ports, so that tasks that wake each other forever do not keep the rest
/// waiting.
const TASKS_PER_ROUND: usize = 64;
/// Empty rounds between two clock readings: a reading costs as much as a round.
const ROUNDS_PER_CLOCK_READ: u32 = 32;
/// Empty rounds before a spin yields the processor: a few microseconds, in which most answers come. A yield is a system
/// call.
const ROUNDS_ALONE: u32 = 32;

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
        Self::with_spins(park, Spins::always(spin))
    }

    /// Like [`BusyPoll::new`], for a program that waits for the answers of others. Between two polls other threads may
    /// run: on few processors, the one that is to answer is often among them.
    pub fn for_client(park: Rc<dyn Park>, spin: Nanoseconds) -> Self {
        Self::with_spins(park, Spins::of_client(spin))
    }

    /// An executor for a server whose peers exchange a few messages in rounds of their own. While work comes often, it
    /// polls like that of [`BusyPoll::for_client`]; until then, it polls for a small part of `spin`. Where other
    /// programs use the processor for long, it does not poll for a while.
    pub fn for_peers(park: Rc<dyn Park>, spin: Nanoseconds) -> Self {
        Self::with_spins(park, Spins::among_peers(spin))
    }

    fn with_spins(park: Rc<dyn Park>, spins: Spins) -> Self {
        let ready = ReadyQueue::new(park.unpark());
        let shared = Shared {
            park,
            spins,
            crowd: RefCell::default(),
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

    /// Starts polling `port`, until the port is dropped.
    pub fn add_port(&self, port: &Rc<Port>) {
        self.owner
            .shared
            .ports
            .borrow_mut()
            .push(Rc::downgrade(port));
    }

    /// The interface of this executor for protocol code. It keeps no task alive: a task that is spawned after the last
    /// [`BusyPoll`] was dropped is dropped at once.
    pub fn runtime(&self) -> Rc<dyn Runtime> {
        self.owner.shared.clone()
    }

    /// Runs `future` to its end, with spawned tasks beside it. Not to be called from inside a task: the inner call
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
        let mut pace = Pace::default();
        // The time since the last call says nothing about others.
        shared.crowd.borrow_mut().note_work();
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
                // Work that a timer started is no sign that a peer has more to say: a task that checks something now
                // and then would otherwise cost a spin each time.
                if arrived {
                    idle_since = None;
                }
                rounds = 0;
                shared.crowd.borrow_mut().note_work();
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
            let since = *idle_since.get_or_insert_with(|| {
                pace.begin(now, shared.spins);
                now
            });
            let mut crowd = shared.crowd.borrow_mut();
            crowd.note_round(now);
            let spin = shared.spins.length(&pace, &crowd, now);
            if fired {
                continue;
            }
            if now.saturating_sub(since) < spin {
                // The thread that this one waits for may be ready to run here.
                if shared.spins.yields() && rounds >= ROUNDS_ALONE && !crowd.is_dense(now) {
                    shared.park.yield_processor();
                }
            } else {
                let next = shared
                    .timers
                    .borrow()
                    .keys()
                    .next()
                    .map(|timer| timer.deadline.saturating_sub(now));
                let longest = next.unwrap_or(PARK_MAX_NS).min(PARK_MAX_NS);
                crowd.note_park(now);
                drop(crowd);
                shared.ready.unless_ready(|| shared.park.park(longest));
            }
        }
    }
}

/// Marks the executor as running, until dropped.
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
        // The tasks are taken out first: the drop of a task may call back.
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

    fn now_at_most(&self) -> Nanoseconds {
        self.park.now_at_most()
    }

    fn wall_clock(&self) -> Nanoseconds {
        wall_time()
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
        // The drop of a waker may cancel other timers.
        drop(waker);
    }
}

#[cfg(test)]
mod tests;
