//! The benchmark of the lock (section 6.3): six readers of one place, and a writer that takes the write lock for each
//! update, or does not.

use stonecast_base::Span;
use stonecast_fabric_sim::{Process, World};
use stonecast_media::Ddio;
use stonecast_published::asymnvm::{AsymSession, AsymWriter, LockedRead, Variant};
use stonecast_structures::shapes::StructureKind;

use super::cases::{program_ns, rounded, with_ddio};
use super::load::{self, AsymError, AsymLoad, AsymOutcome, AsymStore, Contestant, Look, Setting};
use super::published::Published;
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const LOCK: &str = "asymnvm-lock";
pub(super) const READER: &str = "each reader, kop/s";
pub(super) const WRITER: &str = "the writer, kop/s";
pub(super) const FAILED: &str = "tries of readers that fail, %";

/// The figures.
pub(super) static FIGURES: [Figure; 2] = [
    OFF,
    with_ddio(
        OFF,
        "asymnvm-lock-on",
        "The figure asymnvm-lock with DDIO on",
        |runs| measure(runs, Ddio::On),
    ),
];

const OFF: Figure = Figure {
    axes: Axes {
        name: LOCK,
        title: "Six readers and a writer of the same data, by updates of a hundred operations of the writer, and by round trips of a reader for look, \
                data and second look (section 6.3); 1 in flight, DDIO off. Unlocked: the writer takes no write lock, and its program needs the time that \
                makes it as fast as published with 10 % updates",
        x_title: "updates, round trips",
        unit: "of the lock",
        series: &[READER, WRITER, FAILED],
        published: nothing_published,
    },
    measure: Measure::Time(|runs| measure(runs, Ddio::Off)),
    picture: Picture::None,
    section: Section::Standard,
};

const READS: [(u32, LockedRead); 3] = [
    (3, LockedRead::Apart),
    (2, LockedRead::LookBehind),
    (1, LockedRead::Together),
];

/// Thousands of operations a second of the writer with 10 % updates, as published.
pub(super) const WRITER_KOPS: f64 = 539.0;

/// A place of the figure, where the writer takes the lock.
pub(super) fn place(percent: u32, trips: u32) -> String {
    format!("{percent} %, {trips}")
}

#[derive(Clone, Debug)]
struct Case {
    x: String,
    load: AsymLoad,
    reads: LockedRead,
}

/// A back-end whose readers read one line under the lock.
struct Contended {
    published: Published,
    reads: LockedRead,
}

/// A reader of one line.
struct LineReader {
    session: AsymSession,
    line: Span,
    reads: LockedRead,
    counts: [u64; 2],
}

impl Look for LineReader {
    async fn get(&mut self, _key: &[u8]) -> Result<(), AsymError> {
        let read = self.session.read_locked(&[self.line], self.reads).await?;
        let [reads, failed] = &mut self.counts;
        match read {
            Some(_) => *reads += 1,
            None => *failed += 1,
        }
        Ok(())
    }

    fn counts(&self) -> [u64; 2] {
        self.counts
    }
}

impl Contestant for Contended {
    type Writer = AsymWriter;
    type Reader = LineReader;

    fn world(&self) -> &World {
        self.published.world()
    }

    fn back_end(&self) -> &Process {
        self.published.back_end()
    }

    fn writer(&self, number: u32) -> Result<(Process, AsymWriter), AsymError> {
        Contestant::writer(&self.published, number)
    }

    fn reader(&self) -> Result<(Process, LineReader), AsymError> {
        let (process, session) = self.published.reader_session()?;
        let reader = LineReader {
            session,
            line: Span::new(self.published.data().offset, 64),
            reads: self.reads,
            counts: [0; 2],
        };
        Ok((process, reader))
    }
}

fn run(case: &Case) -> Result<AsymOutcome, AsymError> {
    let contended = Contended {
        published: Published::new(&case.load)?,
        reads: case.reads,
    };
    load::run(&contended, &case.load)
}

fn measure(runs: &mut Runs, ddio: Ddio) -> Result<Vec<Sample>, FigureError> {
    let beside = |store, percent: u32| AsymLoad {
        setting: Setting::with(ddio),
        readers: 6,
        write_percent: percent,
        // Both shares have as many updates.
        operations: 204_800 / u64::from(percent),
        ..AsymLoad::inserts(store, StructureKind::HashTable)
    };
    let of = |(load, ending): (AsymLoad, &str)| {
        let percent = load.write_percent;
        READS.map(|(trips, reads)| Case {
            x: place(percent, trips) + ending,
            load: load.clone(),
            reads,
        })
    };
    let locked = [10, 50].map(|percent| beside(AsymStore::Locked(Variant::Rc), percent));
    let unlocked = [10, 50].map(|percent| beside(AsymStore::Published(Variant::Rc), percent));
    let at_full_speed = of((unlocked[0].clone(), ""));
    let at_full_speed = runs.all(&at_full_speed[..1], run)?[0].kops;
    let program_ns = program_ns(Some(WRITER_KOPS), at_full_speed);
    let unlocked = unlocked.map(|load| AsymLoad { program_ns, ..load });
    let locked = locked.map(|load| (load, ""));
    let unlocked = unlocked.map(|load| (load, ", unlocked"));
    let cases: Vec<Case> = locked.into_iter().chain(unlocked).flat_map(of).collect();
    let outcomes = runs.all(&cases, run)?;
    let samples = cases.iter().zip(&outcomes).flat_map(|(case, outcome)| {
        [
            (READER, outcome.reader_kops),
            (WRITER, outcome.kops),
            (FAILED, outcome.retries * 100.0),
        ]
        .map(|(series, y)| Sample {
            series,
            x: case.x.clone(),
            y: rounded(y),
        })
    });
    Ok(samples.collect())
}
