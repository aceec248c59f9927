//! The traits behind [`crate::OpenDevice`], for programs that bring a device of their own or wait for something else
//! beside it.

pub use stonecast_fabric::{Device, Park, Runtime};
