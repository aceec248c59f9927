//! The world: machines, processes, and the loop that executes events.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use rand::Rng as _;
use stonecast_base::{Nanoseconds, mutant, random_from_seed};
use stonecast_fabric::{Capabilities, Device, DeviceError, Port, Runtime};
use stonecast_media::PersistenceDomain;

use crate::clock::LocalClock;
use crate::device::SimDevice;
use crate::executor::{Executor, ThreadOptions, ThreadRuntime};
use crate::faults::{Fault, FaultState, Faults, Place};
use crate::machine::{Features, MachineOptions, RootPort};
use crate::net::{Net, wake};
use crate::persistent::{Module, Survivor, Wreck};
use crate::queue::Event;
use crate::time::Time;
use crate::trace::Trace;

/// Longest SEND: the InfiniBand specification's largest message.
const SEND_SIZE_MAX: u32 = 1 << 31;
/// Private data of a connection request or its answer: the size in an InfiniBand CM answer.
const PRIVATE_DATA_SIZE_MAX: usize = 196;

/// A simulated world. Everything in it follows from its seed and from the programs that run in it.
pub struct World {
    shared: Rc<Shared>,
    observer: u32,
}

struct Shared {
    time: Rc<Time>,
    net: Rc<RefCell<Net>>,
    executor: Rc<Executor>,
    trace: Trace,
    faults: Rc<FaultState>,
    /// Number of processes that read an unreadable line.
    machine_checks: Cell<u64>,
    machines: RefCell<Vec<MachineState>>,
    /// The process of each thread; the observer belongs to none.
    groups: RefCell<BTreeMap<u32, Rc<Group>>>,
}

/// The state of a machine outside its NIC.
struct MachineState {
    options: MachineOptions,
    cores: Vec<usize>,
    /// Threads so far: each goes to the next core.
    threads: usize,
    suspended_until: Nanoseconds,
}

/// A machine of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine(u32);

/// The objects that live and die together: the threads of a process, and its open devices.
struct Group {
    machine: Machine,
    threads: RefCell<Vec<u32>>,
    contexts: RefCell<Vec<u32>>,
}

/// A thread of a process on a core, with the devices that the process has opened on its machine's NIC.
#[derive(Clone)]
pub struct Process {
    shared: Rc<Shared>,
    thread: u32,
    group: Rc<Group>,
}

impl World {
    /// An empty world.
    pub fn new(seed: u64) -> Self {
        let time = Rc::new(Time::default());
        let mut random = random_from_seed(seed);
        let faults = Rc::new(FaultState::new(random.next_u64()));
        let net = Rc::new(RefCell::new(Net::new(
            time.clone(),
            faults.clone(),
            random.next_u32(),
            random,
        )));
        let executor = Rc::new(Executor::new(time.clone()));
        let observer = executor.add_thread(ThreadOptions {
            core: None,
            task_ns: 0,
            notice_ns: 0,
            clock: LocalClock::default(),
        });
        let (trace, machines) = (Trace::default(), RefCell::default());
        let shared = Shared {
            time,
            net,
            executor,
            trace,
            faults,
            machine_checks: Cell::new(0),
            machines,
            groups: RefCell::default(),
        };
        Self {
            shared: Rc::new(shared),
            observer,
        }
    }

    /// Adds a machine.
    pub fn machine(&self, options: MachineOptions) -> Machine {
        let number = self.shared.net.borrow_mut().nics.add(options);
        let cores = (0..options.cores.max(1))
            .map(|_| self.shared.executor.add_core())
            .collect();
        self.shared.machines.borrow_mut().push(MachineState {
            options,
            cores,
            threads: 0,
            suspended_until: 0,
        });
        Machine(number)
    }

    /// Starts a process on a machine: its thread takes turns with others of the same core.
    pub fn process(&self, machine: Machine) -> Process {
        let group = Rc::new(Group {
            machine,
            threads: RefCell::default(),
            contexts: RefCell::default(),
        });
        let thread = self.shared.start_thread(&group);
        Process {
            shared: self.shared.clone(),
            thread,
            group,
        }
    }

