//! The figures of Erda's paper, measured again: Erda as published, its two baselines and the direct
//! store on the same simulated machines.

mod background;
mod chart;
mod contest;
mod contestant;
mod figures;
mod headlines;
mod real;
mod run;
mod table;

pub use chart::chart;
pub use contestant::{ContestError, Design};
pub use figures::{ALL, FIGURES, Point, Runs, Scale, points};
pub use headlines::{Headline, headlines, page};
pub use real::{
    PublishedStore, REAL, REAL_STEPS, RealError, RealOptions, real_points, serve_published,
};
pub use table::table;
