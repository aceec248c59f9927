//! A backup that serves: a process whose task calls the intake as a store does.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use stonecast_backup::{Ended, Found, Intake, Lent, Pool};
use stonecast_fabric::decorate::{Observed, Observer};
use stonecast_fabric::{ConnectionEvent, DeviceError, Port, QueuePair, Runtime};
use stonecast_fabric_sim::{Fate, Machine, Module, Process, SimBacking, Survivor, World};
use stonecast_media::{Backing as _, PersistentRegion};

use super::recovery::{Left, recover};
use super::{ADDRESS, COMPLETIONS, KEY, Setup, Writer, name};

/// Pause of the store's loop between two looks.
const PAUSE_NS: u64 = 700;

type Command = Box<dyn FnOnce(&mut Intake)>;

/// A backup's process, and the store's loop in it.
pub struct Backup {
    pub world: Rc<World>,
    pub machine: Machine,
    pub module: Rc<Module>,
    pub process: Process,
    pub setup: Setup,
    pub doubt: Rc<Doubt>,
    shared: Rc<Shared>,
    runs: u32,
    /// Whether the medium says at the next start that processes of earlier runs may still write.
    pub have_writers_outlived: bool,
}

#[derive(Default)]
struct Shared {
    commands: RefCell<Vec<Command>>,
    found: RefCell<Vec<Found>>,
    ended: RefCell<Vec<Ended>>,
    blank: RefCell<Vec<u32>>,
    trouble: RefCell<Option<String>>,
}

/// A device whose peers may be inside a write: it answers a number of questions with doubt.
#[derive(Default)]
pub struct Doubt {
    pub left: Cell<u32>,
    pub asked: Cell<u32>,
}

impl Observer for Doubt {
    fn quieting(&self, _: QueuePair) -> Result<(), DeviceError> {
        self.asked.set(self.asked.get() + 1);
        if self.left.get() == 0 {
            return Ok(());
        }
        self.left.set(self.left.get() - 1);
        let peer = "a stopped process".to_owned();
        Err(DeviceError::Unquiesced { peer })
    }
}

impl Backup {
    /// A backup on a machine of its own that lets the nodes `a` and `b` in.
    pub fn start(world: &Rc<World>, setup: Setup) -> Self {
        let machine = world.machine(setup.machine());
        let module = world.module(machine, Survivor::default());
        let mut backup = Self {
            world: world.clone(),
            machine,
            process: world.process(machine),
            module,
            setup,
            doubt: Rc::default(),
            shared: Rc::default(),
            runs: 0,
            have_writers_outlived: false,
        };
        *backup.shared.blank.borrow_mut() = (0..setup.segments).rev().collect();
        backup.serve(Left::default());
        backup.with(|intake| ["a", "b"].map(|node| intake.allow(name(node))));
        backup.wait(|backup| backup.with(|intake| intake.segments_wanted()) == 0);
        backup
    }

    /// Starts a new process on the content of the pool.
    pub fn restart(&mut self) {
        self.process = self.world.process(self.machine);
        let left = recover(&*self.region(), &self.setup.format());
        let is_left = |number: &u32| left.segments.iter().any(|state| state.number == *number);
        let blank = (0..self.setup.segments).rev();
        self.shared = Rc::default();
        *self.shared.blank.borrow_mut() = blank.filter(|number| !is_left(number)).collect();
        self.serve(left);
        self.with(|intake| ["a", "b"].map(|node| intake.allow(name(node))));
    }

    pub fn region(&self) -> Rc<dyn PersistentRegion> {
        let backing = SimBacking::new(&self.module);
        backing.open_log(self.setup.log()).unwrap()
    }