    /// Starts a process whose work takes no time: for tests that observe from outside.
    pub fn observing_process(&self, machine: Machine) -> Process {
        Process {
            shared: self.shared.clone(),
            thread: self.observer,
            group: Rc::new(Group {
                machine,
                threads: RefCell::default(),
                contexts: RefCell::default(),
            }),
        }
    }

    /// Puts a persistent memory module into a machine: empty, or with a survivor's content.
    pub fn module(&self, machine: Machine, content: Survivor) -> Rc<Module> {
        let options = self.shared.machines.borrow()[machine.0 as usize].options;
        let (time, faults) = (self.shared.time.clone(), self.shared.faults.clone());
        let module = Rc::new(Module::new(
            time,
            faults,
            options.profile,
            options.platform,
            content,
        ));
        self.shared.net.borrow_mut().modules.push(module.clone());
        module
    }

    /// The possible states of `module`, which is in `machine`, after a power cut at this moment. Changes nothing.
    pub fn wreck(&self, machine: Machine, module: &Rc<Module>) -> Wreck {
        // Caches save data that were placed, and a queue pair's writes are placed in order: of the data inside the NIC
        // only the next write can be in progress. Memory controllers take writes in any order.
        let next_only = module.platform.persistence_domain == PersistenceDomain::Mhp;
        Wreck::new(
            module,
            &self
                .shared
                .net
                .borrow()
                .in_flight(machine.0, module.space, next_only),
        )
    }

    /// Cuts the power of `machine`: its processes are gone, and so are the messages that its NIC had taken.
    /// [`Module::restart`] decides the later content of its modules.
    pub fn cut_power(&self, machine: Machine) {
        {
            let net = &mut *self.shared.net.borrow_mut();
            for context in 0..net.contexts.len() as u32 {
                let state = &net.contexts[context as usize];
                if state.machine == machine.0 && !state.dead {
                    net.kill(context, false);
                }
            }
        }
        let on_it = |(&thread, group): (&u32, &Rc<Group>)| {
            let is_spared = mutant!(PowerSparesThreads) && group.contexts.borrow().is_empty();
            (group.machine == machine && !is_spared).then_some(thread)
        };
        let threads: Vec<u32> = self
            .shared
            .groups
            .borrow()
            .iter()
            .filter_map(on_it)
            .collect();
        threads
            .into_iter()
            .for_each(|thread| self.shared.end_thread(thread));
    }

    /// Sets the fault rates of `machine`, whatever applies elsewhere.
    pub fn set_machine_faults(&self, machine: Machine, faults: Faults) {
        self.shared.faults.set_at(Place::Machine(machine.0), faults);
    }

    /// Sets the fault rates of the link from one machine to another, whatever applies elsewhere.
    pub fn set_link_faults(&self, from: Machine, to: Machine, faults: Faults) {
        self.shared.faults.set_at(Place::Link(from.0, to.0), faults);
    }

    /// Sets the fault rates everywhere.
    pub fn set_faults(&self, faults: Faults) {
        self.shared.faults.set(faults);
    }

    /// Ends all faults: rates are 0, partitions end, NICs have their full speed. Broken connections stay broken.
    pub fn heal(&self) {
        self.shared.faults.set(Faults::default());
        self.shared.net.borrow_mut().nics.heal();
    }

    /// Counts a fault that the driver of this world caused.
    pub fn hit(&self, fault: Fault) {
        self.shared.faults.hit(fault);
    }

