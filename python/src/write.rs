//! Options and results of writes.

use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyInt;
use stonecast::{Error, Expiry, Lifetime, Write};

use crate::errors::{misused, raised};

/// Names a write for its retries. An error with an unknown outcome carries the token of a retryable write.
#[pyclass(frozen, module = "stonecast")]
#[derive(Clone)]
pub struct Token(pub stonecast::Token);

#[pymethods]
impl Token {
    /// Whether an attempt may have taken effect, or may still do so.
    #[getter]
    fn may_be_done(&self) -> bool {
        self.0.may_be_done()
    }
}

/// The result of a conditional write. True if the write was done.
#[pyclass(frozen, eq, hash, module = "stonecast")]
#[derive(PartialEq, Eq, Hash)]
pub struct Written {
    /// Whether the condition held.
    #[pyo3(get)]
    done: bool,
    /// The key's new version, or the version that was in the way; `None`: the key is absent.
    #[pyo3(get)]
    version: Option<u64>,
}

impl Written {
    pub fn done(&self) -> bool {
        self.done
    }
}

#[pymethods]
impl Written {
    fn __bool__(&self) -> bool {
        self.done
    }

    fn __repr__(&self) -> String {
        let done = if self.done { "True" } else { "False" };
        match self.version {
            Some(version) => format!("Written(done={done}, version={version})"),
            None => format!("Written(done={done}, version=None)"),
        }
    }
}

impl From<stonecast::Written> for Written {
    fn from(written: stonecast::Written) -> Self {
        match written {
            stonecast::Written::Done(version) => Self {
                done: true,
                version: Some(version),
            },
            stonecast::Written::Conflict(version) => Self {
                done: false,
                version,
            },
        }
    }
}

/// A write without a condition, named as the arguments say.
pub fn named(retryable: bool, token: Option<&Token>) -> Write {
    match token {
        Some(token) => Write::retry(token.0.clone()),
        None if retryable => Write::retryable(),
        None => Write::new(),
    }
}

/// A write under one condition: a version, or absence.
pub fn conditional(write: Write, version: Option<u64>, absent: bool) -> PyResult<Write> {
    match (version, absent) {
        (Some(version), false) => Ok(write.if_version(version)),
        (None, true) => Ok(write.if_absent()),
        _ => Err(PyValueError::new_err(
            "a conditional write has one condition: version=N or absent=True",
        )),
    }
}

/// The lifetime of a key that is put: for good, for a time from now, or until a moment. Times are seconds or a
/// `timedelta`, moments seconds since 1970 in UTC or a `datetime`.
pub fn lifetime(
    expires_in: Option<&Bound<'_, PyAny>>,
    expires_at: Option<&Bound<'_, PyAny>>,
) -> PyResult<Lifetime> {
    match (expires_in, expires_at) {
        (None, None) => Ok(Lifetime::Forever),
        (Some(time), None) => {
            let seconds = seconds(
                time,
                "total_seconds",
                "expires_in is seconds or a timedelta",
            )?;
            let time = Duration::try_from_secs_f64(seconds);
            let time = time.map_err(|error| {
                PyValueError::new_err(format!("expires_in of {seconds} seconds: {error}"))
            })?;
            Ok(Lifetime::For(time))
        }
        (None, Some(moment)) => self::moment(moment).map(Lifetime::Until),
        (Some(_), Some(_)) => Err(PyValueError::new_err(
            "a key expires in a time or at a moment: expires_in or expires_at",
        )),
    }
}

/// A moment, rounded to whole milliseconds: a moment that was read is the same one again.
pub fn moment(moment: &Bound<'_, PyAny>) -> PyResult<Expiry> {
    let seconds = seconds(moment, "timestamp", "expires_at is seconds or a datetime")?;
    // The conversion saturates, and gives 0 for what is no number.
    Expiry::at_ms((seconds * 1000.0).round() as u64).ok_or_else(|| {
        PyValueError::new_err(format!(
            "expires_at of {seconds} seconds: a moment lies after the begin of 1970"
        ))
    })
}

/// A number of seconds, or the number that `method` of the object gives.
fn seconds(value: &Bound<'_, PyAny>, method: &str, wanted: &str) -> PyResult<f64> {
    if let Ok(seconds) = value.extract() {
        return Ok(seconds);
    }
    let given = value.call_method0(method);
    given
        .and_then(|seconds| seconds.extract())
        .map_err(|_| PyTypeError::new_err(wanted.to_owned()))
}

/// The version of a write without a condition.
pub fn version(py: Python<'_>, written: stonecast::Written) -> PyResult<u64> {
    match written {
        stonecast::Written::Done(version) => Ok(version),
        stonecast::Written::Conflict(_) => Err(misused(py, "the token is that of another write")),
    }
}

/// The version of each write, or its exception.
pub fn outcomes<'py>(
    py: Python<'py>,
    outcomes: Vec<Result<u64, Error>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let outcome = |outcome| match outcome {
        Ok(version) => Ok(PyInt::new(py, version).into_any()),
        Err(error) => Ok(raised(py, error).into_value(py).into_bound(py).into_any()),
    };
    outcomes.into_iter().map(outcome).collect()
}
