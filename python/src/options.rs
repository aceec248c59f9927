//! Options as keyword arguments. An option that is not given is left to the library.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stonecast::{Connector, Durability};

use crate::errors::raised;

/// The way to the server or cluster at `url`, with `options` as `stonecast.connect` takes them.
pub fn connector(
    py: Python<'_>,
    url: &str,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Connector> {
    let mut connector = Connector::new(url).map_err(|error| raised(py, error))?;
    for (name, value) in options.into_iter().flatten() {
        let name: String = name.extract()?;
        connector = match &*name {
            "connect_timeout" => connector.connect_timeout(seconds(&value)?),
            "operation_timeout" => {
                let limit = (!value.is_none()).then(|| seconds(&value)).transpose()?;
                connector.operation_timeout(limit)
            }
            _ if value.is_none() => connector,
            "expect_durability" => {
                connector.expect_durability(durability(&value.extract::<String>()?)?)
            }
            "spin" => connector.spin(seconds(&value)?),
            "publishing" => connector.publishing(value.extract()?),
            "remembered_places" => connector.remembered_places(value.extract()?),
            "keys" => connector.keys(value.extract::<PathBuf>()?),
            "rdma_device" => connector.rdma_device(value.extract::<String>()?),
            "gid_index" => connector.gid_index(value.extract()?),
            _ => {
                let message = format!("a connection has no option {name:?}");
                return Err(PyTypeError::new_err(message));
            }
        };
    }
    Ok(connector)
}

/// The failures that acknowledged writes survive.
pub fn durability(name: &str) -> PyResult<Durability> {
    match name {
        "power" => Ok(Durability::Power),
        "process" => Ok(Durability::Process),
        _ => {
            let message = format!("a durability is \"power\" or \"process\", not {name:?}");
            Err(PyValueError::new_err(message))
        }
    }
}

fn seconds(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds: f64 = value.extract()?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|error| PyValueError::new_err(format!("{seconds} seconds: {error}")))
}
