//! The log of appends, with a device and primaries that the tests play.

mod buffers;
mod crash;
mod kinds;
#[cfg(feature = "mutants")]
mod mutants;
mod node;
mod scan;

pub use node::Format;
