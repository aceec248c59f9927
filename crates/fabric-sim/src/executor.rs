//! Threads of simulated processes: each thread runs its tasks on a core of its machine, one poll of a task after the
//! other, and polls its ports in between.
//!
//! ```text
//!   completion, event ---> thread looks at its ports ---> wakes tasks ---> polls one ---> core busy for its cost
//!                             ^                                                |
//!                             '----------------- more to do -------------------'
//! ```
//!
//! Invariants: nothing is borrowed while a task is polled or dropped or a port is pumped; each poll takes at least a
//! nanosecond of virtual time, so a task that wakes itself forever does not stop the world.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use stonecast_base::{Nanoseconds, mutant};
use stonecast_fabric::{Port, Runtime, Timer};

use crate::clock::{LocalClock, Suspensions};
use crate::queue::Event;
use crate::time::Time;

/// A future whose end no one awaits.
pub(crate) type BoxedTask = Pin<Box<dyn Future<Output = ()>>>;

/// Number of the future that [`crate::World::block_on`] drives.
pub(crate) const ROOT: u32 = u32::MAX;

/// The minimum cost of a poll, in picoseconds.
const POLL_PS_MIN: u64 = 1000;

/// All threads of a world, and their tasks.
pub(crate) struct Executor {
    time: Rc<Time>,
    threads: RefCell<Vec<Thread>>,
    cores: RefCell<Vec<Core>>,
    tasks: RefCell<Vec<Option<Task>>>,
    /// The thread of each task, even while the task is polled.
    owners: RefCell<Vec<u32>>,
    free: RefCell<Vec<u32>>,
    ready: Arc<Ready>,
    /// Room for numbers of woken tasks, kept between calls.
    woken: Cell<Vec<u32>>,
}

struct Thread {
    /// `None` for an observer, whose work takes no time.
    core: Option<usize>,
    task_ps: u64,
    notice_ns: Nanoseconds,
    run: VecDeque<u32>,
    /// Whether its event is in the queue.
    scheduled: bool,
    /// Whether its ports have something.
    arrived: bool,
    ports: Vec<Weak<Port>>,
    clock: LocalClock,
    /// Time by which its wall clock is ahead of `clock`.
    wall_ahead_ns: u64,
    /// The moment until which it stands still.
    paused_until: Nanoseconds,
    /// When its machine was suspended.
    suspensions: Suspensions,
    dead: bool,
}

impl Thread {
    /// The time up to `time` that the clock of the thread has missed: none, unless a mutant is planted.
    fn missed(&self, time: Nanoseconds) -> Nanoseconds {
        match mutant!(ClockStandsStill) {
            true => self.suspensions.until(time),
            false => 0,
        }
    }
}

/// The time of all wall clocks when a world begins: some moment of the year 2033.
const WALL_START_NS: Nanoseconds = 2_000_000_000_000_000_000;

#[derive(Clone, Copy, Default)]
struct Core {
    free_at: Nanoseconds,
    busy_ps: u64,
}

struct Task {
    future: BoxedTask,
    handle: Arc<Handle>,
    waker: Waker,
}

#[derive(Default)]
struct Ready {
    woken: Mutex<Vec<u32>>,
    any: AtomicBool,
}

/// The waker of a task. It may outlive the task: a wake-up of a finished task costs another task a spurious poll.
struct Handle {
    task: u32,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Handle {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready
                .woken
                .lock()
                .expect("no holder panics")
                .push(self.task);
            self.ready.any.store(true, Ordering::Relaxed);
        }
    }
}

/// The parameters of a thread.
pub(crate) struct ThreadOptions {
    pub core: Option<usize>,
    pub task_ns: Nanoseconds,
    pub notice_ns: Nanoseconds,
    pub clock: LocalClock,
}

impl Executor {
    pub fn new(time: Rc<Time>) -> Self {
        Self {
            time,
            threads: RefCell::default(),
            cores: RefCell::default(),
            tasks: RefCell::default(),
            owners: RefCell::default(),
            free: RefCell::default(),
            ready: Arc::default(),
            woken: Cell::default(),
        }
    }

    /// Makes a core.
    pub fn add_core(&self) -> usize {
        let core = self.time.add_core();
        self.cores.borrow_mut().push(Core::default());
        assert_eq!(core + 1, self.cores.borrow().len());
        core
    }

    /// Makes a thread.
    pub fn add_thread(&self, options: ThreadOptions) -> u32 {
        let ThreadOptions {
            core,
            task_ns,
            notice_ns,
            clock,
        } = options;
        let mut threads = self.threads.borrow_mut();
        threads.push(Thread {
            core,
            task_ps: task_ns * 1000,
            notice_ns,
            run: VecDeque::new(),
            scheduled: false,
            arrived: false,
            ports: Vec::new(),
            clock,
            wall_ahead_ns: WALL_START_NS,
            paused_until: 0,
            suspensions: Suspensions::default(),
            dead: false,
        });
        threads.len() as u32 - 1
    }

    /// Lets `thread` check `port` when something arrives for it.
    pub fn add_port(&self, thread: u32, port: &Rc<Port>) {
        self.threads.borrow_mut()[thread as usize]
            .ports
            .push(Rc::downgrade(port));
    }

