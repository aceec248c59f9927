//! The figures of Erda's paper, measured again: Erda as published, its two baselines and the KV
//! store on the same simulated machines.
//!
//! ```text
//!   latency.rs  throughput.rs  cpu.rs  cleaning.rs  bytes.rs    figures: data and measurement
//!   paper.rs    headlines and page       cases.rs  the runs that figures share      real.rs  processes of this machine
//! ```

mod background;
mod bytes;
mod cases;
mod cleaning;
mod contest;
mod contestant;
mod cpu;
mod latency;
mod paper;
mod real;
mod run;
mod throughput;

pub use contestant::{ContestError, Design};
pub use paper::PAPER;
pub use real::{
    PublishedStore, REAL, REAL_FIGURES, REAL_STEPS, RealError, RealOptions, real_points,
    serve_published,
};
