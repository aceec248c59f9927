//! Data structures: a session, and writers and readers, each of which belongs to the thread that opened it.
//!
//! ```text
//!   types     types of keys and values as values: how objects of Python become bytes, and the description by the library's own types
//!   shapes    structures of bytes, of the types that are being opened
//!   kinds     writers and readers of every kind behind four traits
//!   session   writer   reader      the classes
//! ```

mod kinds;
mod reader;
mod session;
mod shapes;
mod types;
mod writer;

pub use reader::{Page, Reader};
pub use session::{Session, Snapshot};
pub use writer::Writer;
