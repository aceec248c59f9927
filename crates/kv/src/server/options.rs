//! Options of a server.

use super::clients::Places;

/// The clients that may write into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientPolicy {
    /// Clients of the server's own user write their records to the final place, unless the log is a file that is
    /// synced. Other clients write through staging memory.
    Trusted,
    /// Like `Trusted`; clients that write their records to the final place also publish their overwrites themselves.
    /// Only for pools with process durability.
    Publishing,
    /// All clients write through staging memory, and the server copies.
    Copying,
}

/// Options of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// The clients that may write into the log.
    pub clients: ClientPolicy,
    /// Bounds on the number of clients.
    pub places: Places,
    /// Process number of the server, for reports; 0 if it has none.
    pub process: u32,
}

impl ServerOptions {
    /// Whether trusted clients may publish overwrites themselves.
    pub(super) fn publishes(&self) -> bool {
        self.clients == ClientPolicy::Publishing
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            clients: ClientPolicy::Trusted,
            places: Places::default(),
            process: 0,
        }
    }
}
