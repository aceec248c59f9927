//! The laboratory, which measures and judges the store and is not part of the product.
//!
//! | module | what |
//! | --- | --- |
//! | `sim` | workloads and costs of operations in the simulated world |
//! | `papers` | the registry of papers and their figures, and how figures are shown |
//! | `erda` | Erda and its baselines as published, beside the store |
//! | `rowan` | appends of many senders to one machine, beside WRITEs into a log for each |
//! | `asymnvm` | AsymNVM as published, beside data structures of a back-end |
//! | `remotelog` | appends to a log in remote memory, made durable as each platform requires |
//! | `peers`, `figures` | LMDB and redis-server, and the ratios of the README |
//! | `structures` | a B+tree of a back-end beside LMDB |
//! | `plot` | figures as SVG |
//!
//! A figure is a ratio of two measurements of the same run, because machines differ and are shared.
#![forbid(unsafe_code)]

pub mod asymnvm;
pub mod erda;
pub mod figures;
pub mod nodes;
mod noise;
pub mod papers;
pub mod peers;
pub mod plot;
pub mod remotelog;
pub mod rowan;
pub mod sim;
pub mod structures;

pub use noise::busy_cores;
