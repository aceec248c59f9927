//! The number of files that a server may have open: each client takes several, and each Redis client takes one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use tracing::warn;

/// Files of a client over shared memory: its socket, the area of the connection, its key table and bell, and memory for
/// answers, staging and reports.
const FILES_PER_CLIENT: u64 = 10;
/// Files for all other purposes: pool, sockets, standard streams, and some Redis clients.
const OTHER_FILES: u64 = 256;

/// Raises the limit of this process as far as the system allows, and prints a message if the limit is too low for
/// `clients`.
pub fn provide_for(clients: usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let needed = clients as u64 * FILES_PER_CLIENT + OTHER_FILES;
    if let Some(few) = current.filter(|&current| current < needed) {
        warn!(
            "this process may open {few} files, and {clients} clients need up to {needed}: further clients are refused once the \
             files are used up. Raise the limit (ulimit -Hn, LimitNOFILE= of a systemd unit), or lower --clients-max"
        );
    }
}
