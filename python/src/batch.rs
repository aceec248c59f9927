//! Batches: several keys, changed together or not at all.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyRange};
use stonecast::{Expectation, Retry};

use crate::octets::Octets;
use crate::write::{Token, moment};

/// Changes and expectations of several keys. A client applies them, all or none.
///
/// A call that waits for the store shares the content, without the lock of the interpreter; a change meanwhile copies
/// it.
#[pyclass(frozen, module = "stonecast")]
pub struct Batch(Mutex<Arc<stonecast::Batch>>);

#[pymethods]
impl Batch {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// Gives `key` this value, until `expires_at` by the server's time.
    #[pyo3(signature = (key, value, /, *, expires_at = None))]
    fn put<'py>(
        slf: Bound<'py, Self>,
        key: Octets<'_>,
        value: Octets<'_>,
        expires_at: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let expires = expires_at.map(moment).transpose()?;
        slf.get().edit(|batch| {
            batch.put_until(&key, &value, expires);
        });
        Ok(slf)
    }

    /// Removes `key`, if it is there.
    #[pyo3(signature = (key, /))]
    fn delete<'py>(slf: Bound<'py, Self>, key: Octets<'_>) -> Bound<'py, Self> {
        slf.get().edit(|batch| {
            batch.delete(&key);
        });
        slf
    }

    /// Lets the batch be done only if `key` is as expected before it.
    #[pyo3(signature = (key, /, *, version = None, absent = false, present = false))]
    fn expect<'py>(
        slf: Bound<'py, Self>,
        key: Octets<'_>,
        version: Option<u64>,
        absent: bool,
        present: bool,
    ) -> PyResult<Bound<'py, Self>> {
        let expectation = match (version, absent, present) {
            (Some(version), false, false) => Expectation::Version(version),
            (None, true, false) => Expectation::Absent,
            (None, false, true) => Expectation::Present,
            _ => {
                let message = "an expectation is one of version=N, absent=True and present=True";
                return Err(PyValueError::new_err(message));
            }
        };
        slf.get().edit(|batch| {
            batch.expect(&key, expectation);
        });
        Ok(slf)
    }

    /// The keys that the batch changes, in the order of the versions that they get.
    #[getter]
    fn changed<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let batch = self.content();
        batch.changed().map(|key| PyBytes::new(py, key)).collect()
    }

    fn __len__(&self) -> usize {
        self.content().len()
    }

    fn __repr__(&self) -> String {
        let batch = self.content();
        let (keys, changed) = (batch.len(), batch.changed().count());
        format!("<stonecast.Batch of {keys} keys, {changed} of them changed>")
    }
}

impl Batch {
    /// The content at this moment.
    pub fn content(&self) -> Arc<stonecast::Batch> {
        self.0.lock().expect("no holder panics").clone()
    }

    fn edit(&self, edit: impl FnOnce(&mut stonecast::Batch)) {
        edit(Arc::make_mut(&mut self.0.lock().expect("no holder panics")));
    }
}

/// The result of a batch. True if its changes were done.
#[pyclass(frozen, module = "stonecast")]
pub struct Applied(stonecast::Applied);

#[pymethods]
impl Applied {
    /// Whether all expectations held, so that all changes were done.
    #[getter]
    fn done(&self) -> bool {
        matches!(self.0, stonecast::Applied::Done(_))
    }

    /// The versions of the changes, in the order of `Batch.changed`; empty if nothing was done.
    #[getter]
    fn versions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyRange>> {
        let (start, end) = match &self.0 {
            stonecast::Applied::Done(versions) => (versions.start, versions.end),
            stonecast::Applied::Contradicted { .. } => (0, 0),
        };
        PyRange::new(py, isize::try_from(start)?, isize::try_from(end)?)
    }

    /// The first key that was not as expected; `None` if the batch was done.
    #[getter]
    fn contradicted<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        match &self.0 {
            stonecast::Applied::Done(_) => None,
            stonecast::Applied::Contradicted { key } => Some(PyBytes::new(py, key)),
        }
    }

    fn __bool__(&self) -> bool {
        self.done()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        if self.done() {
            let versions = self.versions(py)?.into_any().repr()?;
            return Ok(format!("Applied(versions={versions})"));
        }
        let key = self.contradicted(py).into_pyobject(py)?.repr()?;
        Ok(format!("Applied(contradicted={key})"))
    }
}

impl From<stonecast::Applied> for Applied {
    fn from(applied: stonecast::Applied) -> Self {
        Self(applied)
    }
}

/// Whether a batch can be repeated, as the arguments say.
pub fn retry(retryable: bool, token: Option<&Token>) -> Retry {
    match token {
        Some(token) => Retry::Of(token.0.clone()),
        None if retryable => Retry::Fresh,
        None => Retry::Never,
    }
}
