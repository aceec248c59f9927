//! A run of an application in which front-ends and the back-end die, hang, and lose power, and what it proves: the
//! transactions that count are a serial execution, and the money is there.
//!
//! ```text
//!   front-end 0, 1   take turns: lease, read, stage, wait          a tenure that begins reads everything
//!   book             what each transaction has read, by the number of its operation
//! ```
//!
//! | promise | judged |
//! | --- | --- |
//! | transactions that were acknowledged count, and those that count are a prefix of the staged ones | when a tenure begins |
//! | each of them has read what the ones before it left | when a tenure begins, and when a reading transaction is acknowledged |
//! | all of its changes are there, or none | by the rows that a tenure begins with |
//! | money is neither made nor lost, and rows that name others find them | by the same rows |

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric_sim::{
    Fate, Machine, MachineOptions, MachineProfile, Module, Process, SimBacking, Survivor, World,
};
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, Durability, LogOptions, PersistenceDomain, ReceiveBuffers,
};
use stonecast_structures::{
    BackEnd, DomainName, FRONT_END_COMPLETIONS, FrontEndError, LogKey, Medium, PoolGeometry,
    SERVICE_COMPLETIONS, Service, StructurePool,
};

use super::model::Model;
use super::ours::OurTables;
use super::{Application, Row, RowPlace, Transaction, bank};

const ADDRESS: &str = "sim:bank";
const LEASE_NS: u64 = 2_000_000;
const GEOMETRY: PoolGeometry = PoolGeometry {
    domains: 2,
    slab_size: 1 << 16,
    slab_count: 12,
};
/// Front-ends that take turns.
const FRONT_ENDS: u64 = 2;
/// Customers or subscribers: few, so that transactions meet.
const POPULATION: u64 = 6;
/// Mishaps of a run.
const MISHAPS: u64 = 6;
/// Transactions of a tenure, at most.
const OF_A_TENURE: u64 = 60;
/// The pause before a front-end tries again.
const RETRY_NS: u64 = 200_000;

/// A deliberate mistake of the front-ends, which the trial has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The front-ends act as they should.
    Nothing,
    /// The changes of a transaction are operations of their own, and not a group.
    InParts,
    /// A transaction is told before its ticket has ended.
    ToldEarly,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// Changing transactions that count at the end.
    pub counted: u64,
    /// Those of them that were acknowledged.
    pub told: u64,
    /// Reading transactions that were acknowledged.
    pub read: u64,
    /// Tenures that have begun.
    pub tenures: u64,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{promise}: {found}")]
pub struct TrialFault {
    /// The promise.
    pub promise: &'static str,
    /// The observation.
    pub found: String,
}

fn fault(promise: &'static str, found: impl ToString) -> TrialFault {
    let found = found.to_string();
    TrialFault { promise, found }
}

/// A changing transaction that was staged.
#[derive(Clone, Copy, Debug)]
struct Entry {
    transaction: Transaction,
    /// The number of its last operation.
    end: u64,
    /// Whether it has read what the transactions before it left.
    is_serial: bool,
}

/// The transactions of a domain in the order of their operations.
struct Book {
    application: Application,
    /// Operations before the first transaction.
    first: u64,
    entries: Vec<Entry>,
    /// The rows behind all entries.
    model: Model,
    tenure: u32,
    /// Operations that counted when the tenure began.
    counted: u64,
    /// Operations up to this number were told.
    told: u64,
    trial: Trial,
    fault: Option<TrialFault>,
}

impl Book {
    fn new(application: Application) -> Self {
        Self {
            application,
            first: 0,
            entries: Vec::new(),
            model: Model::new(application, POPULATION),
            tenure: 0,
            counted: 0,
            told: 0,
            trial: Trial::default(),
            fault: None,
        }
    }

    fn note(&mut self, judged: Result<(), TrialFault>) {
        if let Err(found) = judged {
            self.fault.get_or_insert(found);
        }
    }

