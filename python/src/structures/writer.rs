//! The writer of a structure of any kind.

use pyo3::prelude::*;
use stonecast::structures::Error;

use super::kinds::{AnyWriter, Write, WriteKeyed, WriteSequence};
use super::shapes::Encoded;
use super::types::Types;
use crate::errors::{misused, structure_raised, unavailable};
use crate::per_thread::Key;

/// The native half of the writers in `stonecast.structures`.
#[pyclass(frozen, module = "stonecast._native")]
pub struct Writer {
    types: Types,
    key: Key,
}

#[pymethods]
impl Writer {
    fn insert(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.put(key, value, |writer, key, value| writer.insert(key, value))
    }

    fn insert_if_absent(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.put(key, value, |writer, key, value| {
            writer.insert_if_absent(key, value)
        })
    }

    fn update(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.put(key, value, |writer, key, value| writer.update(key, value))
    }

    fn stage(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(key, value, |writer, key, value| writer.stage(key, value))
    }

    fn compare_and_update(
        &self,
        key: &Bound<'_, PyAny>,
        expected: &Bound<'_, PyAny>,
        new: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let expected = self.types.encode_value(expected)?;
        self.put(key, new, |writer, key, new| {
            writer.compare_and_update(key, &expected, new)
        })
    }

    fn remove(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let encoded = Encoded(self.types.encode_key(key)?);
        self.keyed(key.py(), |writer| writer.remove(&encoded))
    }

    fn get<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, encoded) = (key.py(), Encoded(self.types.encode_key(key)?));
        let found = self.keyed(py, |writer| writer.get(&encoded))?;
        let value = found.map(|bytes| self.types.decode_value(py, &bytes));
        value.transpose()
    }

    fn push(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let encoded = self.types.encode_value(value)?;
        self.sequence(value.py(), |writer| writer.push(&encoded))
    }

    fn pop<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.sequence(py, |writer| writer.pop())?;
        let value = found.map(|bytes| self.types.decode_value(py, &bytes));
        value.transpose()
    }

    fn publish(&self, py: Python<'_>) -> PyResult<()> {
        self.any(py, |writer| writer.publish())
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.any(py, |writer| writer.flush())
    }

    fn renew(&self, py: Python<'_>) -> PyResult<()> {
        self.any(py, |writer| writer.renew())
    }

    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.any(py, |writer| writer.clear())
    }

    fn rename(&self, py: Python<'_>, structure: &str) -> PyResult<()> {
        self.any(py, |writer| writer.rename(structure))
    }

    fn destroy(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, |writer| writer.destroy())
    }

    fn release(&self, py: Python<'_>) -> PyResult<()> {
        if !self.key.is_open() {
            return Ok(());
        }
        self.end(py, |writer| writer.release())
    }
}

impl Writer {
    pub fn new(types: Types, key: Key) -> Self {
        Self { types, key }
    }

    fn put<T: Send>(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        put: impl FnOnce(&mut dyn WriteKeyed, &Encoded, &Vec<u8>) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let encoded = Encoded(self.types.encode_key(key)?);
        let value = self.types.encode_value(value)?;
        self.keyed(key.py(), |writer| put(writer, &encoded, &value))
    }

    fn keyed<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut dyn WriteKeyed) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let done = self.lent(py, |writer| match writer {
            AnyWriter::Keyed(writer) => Some(work(&mut **writer)),
            AnyWriter::Sequence(_) => None,
        })?;
        result(py, done, "a queue or stack has no keys")
    }

    fn sequence<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut dyn WriteSequence) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let done = self.lent(py, |writer| match writer {
            AnyWriter::Keyed(_) => None,
            AnyWriter::Sequence(writer) => Some(work(&mut **writer)),
        })?;
        result(py, done, "a structure with keys has no ends")
    }

    fn any(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut dyn Write) -> Result<(), Error> + Send,
    ) -> PyResult<()> {
        let done = self.lent(py, |writer| work(writer.as_mut()))?;
        done.map_err(|error| structure_raised(py, error))
    }

    fn lent<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut AnyWriter) -> T + Send,
    ) -> PyResult<T> {
        let number = self.key.number();
        let lent = py.detach(|| number.lend(work));
        lent.map_err(|reason| unavailable(py, "writer", &reason))
    }

    fn end(
        &self,
        py: Python<'_>,
        work: impl FnOnce(Box<dyn Write>) -> Result<(), Error> + Send,
    ) -> PyResult<()> {
        let number = self.key.number();
        let ended = py.detach(|| {
            let writer = number.take::<AnyWriter>()?;
            Ok(work(writer.into_writer()))
        });
        let ended = ended.map_err(|reason| unavailable(py, "writer", &reason))?;
        self.key.close();
        ended.map_err(|error| structure_raised(py, error))
    }
}

/// The result of a call that structures of the other kinds do not have.
pub fn result<T>(py: Python<'_>, done: Option<Result<T, Error>>, other: &str) -> PyResult<T> {
    let done = done.ok_or_else(|| misused(py, other))?;
    done.map_err(|error| structure_raised(py, error))
}
