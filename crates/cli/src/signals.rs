//! The end of a server, and new secrets for it. The first signal of those that usually end programs asks the server to
//! end. A second signal ends the process as if there were no handler, so that a shell sees the signal.
//!
//! SIGHUP means that the terminal is gone. SIGHUP often comes twice, from the kernel and from the shell, and a session
//! manager sends SIGTERM after it. SIGHUP therefore asks for the end, but does not count as the first of two signals.
//! If the server was started to outlive its terminal (`nohup`), SIGHUP is left ignored. A server that never had a
//! terminal, as under a service manager, reads its secrets again, as such services do.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, TERM_SIGNALS};
use signal_hook::flag;
use signal_hook::low_level::signal_name;

/// Tells whether a signal has asked for the end.
pub struct Stop {
    asked: Arc<AtomicBool>,
    /// The last signal that asked for the end.
    signal: Arc<AtomicUsize>,
    said: AtomicBool,
}

/// Tells whether a signal has asked for new secrets.
pub struct Reload(Arc<AtomicBool>);

impl Reload {
    /// Returns whether a signal has asked since the last call.
    pub fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

/// Starts to listen to the signals of a server.
pub fn of_a_server() -> io::Result<(Stop, Reload)> {
    let reload = Reload(Arc::default());
    if has_terminal() {
        return Ok((Stop::on_signals()?, reload));
    }
    let stop = Stop::on_signals_but_hangup()?;
    if !is_ignored(SIGHUP) {
        flag::register(SIGHUP, reload.0.clone())?;
    }
    Ok((stop, reload))
}

impl Stop {
    /// Starts to listen to SIGTERM, SIGINT, SIGQUIT and SIGHUP.
    pub fn on_signals() -> io::Result<Self> {
        let stop = Self::on_signals_but_hangup()?;
        if !is_ignored(SIGHUP) {
            stop.raise_on(SIGHUP)?;
        }
        Ok(stop)
    }

    fn on_signals_but_hangup() -> io::Result<Self> {
        let stop = Self {
            asked: Arc::default(),
            signal: Arc::default(),
            said: AtomicBool::new(false),
        };
        let is_second = Arc::new(AtomicBool::new(false));
        for signal in TERM_SIGNALS {
            // The order matters: the first signal finds the flag down and raises it; the second finds the flag up.
            flag::register_conditional_default(*signal, is_second.clone())?;
            flag::register(*signal, is_second.clone())?;
            stop.raise_on(*signal)?;
        }
        Ok(stop)
    }

    fn raise_on(&self, signal: i32) -> io::Result<()> {
        // The order matters: a reader that finds the flag up also finds the signal.
        flag::register_usize(signal, self.signal.clone(), signal as usize)?;
        flag::register(signal, self.asked.clone())?;
        Ok(())
    }

    /// Returns whether a signal has asked for the end.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The message to a person about a requested end; `None` without a request, and on every call after the first.
    pub fn news(&self) -> Option<String> {
        if !self.asked() || self.said.swap(true, Ordering::Relaxed) {
            return None;
        }
        let signal = self.signal.load(Ordering::Relaxed) as i32;
        Some(match signal {
            SIGINT => "shutting down; press Ctrl-C again to stop at once".into(),
            SIGHUP => "shutting down, since the terminal is gone (SIGHUP)".into(),
            signal => format!(
                "shutting down on {}; a second one stops at once",
                signal_name(signal).unwrap_or("a signal")
            ),
        })
    }
}

/// Returns whether this process has a controlling terminal (`tty(4)`: the open fails if it has none).
fn has_terminal() -> bool {
    fs::File::open("/dev/tty").is_ok()
}

/// Returns whether this process was started with `signal` ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
