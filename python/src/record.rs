//! Entries and records of a store.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A value with its version and its expiry.
#[pyclass(frozen, get_all, module = "stonecast")]
pub struct Entry {
    /// The value.
    value: Py<PyBytes>,
    /// Of two versions of one key, the larger one is newer.
    version: u64,
    /// The moment from which on the key is absent, in seconds since 1970 in UTC by the server's time; `None`: the key
    /// does not expire.
    expires_at: Option<f64>,
}

impl Entry {
    pub fn new(py: Python<'_>, entry: &stonecast::Entry) -> Self {
        Self {
            value: PyBytes::new(py, &entry.value).unbind(),
            version: entry.version,
            // The doubles near the present are closer to each other than a microsecond.
            expires_at: entry.expires.map(|moment| moment.ms() as f64 / 1000.0),
        }
    }
}

#[pymethods]
impl Entry {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let value = self.value.bind(py).repr()?;
        Ok(format!("Entry(value={value}, version={})", self.version))
    }
}

/// A key with its value and version.
#[pyclass(frozen, get_all, module = "stonecast")]
pub struct Record {
    /// The key.
    key: Py<PyBytes>,
    /// The value.
    value: Py<PyBytes>,
    /// The version.
    version: u64,
}

impl Record {
    pub fn new(py: Python<'_>, record: &stonecast::Record) -> Self {
        Self {
            key: PyBytes::new(py, &record.key).unbind(),
            value: PyBytes::new(py, &record.value).unbind(),
            version: record.version,
        }
    }
}

#[pymethods]
impl Record {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (key, value) = (self.key.bind(py).repr()?, self.value.bind(py).repr()?);
        let version = self.version;
        Ok(format!(
            "Record(key={key}, value={value}, version={version})"
        ))
    }
}