    fn serve(&mut self, left: Left) {
        self.runs += 1;
        let device = Rc::new(Observed::new(
            self.process.open_device(),
            self.doubt.clone(),
        ));
        let port = self.process.port_on(device, COMPLETIONS).unwrap();
        port.device().listen(ADDRESS).unwrap();
        let pool = Pool {
            region: self.region(),
            appended: self.region(),
            format: self.setup.format(),
            key: KEY,
            ledger: self.setup.share(left.ledger, self.region()),
            segments: left.segments,
            earlier_writers_are_gone: !self.have_writers_outlived,
        };
        let intake = Intake::start(&port, pool, &self.setup.options(self.runs)).unwrap();
        let runtime = self.process.runtime();
        let task = serve(intake, port, runtime.clone(), self.shared.clone());
        runtime.spawn(Box::pin(task));
    }

    /// Calls the intake in the store's loop.
    pub fn with<T: 'static>(&self, call: impl FnOnce(&mut Intake) -> T + 'static) -> T {
        let answer: Rc<RefCell<Option<T>>> = Rc::default();
        let given = answer.clone();
        let command = move |intake: &mut Intake| *given.borrow_mut() = Some(call(intake));
        self.shared.commands.borrow_mut().push(Box::new(command));
        loop {
            if let Some(answer) = answer.borrow_mut().take() {
                return answer;
            }
            assert!(self.world.step(), "the backup serves");
        }
    }

    /// Lets the world go on until `is_so`, for a bounded time.
    pub fn wait(&self, is_so: impl Fn(&Self) -> bool) {
        let until = self.world.now() + 50_000_000;
        while !is_so(self) {
            assert!(
                self.world.step() && self.world.now() < until,
                "it comes about"
            );
        }
    }

    /// The least that a power cut at this moment leaves of the pool.
    pub fn least(&self) -> Left {
        let region = self.least_region();
        recover(&*region, &self.setup.format())
    }

    /// The memory that such a power cut leaves.
    pub fn least_region(&self) -> Rc<dyn PersistentRegion> {
        let wreck = self.world.wreck(self.machine, &self.module);
        let survivor = wreck.survivor(&vec![Fate::default(); wreck.undecided()]);
        let after = World::new(1);
        let module = after.module(after.machine(self.setup.machine()), survivor);
        SimBacking::new(&module).open_log(self.setup.log()).unwrap()
    }

    /// The versions of a shard that were found, in the order in which they were handed on.
    pub fn versions(&self, shard: u32) -> Vec<u64> {
        let found = self.shared.found.borrow();
        let of_shard = found.iter().filter(|found| found.entry.shard == shard);
        of_shard.map(|found| found.entry.version).collect()
    }

    pub fn found(&self) -> Vec<Found> {
        self.shared.found.borrow().clone()
    }

    pub fn ended(&self) -> Vec<Ended> {
        self.shared.ended.borrow().clone()
    }

    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble.borrow().clone()
    }
}

async fn serve(mut intake: Intake, port: Rc<Port>, runtime: Rc<dyn Runtime>, shared: Rc<Shared>) {
    loop {
        for command in shared.commands.take() {
            command(&mut intake);
        }
        while let Some(event) = port.take_event() {
            if let ConnectionEvent::Request {
                request,
                private_data,
                ..
            } = event
            {
                intake.hear(request, &private_data);
            }
        }
        while intake.segments_wanted() > 0
            && let Some(number) = shared.blank.borrow_mut().pop()
        {
            let (before, heritage) = (None, Default::default());
            intake.lend(Lent {
                number,
                before,
                heritage,
            });
        }
        let now = runtime.now();
        let looked = poll_fn(|context| Poll::Ready(intake.look(now, context))).await;
        let settled = match looked {
            Ok(()) => intake.settle().await,
            failed => failed,
        };
        if let Err(error) = settled {
            *shared.trouble.borrow_mut() = Some(error.to_string());
        }
        shared.found.borrow_mut().extend(intake.take_found());
        shared.ended.borrow_mut().extend(intake.take_ended());
        runtime.sleep(PAUSE_NS).await;
    }
}

/// Opens the stream of a writer for the node that leads its shard.
pub fn open(backup: &Backup, writer: &Writer, node: &'static str) {
    let (stream, after) = (writer.stream, writer.last);
    backup.with(move |intake| intake.open_stream(stream, name(node), after));
}
