//! Keys and values as arguments: bytes, or text as UTF-8.

use std::ops::Deref;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyMemoryView, PyString};
use pyo3::{Borrowed, FromPyObject};

/// The bytes of an argument. Those of `bytes` are borrowed, and every other object is copied, since it may change while
/// a call waits.
pub enum Octets<'a> {
    Borrowed(&'a [u8]),
    Owned(Vec<u8>),
}

impl Octets<'_> {
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Self::Borrowed(bytes) => bytes.to_vec(),
            Self::Owned(bytes) => bytes,
        }
    }
}

impl Deref for Octets<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Octets<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Octets<'a> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = <&'a [u8]>::extract(object) {
            return Ok(Self::Borrowed(bytes));
        }
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Self::Owned(text.to_cow()?.into_owned().into_bytes()));
        }
        if let Ok(bytes) = object.cast::<PyByteArray>() {
            return Ok(Self::Owned(bytes.to_vec()));
        }
        if object.is_instance_of::<PyMemoryView>() {
            return object.call_method0("tobytes")?.extract().map(Self::Owned);
        }
        let name = object.get_type().name()?;
        let message = format!("a key or value is bytes or str, not {name}");
        Err(PyTypeError::new_err(message))
    }
}

/// All keys of an iterable. A text is an iterable of its characters, and refused: the caller means one key.
pub fn all(keys: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    if keys.is_instance_of::<PyString>() {
        let message = "several keys are an iterable of bytes or str, not one str";
        return Err(PyTypeError::new_err(message));
    }
    let keys = keys.try_iter()?;
    keys.map(|key| Ok(key?.extract::<Octets<'_>>()?.into_vec()))
        .collect()
}

/// All pairs of a mapping, or of an iterable of pairs.
pub fn pairs(pairs: &Bound<'_, PyAny>) -> PyResult<Vec<(Vec<u8>, Vec<u8>)>> {
    let items = match pairs.hasattr("items")? {
        true => &pairs.call_method0("items")?,
        false => pairs,
    };
    let pair = |pair: PyResult<Bound<'_, PyAny>>| {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
        let (key, value): (Octets<'_>, Octets<'_>) = (key.extract()?, value.extract()?);
        Ok((key.into_vec(), value.into_vec()))
    };
    items.try_iter()?.map(pair).collect()
}
