//! A structure whose entries are spread over several back-ends by the hashes of their keys (Figure 13).
//!
//! ```text
//!   one front-end ── writer of each partition ──▶ back-end on a machine of its own
//! ```

use std::rc::Rc;

use futures_util::future::try_join_all;
use stonecast_fabric_sim::{Process, World};
use stonecast_media::Ddio;
use stonecast_published::asymnvm::Variant;
use stonecast_structures::shapes::StructureKind;

use super::cases::{rounded, with_ddio};
use super::load::{
    AsymError, AsymLoad, AsymOutcome, AsymStore, FrontEnd, Setting, Step, Work, measured, write,
};
use super::ours::Ours;
use super::published::Published;
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

/// The figures.
pub(super) static FIGURES: [Figure; 2] = [
    OFF,
    with_ddio(
        OFF,
        "asymnvm-partitions-on",
        "The figure asymnvm-partitions with DDIO on",
        |runs| measure_all(runs, Ddio::On),
    ),
];

const OFF: Figure = Figure {
    axes: Axes {
        name: "asymnvm-partitions",
        title: "Inserts a second of one front-end by partitions, each on a back-end of its own (Figure 13); uniform keys, 16 in flight, 1,024 in the \
                batches of all, all cached, DDIO off",
        x_title: "partitions",
        unit: "kop/s",
        series: &[
            "rcb: hash-table",
            "rcb: bst",
            "rcb: b-tree",
            "rcb: mv-b-tree",
            "structures: hash-table",
            "structures: b-tree",
            "structures: mv-b-tree",
        ],
        published: nothing_published,
    },
    measure: Measure::Time(|runs| measure_all(runs, Ddio::Off)),
    picture: Picture::Lines,
    section: Section::Standard,
};

/// The writers of all partitions, in one process.
struct Partitioned<W> {
    parts: Vec<W>,
}

/// The partition of a key, whose first bytes are as good as a hash.
fn part_of(step: &Step, parts: usize) -> usize {
    let key = match step {
        Step::Change(change) => &change.key,
        Step::Get(key) => key,
    };
    let first = key
        .first_chunk()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes));
    ((u64::from(first) * parts as u64) >> 32) as usize
}

impl<W: FrontEnd> FrontEnd for Partitioned<W> {
    /// The partitions work at the same time.
    async fn run(&mut self, steps: &[Step]) -> Result<(), AsymError> {
        let mut of_each = vec![Vec::new(); self.parts.len()];
        for step in steps {
            of_each[part_of(step, self.parts.len())].push(step.clone());
        }
        let working = self.parts.iter_mut().zip(&of_each);
        let working = working.filter(|(_, steps)| !steps.is_empty());
        try_join_all(working.map(|(part, steps)| part.run(steps))).await?;
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), AsymError> {
        try_join_all(self.parts.iter_mut().map(W::settle)).await?;
        Ok(())
    }

    fn counts(&self) -> [u64; 4] {
        let of_each = self.parts.iter().map(W::counts);
        of_each.fold([0; 4], |sum, one| [0, 1, 2, 3].map(|at| sum[at] + one[at]))
    }
}

/// A structure in so many partitions.
#[derive(Clone, Debug)]
struct Case {
    load: AsymLoad,
    partitions: usize,
}

fn measure(case: &Case) -> Result<AsymOutcome, AsymError> {
    let world = Rc::new(World::new(1));
    let load = AsymLoad {
        batch: case.load.batch / case.partitions,
        ..case.load.clone()
    };
    match load.store {
        AsymStore::Ours => {
            let back_ends = (0..case.partitions).map(|number| Ours::within(&world, &load, number));
            let back_ends: Vec<Ours> = back_ends.collect::<Result<_, _>>()?;
            let process = back_ends[0].front_end();
            let writer = |back_end: &Ours| back_end.writer_in(&process);
            let parts = back_ends.iter().map(writer).collect::<Result<_, _>>()?;
            let back_end = back_ends[0].process();
            drive(&world, &load, (&process, &back_end), Partitioned { parts })
        }
        _ => {
            let back_ends =
                (0..case.partitions).map(|number| Published::within(&world, &load, number));
            let back_ends: Vec<Published> = back_ends.collect::<Result<_, _>>()?;
            let front_end = back_ends[0].front_end();
            let writer = |back_end: &Published| back_end.writer_in(&front_end, 0);
            let parts = back_ends.iter().map(writer).collect::<Result<_, _>>()?;
            let back_end = back_ends[0].process();
            let of = (&front_end.0, &back_end);
            drive(&world, &load, of, Partitioned { parts })
        }
    }
}

fn drive<W: FrontEnd>(
    world: &World,
    load: &AsymLoad,
    (process, back_end): (&Process, &Process),
    parts: Partitioned<W>,
) -> Result<AsymOutcome, AsymError> {
    let of = (process.clone(), back_end.clone());
    let work: Work = world.block_on(write(load.clone(), 0, of, parts))?;
    Ok(AsymOutcome {
        kops: measured(load) as f64 * 1e6 / work.duration_ns as f64,
        hash: world.hash(),
        ..AsymOutcome::default()
    })
}

fn measure_all(runs: &mut Runs, ddio: Ddio) -> Result<Vec<Sample>, FigureError> {
    let rcb = AsymStore::Published(Variant::Rcb);
    let contestants = [
        ("rcb: hash-table", rcb, StructureKind::HashTable),
        ("rcb: bst", rcb, StructureKind::Bst),
        ("rcb: b-tree", rcb, StructureKind::BTree),
        ("rcb: mv-b-tree", rcb, StructureKind::MvBTree),
        (
            "structures: hash-table",
            AsymStore::Ours,
            StructureKind::HashTable,
        ),
        ("structures: b-tree", AsymStore::Ours, StructureKind::BTree),
        (
            "structures: mv-b-tree",
            AsymStore::Ours,
            StructureKind::MvBTree,
        ),
    ];
    let of = |(_, store, kind)| {
        [1, 2, 3, 4].map(|partitions| Case {
            load: AsymLoad {
                setting: Setting::with(ddio),
                in_flight: 16,
                ..AsymLoad::inserts(store, kind)
            },
            partitions,
        })
    };
    let cases: Vec<Case> = contestants.into_iter().flat_map(of).collect();
    let outcomes = runs.all(&cases, measure)?;
    let samples = cases.iter().zip(&outcomes).enumerate();
    let sample = |(index, (case, outcome)): (usize, (&Case, &AsymOutcome))| Sample {
        series: contestants[index / 4].0,
        x: case.partitions.to_string(),
        y: rounded(outcome.kops),
    };
    Ok(samples.map(sample).collect())
}