    /// A tenure begins after so many operations: later ones of earlier tenures never count. A front-end that hung since
    /// its tenure was granted may come late.
    fn begin(&mut self, tenure: u32, operations: u64) -> Result<(), TrialFault> {
        if tenure < self.tenure {
            return Ok(());
        }
        (self.tenure, self.counted) = (tenure, operations);
        self.trial.tenures += 1;
        if operations < self.told {
            let found = format!("{operations} of {} operations", self.told);
            return Err(fault("what was acknowledged counts", found));
        }
        self.entries.retain(|entry| entry.end <= operations);
        self.model = Model::new(self.application, POPULATION);
        for entry in &self.entries {
            self.model.execute(&entry.transaction);
            if !entry.is_serial {
                let found = format!("{:?}", entry.transaction);
                return Err(fault("a transaction that counts was serial", found));
            }
        }
        self.trial.counted = self.entries.len() as u64;
        Ok(())
    }

    /// Judges all rows, as a tenure that has staged nothing reads them.
    fn judge(&self, tenure: u32, rows: &[(RowPlace, Row)]) -> Result<(), TrialFault> {
        if tenure != self.tenure {
            return Ok(());
        }
        let other = rows
            .iter()
            .find(|(place, row)| self.model.row(*place) != *row);
        if self.application == Application::SmallBank {
            let found = bank::money_in(rows.iter().map(|(place, row)| (*place, row)));
            let expected = self.model.money();
            if found != expected {
                let found = format!("{found} cents instead of {expected}");
                return Err(fault("money is neither made nor lost", found));
            }
        }
        if !self.model.is_consistent() {
            return Err(fault("rows that name others find them", "none"));
        }
        match other {
            None => Ok(()),
            Some((place, row)) => {
                let found = format!("{row:?} at {place:?}");
                Err(fault("all changes of a transaction are there", found))
            }
        }
    }

    /// Whether a transaction behind all entries reads this.
    fn is_serial(&self, transaction: &Transaction, seen: &[Row]) -> bool {
        self.model.clone().execute(transaction).0 == seen
    }

    /// Notes a transaction whose last operation has the number `end`.
    fn stage(&mut self, tenure: u32, end: u64, transaction: Transaction, seen: &[Row]) {
        if tenure < self.tenure {
            return;
        }
        let is_serial = self.model.execute(&transaction).0 == seen;
        self.entries.push(Entry {
            transaction,
            end,
            is_serial,
        });
    }

    /// Notes that everything up to an operation was acknowledged.
    fn tell(&mut self, tenure: u32, operations: u64) -> Result<(), TrialFault> {
        if tenure < self.tenure && operations > self.counted {
            return Err(fault("a tenure that is over acknowledges nothing", tenure));
        }
        if tenure == self.tenure {
            self.told = self.told.max(operations);
            let is_told = |entry: &&Entry| entry.end <= self.told;
            self.trial.told = self.entries.iter().filter(is_told).count() as u64;
        }
        Ok(())
    }
}

/// The machines of a run.
struct Stand {
    world: World,
    machine: Machine,
    module: Rc<Module>,
    platform: DeclaredPlatform,
    book: RefCell<Book>,
    is_over: Cell<bool>,
    mistake: Mistake,
}

/// Runs an application with the mishaps that a seed draws.
///
/// # Errors
/// [`TrialFault`]: a promise was broken.
pub fn try_application(
    application: Application,
    seed: u64,
    mistake: Mistake,
) -> Result<Trial, TrialFault> {
    let mut random = random_from_seed(seed);
    let platform = DeclaredPlatform {
        persistence_domain: PersistenceDomain::Dmp,
        ddio: [Ddio::Off, Ddio::On][random.random_range(0..2)],
        receive_buffers: ReceiveBuffers::Dram,
    };
    let world = World::new(seed);
    let machine = world.machine(MachineOptions {
        platform,
        ..MachineOptions::new(MachineProfile::MODERN)
    });
    let stand = Rc::new(Stand {
        module: world.module(machine, Survivor::default()),
        machine,
        platform,
        book: RefCell::new(Book::new(application)),
        is_over: Cell::new(false),
        mistake,
        world,
    });
    stand.world.block_on(run(stand.clone(), &mut random));
    let book = stand.book.borrow();
    match &book.fault {
        Some(fault) => Err(fault.clone()),
        None => Ok(book.trial),
    }
}

