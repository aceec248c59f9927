//! The reader of a structure of any kind.

use std::ops::Bound as End;

use pyo3::prelude::*;
use stonecast::structures::{Error, Rest};

use super::kinds::{AnyReader, ReadKeyed, ReadSequence};
use super::shapes::Encoded;
use super::types::Types;
use super::writer::result;
use crate::errors::unavailable;
use crate::per_thread::Key;

/// Entries that an iteration over a range reads at a time.
const PAGE: usize = 256;

/// An entry as objects of Python.
type Item<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The native half of the readers in `stonecast.structures`.
#[pyclass(frozen, module = "stonecast._native")]
pub struct Reader {
    types: Types,
    key: Key,
}

/// The part of a range that is left.
#[pyclass(frozen, module = "stonecast._native")]
pub struct Page(Rest);

#[pymethods]
impl Reader {
    fn get<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, encoded) = (key.py(), Encoded(self.types.encode_key(key)?));
        let found = self.keyed(py, |reader| reader.get(&encoded))?;
        self.decoded(py, found)
    }

    fn get_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let py = keys.py();
        let encoded = |key: PyResult<Bound<'py, PyAny>>| self.types.encode_key(&key?).map(Encoded);
        let keys: Vec<_> = keys.try_iter()?.map(encoded).collect::<PyResult<_>>()?;
        let found = self.keyed(py, |reader| reader.get_many(&keys))?;
        let values = found.into_iter();
        values.map(|value| self.decoded(py, value)).collect()
    }

    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Vec<Item<'py>>> {
        let entries = self.keyed(py, |reader| reader.entries())?;
        self.items(py, &entries)
    }

    /// A range of keys from `first` to before `end`, each absent for no bound, or in the other direction.
    fn range(
        &self,
        first: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        is_reversed: bool,
    ) -> PyResult<Page> {
        let encoded =
            |key: Option<&Bound<'_, PyAny>>| key.map(|key| self.types.encode_key(key)).transpose();
        Ok(Page(Rest {
            start: encoded(first)?.map_or(End::Unbounded, End::Included),
            end: encoded(end)?.map_or(End::Unbounded, End::Excluded),
            is_reversed,
        }))
    }

    /// The next entries of a range, and the part of it that is left.
    fn page<'py>(&self, py: Python<'py>, page: &Page) -> PyResult<(Vec<Item<'py>>, Page)> {
        let read = self.lent(py, |reader| match reader {
            AnyReader::Ordered(reader) => Some(reader.some_of(&page.0, PAGE)),
            AnyReader::Unordered(_) | AnyReader::Sequence(_) => None,
        })?;
        let (entries, rest) = result(py, read, "only ordered structures have ranges")?;
        Ok((self.items(py, &entries)?, Page(rest)))
    }

    fn peek<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.sequence(py, |reader| reader.peek())?;
        self.decoded(py, found)
    }

    fn values<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let values = self.sequence(py, |reader| reader.values())?;
        let values = values.iter();
        values
            .map(|bytes| self.types.decode_value(py, bytes))
            .collect()
    }

    fn close(&self) {
        self.key.close();
    }
}

impl Reader {
    pub fn new(types: Types, key: Key) -> Self {
        Self { types, key }
    }

    fn keyed<T: Send>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&mut dyn ReadKeyed) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let done = self.lent(py, |reader| reader.keyed().map(read))?;
        result(py, done, "a queue or stack has no keys")
    }

    fn sequence<T: Send>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&mut dyn ReadSequence) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let done = self.lent(py, |reader| match reader {
            AnyReader::Sequence(reader) => Some(read(&mut **reader)),
            AnyReader::Ordered(_) | AnyReader::Unordered(_) => None,
        })?;
        result(py, done, "a structure with keys has no ends")
    }

    fn lent<T: Send>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&mut AnyReader) -> T + Send,
    ) -> PyResult<T> {
        let number = self.key.number();
        let lent = py.detach(|| number.lend(read));
        lent.map_err(|reason| unavailable(py, "reader", &reason))
    }

    fn decoded<'py>(
        &self,
        py: Python<'py>,
        found: Option<Vec<u8>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = found.map(|bytes| self.types.decode_value(py, &bytes));
        value.transpose()
    }

    fn items<'py>(
        &self,
        py: Python<'py>,
        entries: &[(Encoded, Vec<u8>)],
    ) -> PyResult<Vec<Item<'py>>> {
        let entries = entries.iter();
        entries
            .map(|(key, value)| {
                let key = self.types.decode_key(py, &key.0)?;
                Ok((key, self.types.decode_value(py, value)?))
            })
            .collect()
    }
}
