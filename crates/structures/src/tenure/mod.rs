//! The log of one tenure: the area that its records lie in, the writer's end of it, and the scan.
//!
//! ```text
//!   position   0 ......... trimmed ................ durable ...... end ...... trimmed + size
//!              | used again | operations and transactions  | in flight | room |
//! ```
//!
//! A position counts bytes since the start of the tenure. The area is a ring: a position lies at its remainder by the
//! size of the area, so a record may lie in two pieces. Old bytes ahead of the end never continue the chain of tags.
//!
//! A crash leaves each record whole, torn or absent. [`LogScan`] stops at the first record that does not check.

mod area;
mod scan;
mod writer;

pub use area::LogArea;
pub use scan::{LogScan, Mark};
pub use writer::{Append, LogFull, TenureWriter};