async fn run(stand: Rc<Stand>, random: &mut Random) {
    let made = StructurePool::create(stand.medium(), GEOMETRY).await;
    drop(made.expect("the medium is sound"));
    let mut back_end = stand.serve().await;
    stand.load().await.expect("nothing disturbs the loading");
    let observer = stand.world.observer();
    let mut front_ends: Vec<Process> = (0..FRONT_ENDS)
        .map(|_| stand.clone().live(random.random()))
        .collect();
    for _ in 0..MISHAPS {
        observer
            .sleep(random.random_range(100_000..1_500_000))
            .await;
        let at = random.random_range(0..front_ends.len());
        match random.random_range(0..4) {
            0 => {
                front_ends[at].kill();
                front_ends[at] = stand.clone().live(random.random());
            }
            1 => front_ends[at].pause(random.random_range(100_000..3 * LEASE_NS)),
            2 => {
                back_end.kill();
                back_end = stand.serve().await;
            }
            _ => {
                stand.cut_power(random);
                back_end = stand.serve().await;
            }
        }
    }
    observer.sleep(2 * LEASE_NS).await;
    stand.is_over.set(true);
    front_ends.iter().for_each(Process::kill);
    while stand.last_look().await.is_err() {
        observer.sleep(RETRY_NS).await;
    }
}

impl Stand {
    fn medium(&self) -> Rc<Medium> {
        let options = LogOptions {
            capacity: GEOMETRY.pool_size(),
            platform: self.platform,
            durability: Durability::Power,
        };
        let region = SimBacking::new(&self.module).open_log(options);
        let declared = (self.platform, Durability::Power);
        let region = region.expect("the declaration fits the platform");
        let medium = Medium::new(region, declared, LogKey(77), 5);
        Rc::new(medium.expect("the declaration fits the platform"))
    }

    async fn serve(&self) -> Process {
        let process = self.world.process(self.machine);
        let port = process.port(SERVICE_COMPLETIONS).expect("a new process");
        let runtime = process.runtime();
        let of = (ADDRESS, LEASE_NS);
        let service = Service::start(port, runtime.clone(), self.medium(), of).await;
        let mut service = service.expect("the pool opens");
        runtime.spawn(Box::pin(async move {
            service.run().await.expect("the medium is sound");
        }));
        process
    }

    /// Cuts the power of the back-end. Any part of what was not durable survives.
    fn cut_power(&self, random: &mut Random) {
        let wreck = self.world.wreck(self.machine, &self.module);
        let fates: Vec<Fate> = (0..wreck.undecided())
            .map(|index| Fate {
                stores: random.random_range(0..=wreck.stores(index)),
                torn: random.random_range(0..=u8::MAX),
            })
            .collect();
        self.world.cut_power(self.machine);
        self.module.restart(wreck.survivor(&fates));
    }

    fn process(&self) -> Process {
        let machine = MachineOptions::new(MachineProfile::MODERN);
        self.world.process(self.world.machine(machine))
    }

    async fn connect(&self, process: &Process) -> Result<(Rc<BackEnd>, u32), FrontEndError> {
        let port = process.port(FRONT_END_COMPLETIONS)?;
        let back_end = BackEnd::connect(&port, ADDRESS).await?;
        let name = DomainName::new("bank").expect("a short name");
        let domain = back_end.open_domain(name).await?;
        Ok((back_end, domain))
    }