    /// The time that the core of `thread` has worked, in nanoseconds.
    pub fn busy_ns(&self, thread: u32) -> Nanoseconds {
        let core = self.threads.borrow()[thread as usize].core;
        core.map_or(0, |core| self.cores.borrow()[core].busy_ps / 1000)
    }

    /// Lets `thread` stand still until `at`.
    pub fn pause(&self, thread: u32, at: Nanoseconds) {
        self.threads.borrow_mut()[thread as usize].paused_until = at;
    }

    /// Lets `thread` stand still until `at`, because its machine is suspended.
    pub fn suspend(&self, thread: u32, at: Nanoseconds) {
        let thread = &mut self.threads.borrow_mut()[thread as usize];
        thread.paused_until = thread.paused_until.max(at);
        thread.suspensions.add(self.time.now(), at);
    }

    /// The time that `thread` sees.
    pub fn local_now(&self, thread: u32) -> Nanoseconds {
        let thread = &self.threads.borrow()[thread as usize];
        let time = self.time.clock();
        thread.clock.read(time - thread.missed(time))
    }

    /// The time that the wall clock of `thread` shows.
    pub fn wall_clock(&self, thread: u32) -> Nanoseconds {
        let now = self.local_now(thread);
        now + self.threads.borrow()[thread as usize].wall_ahead_ns
    }

    /// Sets the wall clock of `thread` to `wall`, which is no earlier than the time that its other clock shows.
    pub fn set_wall_clock(&self, thread: u32, wall: Nanoseconds) {
        let ahead = wall - self.local_now(thread);
        self.threads.borrow_mut()[thread as usize].wall_ahead_ns = ahead;
    }

    /// Replaces the clock of `thread`.
    pub fn set_clock(&self, thread: u32, clock: LocalClock) {
        self.threads.borrow_mut()[thread as usize].clock = clock;
    }

    /// Wakes `waker` when the clock of `thread` shows `deadline`.
    pub fn wake_at(&self, thread: u32, deadline: Nanoseconds, waker: &Waker) -> Timer {
        let at = {
            let thread = &self.threads.borrow()[thread as usize];
            let missed = thread.missed(self.time.clock());
            thread.clock.when(deadline).saturating_add(missed)
        };
        self.time.wake_at(at, waker)
    }

    /// Makes a task of `thread`.
    pub fn spawn(&self, thread: u32, future: BoxedTask) {
        if self.threads.borrow()[thread as usize].dead {
            return;
        }
        let free = self.free.borrow_mut().pop();
        let task = free.unwrap_or_else(|| {
            self.tasks.borrow_mut().push(None);
            self.owners.borrow_mut().push(thread);
            self.tasks.borrow().len() as u32 - 1
        });
        let handle = self.handle(task);
        let waker = Waker::from(handle.clone());
        self.owners.borrow_mut()[task as usize] = thread;
        self.tasks.borrow_mut()[task as usize] = Some(Task {
            future,
            handle: handle.clone(),
            waker,
        });
        handle.wake_by_ref();
        if self.time.core().is_none() {
            self.dispatch();
        }
    }

    /// The inner part of a waker for task number `task`.
    fn handle(&self, task: u32) -> Arc<Handle> {
        Arc::new(Handle {
            task,
            queued: AtomicBool::new(false),
            ready: self.ready.clone(),
        })
    }

    /// A waker for the future that the world itself drives, and a function that resets it before each poll.
    pub fn root(&self) -> (Waker, impl Fn() + use<>) {
        let handle = self.handle(ROOT);
        (Waker::from(handle.clone()), move || {
            handle.queued.store(false, Ordering::Relaxed)
        })
    }

    /// Notes an arrival for the ports of `thread`.
    pub fn arrived(&self, thread: u32) {
        let notice = {
            let thread = &mut self.threads.borrow_mut()[thread as usize];
            thread.arrived = true;
            thread.notice_ns
        };
        self.schedule(thread, self.time.now() + notice);
    }

    /// Gives woken tasks to their threads.
    #[inline]
    pub fn dispatch(&self) {
        // Most events wake no task, and a load costs less than an exchange.
        if self.ready.any.load(Ordering::Relaxed) {
            self.ready.any.store(false, Ordering::Relaxed);
            self.dispatch_woken();
        }
    }

    fn dispatch_woken(&self) {
        let mut woken = self.woken.take();
        std::mem::swap(
            &mut woken,
            &mut self.ready.woken.lock().expect("no holder panics"),
        );
        for task in woken.drain(..) {
            if task == ROOT {
                self.time.push(self.time.now() + 1, Event::Root);
                continue;
            }
            let thread = self.owners.borrow()[task as usize];
            self.threads.borrow_mut()[thread as usize]
                .run
                .push_back(task);
            self.schedule(thread, self.time.now());
        }
        self.woken.set(woken);
    }

