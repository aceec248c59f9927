//! Servers inside the program, each in a thread of its own.

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::prelude::*;
use stonecast::{Address, Error, server, structures};

use crate::errors::{misused, raised};
use crate::options::durability;

/// A server of either kind.
enum Handle {
    Records(server::ServerHandle),
    Structures(structures::ServerHandle),
}

impl Handle {
    fn has_ended(&self) -> bool {
        match self {
            Self::Records(handle) => handle.has_ended(),
            Self::Structures(handle) => handle.has_ended(),
        }
    }

    fn shutdown(self) -> Result<(), Error> {
        match self {
            Self::Records(handle) => handle.shutdown().map(drop),
            Self::Structures(handle) => handle.shutdown(),
        }
    }
}

/// A server that runs until it is closed.
struct Running {
    url: String,
    /// The process of the server's thread, which a process that was forked does not have.
    process: u32,
    handle: Mutex<Option<Handle>>,
}

impl Running {
    fn new(address: &Address, handle: Handle) -> Self {
        Self {
            url: address.to_string(),
            process: std::process::id(),
            handle: Mutex::new(Some(handle)),
        }
    }

    fn take(&self) -> Option<Handle> {
        self.handle.lock().expect("no holder panics").take()
    }

    fn has_ended(&self) -> bool {
        let handle = self.handle.lock().expect("no holder panics");
        handle.as_ref().is_none_or(Handle::has_ended)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.process != std::process::id() {
            let message = "the server belongs to the process before the fork";
            return Err(misused(py, message));
        }
        let Some(handle) = self.take() else {
            return Ok(());
        };
        py.detach(|| handle.shutdown())
            .map_err(|error| raised(py, error))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // Its thread is in the other process: nobody would end the wait for it.
            std::mem::forget(self.take());
        }
    }
}

/// The native half of `stonecast.Server`.
#[pyclass(frozen, subclass, module = "stonecast._native")]
pub struct Server(Running);

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (data, *, durability = None, capacity = None, segment_size = None, shards = None, listen = None))]
    fn new(
        py: Python<'_>,
        data: PathBuf,
        durability: Option<&str>,
        capacity: Option<u64>,
        segment_size: Option<u64>,
        shards: Option<u32>,
        listen: Option<&str>,
    ) -> PyResult<Self> {
        let mut pool = stonecast::Server::builder(data);
        if let Some(name) = durability {
            pool = pool.durability(self::durability(name)?);
        }
        if let Some(bytes) = capacity {
            pool = pool.capacity(bytes);
        }
        if let Some(bytes) = segment_size {
            pool = pool.segment_size(bytes);
        }
        if let Some(shards) = shards {
            pool = pool.shards(shards);
        }
        if let Some(url) = listen {
            pool = pool.listen(address(py, url)?);
        }
        let handle = py.detach(|| pool.serve());
        let handle = handle.map_err(|error| raised(py, error))?;
        let address = handle.address().clone();
        Ok(Self(Running::new(&address, Handle::Records(handle))))
    }

    #[getter]
    fn url(&self) -> &str {
        &self.0.url
    }

    #[getter]
    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py)
    }
}

/// The native half of `stonecast.structures.Server`.
#[pyclass(frozen, subclass, module = "stonecast._native")]
pub struct StructureServer(Running);

#[pymethods]
impl StructureServer {
    #[new]
    #[pyo3(signature = (data, *, durability = None, capacity = None, listen = None))]
    fn new(
        py: Python<'_>,
        data: PathBuf,
        durability: Option<&str>,
        capacity: Option<u64>,
        listen: Option<&str>,
    ) -> PyResult<Self> {
        let mut pool = structures::Server::builder(data);
        if let Some(name) = durability {
            pool = pool.durability(self::durability(name)?);
        }
        if let Some(bytes) = capacity {
            pool = pool.capacity(bytes);
        }
        if let Some(url) = listen {
            pool = pool.listen(address(py, url)?);
        }
        let handle = py.detach(|| pool.serve());
        let handle = handle.map_err(|error| raised(py, error))?;
        let address = handle.address().clone();
        Ok(Self(Running::new(&address, Handle::Structures(handle))))
    }

    #[getter]
    fn url(&self) -> &str {
        &self.0.url
    }

    #[getter]
    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py)
    }
}

fn address(py: Python<'_>, url: &str) -> PyResult<Address> {
    url.parse::<Address>()
        .map_err(|error| raised(py, error.into()))
}
