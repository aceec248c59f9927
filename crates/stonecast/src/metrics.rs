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
//! client.put("greeting", "hello")?;
//! let now = client.metrics()?;
//! assert_eq!(bytes_per_read(&now.gateway), None);
//! // Nothing was moved or copied yet, so the log has one byte for each byte that was written.
//! assert_eq!(now.write_amplification(), 1.0);
//! // Counts of several servers are added.
//! assert_eq!(now.and(&now).stat.puts, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program keeps times of its own in the same buckets:
//!
//! ```
//! use stonecast::metrics::Latencies;
//!
//! let (mut morning, mut evening) = (Latencies::default(), Latencies::default());
//! morning.note(900); // nanoseconds
//! evening.note(40_000);
//! morning.add(&evening);
//! assert_eq!((morning.count(), morning.sum_ns), (2, 40_900));
//! assert!(morning.quantile(0.5) < morning.quantile(1.0));
//! ```

pub use stonecast_kv::{
    Cleaning, ClientPath, CopyOfShard, CopyPart, Copying, LATENCY_BUCKETS, Latencies, Metrics,
    PathMetrics, latency_bound,
};
