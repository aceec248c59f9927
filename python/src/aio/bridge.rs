//! Operations under way, and the event that tells the loop which of them have got on.

use std::collections::HashMap;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use stonecast::Error;

use super::client::AsyncClient;
use crate::errors::raised;
use crate::options;

/// The result of an operation, which the loop's thread makes an object of Python.
type Finish = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;
type Work = Pin<Box<dyn Future<Output = Finish> + Send>>;

/// Numbers of operations that are to be polled, and the event that is set while there are some.
struct Ready {
    numbers: Mutex<Vec<u64>>,
    event: OwnedFd,
}

/// The waker of one operation.
struct Operation {
    number: u64,
    ready: Arc<Ready>,
}

impl Wake for Operation {
    fn wake(self: Arc<Self>) {
        let mut numbers = self.ready.numbers.lock().expect("no holder panics");
        numbers.push(self.number);
        let is_first = numbers.len() == 1;
        drop(numbers);
        if is_first {
            // The counter of the event is far from full: it is set once for each time that it is read.
            let _ = write(&self.ready.event, &1_u64.to_ne_bytes());
        }
    }
}

struct UnderWay {
    work: Work,
    waker: Waker,
    /// The future of the loop.
    future: Py<PyAny>,
}

#[derive(Default)]
struct Operations {
    last: u64,
    under_way: HashMap<u64, UnderWay>,
}

/// Resolves futures of a loop. All of its methods belong to the loop's thread.
#[pyclass(frozen, module = "stonecast._native")]
pub struct Bridge {
    event_loop: Py<PyAny>,
    ready: Arc<Ready>,
    operations: Mutex<Operations>,
}

#[pymethods]
impl Bridge {
    #[new]
    fn new(event_loop: Py<PyAny>) -> PyResult<Self> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let event = eventfd(0, flags).map_err(std::io::Error::from)?;
        let numbers = Mutex::default();
        Ok(Self {
            event_loop,
            ready: Arc::new(Ready { numbers, event }),
            operations: Mutex::default(),
        })
    }

    /// The descriptor that the loop watches.
    fn fileno(&self) -> i32 {
        self.ready.event.as_raw_fd()
    }

    /// Resolves the futures of operations that have ended. The loop calls this when the descriptor is readable.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        // Read before the numbers are taken: a number that comes later sets the event again.
        let _ = read(&self.ready.event, &mut [0; 8]);
        let numbers = std::mem::take(&mut *self.ready.numbers.lock().expect("no holder panics"));
        for number in numbers {
            let mut operations = self.operations();
            let operation = operations.under_way.remove(&number);
            drop(operations);
            // An operation that was woken twice may have ended.
            if let Some(operation) = operation {
                self.poll(py, number, operation)?;
            }
        }
        Ok(())
    }

    #[pyo3(signature = (url, **options))]
    fn connect<'py>(
        slf: Bound<'py, Self>,
        url: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let connector = options::connector(py, url, options)?;
        let bridge = slf.clone().unbind();
        slf.get().start(py, connector.connect(), |py, client| {
            Ok(Py::new(py, AsyncClient::new(bridge, client))?.into_any())
        })
    }
}

impl Bridge {
    fn operations(&self) -> std::sync::MutexGuard<'_, Operations> {
        self.operations.lock().expect("no holder panics")
    }

    /// Begins `work`, and returns a future of the loop for what `result` makes of its output.
    pub fn start<'py, T: Send + 'static>(
        &self,
        py: Python<'py>,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
        result: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        let future = self.event_loop.bind(py).call_method0("create_future")?;
        let work = async move {
            let output = work.await;
            let finish: Finish = Box::new(move |py: Python<'_>| {
                result(py, output.map_err(|error| raised(py, error))?)
            });
            finish
        };
        let number = {
            let mut operations = self.operations();
            operations.last += 1;
            operations.last
        };
        let ready = self.ready.clone();
        let operation = UnderWay {
            work: Box::pin(work),
            waker: Waker::from(Arc::new(Operation { number, ready })),
            future: future.clone().unbind(),
        };
        self.poll(py, number, operation)?;
        Ok(future)
    }

    /// Lets an operation get on. Its end resolves the future, unless the program has cancelled that.
    fn poll(&self, py: Python<'_>, number: u64, mut operation: UnderWay) -> PyResult<()> {
        let mut context = Context::from_waker(&operation.waker);
        let Poll::Ready(finish) = operation.work.as_mut().poll(&mut context) else {
            self.operations().under_way.insert(number, operation);
            return Ok(());
        };
        let future = operation.future.bind(py);
        if future.call_method0("done")?.is_truthy()? {
            return Ok(());
        }
        match finish(py) {
            Ok(result) => future.call_method1("set_result", (result,)),
            Err(error) => future.call_method1("set_exception", (error,)),
        }?;
        Ok(())
    }
}
