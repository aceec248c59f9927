//! The figures of Erda's paper, again: Erda as published, its two baselines and the direct store on the same simulated
//! machines.

mod chart;
mod contest;
mod figures;
mod headlines;
mod run;

pub use chart::chart;
pub use contest::{ContestError, Design};
pub use figures::{ALL, FIGURES, Point, Runs, Scale, points};
pub use headlines::{Headline, headlines, page};
