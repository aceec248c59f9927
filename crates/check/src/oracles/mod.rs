//! What must hold, one oracle in each file. An oracle knows nothing of the store: it judges what clients saw and what a
//! recovery found.

pub mod acknowledged;
pub mod idempotence;
pub mod linearizability;
pub mod space;
pub mod values;
