//! `cluster`: the list of commands about the configuration of a cluster.
//!
//! | file | content |
//! | --- | --- |
//! | `store.rs` | the store of the configuration: its flag, its reading, its failures |
//! | `create.rs` | the first configuration |
//! | `status/` | the state of the cluster, for people and as JSON |

mod create;
mod status;
mod store;

use clap::Subcommand;

use crate::failure::Failure;

/// The commands about a cluster.
#[derive(Debug, Subcommand)]
pub enum Cluster {
    Create(create::Create),
    Status(status::Status),
}

impl Cluster {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Create(flags) => create::run(&flags),
            Self::Status(flags) => status::run(&flags),
        }
    }
}
