//! The service manager that started the server, as `sd_notify(3)` and `sd_watchdog_enabled(3)` describe it. Without a
//! manager, nothing is sent.

use std::cell::Cell;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// The reports to the service manager.
pub struct Supervisor {
    /// The interval at which the manager hears that the server is alive; `None` without a watchdog.
    interval: Option<Duration>,
    reported_at: Cell<Instant>,
    is_stopping: Cell<bool>,
}

impl Supervisor {
    /// The manager that the environment names.
    pub fn of_this_process() -> Self {
        Self {
            // Half of the time after which the manager acts, as the manual page recommends.
            interval: sd_notify::watchdog_enabled().map(|limit| limit / 2),
            reported_at: Cell::new(Instant::now()),
            is_stopping: Cell::new(false),
        }
    }

    /// Reports that clients are served, with the line that the manager shows about the server.
    pub fn ready(&self, status: &str) {
        send(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// Reports, when it is due, that the loop of the server goes on.
    pub fn alive(&self) {
        let Some(interval) = self.interval else {
            return;
        };
        let now = Instant::now();
        if now.duration_since(self.reported_at.get()) >= interval {
            self.reported_at.set(now);
            send(&[NotifyState::Watchdog]);
        }
    }

    /// Reports, once, that the server ends.
    pub fn stopping(&self) {
        if !self.is_stopping.replace(true) {
            send(&[NotifyState::Stopping]);
        }
    }
}

/// A manager that cannot be reached does not keep the server from its work.
fn send(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}