    /// The number of occurrences of each class of faults, by name.
    pub fn fault_hits(&self) -> BTreeMap<&'static str, u64> {
        self.shared.faults.hits()
    }

    /// The number of processes that ended because they read an unreadable line.
    pub fn machine_checks(&self) -> u64 {
        self.shared.machine_checks.get()
    }

    /// Blocks messages from one machine to another, `None` being any, for `duration_ns` after `pause_ns`.
    pub fn block(
        &self,
        from: Option<Machine>,
        to: Option<Machine>,
        pause_ns: Nanoseconds,
        duration_ns: Nanoseconds,
    ) {
        let start = self.now() + pause_ns;
        let [from, to] = [from, to].map(|machine| machine.map(|machine| machine.0));
        self.shared
            .net
            .borrow_mut()
            .nics
            .block(from, to, start, start + duration_ns);
    }

    /// Resets the NIC of `machine`: messages that it had taken and not placed are gone, and all its queue pairs are
    /// broken.
    pub fn reset_nic(&self, machine: Machine) {
        self.shared.change(|net| net.reset(machine.0));
    }

    /// Suspends `machine` for a while: its threads stand still, and nothing reaches or leaves its NIC. Its clock goes
    /// on, and timers that became due meanwhile fire afterwards.
    pub fn suspend(&self, machine: Machine, duration_ns: Nanoseconds) {
        let until = self.now() + duration_ns;
        self.block(Some(machine), None, 0, duration_ns);
        self.block(None, Some(machine), 0, duration_ns);
        let groups = self.shared.groups.borrow();
        let on_it = groups.iter().filter(|(_, group)| group.machine == machine);
        for (&thread, _) in on_it {
            self.shared.executor.suspend(thread, until);
        }
        let machines = &mut *self.shared.machines.borrow_mut();
        let suspended_until = &mut machines[machine.0 as usize].suspended_until;
        *suspended_until = until.max(*suspended_until);
    }

    /// Makes the NIC of `machine` slower by `factor` for a while.
    pub fn slow_nic(&self, machine: Machine, factor: u64, duration_ns: Nanoseconds) {
        let until = self.now() + duration_ns;
        self.shared
            .net
            .borrow_mut()
            .nics
            .slow_down(machine.0, factor, until);
    }

    /// A runtime beside all processes, whose work takes no time.
    pub fn observer(&self) -> Rc<dyn Runtime> {
        Rc::new(ThreadRuntime {
            executor: Rc::downgrade(&self.shared.executor),
            thread: self.observer,
        })
    }

    /// Virtual time.
    pub fn now(&self) -> Nanoseconds {
        self.shared.time.now()
    }

    /// The number of events so far.
    pub fn events(&self) -> u64 {
        self.shared.trace.events()
    }

    /// A hash of all events so far.
    pub fn hash(&self) -> u64 {
        self.shared.trace.hash()
    }

    /// Executes the next event; false if there is none.
    pub fn step(&self) -> bool {
        self.shared.step().is_some()
    }

    /// Executes events until `done`, which is asked every `look` nanoseconds, or for `duration` at most. Returns
    /// whether it was done.
    pub fn step_until(
        &self,
        duration: Nanoseconds,
        look: Nanoseconds,
        mut done: impl FnMut() -> bool,
    ) -> bool {
        let end = self.now() + duration;
        while self.now() < end {
            let pause = end.min(self.now() + look);
            while self.now() < pause {
                if !self.step() {
                    return done();
                }
            }
            if done() {
                return true;
            }
        }
        done()
    }

    /// Runs `future` beside everything else until it is done.
    ///
    /// # Panics
    ///
    /// If no event is left, so that the future would wait forever.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let (waker, reset) = self.shared.executor.root();
        let mut context = Context::from_waker(&waker);
        let mut due = true;
        loop {
            if due {
                reset();
                if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                    return output;
                }
                self.shared.executor.dispatch();
            }
            let event = self.shared.step();
            due = event.expect("an event must be left while the future waits") == Event::Root;
        }
    }
}

impl Drop for World {
    /// Ends everything: tasks hold ports, ports hold devices, devices hold the world.
    fn drop(&mut self) {
        for context in &mut self.shared.net.borrow_mut().contexts {
            context.dead = true;
        }
        self.shared.executor.clear();
        self.shared.time.clear();
        let contexts = std::mem::take(&mut self.shared.net.borrow_mut().contexts);
        drop(contexts);
    }
}