    fn schedule(&self, thread: u32, at: Nanoseconds) {
        let state = &mut self.threads.borrow_mut()[thread as usize];
        if !state.scheduled && !state.dead {
            state.scheduled = true;
            let free_at = state
                .core
                .map_or(0, |core| self.cores.borrow()[core].free_at);
            self.time.push(at.max(free_at), Event::Thread(thread));
        }
    }

    /// Handles the event of `thread`: it checks its ports and polls one task.
    pub fn run(&self, thread: u32) {
        let (core, dead, paused_until) = {
            let state = &self.threads.borrow()[thread as usize];
            (state.core, state.dead, state.paused_until)
        };
        if dead {
            return;
        }
        if paused_until > self.time.now() {
            // The thread still counts as scheduled.
            return self.time.push(paused_until, Event::Thread(thread));
        }
        match core {
            None => self.turn(thread),
            Some(core) => {
                let free_at = self.cores.borrow()[core].free_at;
                if free_at > self.time.now() {
                    // Another thread of the core came first.
                    return self.time.push(free_at, Event::Thread(thread));
                }
                let ((), used) = self.time.run(core, || self.turn(thread));
                let used = used.max(POLL_PS_MIN);
                let core = &mut self.cores.borrow_mut()[core];
                core.busy_ps += used;
                core.free_at = self.time.now() + used.div_ceil(1000);
            }
        }
        // Until here the thread counts as scheduled, so that its own wake-ups push no event.
        let more = {
            let state = &mut self.threads.borrow_mut()[thread as usize];
            state.scheduled = false;
            state.arrived || !state.run.is_empty()
        };
        if more {
            self.schedule(thread, self.time.now() + 1);
        }
    }

    fn turn(&self, thread: u32) {
        if std::mem::take(&mut self.threads.borrow_mut()[thread as usize].arrived) {
            self.pump(thread);
        }
        self.dispatch();
        let (task, cost) = {
            let state = &mut self.threads.borrow_mut()[thread as usize];
            (state.run.pop_front(), state.task_ps)
        };
        if let Some(index) = task {
            self.time.charge_ps(cost);
            self.poll(index);
        }
    }

    fn pump(&self, thread: u32) {
        let mut index = 0;
        let mut gone = false;
        loop {
            let port = {
                let threads = self.threads.borrow();
                let Some(port) = threads[thread as usize].ports.get(index) else {
                    break;
                };
                port.upgrade()
            };
            index += 1;
            let Some(port) = port else {
                gone = true;
                continue;
            };
            if port.pump() {
                // A pump takes a bounded number of completions: check again.
                self.threads.borrow_mut()[thread as usize].arrived = true;
            }
        }
        if gone {
            self.threads.borrow_mut()[thread as usize]
                .ports
                .retain(|port| port.strong_count() > 0);
        }
    }

    fn poll(&self, index: u32) {
        let Some(mut task) = self.tasks.borrow_mut()[index as usize].take() else {
            return;
        };
        task.handle.queued.store(false, Ordering::Relaxed);
        let pending = task
            .future
            .as_mut()
            .poll(&mut Context::from_waker(&task.waker))
            .is_pending();
        let dead = self.threads.borrow()[self.owners.borrow()[index as usize] as usize].dead;
        if pending && !dead {
            self.tasks.borrow_mut()[index as usize] = Some(task);
        } else {
            drop(task);
            self.free.borrow_mut().push(index);
        }
    }

    /// Ends `thread`: none of its tasks is polled afterwards. They are dropped, and no one may see the drop.
    pub fn kill(&self, thread: u32) {
        self.threads.borrow_mut()[thread as usize].dead = true;
        let count = self.tasks.borrow().len();
        for index in (0..count).filter(|&index| self.owners.borrow()[index] == thread) {
            let task = self.tasks.borrow_mut()[index].take();
            if task.is_some() {
                drop(task);
                self.free.borrow_mut().push(index as u32);
            }
        }
    }

    /// Drops everything.
    pub fn clear(&self) {
        loop {
            let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
            if tasks.is_empty() {
                break;
            }
            drop(tasks);
        }
        self.free.borrow_mut().clear();
        self.threads.borrow_mut().clear();
        self.ready.woken.lock().expect("no holder panics").clear();
    }
}

/// The surroundings of a process, for its tasks.
pub(crate) struct ThreadRuntime {
    pub executor: Weak<Executor>,
    pub thread: u32,
}

impl ThreadRuntime {
    fn executor(&self) -> Rc<Executor> {
        self.executor.upgrade().expect("a world outlives its tasks")
    }
}

impl Runtime for ThreadRuntime {
    fn now(&self) -> Nanoseconds {
        self.executor().local_now(self.thread)
    }

    fn wall_clock(&self) -> Nanoseconds {
        self.executor().wall_clock(self.thread)
    }

    fn spawn(&self, task: BoxedTask) {
        self.executor().spawn(self.thread, task);
    }

    fn wake_at(&self, deadline: Nanoseconds, waker: &Waker) -> Timer {
        self.executor().wake_at(self.thread, deadline, waker)
    }

    fn cancel(&self, timer: Timer) {
        // A sleep may be dropped together with its world.
        if let Some(executor) = self.executor.upgrade() {
            executor.time.cancel(timer);
        }
    }
}
