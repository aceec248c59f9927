//! The allocator (Table 1).

use stonecast_base::Nanoseconds;
use stonecast_fabric_sim::World;
use stonecast_media::Ddio;
use stonecast_published::asymnvm::{AsymBackEnd, BlockClient, TwoTier, Variant};
use stonecast_structures::shapes::StructureKind;

use super::cases::{rounded, with_ddio};
use super::load::{AsymError, AsymLoad, AsymStore, Setting, machine};
use super::published::{layout, serve, session};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

const ADDRESS: &str = "sim:asymnvm";
pub(super) const CAUSES: &str = "asymnvm-allocator-causes";
pub(super) const ALLOCATOR: &str = "asymnvm-allocator";
/// Bytes of a piece: a block of 128 bytes holds four, as the published ratio of 4 to the RPC allocator has it.
const PIECE: u64 = 32;
const PIECES: u64 = 4096;

/// The figures.
pub(super) static FIGURES: [Figure; 3] = [
    OFF,
    with_ddio(
        OFF,
        "asymnvm-allocator-on",
        "The figure asymnvm-allocator with DDIO on",
        |runs| measure(runs, Ddio::On),
    ),
    Figure {
        axes: Axes {
            name: CAUSES,
            title: "The same calls with one respect of the back-end changed at a time, DDIO off. Volatile: the bitmap need not be durable before the answer. Looks: the \
                    back-end looks for requests each 100 ns in place of 2 us",
            unit: "Mop/s",
            x_title: "changed",
            series: &[
                "rpc: allocate",
                "rpc: free",
                "two-tier 128: allocate",
                "two-tier 128: free",
                "two-tier 1024: allocate",
                "two-tier 1024: free",
            ],
            published: nothing_published,
        },
        measure: Measure::Time(causes),
        picture: Picture::None,
        section: Section::Standard,
    },
];

const OFF: Figure = Figure {
    axes: Axes {
        name: ALLOCATOR,
        title: "Allocations of 32 bytes (Table 1), one at a time; DDIO off",
        x_title: "call",
        unit: "Mop/s",
        series: &["rpc", "two-tier 128", "two-tier 1024"],
        published,
    },
    measure: Measure::Time(|runs| measure(runs, Ddio::Off)),
    picture: Picture::None,
    section: Section::Standard,
};

pub(super) fn published(series: &str, x: &str) -> Option<f64> {
    Some(match (series, x) {
        ("rpc", "allocate") => 0.33,
        ("rpc", "free") => 0.88,
        ("two-tier 128", "allocate") => 1.33,
        ("two-tier 128", "free") => 2.41,
        ("two-tier 1024", "allocate") => 6.42,
        ("two-tier 1024", "free") => 13.9,
        _ => return None,
    })
}

fn measure(runs: &mut Runs, ddio: Ddio) -> Result<Vec<Sample>, FigureError> {
    let mut samples = Vec::new();
    for (series, block) in ALLOCATORS {
        let name = format!("asymnvm allocator {block} {ddio:?}");
        let rates = runs.once(name, || rates(block, ddio, |back_end| back_end))?;
        for (x, y) in ["allocate", "free"].into_iter().zip(rates) {
            let x = x.to_owned();
            let y = rounded(y);
            samples.push(Sample { series, x, y });
        }
    }
    Ok(samples)
}

type Change = fn(AsymBackEnd) -> AsymBackEnd;

/// The allocators, and the bytes of their blocks.
const ALLOCATORS: [(&str, u64); 3] = [
    ("rpc", PIECE),
    ("two-tier 128", 128),
    ("two-tier 1024", 1024),
];
const LOOK_NS: Nanoseconds = 100;
const CHANGES: [(&str, Change); 4] = [
    ("nothing", |back_end| back_end),
    ("volatile", AsymBackEnd::with_volatile_blocks),
    ("looks", |back_end| back_end.with_looks(LOOK_NS)),
    ("volatile, looks", |back_end| {
        back_end.with_volatile_blocks().with_looks(LOOK_NS)
    }),
];

fn causes(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let mut samples = Vec::new();
    for ((_, block), series) in ALLOCATORS.into_iter().zip(FIGURES[2].axes.series.chunks(2)) {
        for (x, change) in CHANGES {
            let name = format!("asymnvm allocator {block} with {x}");
            let rates = runs.once(name, || rates(block, Ddio::Off, change))?;
            samples.extend(series.iter().zip(rates).map(|(series, y)| Sample {
                series,
                x: x.to_owned(),
                y: rounded(y),
            }));
        }
    }
    Ok(samples)
}

/// Millions of allocations, and of frees, a second.
fn rates(block: u64, ddio: Ddio, change: Change) -> Result<[f64; 2], AsymError> {
    let world = World::new(1);
    let rcb = AsymStore::Published(Variant::Rcb);
    let load = AsymLoad {
        setting: Setting::with(ddio),
        ..AsymLoad::inserts(rcb, StructureKind::Stack)
    };
    let (_memory, _back_end) = serve(&world, &load, (layout(1, load.setting), ADDRESS), change)?;
    let process = world.process(machine(&world, load.platform()));
    let client = BlockClient::new(session(&world, &process, (ADDRESS, 0))?);
    let mut allocator = TwoTier::new(client, block, PIECE);
    let runtime = process.runtime();
    let crowd = stonecast_bench::crowd::Crowd::new();
    crowd.spawn(&*process.runtime(), async move {
        let begin = runtime.now();
        let mut pieces = Vec::new();
        for _ in 0..PIECES {
            pieces.push(allocator.allocate().await?);
        }
        let middle = runtime.now();
        for piece in pieces {
            allocator.free(piece).await?;
        }
        let rate = |duration_ns: u64| PIECES as f64 * 1000.0 / duration_ns.max(1) as f64;
        Ok::<_, AsymError>([rate(middle - begin), rate(runtime.now() - middle)])
    });
    let mut ends = world.block_on(crowd.ends());
    ends.pop().expect("one task was started")
}