    async fn load(&self) -> Result<(), FrontEndError> {
        let process = self.process();
        let (back_end, domain) = self.connect(&process).await?;
        let application = self.book.borrow().application;
        let (tables, rows) = (application.tables(), application.rows(POPULATION));
        let loading = OurTables::load_into(back_end.writer(domain).await?, &tables, &rows);
        let writer = loading.await?.writer;
        let operations = writer.operations();
        {
            let mut book = self.book.borrow_mut();
            (book.first, book.told) = (operations, operations);
        }
        writer.release().await
    }

    /// A front-end that lives until it is killed, or the run is over.
    fn live(self: Rc<Self>, seed: u64) -> Process {
        let process = self.process();
        let (this, of) = (self, process.clone());
        process.runtime().spawn(Box::pin(async move {
            let mut random = random_from_seed(seed);
            while !this.is_over.get() {
                // The next tenure takes up what this one left.
                let _ended = this.work(&of, &mut random).await;
                of.runtime().sleep(RETRY_NS).await;
            }
        }));
        process
    }

    /// Begins a tenure, and judges what it finds.
    async fn begin(&self, process: &Process) -> Result<OurTables, FrontEndError> {
        let (back_end, domain) = self.connect(process).await?;
        let writer = back_end.writer(domain).await?;
        let (tenure, operations) = (writer.tenure(), writer.operations());
        let places = {
            let mut book = self.book.borrow_mut();
            let judged = book.begin(tenure, operations);
            book.note(judged);
            book.application.places(POPULATION)
        };
        let mut tables = OurTables { writer };
        let rows = tables.read(&places).await?;
        tables.writer.confirm().await?;
        let rows: Vec<(RowPlace, Row)> = places.into_iter().zip(rows).collect();
        let mut book = self.book.borrow_mut();
        let judged = book.judge(tenure, &rows);
        book.note(judged);
        Ok(tables)
    }

    async fn last_look(&self) -> Result<(), FrontEndError> {
        self.begin(&self.process()).await.map(drop)
    }

    /// One tenure.
    async fn work(&self, process: &Process, random: &mut Random) -> Result<(), FrontEndError> {
        let mut tables = self.begin(process).await?;
        let tenure = tables.writer.tenure();
        let application = self.book.borrow().application;
        for _ in 0..random.random_range(1..OF_A_TENURE) {
            let transaction = application.draw(POPULATION, random);
            let reading = transaction.read_by(async |places| tables.read(places).await);
            let (seen, changes) = reading.await?;
            if changes.is_empty() {
                let is_serial = self.book.borrow().is_serial(&transaction, &seen);
                if random.random_range(0..3) == 0 {
                    tables.writer.confirm().await?;
                    self.note_read(transaction, is_serial);
                }
                continue;
            }
            let ticket = match self.mistake {
                Mistake::InParts => {
                    let mut last = None;
                    for change in &changes {
                        last = Some(tables.stage(std::slice::from_ref(change)).await?);
                        // Others act meanwhile, as they do if a program waits for each change.
                        tables.writer.flush().await?;
                    }
                    last.expect("there are changes")
                }
                _ => tables.stage(&changes).await?,
            };
            let end = tables.writer.operations();
            self.book
                .borrow_mut()
                .stage(tenure, end, transaction, &seen);
            if self.mistake == Mistake::ToldEarly {
                self.tell(tenure, end);
            }
            match random.random_range(0..4) {
                0 => ticket.await?,
                1 => tables.writer.flush().await?,
                2 => tables.writer.publish().await?,
                _ => continue,
            }
            self.tell(tenure, end);
        }
        // A front-end that does not release its tenure loses it with its connection.
        match random.random_range(0..2) {
            0 => tables.writer.release().await,
            _ => Ok(()),
        }
    }

    fn tell(&self, tenure: u32, operations: u64) {
        let mut book = self.book.borrow_mut();
        let judged = book.tell(tenure, operations);
        book.note(judged);
    }

    fn note_read(&self, transaction: Transaction, is_serial: bool) {
        let mut book = self.book.borrow_mut();
        book.trial.read += 1;
        if !is_serial {
            let found = format!("{transaction:?}");
            book.note(Err(fault("a transaction reads what is there", found)));
        }
    }
}
