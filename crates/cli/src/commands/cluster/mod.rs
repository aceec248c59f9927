//! `cluster`: the list of commands about the configuration of a cluster.
//!
//! | file | content |
//! | --- | --- |
//! | `store.rs` | the store of the configuration: its flag, its reading, its failures |
//! | `create.rs` | the first configuration |
//! | `requests.rs` | requests to the nodes: to take copies, to give copies away, to move copies |
//! | `dev.rs` | a cluster of processes on this host |
//! | `status/` | the state of the cluster, for people and as JSON |

mod create;
mod dev;
mod requests;
mod status;
mod store;

use clap::Subcommand;

use crate::failure::Failure;

/// The commands about a cluster.
#[derive(Debug, Subcommand)]
pub enum Cluster {
    Create(create::Create),
    Status(status::Status),
    Add(requests::Add),
    Drain(requests::Drain),
    Remove(requests::Remove),
    Move(requests::Move),
    Dev(dev::Dev),
}

impl Cluster {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Create(flags) => create::run(&flags),
            Self::Status(flags) => status::run(&flags),
            Self::Add(flags) => requests::add(&flags),
            Self::Drain(flags) => requests::drain(&flags),
            Self::Remove(flags) => requests::remove(&flags),
            Self::Move(flags) => requests::move_shard(&flags),
            Self::Dev(flags) => dev::run(&flags),
        }
    }
}
