//! The admin port: metrics, health and status over HTTP.
//!
//! | path | answer |
//! | --- | --- |
//! | `/metrics` | counters for Prometheus, in the classic text format or in OpenMetrics |
//! | `/healthz` | 200 while every thread of the gateway makes progress, even before the thread is connected |
//! | `/readyz` | 200 while every thread is connected, and store and back-end answer |
//! | `/status` | everything as one JSON object |
//!
//! ```text
//!   connection --head--> HTTP thread --/healthz--> answered at once
//!      places.rs             `------------question--> observer thread --> store
//! ```
//!
//! The admin port has two threads of its own and its own connection to the store. The report on the store is therefore
//! as recent as the question, and the admin port notices a thread of the gateway that hangs. Health does not wait for
//! the store, for other connections, or for the answers to other questions.

mod answer;
mod copies;
mod cut;
mod exposition;
mod http;
mod observer;
mod prometheus;
mod pulse;
mod questions;
mod serve;
mod status;
mod stay;
mod stream;
mod structures;

use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::thread;

use crate::error::{GatewayError, system};
use crate::shared::{Shared, StopOnDrop};

/// The most connections that the admin port has at a time.
pub const CONNECTIONS_MAX: usize = stay::HEADS_MAX + stay::ANSWERS_MAX;

/// Serves the admin port until the gateway is stopped.
pub fn run(listener: TcpListener, shared: Arc<Shared>) -> Result<(), GatewayError> {
    let pulse = Arc::new(pulse::Pulse::new(shared.clone()));
    let (sender, questions) = mpsc::channel();
    let observe = {
        let (shared, pulse) = (shared.clone(), pulse.clone());
        move || {
            let _stop = StopOnDrop(shared.clone());
            questions::answer_all(&observer::Observer::new(shared, pulse), &questions);
        }
    };
    let observer = thread::Builder::new()
        .name("gateway-observer".to_owned())
        .spawn(observe)
        .map_err(system("starting a thread"))?;
    // The observer ends once the server, which holds the sender, has ended.
    let result = serve::run(listener, answer::Admin::new(shared, pulse, sender));
    let observed = observer.join().map_err(|_| GatewayError::Panicked);
    result.and(observed)
}
