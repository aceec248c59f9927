//! The calls of the client for asyncio. Each returns a future of the loop.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};
use stonecast::{Error, ErrorKind, Write};

use super::bridge::Bridge;
use crate::batch::{self, Applied, Batch};
use crate::octets::{self, Octets};
use crate::record::{Entry, Record};
use crate::stat::Stat;
use crate::write::{self, Token, Written};

/// The native half of `stonecast.aio.Client`.
#[pyclass(frozen, module = "stonecast._native")]
pub struct AsyncClient {
    bridge: Py<Bridge>,
    /// `None` once the client is closed.
    client: Mutex<Option<stonecast::Client>>,
}

/// An iteration over all records.
#[pyclass(frozen, module = "stonecast._native")]
pub struct AsyncEntries {
    /// `None` while the next records are being read.
    found: Arc<Mutex<Option<stonecast::Entries>>>,
}

type Started<'py> = PyResult<Bound<'py, PyAny>>;

#[pymethods]
impl AsyncClient {
    fn get<'py>(&self, py: Python<'py>, key: Octets<'_>) -> Started<'py> {
        let key = key.into_vec();
        let get = async move |client: stonecast::Client| client.get(key).await;
        self.start(py, get, |py, entry| {
            Ok(match entry {
                Some(entry) => PyBytes::new(py, &entry.value).into_any().unbind(),
                None => py.None(),
            })
        })
    }

    fn get_entry<'py>(&self, py: Python<'py>, key: Octets<'_>) -> Started<'py> {
        let key = key.into_vec();
        let get = async move |client: stonecast::Client| client.get(key).await;
        self.start(py, get, some_entry)
    }

