//! The promises, one oracle in each file. An oracle does not know the store, and judges the answers of clients and the
//! results of recoveries.

pub mod acknowledged;
pub mod agreement;
pub mod idempotence;
pub mod leaders;
pub mod progress;
pub mod redundancy;
pub mod space;
pub mod values;
