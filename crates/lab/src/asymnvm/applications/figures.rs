//! SmallBank and TATP by all variants (the first columns of Table 2), beside `structures`.

use stonecast_media::Ddio;

use super::super::cases::{name_of, rounded, with_ddio};
use super::super::structures::{SERIES, STORES};
use super::{Application, ApplicationLoad, ApplicationOutcome, measure_application};
use crate::papers::{Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section};

pub(in super::super) const BANK: &str = "asymnvm-smallbank";
pub(in super::super) const TATP: &str = "asymnvm-tatp";

/// The figures.
pub(in super::super) static FIGURES: [Figure; 4] = [
    BANK_OFF,
    with_ddio(
        BANK_OFF,
        "asymnvm-smallbank-on",
        "The figure asymnvm-smallbank with DDIO on",
        |runs| measure(runs, Application::SmallBank, Ddio::On),
    ),
    TATP_OFF,
    with_ddio(
        TATP_OFF,
        "asymnvm-tatp-on",
        "The figure asymnvm-tatp with DDIO on",
        |runs| measure(runs, Application::Tatp, Ddio::On),
    ),
];

const BANK_OFF: Figure = Figure {
    axes: Axes {
        name: BANK,
        title: "SmallBank (Table 2): transactions a second by transactions in flight; 4,096 customers, hash tables, DDIO off, caches warm",
        published: published_bank,
        ..AXES
    },
    measure: Measure::Time(|runs| measure(runs, Application::SmallBank, Ddio::Off)),
    picture: Picture::None,
    section: Section::Standard,
};

const TATP_OFF: Figure = Figure {
    axes: Axes {
        name: TATP,
        title: "TATP (Table 2): transactions a second by transactions in flight; 1,024 subscribers, B+trees, DDIO off, caches warm",
        published: published_tatp,
        ..AXES
    },
    measure: Measure::Time(|runs| measure(runs, Application::Tatp, Ddio::Off)),
    picture: Picture::None,
    section: Section::Standard,
};

const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "in flight",
    unit: "kop/s",
    series: SERIES,
    published: published_bank,
};

/// The bank's throughput in Table 2 of the paper, which does not say how many transactions were in flight.
pub(in super::super) fn published_bank(series: &str, x: &str) -> Option<f64> {
    let value = match series {
        "symmetric" => 654.0,
        "naive" => 254.0,
        "r" => 295.0,
        "rc" => 362.0,
        _ => return None,
    };
    (x == "1").then_some(value)
}

/// TATP's throughput in Table 2 of the paper, which does not say how many transactions were in flight.
pub(in super::super) fn published_tatp(series: &str, x: &str) -> Option<f64> {
    let value = match series {
        "symmetric" => 214.0,
        "symmetric-b" => 260.0,
        "naive" => 10.2,
        "r" => 12.4,
        "rc" => 63.7,
        "rcb" => 127.5,
        _ => return None,
    };
    (x == "1").then_some(value)
}

fn measure(
    runs: &mut Runs,
    application: Application,
    ddio: Ddio,
) -> Result<Vec<Sample>, FigureError> {
    let load = |in_flight, store| ApplicationLoad {
        ddio,
        ..ApplicationLoad::new(application, store, in_flight)
    };
    let mut cases = Vec::new();
    for in_flight in [1, 16] {
        cases.extend(STORES.map(|store| load(in_flight, store)));
    }
    let outcomes = runs.all(&cases, measure_application)?;
    let sample = |(load, outcome): (&ApplicationLoad, &ApplicationOutcome)| Sample {
        series: name_of(load.store),
        x: load.in_flight.to_string(),
        y: rounded(outcome.kops),
    };
    Ok(cases.iter().zip(&outcomes).map(sample).collect())
}
