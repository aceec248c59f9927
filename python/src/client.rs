//! The client whose calls wait. Each thread that uses a client has a connection of its own.

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use stonecast::{Address, Connector, Error, Write, local};

use crate::batch::{self, Applied, Batch};
use crate::entries::Entries;
use crate::errors::{self, closed, raised, read_stopped, unavailable, write_stopped};
use crate::octets::{self, Octets};
use crate::options;
use crate::per_thread::{Key, Number};
use crate::record::Entry;
use crate::stat::Stat;
use crate::wait::{self, Stopped};
use crate::write::{self, Token, Written};

/// The connection of one thread.
struct Connected {
    connection: local::Connection,
    /// The value that was read last. Its memory serves the next read.
    value: Vec<u8>,
}

/// The native half of `stonecast.Client`.
#[pyclass(frozen, subclass, module = "stonecast._native")]
pub struct Client {
    url: String,
    connector: Connector,
    key: Key,
    /// Whether READs are executed in the call, so that most GETs wait for nothing.
    reads_in_call: bool,
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (url, **options))]
    fn new(py: Python<'_>, url: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let connector = options::connector(py, url, options)?;
        let address: Address = url
            .parse()
            .map_err(|error| raised(py, Error::from(error)))?;
        let client = Self {
            url: url.to_owned(),
            connector,
            key: Key::new(),
            reads_in_call: address.socket().is_some(),
        };
        client.connect(py)?;
        Ok(client)
    }

    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    #[getter]
    fn closed(&self) -> bool {
        !self.key.is_open()
    }

    #[pyo3(signature = (key, default = None, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Octets<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.read(py, &key, |value, _| PyBytes::new(py, value))?;
        Ok(found.map(Bound::into_any).or(default))
    }

    #[pyo3(signature = (key, /))]
    fn get_entry(&self, py: Python<'_>, key: Octets<'_>) -> PyResult<Option<Entry>> {
        let number = self.number(py)?;
        if self.reads_in_call {
            let lent = number.lend(|Connected { connection, .. }: &mut Connected| {
                let read = async |client: &local::Client| wait::at_once(client.get(&key)).await;
                // A read that failed is repeated below, which reports the error.
                connection.run(read)?.ok()
            });
            if let Ok(Some(found)) = lent {
                return Ok(found.map(|entry| Entry::new(py, &entry)));
            }
        }
        let found = self.look(py, async |client| client.get(&key).await)?;
        Ok(found.map(|entry| Entry::new(py, &entry)))
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let octets: Octets<'_> = key.extract()?;
        let found = self.read(py, &octets, |value, _| PyBytes::new(py, value))?;
        found.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __contains__(&self, py: Python<'_>, key: Octets<'_>) -> PyResult<bool> {
        Ok(self.read(py, &key, |_, _| ())?.is_some())
    }

    #[pyo3(signature = (key, value, /, *, expires_in = None, expires_at = None, retryable = false, token = None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn put(
        &self,
        py: Python<'_>,
        key: Octets<'_>,
        value: Octets<'_>,
        expires_in: Option<&Bound<'_, PyAny>>,
        expires_at: Option<&Bound<'_, PyAny>>,
        retryable: bool,
        token: Option<&Bound<'_, Token>>,
    ) -> PyResult<u64> {
        let token = token.map(Bound::get);
        let lifetime = write::lifetime(expires_in, expires_at)?;
        let write = write::named(retryable, token).living(lifetime);
        let written = self.write(py, token, async |client| {
            client.put_with(&key, &value, write).await
        })?;
        write::version(py, written)
    }

    fn __setitem__(&self, py: Python<'_>, key: Octets<'_>, value: Octets<'_>) -> PyResult<()> {
        self.write(py, None, async |client| client.put(&key, &value).await)?;
        Ok(())
    }

    #[pyo3(signature = (
        key, value, /, *, version = None, absent = false, expires_in = None, expires_at = None, retryable = false,
        token = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn put_if(
        &self,
        py: Python<'_>,
        key: Octets<'_>,
        value: Octets<'_>,
        version: Option<u64>,
        absent: bool,
        expires_in: Option<&Bound<'_, PyAny>>,
        expires_at: Option<&Bound<'_, PyAny>>,
        retryable: bool,
        token: Option<&Bound<'_, Token>>,
    ) -> PyResult<Written> {
        let token = token.map(Bound::get);
        let lifetime = write::lifetime(expires_in, expires_at)?;
        let write = write::named(retryable, token).living(lifetime);
        let write = write::conditional(write, version, absent)?;
        let written = self.write(py, token, async |client| {
            client.put_with(&key, &value, write).await
        });
        written.map(Written::from)
    }

    #[pyo3(signature = (key, /, *, retryable = false, token = None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: Octets<'_>,
        retryable: bool,
        token: Option<&Bound<'_, Token>>,
    ) -> PyResult<bool> {
        let token = token.map(Bound::get);
        let write = write::named(retryable, token);
        Ok(self.remove(py, &key, token, write)?.done())
    }

    #[pyo3(signature = (key, /, *, version, retryable = false, token = None))]
    fn delete_if(
        &self,
        py: Python<'_>,
        key: Octets<'_>,
        version: u64,
        retryable: bool,
        token: Option<&Bound<'_, Token>>,
    ) -> PyResult<Written> {
        let token = token.map(Bound::get);
        let write = write::named(retryable, token).if_version(version);
        self.remove(py, &key, token, write)
    }

    fn __delitem__(&self, py: Python<'_>, key: Bound<'_, PyAny>) -> PyResult<()> {
        let octets: Octets<'_> = key.extract()?;
        match self.remove(py, &octets, None, Write::new())?.done() {
            true => Ok(()),
            false => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Does all changes of the batch, if all of its expectations hold, or nothing.
    #[pyo3(signature = (batch, /, *, retryable = false, token = None))]
    fn apply(
        &self,
        py: Python<'_>,
        batch: &Bound<'_, Batch>,
        retryable: bool,
        token: Option<&Bound<'_, Token>>,
    ) -> PyResult<Applied> {
        let token = token.map(Bound::get);
        let (batch, retry) = (batch.get().content(), batch::retry(retryable, token));
        let applied = self.write(py, token, async |client| {
            client.apply_with(&batch, retry).await
        });
        applied.map(Applied::from)
    }

    #[pyo3(signature = (keys, /))]
    fn multi_get(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Entry>>> {
        let keys = octets::all(keys)?;
        let found = self.look(py, async |client| client.multi_get(&keys).await)?;
        let entries = found.into_iter();
        Ok(entries
            .map(|entry| entry.map(|entry| Entry::new(py, &entry)))
            .collect())
    }

    /// The version of each pair, or the exception for which the pair was not stored.
    #[pyo3(signature = (pairs, /))]
    fn multi_put<'py>(
        &self,
        py: Python<'py>,
        pairs: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let pairs = octets::pairs(pairs)?;
        let outcomes = self.write(py, None, async |client| client.multi_put(&pairs).await)?;
        write::outcomes(py, outcomes)
    }

    fn entries(slf: Bound<'_, Self>) -> PyResult<Entries> {
        let found = slf
            .get()
            .look(slf.py(), async |client| client.entries().await)?;
        Ok(Entries::new(slf.clone().unbind(), found))
    }

    fn stat(&self, py: Python<'_>) -> PyResult<Stat> {
        let stat = self.look(py, async |client| client.stat().await)?;
        Ok(stat.into())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let stat = self.look(py, async |client| client.stat().await)?;
        Ok(usize::try_from(stat.keys)?)
    }

    fn close(&self, py: Python<'_>) {
        let number = self.key.number();
        py.detach(|| {
            if let Ok(connected) = number.take::<Connected>() {
                connected.connection.close();
            }
        });
        self.key.close();
    }
}

impl Client {
    /// Reads the value of `key`, and makes a result of value and version while the interpreter is locked.
    fn read<T>(
        &self,
        py: Python<'_>,
        key: &[u8],
        result: impl Fn(&[u8], u64) -> T,
    ) -> PyResult<Option<T>> {
        let number = self.number(py)?;
        if self.reads_in_call {
            let lent = number.lend(|Connected { connection, value }: &mut Connected| {
                let read =
                    async |client: &local::Client| wait::at_once(client.get_into(key, value)).await;
                // A read that failed is repeated below, which reports the error.
                let version = connection.run(read)?.ok()?;
                Some(version.map(|version| result(value, version)))
            });
            if let Ok(Some(found)) = lent {
                return Ok(found);
            }
        }
        let read = |Connected { connection, value }: &mut Connected| {
            wait::run(connection, async |client| client.get_into(key, value).await)
        };
        let version = self.wait_on(py, read);
        let Some(version) = version.map_err(|stopped| self.read_stopped(py, stopped))? else {
            return Ok(None);
        };
        let found = number.lend(|connected: &mut Connected| result(&connected.value, version));
        found
            .map(Some)
            .map_err(|reason| unavailable(py, "client", &reason))
    }

    /// Does a write; `token` names an earlier attempt at it.
    fn write<T: Send>(
        &self,
        py: Python<'_>,
        token: Option<&Token>,
        work: impl AsyncFnOnce(&local::Client) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let number = self.number(py);
        number.map_err(|error| errors::before_retry(py, error, token))?;
        let done = self.wait_on(py, |connected| wait::run(&connected.connection, work));
        done.map_err(|stopped| {
            self.note(&stopped);
            write_stopped(py, stopped, token)
        })
    }

    fn remove(
        &self,
        py: Python<'_>,
        key: &[u8],
        token: Option<&Token>,
        write: Write,
    ) -> PyResult<Written> {
        let delete = async |client: &local::Client| client.delete_with(key, write).await;
        self.write(py, token, delete).map(Written::from)
    }

    /// Waits for `work`, which changes nothing, on this thread's connection.
    pub fn look<T: Send>(
        &self,
        py: Python<'_>,
        work: impl AsyncFnOnce(&local::Client) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.number(py)?;
        let found = self.wait_on(py, |connected| wait::run(&connected.connection, work));
        found.map_err(|stopped| self.read_stopped(py, stopped))
    }

    /// Runs `work` on this thread's connection, which exists, without the lock of the interpreter.
    fn wait_on<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Connected) -> Result<T, Stopped> + Send,
    ) -> Result<T, Stopped> {
        let number = self.key.number();
        py.detach(|| {
            number
                .lend(work)
                .unwrap_or_else(|reason| Err(Stopped::Unavailable(reason)))
        })
    }

    /// The number of this thread's connection, which is opened if there is none.
    fn number(&self, py: Python<'_>) -> PyResult<Number> {
        if !self.key.is_open() {
            return Err(closed(py));
        }
        let number = self.key.number();
        if !number.is_kept() {
            self.connect(py)?;
        }
        Ok(number)
    }

    #[cold]
    fn connect(&self, py: Python<'_>) -> PyResult<()> {
        let (connector, key) = (self.connector.clone(), &self.key);
        let connected = py.detach(|| {
            let connection = connector.connect_local()?;
            let value = Vec::new();
            key.keep(Connected { connection, value });
            Ok(())
        });
        connected.map_err(|error| raised(py, error))
    }

    fn read_stopped(&self, py: Python<'_>, stopped: Stopped) -> PyErr {
        self.note(&stopped);
        read_stopped(py, stopped)
    }

    /// Ends a connection that is over. The next call opens another one.
    fn note(&self, stopped: &Stopped) {
        if matches!(stopped, Stopped::Failed(error) if error.is_disconnected()) {
            self.key.number().end();
        }
    }
}
