//! A measured run of an application: one front-end, whose every read is judged by the serial execution.

use stonecast_base::{Nanoseconds, random_from_seed};
use stonecast_fabric_sim::{Process, World};

use stonecast_media::Ddio;
use stonecast_published::asymnvm::Variant;

use super::super::load::{AsymError, AsymLoad, AsymStore, Cached, Contestant as _, Setting};
use super::super::ours::Ours;
use super::super::published::Published;
use super::model::Model;
use super::ours::OurTables;
use super::published::PublishedTables;
use super::{Application, Row, RowPlace, changes_of};

/// Transactions of a run, a quarter of them before the measurement.
const TRANSACTIONS: u64 = 4_096;
/// Transactions that are published together.
const BATCH: u64 = 1_024;

/// The measured case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ApplicationLoad {
    /// The application.
    pub application: Application,
    /// The store.
    pub store: AsymStore,
    /// Whether the NIC of the back-end writes to its processor's cache.
    pub ddio: Ddio,
    /// Transactions that are not acknowledged, at most.
    pub in_flight: usize,
    /// Whether the rows that a transaction names are read one after the other, in place of all at once.
    pub reads_row_by_row: bool,
    /// Whether the cache of a published front-end has room for a tenth of the rows, in place of all.
    pub caches_a_tenth: bool,
    /// Whether a published front-end knows all that it has read and written, in place of a cache.
    pub knows_all: bool,
    /// Bytes of a READ of a published front-end, at most.
    pub read_size_max: u64,
    /// Rows, in multiples of the usual number.
    pub scale: u64,
    /// Time that the program needs for each transaction beside what the simulator counts.
    pub program_ns: Nanoseconds,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ApplicationOutcome {
    /// Thousands of transactions a second.
    pub kops: f64,
    /// Round trips of READs for a transaction of a published front-end.
    pub trips: f64,
    /// WRITEs for a transaction of a published front-end.
    pub writes: f64,
}

impl ApplicationLoad {
    /// Rows that are read all at once and all cached, by a program that takes no time; DDIO off.
    pub const fn new(application: Application, store: AsymStore, in_flight: usize) -> Self {
        Self {
            application,
            store,
            ddio: Ddio::Off,
            in_flight,
            reads_row_by_row: false,
            caches_a_tenth: false,
            knows_all: false,
            read_size_max: u64::MAX,
            scale: 1,
            program_ns: 0,
        }
    }

    /// Customers or subscribers.
    pub const fn population(self) -> u64 {
        let usual = match self.application {
            Application::SmallBank => 4_096,
            Application::Tatp => 1_024,
        };
        usual * self.scale
    }

    fn base(self, rows: u64) -> AsymLoad {
        AsymLoad {
            setting: Setting {
                read_size_max: self.read_size_max,
                ..Setting::with(self.ddio)
            },
            in_flight: self.in_flight,
            batch: BATCH as usize,
            cache: match (self.caches_a_tenth, self.knows_all) {
                (true, _) => Cached::tenth_of(rows),
                (_, true) => Cached::WRITTEN,
                _ => Cached::ALL,
            },
            ..AsymLoad::inserts(self.store, self.application.kind())
        }
    }
}

/// The rows of a front-end.
trait Tables {
    async fn read(&mut self, places: &[RowPlace]) -> Result<Vec<Row>, AsymError>;
    /// Changes rows all at once; without changes, the transaction has only read. Waits until the transactions in flight
    /// are no more than their limit.
    async fn end(&mut self, changes: &[(RowPlace, Row)]) -> Result<(), AsymError>;
    /// Waits until everything is acknowledged.
    async fn settle(&mut self) -> Result<(), AsymError>;
    /// Round trips of READs, and WRITEs, so far.
    fn counts(&self) -> [u64; 2];
}

