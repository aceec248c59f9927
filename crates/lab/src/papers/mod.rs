//! The registry of figures: papers whose figures are measured again, in virtual time.
//!
//! ```text
//!   paper.rs    a paper: figures, headlines, text of its page     page.rs   the page of a paper in the documents
//!   figure.rs   a figure: axes, published values, measurement     table.rs  a figure for terminals
//!   points.rs   the measured points                               chart.rs  the lines of a figure
//!   runs.rs     runs that figures share                           files.rs  pictures, points and page in a folder
//!   kept.rs     points that this program measured before          prose.rs  numbers of a page's text
//! ```
//!
//! A new figure is one file: its data and its measurement. The paper's list of figures names the file
//! (`docs/design/0039-the-registry-of-figures.md`).

mod chart;
mod figure;
mod files;
mod kept;
mod page;
mod paper;
mod points;
mod prose;
mod runs;
mod table;

use stonecast_kv::ClusterError;
use stonecast_media::MediaError;
use stonecast_published::PublishedError;

use crate::asymnvm::AsymError;
use crate::erda::ContestError;
use crate::plot::PlotError;
use crate::remotelog::RemotelogError;
use crate::rowan::ContestantError;

pub use figure::{Axes, Figure, Measure, Picture, Sample, Section, nothing_published};
pub use files::write;
pub use kept::Kept;
pub use page::page;
pub use paper::{Demand, Headline, Isolated, PageText, Paper, is_near, no_bars};
pub use points::{Point, Points, mean};
pub use runs::Runs;
pub use table::{MEAN, table};

/// All papers.
pub static PAPERS: [&Paper; 4] = [
    &crate::erda::PAPER,
    &crate::remotelog::PAPER,
    &crate::rowan::PAPER,
    &crate::asymnvm::PAPER,
];

/// The error of a figure that could not be measured, drawn or written.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// A client or a server of a contest failed.
    #[error(transparent)]
    Contest(#[from] ContestError),
    /// A published design failed without a contest.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// A store of Rowan's comparison failed.
    #[error(transparent)]
    Contestant(#[from] ContestantError),
    /// A store of AsymNVM's comparison failed.
    #[error(transparent)]
    Asymnvm(#[from] AsymError),
    /// A call on `kv` failed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// An append of REMOTELOG failed.
    #[error(transparent)]
    Remotelog(#[from] RemotelogError),
    /// The simulated memory has no room.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The picture could not be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// A file or a folder cannot be written.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// The figure measures a fixed time, and a number of operations was demanded.
    #[error("{figure} measures a fixed time and takes no number of operations")]
    FixedTime {
        /// The name of the figure.
        figure: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_papers_and_no_two_figures_share_a_name_and_each_figure_begins_with_the_name_of_its_paper()
     {
        let papers: BTreeSet<&str> = PAPERS.iter().map(|paper| paper.name).collect();
        assert_eq!(papers.len(), PAPERS.len());
        let mut figures = BTreeSet::new();
        for paper in PAPERS {
            for figure in paper.figures() {
                assert!(figure.axes.name.starts_with(paper.name));
                assert!(figures.insert(figure.axes.name), "{}", figure.axes.name);
            }
        }
    }
}
