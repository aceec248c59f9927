//! State that all threads of a gateway share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::clients::Clients;
use crate::counters::Counters;
use crate::memory::Memory;
use crate::options::GatewayOptions;
use crate::secrets::Secrets;
use crate::sizes::{VALUES_SIZE_MAX, request_size_max};
use crate::slow_log::SlowLog;

/// State that all threads of a gateway share.
pub struct Shared {
    /// The options of the gateway.
    pub options: GatewayOptions,
    /// The password and the certificate that are in force.
    pub secrets: Secrets,
    /// The address for Redis clients, with the port that the system chose; `None` without RESP.
    pub resp: Option<SocketAddr>,
    /// Counts of each thread.
    pub threads: Vec<Arc<Counters>>,
    /// Counts of the admin port. Most of them stay zero.
    pub admin: Arc<Counters>,
    /// The connections of all threads.
    pub clients: Arc<Clients>,
    /// The latest commands that took long.
    pub slow_log: SlowLog,
    /// Requests and replies of all connections.
    pub memory: Arc<Memory>,
    /// Connections that are not newcomers.
    connections: AtomicUsize,
    threads_ready: AtomicUsize,
    stop: AtomicBool,
    started_at: Instant,
}

/// The seat of one client. Dropping the seat makes room for another client.
pub struct Seat(Arc<Shared>);

impl Shared {
    /// The state of a gateway that starts.
    pub fn new(options: GatewayOptions, secrets: Secrets, resp: Option<SocketAddr>) -> Self {
        Self {
            secrets,
            threads: resp.map_or_else(Vec::new, |_| {
                (0..options.threads.get()).map(|_| Arc::default()).collect()
            }),
            memory: Arc::new(Memory::new(
                options.limits.memory_size,
                request_size_max(&options.limits.requests()),
                VALUES_SIZE_MAX,
            )),
            admin: Arc::default(),
            clients: Arc::default(),
            slow_log: SlowLog::default(),
            options,
            resp,
            connections: AtomicUsize::new(0),
            threads_ready: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            started_at: Instant::now(),
        }
    }

    /// Takes a seat for a client, if a seat is free.
    pub fn seat(self: &Arc<Self>) -> Option<Seat> {
        let max = self.options.limits.connections;
        let taken = self
            .connections
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < max).then_some(count + 1)
            });
        taken.ok().map(|_| Seat(self.clone()))
    }

    /// The number of connections, newcomers included.
    pub fn connections(&self) -> usize {
        let clients = self.connections.load(Ordering::Relaxed);
        clients + self.sum(|thread| thread.newcomers.get()) as usize
    }

    /// The sum of a count over all threads that serve Redis clients.
    pub fn sum(&self, count: impl Fn(&Counters) -> u64) -> u64 {
        self.threads.iter().map(|thread| count(thread)).sum()
    }

    /// Notes that a thread is connected to the store and serves.
    pub fn note_ready(&self) {
        self.threads_ready.fetch_add(1, Ordering::Release);
    }

    /// Returns whether all threads serve.
    pub fn is_ready(&self) -> bool {
        self.threads_ready.load(Ordering::Acquire) == self.threads.len() && !self.is_stopping()
    }

    /// Asks all threads to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Returns whether the threads are asked to end.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Time since the start.
    pub fn uptime(&self) -> Duration {
        self.started_at.elapsed()
    }
}

/// A value whose drop asks all threads to end. The thread that holds the value drops it at its end.
pub struct StopOnDrop(pub Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