    #[pyo3(signature = (key, value, /, *, expires_in, expires_at, retryable, token))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn put<'py>(
        &self,
        py: Python<'py>,
        key: Octets<'_>,
        value: Octets<'_>,
        expires_in: Option<&Bound<'_, PyAny>>,
        expires_at: Option<&Bound<'_, PyAny>>,
        retryable: bool,
        token: Option<&Bound<'_, Token>>,
    ) -> Started<'py> {
        let lifetime = write::lifetime(expires_in, expires_at)?;
        let write = write::named(retryable, token.map(Bound::get)).living(lifetime);
        let (key, value) = (key.into_vec(), value.into_vec());
        let put = async move |client: stonecast::Client| client.put_with(key, value, write).await;
        self.start(py, put, |py, written| {
            let version = write::version(py, written)?;
            Ok(PyInt::new(py, version).into_any().unbind())
        })
    }

    #[pyo3(signature = (key, value, /, *, version, absent, expires_in, expires_at, retryable, token))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn put_if<'py>(
        &self,
        py: Python<'py>,
        key: Octets<'_>,
        value: Octets<'_>,
        version: Option<u64>,
        absent: bool,
        expires_in: Option<&Bound<'_, PyAny>>,
        expires_at: Option<&Bound<'_, PyAny>>,
        retryable: bool,
        token: Option<&Bound<'_, Token>>,
    ) -> Started<'py> {
        let lifetime = write::lifetime(expires_in, expires_at)?;
        let write = write::named(retryable, token.map(Bound::get)).living(lifetime);
        let write = write::conditional(write, version, absent)?;
        let (key, value) = (key.into_vec(), value.into_vec());
        let put = async move |client: stonecast::Client| client.put_with(key, value, write).await;
        self.start(py, put, written)
    }

    #[pyo3(signature = (key, /, *, retryable, token))]
    fn delete<'py>(
        &self,
        py: Python<'py>,
        key: Octets<'_>,
        retryable: bool,
        token: Option<&Bound<'_, Token>>,
    ) -> Started<'py> {
        let write = write::named(retryable, token.map(Bound::get));
        self.remove(py, key, write, |py, removed| {
            let was_there = Written::from(removed).done();
            Ok(was_there.into_pyobject(py)?.to_owned().into_any().unbind())
        })
    }

    #[pyo3(signature = (key, /, *, version, retryable, token))]
    fn delete_if<'py>(
        &self,
        py: Python<'py>,
        key: Octets<'_>,
        version: u64,
        retryable: bool,
        token: Option<&Bound<'_, Token>>,
    ) -> Started<'py> {
        let write = write::named(retryable, token.map(Bound::get));
        self.remove(py, key, write.if_version(version), written)
    }

    #[pyo3(signature = (batch, /, *, retryable, token))]
    fn apply<'py>(
        &self,
        py: Python<'py>,
        batch: &Bound<'_, Batch>,
        retryable: bool,
        token: Option<&Bound<'_, Token>>,
    ) -> Started<'py> {
        let retry = batch::retry(retryable, token.map(Bound::get));
        let batch = Arc::unwrap_or_clone(batch.get().content());
        let apply = async move |client: stonecast::Client| client.apply_with(batch, retry).await;
        self.start(py, apply, |py, applied| {
            Ok(Py::new(py, Applied::from(applied))?.into_any())
        })
    }

    fn multi_get<'py>(&self, py: Python<'py>, keys: &Bound<'_, PyAny>) -> Started<'py> {
        let keys = octets::all(keys)?;
        let get = async move |client: stonecast::Client| client.multi_get(keys).await;
        self.start(py, get, |py, entries| {
            let entries = entries.into_iter().map(|entry| some_entry(py, entry));
            let entries: Vec<_> = entries.collect::<PyResult<_>>()?;
            Ok(entries.into_pyobject(py)?.unbind())
        })
    }

    fn multi_put<'py>(&self, py: Python<'py>, pairs: &Bound<'_, PyAny>) -> Started<'py> {
        let pairs = octets::pairs(pairs)?;
        let put = async move |client: stonecast::Client| client.multi_put(pairs).await;
        self.start(py, put, |py, outcomes| {
            let outcomes = write::outcomes(py, outcomes)?;
            Ok(outcomes.into_pyobject(py)?.unbind())
        })
    }

    fn entries<'py>(&self, py: Python<'py>) -> Started<'py> {
        let entries = async move |client: stonecast::Client| client.entries().await;
        self.start(py, entries, |py, found| {
            let found = Arc::new(Mutex::new(Some(found)));
            Ok(Py::new(py, AsyncEntries { found })?.into_any())
        })
    }

    /// The next records; an empty list at the end.
    fn next_batch<'py>(&self, py: Python<'py>, entries: &AsyncEntries) -> Started<'py> {
        let place = entries.found.clone();
        let next = async move |_| {
            let taken = place.lock().expect("no holder panics").take();
            let mut found = taken.ok_or(ErrorKind::Closed)?;
            let batch = found.next_batch().await;
            *place.lock().expect("no holder panics") = Some(found);
            batch
        };
        self.start(py, next, |py, batch| {
            let records: Vec<_> = batch.iter().map(|record| Record::new(py, record)).collect();
            Ok(records.into_pyobject(py)?.unbind())
        })
    }

    fn stat<'py>(&self, py: Python<'py>) -> Started<'py> {
        let stat = async move |client: stonecast::Client| client.stat().await;
        self.start(py, stat, |py, stat| {
            Ok(Py::new(py, Stat::from(stat))?.into_any())
        })
    }

    fn close(&self) {
        if let Some(client) = self.client.lock().expect("no holder panics").take() {
            client.close();
        }
    }
}

impl AsyncClient {
    pub fn new(bridge: Py<Bridge>, client: stonecast::Client) -> Self {
        let client = Mutex::new(Some(client));
        Self { bridge, client }
    }

    fn start<'py, T, Work>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(stonecast::Client) -> Work,
        result: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Started<'py>
    where
        T: Send + 'static,
        Work: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let client = self.client.lock().expect("no holder panics").clone();
        let client = client.ok_or_else(|| crate::errors::closed(py))?;
        self.bridge.get().start(py, work(client), result)
    }

    fn remove<'py>(
        &self,
        py: Python<'py>,
        key: Octets<'_>,
        write: Write,
        result: impl FnOnce(Python<'_>, stonecast::Written) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Started<'py> {
        let key = key.into_vec();
        let delete = async move |client: stonecast::Client| client.delete_with(key, write).await;
        self.start(py, delete, result)
    }
}

fn written(py: Python<'_>, written: stonecast::Written) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, Written::from(written))?.into_any())
}

fn some_entry(py: Python<'_>, entry: Option<stonecast::Entry>) -> PyResult<Py<PyAny>> {
    match entry {
        Some(entry) => Ok(Py::new(py, Entry::new(py, &entry))?.into_any()),
        None => Ok(py.None()),
    }
}
