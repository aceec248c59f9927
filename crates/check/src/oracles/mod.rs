//! The promises, one oracle in each file. An oracle knows nothing about the store: it judges the
//! answers of clients and the results of recoveries.

pub mod acknowledged;
pub mod agreement;
pub mod idempotence;
pub mod leaders;
pub mod progress;
pub mod redundancy;
pub mod space;
pub mod values;
