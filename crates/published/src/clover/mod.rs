//! A store like Clover on persistent memory: passive memory nodes, clients that read and write them with one-sided
//! operations, and a metadata server.
//!
//! ```text
//!   key --> head --next--> version --next--> version --next--> 0       PUT: write a version to all copies, then CAS the last next
//!            '---shortcut-------------^                                GET: read from the version that was seen last, and follow
//! ```
//!
//! Pointers, allocation of 16 places at a time in units of 128 bytes, the chase of a chain and its shortcut are those
//! of the publication's artefact. Writes end with the READ of a byte, which the artefact lacks: there is no persistence
//! without it. Old versions go back to the metadata server if `returned_each` is not 0. The server gives none of them
//! out again, so a store takes a limited number of PUTs.
//!
//! Source: S. Tsai, Y. Shan, Y. Zhang, *Disaggregating Persistent Memory and Controlling Them Remotely*, ATC 2020:
//! notes of its artefact.

mod client;
mod controller;
mod node;
mod pointer;

pub use client::{CloverCache, CloverClient};
pub use controller::CloverController;
pub use node::CloverNode;

/// The parameters of a cluster. All nodes and clients have the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CloverOptions {
    /// The addresses of nodes begin with this.
    pub addresses: String,
    /// Memory nodes.
    pub nodes: u32,
    /// Copies of a version.
    pub copies: u32,
    /// Bytes of the versions whose first copy a node has.
    pub area_size: u64,
    /// Places that a client gets from the metadata server with one request: [`CloverOptions::PLACES`] in the artefact.
    pub places_each: u64,
    /// Replaced versions that a client gives back to the metadata server with one request; 0 if it gives none back.
    pub returned_each: usize,
}

impl CloverOptions {
    /// Places that a client of the artefact gets at a time.
    pub const PLACES: u64 = 16;

    /// Bytes of persistent memory of a node: an area for each node, of which it fills as many as there are copies.
    pub fn memory_size(&self) -> u64 {
        u64::from(self.nodes) * self.area_size
    }

    fn node_address(&self, node: u32) -> String {
        format!("{}-{node}", self.addresses)
    }

    fn controller_address(&self) -> String {
        format!("{}-controller", self.addresses)
    }
}
