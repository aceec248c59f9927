//! The admin port: metrics, health and status over HTTP.
//!
//! | path | answer |
//! | --- | --- |
//! | `/metrics` | counters for Prometheus, in the classic text format or in OpenMetrics |
//! | `/healthz` | 200 while every thread of the gateway goes round |
//! | `/readyz` | 200 while every thread is connected and the store answers |
//! | `/status` | everything as one JSON object |
//!
//! One thread of its own, with a connection of its own to the store, so that what it says about the store was asked of the
//! store at that moment, and a gateway that hangs is noticed here.

mod exposition;
mod observer;
mod prometheus;
mod serve;
mod status;

pub use serve::run;
