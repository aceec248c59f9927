//! The KV store: a server process, client threads, and the measured loops, over shared memory or devices of the
//! caller.

mod devices;
mod drive;
mod limit;
mod load;
#[cfg(feature = "verbs")]
mod rdma;
mod server_process;
mod session;
mod ycsb;

pub use devices::{Devices, OpenedDevice, SharedMemory};
pub use drive::{Amount, DriveError, Loop};
pub use limit::{Limit, LimitError, Order, Piece, StoreMemory};
pub use load::load;
#[cfg(feature = "verbs")]
pub use rdma::RdmaDevices;
pub use server_process::{ServerOptions, ServerProcess, ServerProcessError};
pub use session::Session;
pub use ycsb::{Target, YcsbError, YcsbOptions, run, run_on};
