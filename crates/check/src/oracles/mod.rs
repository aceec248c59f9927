//! The promises, one oracle in each file. An oracle knows nothing about the store: it judges the
//! answers of clients and the results of recoveries.

pub mod acknowledged;
pub mod idempotence;
pub mod space;
pub mod values;
