//! The published designs in the simulated world: their behaviour and their flaws.

mod baselines;
mod erda;
mod flaws;
mod rowan;
mod rowan_flaws;
mod rowan_scene;
mod world;
