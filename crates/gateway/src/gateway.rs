//! Starts and stops a gateway.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{GatewayError, system};
use crate::options::{GatewayOptions, Password};
use crate::secrets::Secrets;
use crate::shared::{Shared, StopOnDrop};
use crate::{admin, files, worker};

/// The number of connections that the kernel holds until they are accepted: as many as a large client opens at once.
const BACKLOG: i32 = 4096;

/// A running gateway. Dropping the handle stops the gateway.
pub struct GatewayHandle {
    shared: Arc<Shared>,
    admin: Option<SocketAddr>,
    threads: Vec<JoinHandle<Result<(), GatewayError>>>,
}

/// Starts a gateway. When the call returns, the addresses are bound. Clients are served as soon as the store has
/// accepted the gateway's connections. The store may run in the calling thread and begin to serve later.
pub fn spawn(mut options: GatewayOptions) -> Result<GatewayHandle, GatewayError> {
    options.check()?;
    let secrets = Secrets::of(&options)?;
    let wanted = options.limits.connections + options.newcomers();
    let possible = files::raise_limit(wanted);
    if possible < wanted {
        // Clients and newcomers keep their proportion.
        let clients = (options.limits.connections * possible / wanted).max(1);
        tracing::warn!(
            "gateway: the limit of open files leaves room for {clients} connections (raise it with `ulimit -n`)"
        );
        options.limits.connections = clients;
    }
    let resp = options.resp.map(listen).transpose()?;
    let admin = options.admin.map(listen).transpose()?;
    let address_of = |listener: &TcpListener| {
        listener
            .local_addr()
            .map_err(system("asking for the address of the listener"))
    };
    let resp_address = resp.as_ref().map(address_of).transpose()?;
    let admin_address = admin.as_ref().map(address_of).transpose()?;
    let shared = Arc::new(Shared::new(options, secrets, resp_address));
    let mut handle = GatewayHandle {
        shared: shared.clone(),
        admin: admin_address,
        threads: Vec::new(),
    };
    if let Some(resp) = resp {
        for index in 0..shared.threads.len() {
            let listener = resp.try_clone().map_err(system("copying the listener"))?;
            let shared = shared.clone();
            handle.start(format!("gateway-{index}"), move || {
                worker::run(index, listener, shared)
            })?;
        }
    }
    if let Some(listener) = admin {
        handle.start("gateway-admin".to_owned(), move || {
            admin::run(listener, shared)
        })?;
    }
    Ok(handle)
}

fn listen(address: SocketAddr) -> Result<TcpListener, GatewayError> {
    let listen = || {
        let listener = TcpListener::bind(address)?;
        // `bind` listens with the library's short queue; a second call makes it longer.
        rustix::net::listen(&listener, BACKLOG)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    listen().map_err(|source| GatewayError::Listen { address, source })
}

impl GatewayHandle {
    fn start(
        &mut self,
        name: String,
        work: impl FnOnce() -> Result<(), GatewayError> + Send + 'static,
    ) -> Result<(), GatewayError> {
        let shared = self.shared.clone();
        // A thread that ends for any reason ends the whole gateway: with half of its threads, the gateway would
        // answer half of the requests.
        let work = move || {
            let _stop = StopOnDrop(shared);
            work()
        };
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(work)
            .map_err(system("starting a thread"))?;
        self.threads.push(thread);
        Ok(())
    }

    /// The address for Redis clients.
    pub fn resp_address(&self) -> Option<SocketAddr> {
        self.shared.resp
    }

    /// The address of metrics and health.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Returns whether clients are served.
    pub fn is_ready(&self) -> bool {
        self.shared.is_ready()
    }

    /// Waits until clients are served. Returns false if they are not served within `timeout`, or never will be.
    pub fn wait_until_ready(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        while !self.is_ready() && !self.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.is_ready()
    }

    /// Returns whether a thread has ended, because the thread was asked to end, lost the store, or failed; `stop` tells
    /// the reason. The other threads then end too.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Returns whether all threads have ended. Until then the gateway may need the store, to answer commands and to
    /// give back its leases.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Puts `password`, and the present content of the certificate, its key and the clients' authority, in force for
    /// new connections and new attempts to authenticate. Connected and authenticated clients stay connected and
    /// authenticated. The users of the file of users get their present rules at once, and the connections of users who
    /// are gone end.
    ///
    /// # Errors
    ///
    /// A file cannot be used, or the gateway has a password where `password` is `None`, or none where it is `Some`. The
    /// secrets before stay in force.
    pub fn replace_secrets(&self, password: Option<Password>) -> Result<(), GatewayError> {
        let shared = &self.shared;
        let gone = shared.secrets.replace(&shared.options, password)?;
        // No connection has number 0.
        for user in gone {
            shared.clients.end_of_user(user.name(), 0);
        }
        Ok(())
    }

    /// Asks the gateway to end without waiting for the end, for a caller that serves the store in the same thread. See
    /// `stop`.
    pub fn ask_to_stop(&self) {
        self.shared.stop();
    }

    /// Ends the gateway: accepts no more connections, finishes and answers the commands under way, then ends all
    /// connections.
    pub fn stop(mut self) -> Result<(), GatewayError> {
        self.shared.stop();
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or(Err(GatewayError::Panicked));
            result = result.and(ended);
        }
        result
    }
}

impl Drop for GatewayHandle {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // A caller that wants to know how the gateway ended calls `stop`.
            let _ = thread.join();
        }
    }
}
