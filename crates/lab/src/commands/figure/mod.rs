//! `figure`: figures of papers, measured again.

mod processes;
mod selection;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use clap::builder::PossibleValuesParser;
use stonecast_lab::erda::REAL;
use stonecast_lab::papers::{
    Figure as Definition, FigureError, Kept, Points, Runs, page, table, write,
};

use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use selection::{Selection, names};

/// Measures a figure of a paper again, all figures of a paper, or all, with all designs on the same simulated machines.
///
/// A paper's name stands for all its figures, and "all" for all papers. Time is virtual: the same command gives the
/// same numbers. erda-shm runs the designs of Erda's paper as processes of this machine, over shared memory.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: one figure as a table, one as JSON, a paper's page, and everything that the documents show
  stonecast-lab figure erda-14
  stonecast-lab figure erda-table1 --json
  stonecast-lab figure rowan --markdown
  stonecast-lab figure all --out docs/figures --keep target/figures")]
pub struct Figure {
    /// The figure, the paper, or all.
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(names()))]
    pub name: String,
    /// Folder for pictures (SVG), the points (JSON lines) and, for all figures of a paper, the page
    /// of the documents.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Folder for measured points. A figure that this program measured before is taken from there.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Operations of each point [default: the number of the documents].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(10..))]
    pub operations: Option<u64>,
    /// Prints one JSON object for each point.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Prints the page of the figure's paper, which shows all its figures.
    #[arg(long, conflicts_with = "operations")]
    pub markdown: bool,
}

/// Measures the figures that `flags` name.
pub fn run(flags: &Figure) -> Result<(), Failure> {
    if flags.name == REAL {
        return processes::run(flags);
    }
    let mut selection = Selection::of(&flags.name);
    if flags.markdown {
        selection.complete();
    }
    let points = measure(flags, &selection.figures)?;
    if let Some(folder) = &flags.out {
        // A page states the amount that the documents measure.
        let whole = flags
            .operations
            .map_or_else(|| selection.whole(), |_| Vec::new());
        write(folder, &selection.figures, &whole, &points)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
    }
    let figures = selection.figures.iter();
    let text: String = if flags.markdown {
        let papers = selection.whole();
        papers.iter().map(|paper| page(paper, &points)).collect()
    } else if flags.json {
        figures
            .map(|figure| points.lines(figure.axes.name))
            .collect()
    } else {
        let tables: Vec<String> = figures.map(|figure| table(&figure.axes, &points)).collect();
        tables.join("\n")
    };
    output::bytes(text.as_bytes())
}

fn failure(error: FigureError) -> Failure {
    match error {
        FigureError::FixedTime { .. } => Failure::usage(error.to_string()),
        error => error.into(),
    }
}

fn measure(flags: &Figure, figures: &[&Definition]) -> Result<Points, Failure> {
    let kept = flags
        .keep
        .as_deref()
        .map(|folder| {
            Kept::open(folder, &std::env::current_exe()?)
                .with_context(|| format!("cannot keep points in {}", folder.display()))
        })
        .transpose()?;
    let progress = Progress::of_count("measuring", Some(figures.len() as u64));
    let (mut runs, mut all) = (Runs::default(), Points::default());
    for (done, figure) in (1..).zip(figures) {
        let found = kept
            .as_ref()
            .and_then(|kept| kept.find(&figure.axes, flags.operations));
        let points = match found {
            Some(points) => points,
            None => {
                let points = figure
                    .points(&mut runs, flags.operations)
                    .map_err(failure)?;
                if let Some(kept) = &kept {
                    kept.keep(&figure.axes, flags.operations, &points)?;
                }
                points
            }
        };
        all.extend(points);
        progress.set(done);
    }
    Ok(all)
}
