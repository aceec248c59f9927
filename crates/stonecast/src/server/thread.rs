//! A server in a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use super::{Builder, Closing, Server};
use crate::address::Address;
use crate::error::{Error, ErrorKind};

/// A server in a thread of its own. Dropping the handle ends the server in order and waits for the end; only
/// [`ServerHandle::shutdown`] returns the outcome.
///
/// ```
/// use stonecast::{Durability, Server, server::Closing};
///
/// # let folder = tempfile::tempdir()?;
/// let server = Server::builder(folder.path().join("pool"))
///     .durability(Durability::Process)
///     .serve()?;
/// println!("clients connect to {}", server.address());
/// assert!(!server.has_ended());
/// assert_eq!(server.shutdown()?, Closing::Clean);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ServerHandle(Threaded<Closing>);

impl ServerHandle {
    pub(super) fn start(builder: Builder) -> Result<Self, Error> {
        let started = Threaded::start("stonecast-server", move |stop, report| {
            let server: Server = builder.open()?;
            report(server.addresses());
            server.run(stop)?;
            server.close()
        });
        started.map(Self)
    }

    /// The address for clients: the first at which the server listens.
    pub fn address(&self) -> &Address {
        self.0.address()
    }

    /// Returns whether the server has ended without [`ServerHandle::shutdown`], which returns the reason.
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// Ends the server in order, waits for the end, and returns how the server left the pool.
    ///
    /// # Errors
    ///
    /// The error that ended the server earlier, or the medium failed at the end: the pool then opens as after a crash.
    ///
    /// # Panics
    ///
    /// Panics with the panic of the server's thread, which means a broken invariant of the server.
    pub fn shutdown(self) -> Result<Closing, Error> {
        self.0.shutdown()
    }
}

/// A server of any kind in a thread of its own, which ends with a `T`.
pub(crate) struct Threaded<T> {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<T, Error>>>,
    addresses: Vec<Address>,
}

impl<T: Send + 'static> Threaded<T> {
    /// Lets `run` serve. `run` reports its addresses once clients can connect, and ends when it is
    /// asked to.
    pub fn start(
        name: &str,
        run: impl FnOnce(&dyn Fn() -> bool, &dyn Fn(&[Address])) -> Result<T, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let (report, opened) = mpsc::channel();
        let theirs = stop.clone();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // The caller waits for this report.
                let report = |addresses: &[Address]| drop(report.send(addresses.to_vec()));
                run(&|| theirs.load(Ordering::Relaxed), &report)
            })
            .map_err(|error| {
                ErrorKind::Setup(format!("cannot start a thread for the server: {error}"))
            })?;
        match opened.recv() {
            Ok(addresses) => Ok(Self {
                stop,
                thread: Some(thread),
                addresses,
            }),
            // The thread ended before it could report.
            Err(_) => match ended(thread) {
                Err(error) => Err(error),
                Ok(_) => Err(ErrorKind::Closed.into()),
            },
        }
    }

    pub fn address(&self) -> &Address {
        &self.addresses[0]
    }

    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub fn shutdown(mut self) -> Result<T, Error> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("only this takes it");
        ended(thread)
    }
}

impl<T> Drop for Threaded<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // No caller is left to receive the panic. A second panic inside an unwind would abort the program.
            let _ = thread.join();
        }
    }
}

/// The result of the thread. A panic of the server becomes a panic of the caller.
fn ended<T>(thread: JoinHandle<Result<T, Error>>) -> Result<T, Error> {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn broken() -> ServerHandle {
        ServerHandle(Threaded {
            stop: Arc::default(),
            thread: Some(thread::spawn(|| panic!("a broken invariant"))),
            addresses: Vec::new(),
        })
    }

    /// Needs the drop only to join: a panic inside an unwind aborts the program.
    #[test]
    fn a_handle_that_is_dropped_keeps_the_panic_of_its_server_to_itself() {
        drop(broken());
        let unwound = catch_unwind(|| {
            let _server = broken();
            panic!("of the program");
        });
        assert_eq!(unwound.unwrap_err().downcast_ref(), Some(&"of the program"));
    }

    #[test]
    fn a_shutdown_passes_the_panic_of_the_server_on() {
        let server = broken();
        let unwound = catch_unwind(AssertUnwindSafe(|| server.shutdown()));
        assert_eq!(
            unwound.unwrap_err().downcast_ref(),
            Some(&"a broken invariant")
        );
    }
}
