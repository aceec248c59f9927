//! The published designs in the simulated world: what they do, and what is wrong with them.

mod baselines;
mod erda;
mod flaws;
mod world;
