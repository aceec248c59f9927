//! The iteration over all records of a store.

use std::sync::Mutex;
use std::thread::{self, ThreadId};

use pyo3::prelude::*;
use stonecast::{Record as Found, local};

use crate::client::Client;
use crate::errors::misused;
use crate::record::Record;

/// All records, in the commit order of their present versions. The iteration belongs to the thread that began it, whose
/// connection it reads through.
#[pyclass(frozen, module = "stonecast._native")]
pub struct Entries {
    client: Py<Client>,
    thread: ThreadId,
    /// `None` while a call reads the next records.
    state: Mutex<Option<State>>,
}

struct State {
    found: local::Entries,
    batch: std::vec::IntoIter<Found>,
}

impl Entries {
    pub fn new(client: Py<Client>, found: local::Entries) -> Self {
        let batch = Vec::new().into_iter();
        Self {
            client,
            thread: thread::current().id(),
            state: Mutex::new(Some(State { found, batch })),
        }
    }

    fn exchange(&self, state: Option<State>) -> Option<State> {
        std::mem::replace(&mut self.state.lock().expect("no holder panics"), state)
    }
}

#[pymethods]
impl Entries {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        if self.thread != thread::current().id() {
            let message = "an iteration belongs to the thread that began it";
            return Err(misused(py, message));
        }
        let Some(mut state) = self.exchange(None) else {
            return Err(misused(py, "a call that is under way reads this iteration"));
        };
        let read = match state.batch.len() {
            0 => self.read(py, &mut state),
            _ => Ok(()),
        };
        let record = state.batch.next();
        self.exchange(Some(state));
        read?;
        Ok(record.map(|record| Record::new(py, &record)))
    }
}

impl Entries {
    /// Reads the next records; none at the end.
    fn read(&self, py: Python<'_>, state: &mut State) -> PyResult<()> {
        let found = &mut state.found;
        let batch = self
            .client
            .get()
            .look(py, async |client| found.next_batch(client).await)?;
        state.batch = batch.into_iter();
        Ok(())
    }
}