impl Shared {
    fn step(&self) -> Option<Event> {
        let event = self.time.advance()?;
        self.trace.note(self.time.now(), event);
        match event {
            Event::Root => {}
            Event::Thread(thread) => {
                self.executor.run(thread);
                self.check_machine(thread);
            }
            Event::Timer(index) => {
                if let Some(waker) = self.time.timer_due(index) {
                    waker.wake();
                }
            }
            hardware => self.happen(hardware),
        }
        self.executor.dispatch();
        Some(event)
    }

    /// Ends the process of a thread that read an unreadable line, as a signal would.
    fn check_machine(&self, thread: u32) {
        if !self.time.take_poison() {
            return;
        }
        self.faults.hit(Fault::Poison);
        self.machine_checks.set(self.machine_checks.get() + 1);
        let group = self.groups.borrow().get(&thread).cloned();
        if let Some(group) = group {
            self.end(&group);
        }
    }

    /// Starts a thread of a process, on the next core of its machine.
    fn start_thread(&self, group: &Rc<Group>) -> u32 {
        let (options, core, suspended_until) = {
            let state = &mut self.machines.borrow_mut()[group.machine.0 as usize];
            state.threads += 1;
            (
                state.options,
                state.cores[(state.threads - 1) % state.cores.len()],
                state.suspended_until,
            )
        };
        let thread = self.executor.add_thread(ThreadOptions {
            core: Some(core),
            task_ns: options.profile.cpu_task_ns,
            notice_ns: options.profile.cpu_notice_ns,
            clock: LocalClock::default(),
        });
        if suspended_until > self.time.now() {
            self.executor.suspend(thread, suspended_until);
        }
        group.threads.borrow_mut().push(thread);
        self.groups.borrow_mut().insert(thread, group.clone());
        thread
    }

    /// Ends a thread, whose devices are dead.
    fn end_thread(&self, thread: u32) {
        self.groups.borrow_mut().remove(&thread);
        self.executor.kill(thread);
    }

    /// Ends a process: its devices first, so that the last actions of its threads have no effect.
    fn end(&self, group: &Group) {
        for &context in &*group.contexts.borrow() {
            self.net.borrow_mut().kill(context, true);
        }
        let threads = group.threads.take();
        threads
            .into_iter()
            .for_each(|thread| self.end_thread(thread));
    }

    /// Changes the hardware from outside, and notifies the affected threads.
    fn change(&self, change: impl FnOnce(&mut Net)) {
        let mut net = self.net.borrow_mut();
        change(&mut net);
        self.tell(net);
    }

    fn happen(&self, event: Event) {
        let mut net = self.net.borrow_mut();
        match event {
            Event::Doorbell(qp) => net.transmit(qp),
            Event::Retry(qp) => net.retry(qp),
            Event::Arrive(message) => net.arrive(message),
            Event::Place(message) => net.place(message),
            Event::Refuse(message) => net.refuse(message),
            Event::Acknowledge(message) => net.acknowledge(message),
            Event::Control(index) => net.control(index),
            Event::GiveUp(message) => net.give_up(message),
            Event::Complete(index) => net.complete_late(index),
            Event::Root | Event::Thread(_) | Event::Timer(_) => {
                unreachable!("not an event of the hardware")
            }
        }
        self.tell(net);
    }

    fn tell(&self, mut net: RefMut<'_, Net>) {
        let wakers = net.conclude(|thread| self.executor.arrived(thread));
        drop(net);
        wake(wakers);
    }
}

impl Process {
    /// Opens the NIC of the process's machine: a device of its own, to which handles of the process's other devices
    /// mean nothing.
    pub fn open_device(&self) -> Rc<SimDevice> {
        self.open_device_at(RootPort::default())
    }

