//! The published designs in the simulated world: their behaviour and their flaws.

mod asymnvm;
mod asymnvm_flaws;
mod asymnvm_scene;
mod baselines;
mod erda;
mod flaws;
mod promises;
mod rowan;
mod rowan_flaws;
mod rowan_scene;
mod world;
