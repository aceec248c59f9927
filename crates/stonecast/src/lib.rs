//! A durable key-value store in remote memory. Clients read the store's memory directly, without the server's
//! processor, and acknowledged writes survive the failures that the pool declares.
//!
//! ```no_run
//! let client = stonecast::blocking::connect("shm:./stonecast-data/socket")?;
//! client.put("greeting", "hello")?;
//! assert_eq!(client.get("greeting")?.unwrap().value, b"hello");
//! # Ok::<(), stonecast::Error>(())
//! ```
//!
//! # Three kinds of client
//!
//! | | belongs to | for | one GET over shared memory costs, beside the GET itself |
//! | --- | --- | --- | --- |
//! | [`blocking::Client`] | a thread | programs without `async` | 190 instructions, 20 ns |
//! | [`local::Connection`] | a thread | many operations in flight at full speed | 30 instructions, 1 ns or less |
//! | [`Client`] | any thread: `Send + Sync + Clone` | programs on tokio or any other executor | 2,850 instructions on two threads, with 64 GETs in flight |
//!
//! The GET itself takes about 820 instructions, and 50 ns if its key lies in the caches. All rows are for `get_into`,
//! which allocates no value if its vector has room. With one GET in flight, both threads of the third client also wait
//! for each other, 5,000 to 6,400 instructions with the polls. `benches/instructions.rs` counts the instructions.
//!
//! `cargo xtask bench --only handle-local --only handle-blocking --only handle-tokio-64` measures the times: the
//! first two against the store's own client, the third against the pipeline of a connection to redis-server.
//!
//! All three clients use the same store. [`Connector`] makes each of them, with time limits, keys, and the durability
//! that the program expects.
//!
//! # Meaning of an answer
//!
//! `Ok` of a write means that the record and its publication are durable as the pool declares ([`Stat::power`]: they
//! survive power loss, or otherwise the death of every process), and visible to every client. An [`Error`] has an
//! [`Effect`]: nothing was done, or the outcome is unknown. A write that was sent with [`Write::retryable`] returns a
//! [`Token`] if its outcome is unknown. With the token, the write can be repeated safely, over any connection and after
//! a restart of the server, and takes effect once.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
pub mod backup;
pub mod blocking;
mod client;
mod cluster;
mod connector;
pub mod device;
mod driver;
mod entropy;
mod entry;
pub mod error;
mod knock;
mod lifetime;
pub mod local;
pub mod metrics;
mod observer;
mod open_device;
pub mod server;
pub mod structures;
mod timed;
mod write;

pub use address::{Address, AddressError};
pub use client::{Client, Entries};
pub use connector::Connector;
pub use entry::{Entry, Record};
pub use error::{Effect, Error, ErrorKind};
pub use lifetime::Lifetime;
pub use observer::Observer;
pub use open_device::OpenDevice;
pub use server::Server;
pub use stonecast_kv::limits::{
    BATCH_KEYS_MAX, BATCH_NAMES_MAX, BATCH_SIZE_MAX, KEY_SIZE_MAX, VALUE_SIZE_MAX,
};
pub use stonecast_kv::{
    Applied, Batch, Condition, Expectation, Expiry, Metrics, NoMoment, Stat, Token, Written,
};
pub use stonecast_media::{Durability, PersistenceDomain};
pub use write::{Retry, Write};

/// Connects to the server at `url`, `shm:PATH` or `verbs:HOST:PORT`, or to the cluster `cluster:URL`, with the defaults
/// of [`Connector`].
///
/// The client can be cloned and used from any thread and any executor; a thread of its own drives the connection.
///
/// ```no_run
/// # async fn example() -> Result<(), stonecast::Error> {
/// let client = stonecast::connect("shm:./stonecast-data/socket").await?;
/// client.put("greeting", "hello").await?;
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// The errors of [`Connector::connect`].
pub async fn connect(url: &str) -> Result<Client, Error> {
    Connector::new(url)?.connect().await
}
