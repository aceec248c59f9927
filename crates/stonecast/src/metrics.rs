//! The counts of a server, as [`crate::Observer::metrics`] and [`crate::blocking::Client::metrics`] return them.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let server = stonecast::Server::builder(folder.path().join("pool"))
//! #     .durability(stonecast::Durability::Process).serve()?;
//! # let url = server.address().to_string();
//! use stonecast::metrics::PathMetrics;
//!
//! fn bytes_per_read(path: &PathMetrics) -> Option<u64> {
//!     path.read_bytes.checked_div(path.reads)
//! }
//!
//! let client = stonecast::blocking::connect(&url)?;
//! assert_eq!(bytes_per_read(&client.metrics()?.gateway), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use stonecast_kv::{
    Cleaning, ClientPath, Copying, LATENCY_BUCKETS, Latencies, Metrics, PathMetrics, latency_bound,
};
