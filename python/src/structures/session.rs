//! A connection to a back-end, which opens writers and readers.

use pyo3::prelude::*;
use stonecast::structures::{BlockingSession, BlockingSnapshot, Error, connect_blocking};

use super::kinds::{AnyReader, AnyWriter};
use super::reader::Reader;
use super::types::{Kind, Types};
use super::writer::Writer;
use crate::errors::{misused, structure_raised, unavailable};
use crate::per_thread::{Key, Number};

/// The native half of `stonecast.structures.Session`.
#[pyclass(frozen, module = "stonecast._native")]
pub struct Session(Key);

/// A snapshot of a lock domain.
#[pyclass(frozen, module = "stonecast._native")]
pub struct Snapshot(Key);

#[pymethods]
impl Session {
    #[new]
    fn new(py: Python<'_>, url: &str) -> PyResult<Self> {
        let key = Key::new();
        let connected = py.detach(|| {
            key.keep(connect_blocking(url)?);
            Ok(())
        });
        connected.map_err(|error| structure_raised(py, error))?;
        Ok(Self(key))
    }

    fn writer(
        &self,
        py: Python<'_>,
        name: &str,
        kind: &str,
        key: Vec<String>,
        value: &str,
    ) -> PyResult<Writer> {
        let types = Types::named(kind, &key, value)?;
        let open = |session: &mut BlockingSession| AnyWriter::open(session, name, types);
        Ok(Writer::new(types, opened(py, self.0.number(), open)?))
    }

    fn reader(
        &self,
        py: Python<'_>,
        name: &str,
        kind: &str,
        key: Vec<String>,
        value: &str,
    ) -> PyResult<Reader> {
        let types = Types::named(kind, &key, value)?;
        let open = |session: &mut BlockingSession| AnyReader::open(session, name, types);
        Ok(Reader::new(types, opened(py, self.0.number(), open)?))
    }

    fn snapshot(&self, py: Python<'_>, domain: &str) -> PyResult<Snapshot> {
        let take = |session: &mut BlockingSession| session.snapshot(domain);
        opened(py, self.0.number(), take).map(Snapshot)
    }

    /// The names of all structures, each with its kind.
    fn list(&self, py: Python<'_>) -> PyResult<Vec<(String, &'static str)>> {
        let number = self.0.number();
        let listed = py.detach(|| number.lend(|session: &mut BlockingSession| session.list()));
        let listed = listed.map_err(|reason| unavailable(py, "session", &reason))?;
        let listed = listed.map_err(|error| structure_raised(py, error))?;
        let listed = listed.into_iter();
        Ok(listed.map(|one| (one.name, one.kind)).collect())
    }

    fn close(&self) {
        self.0.close();
    }
}

#[pymethods]
impl Snapshot {
    fn reader(
        &self,
        py: Python<'_>,
        structure: &str,
        kind: &str,
        key: Vec<String>,
        value: &str,
    ) -> PyResult<Reader> {
        let types = Types::named(kind, &key, value)?;
        if types.kind != Kind::MvBTree {
            let message = "a snapshot shows multi-version structures alone: MvBTree";
            return Err(misused(py, message));
        }
        let open = |snapshot: &mut BlockingSnapshot| AnyReader::then(snapshot, structure, types);
        Ok(Reader::new(types, opened(py, self.0.number(), open)?))
    }
}

/// Keeps what `open` gets out of this thread's value `T`.
fn opened<T: 'static, U: 'static>(
    py: Python<'_>,
    number: Number,
    open: impl FnOnce(&mut T) -> Result<U, Error> + Send,
) -> PyResult<Key> {
    let key = Key::new();
    let opened = py.detach(|| {
        number.lend(|value: &mut T| {
            key.keep(open(value)?);
            Ok(())
        })
    });
    let opened = opened.map_err(|reason| unavailable(py, "session", &reason))?;
    opened.map_err(|error| structure_raised(py, error))?;
    Ok(key)
}
