//! The native half of the Python package `stonecast`.
//!
//! ```text
//!   package/stonecast/   Python: mapping, asyncio, types of structures, errors
//!          v
//!   _native              this crate
//!     client  entries    calls that wait, each on the connection of its thread
//!     batch              changes of several keys, which both clients apply
//!     aio/               calls that resolve futures of a loop
//!     structures/        writers and readers, each on the thread that opened it
//!     server             servers to embed
//!       per_thread       values that belong to one thread, under numbers that any thread may have
//!       wait             the lock of the interpreter is released, and signals are looked after
//!       octets  options  errors      arguments and results
//! ```
//!
//! A connection belongs to the thread that opened it. An object of Python may be used and dropped by any thread, so it
//! holds no connection: it holds a number,
//! under which each thread keeps a connection of its own. No code here is unsafe.
#![forbid(unsafe_code)]

mod aio;
mod batch;
mod client;
mod entries;
mod errors;
mod octets;
mod options;
mod per_thread;
mod record;
mod server;
mod stat;
mod structures;
mod wait;
mod write;

/// The native half of the package. Programs use the package `stonecast`.
#[pyo3::pymodule]
mod _native {
    use pyo3::prelude::*;
    use pyo3::types::PyDict;

    #[pymodule_export]
    use crate::aio::{AsyncClient, AsyncEntries, Bridge};
    #[pymodule_export]
    use crate::batch::{Applied, Batch};
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::entries::Entries;
    #[pymodule_export]
    use crate::record::{Entry, Record};
    #[pymodule_export]
    use crate::server::{Server, StructureServer};
    #[pymodule_export]
    use crate::stat::Stat;
    #[pymodule_export]
    use crate::structures::{Page, Reader, Session, Snapshot, Writer};
    #[pymodule_export]
    use crate::write::{Token, Written};

    /// A process that was forked has no thread but one, and shares the connections of its parent: it must neither use
    /// nor end them.
    #[pyfunction]
    fn forget_connections() {
        crate::per_thread::forget_all();
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("BATCH_KEYS_MAX", stonecast::BATCH_KEYS_MAX)?;
        module.add("BATCH_SIZE_MAX", stonecast::BATCH_SIZE_MAX)?;
        module.add("KEY_SIZE_MAX", stonecast::KEY_SIZE_MAX)?;
        module.add("VALUE_SIZE_MAX", stonecast::VALUE_SIZE_MAX)?;
        let after_fork = PyDict::new(module.py());
        after_fork.set_item("after_in_child", module.getattr("forget_connections")?)?;
        let os = module.py().import("os")?;
        os.call_method("register_at_fork", (), Some(&after_fork))?;
        Ok(())
    }
}
