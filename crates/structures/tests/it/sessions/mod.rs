//! Front-ends and a back-end on simulated machines.

mod costs;
mod counts;
pub mod crashes;
pub mod publications;
pub mod readers;
mod scene;
mod strangers;
pub mod tenures;

pub use scene::{
    ANSWERED, GEOMETRY, LEASE_NS, PLATFORMS, Scene, create, insert, keys, operation, platform,
};