/// Measures a case.
///
/// # Errors
/// [`AsymError`]; [`AsymError::NotSerial`] if a transaction has read what no serial execution gives;
/// [`AsymError::NoTables`] for [`AsymStore::Sliding`] and [`AsymStore::Ahead`].
pub fn measure_application(load: &ApplicationLoad) -> Result<ApplicationOutcome, AsymError> {
    let application = load.application;
    let (tables, rows) = (application.tables(), application.rows(load.population()));
    let base = load.base(rows.len() as u64);
    match load.store {
        AsymStore::Sliding | AsymStore::Ahead => Err(AsymError::NoTables),
        AsymStore::Ours | AsymStore::Mirrored => {
            let ours = Ours::new(&base)?;
            let (process, back_end) = ours.connect()?;
            let loading = OurTables::load(&back_end, &tables, &rows);
            let tables = Waiting {
                tables: ours.world().block_on(loading)?,
                in_flight: load.in_flight,
                open: 0,
            };
            drive(ours.world(), process, tables, *load)
        }
        _ => {
            let places: Vec<RowPlace> = rows.iter().map(|(place, _)| *place).collect();
            let rows = changes_of(&rows).into_iter();
            let (published, process, writer) = Published::with_tables(&base, &tables, rows)?;
            let symmetric_b = AsymStore::Published(Variant::SymmetricB);
            let mut tables = PublishedTables {
                writer,
                is_told_with_batch: load.store == symmetric_b,
            };
            // The caches are warm, as the memory of a writer of `structures` is that has loaded its rows.
            for places in places.chunks(256) {
                published.world().block_on(tables.read(places))?;
            }
            drive(published.world(), process, tables, *load)
        }
    }
}

/// A front-end of `structures` that waits for its transactions.
struct Waiting {
    tables: OurTables,
    in_flight: usize,
    /// Transactions that are not acknowledged.
    open: usize,
}

impl Tables for Waiting {
    async fn read(&mut self, places: &[RowPlace]) -> Result<Vec<Row>, AsymError> {
        Ok(self.tables.read(places).await?)
    }

    async fn end(&mut self, changes: &[(RowPlace, Row)]) -> Result<(), AsymError> {
        if !changes.is_empty() {
            let _ticket = self.tables.stage(changes).await?;
        }
        self.open += 1;
        if self.open < self.in_flight {
            return Ok(());
        }
        self.open = 0;
        let writer = &mut self.tables.writer;
        match (changes.is_empty(), writer.waiting() >= BATCH) {
            (_, true) => writer.publish().await?,
            // The look at the tenure behind the records of a transaction covers what was read before them.
            (false, _) => writer.flush().await?,
            (true, _) => writer.confirm().await?,
        }
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), AsymError> {
        Ok(self.tables.writer.confirm().await?)
    }

    fn counts(&self) -> [u64; 2] {
        [0; 2]
    }
}

impl Tables for PublishedTables {
    async fn read(&mut self, places: &[RowPlace]) -> Result<Vec<Row>, AsymError> {
        Ok(Self::read(self, places).await?)
    }

    async fn end(&mut self, changes: &[(RowPlace, Row)]) -> Result<(), AsymError> {
        match changes {
            [] => Ok(()),
            changes => Ok(self.commit(changes).await?),
        }
    }

    async fn settle(&mut self) -> Result<(), AsymError> {
        if self.is_told_with_batch {
            self.writer.publish().await?;
        }
        Ok(self.writer.settle().await?)
    }

    fn counts(&self) -> [u64; 2] {
        let counts = self.writer.counts().session;
        [counts.trips, counts.writes]
    }
}

fn drive<T: Tables>(
    world: &World,
    process: Process,
    mut tables: T,
    load: ApplicationLoad,
) -> Result<ApplicationOutcome, AsymError> {
    let (application, population) = (load.application, load.population());
    let (mut model, mut random) = (Model::new(application, population), random_from_seed(1));
    let runtime = process.runtime();
    let warm_up = TRANSACTIONS / 4;
    let (mut begin, mut before) = (0, [0; 2]);
    world.block_on(async {
        for number in 0..TRANSACTIONS {
            if number == warm_up {
                tables.settle().await?;
                (begin, before) = (runtime.now(), tables.counts());
            }
            let transaction = application.draw(population, &mut random);
            let reading = transaction.read_by(async |places| match load.reads_row_by_row {
                true => {
                    let mut rows = Vec::new();
                    for place in places {
                        rows.extend(tables.read(std::slice::from_ref(place)).await?);
                    }
                    Ok(rows)
                }
                false => tables.read(places).await,
            });
            let (seen, changes) = reading.await?;
            if model.execute(&transaction).0 != seen {
                return Err(AsymError::NotSerial { number });
            }
            tables.end(&changes).await?;
            if load.program_ns > 0 {
                runtime.sleep(load.program_ns).await;
            }
        }
        tables.settle().await?;
        let (duration_ns, after) = (runtime.now() - begin, tables.counts());
        let measured = (TRANSACTIONS - warm_up) as f64;
        let of_each = |at: usize| (after[at] - before[at]) as f64 / measured;
        Ok(ApplicationOutcome {
            kops: measured * 1e6 / duration_ns as f64,
            trips: of_each(0),
            writes: of_each(1),
        })
    })
}