    /// Like [`Process::open_device`], for a NIC in another slot of the machine: at a root port with settings of its
    /// own.
    pub fn open_device_at(&self, root_port: RootPort) -> Rc<SimDevice> {
        let shared = &self.shared;
        let machine = self.group.machine.0;
        let options = shared.machines.borrow()[machine as usize].options;
        let Features {
            multi_packet,
            follows_appends,
            memory_windows,
            flush_global,
            flush_persistent,
            atomic_write,
        } = options.features;
        let capabilities = Rc::new(Capabilities {
            name: format!(
                "simulated NIC of machine {machine} ({})",
                options.profile.name
            ),
            send_size_max: SEND_SIZE_MAX,
            private_data_size_max: PRIVATE_DATA_SIZE_MAX,
            multi_packet,
            memory_windows,
            protection_domains: false,
            flush_global,
            flush_persistent,
            atomic_write,
            read_now: false,
            read_soon: false,
            atomic_with_processor: true,
        });
        let context = shared.net.borrow_mut().add_context(
            machine,
            self.thread,
            capabilities.clone(),
            root_port,
        );
        self.group.contexts.borrow_mut().push(context);
        Rc::new(SimDevice {
            net: shared.net.clone(),
            executor: shared.executor.clone(),
            time: shared.time.clone(),
            context,
            capabilities,
            follows_appends,
            profile: options.profile,
        })
    }

    /// The clock, timers and tasks of the process.
    pub fn runtime(&self) -> Rc<dyn Runtime> {
        Rc::new(ThreadRuntime {
            executor: Rc::downgrade(&self.shared.executor),
            thread: self.thread,
        })
    }

    /// A port, on a device of its own, that the thread of the process polls.
    pub fn port(&self, capacity: u32) -> Result<Rc<Port>, DeviceError> {
        self.port_on(self.open_device(), capacity)
    }

    /// A port on `device`, a device of this world or a wrapper of one, that the thread of the process polls.
    pub fn port_on(&self, device: Rc<dyn Device>, capacity: u32) -> Result<Rc<Port>, DeviceError> {
        let port = Rc::new(Port::new(device, capacity)?);
        self.shared.executor.add_port(self.thread, &port);
        Ok(port)
    }

    /// Lets the software of the process stand still for a while, with all its threads; the NIC continues.
    pub fn pause(&self, duration_ns: Nanoseconds) {
        let until = self.shared.time.now() + duration_ns;
        let threads = self.group.threads.borrow();
        let observer = threads.is_empty().then_some(self.thread);
        for &thread in threads.iter().chain(&observer) {
            self.shared.executor.pause(thread, until);
        }
        let net = &mut *self.shared.net.borrow_mut();
        for &context in &*self.group.contexts.borrow() {
            net.contexts[context as usize].hung_until = until;
        }
    }

    /// Breaks the other sides of all connections of the process, without telling the process.
    pub fn break_peers(&self) {
        self.shared.change(|net| {
            let own = |net: &Net, number: u32| {
                let qp = net.qps[number as usize].as_ref()?;
                self.group
                    .contexts
                    .borrow()
                    .contains(&qp.context)
                    .then_some(qp.connection.peer)
                    .flatten()
            };
            for number in 0..net.qps.len() as u32 {
                if let Some(peer) = own(net, number) {
                    net.fail_quietly(peer);
                }
            }
        });
    }

    /// Sets the wall clock of the process, ahead or back, to `wall` since the begin of 1970. It goes on at the pace of
    /// the clock of the process.
    pub fn set_wall_clock(&self, wall: Nanoseconds) {
        self.shared.executor.set_wall_clock(self.thread, wall);
    }

    /// Replaces the clock of the process.
    pub fn set_clock(&self, clock: LocalClock) {
        self.shared.executor.set_clock(self.thread, clock);
    }

    /// Counts a fault that the process brought about.
    pub fn hit(&self, fault: Fault) {
        self.shared.faults.hit(fault);
    }

    /// Another thread of the process, on the next core of its machine: a kill or pause of one affects all.
    pub fn thread(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            thread: self.shared.start_thread(&self.group),
            group: self.group.clone(),
        }
    }

    /// Ends the process as `kill -9` would, with all its threads: no goodbye, and its later actions have no effect. The
    /// messages that its NIC has taken are still placed, and its memory belongs to the machine until the last peer has
    /// let go.
    pub fn kill(&self) {
        self.shared.end(&self.group);
    }

    /// The time that the core of the process has worked, for this process and others, in nanoseconds.
    pub fn core_busy_ns(&self) -> Nanoseconds {
        self.shared.executor.busy_ns(self.thread)
    }
}
