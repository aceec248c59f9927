//! A server in a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use super::{Builder, Server};
use crate::address::Address;
use crate::error::{Error, ErrorKind};

/// A server in a thread of its own. Dropping it ends the server in good order and waits for that.
pub struct ServerHandle {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    addresses: Vec<Address>,
}

impl ServerHandle {
    pub(super) fn start(builder: Builder) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let (report, opened) = mpsc::channel();
        let theirs = stop.clone();
        let thread = thread::Builder::new()
            .name("stonecast-server".to_owned())
            .spawn(move || run(builder, &theirs, &report))
            .map_err(|error| {
                ErrorKind::Setup(format!("cannot start a thread for the server: {error}"))
            })?;
        match opened.recv() {
            Ok(addresses) => Ok(Self {
                stop,
                thread: Some(thread),
                addresses,
            }),
            // It ended before it could report.
            Err(_) => match ended(thread) {
                Err(error) => Err(error),
                Ok(()) => Err(ErrorKind::Closed.into()),
            },
        }
    }

    /// Where clients connect: the first address.
    pub fn address(&self) -> &Address {
        &self.addresses[0]
    }

    /// Whether the server has ended by itself; [`ServerHandle::shutdown`] says why.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the server in good order and waits for that.
    ///
    /// # Errors
    ///
    /// What ended it before, or the medium failed at the end: the pool then opens as after a crash.
    pub fn shutdown(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(Ok(()), ended)
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.end();
    }
}

fn run(
    builder: Builder,
    stop: &AtomicBool,
    report: &mpsc::Sender<Vec<Address>>,
) -> Result<(), Error> {
    let server: Server = builder.open()?;
    // The caller waits for it.
    let _ = report.send(server.addresses().to_vec());
    server.run(&|| stop.load(Ordering::Relaxed))?;
    server.close()
}

/// What the thread says. A broken invariant of the server is the caller's, too.
fn ended(thread: JoinHandle<Result<(), Error>>) -> Result<(), Error> {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
