//! The end of a server: SIGTERM or SIGINT asks for it, a second one does not wait.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::TERM_SIGNALS;
use signal_hook::flag;

/// Whether somebody asked for the end.
pub struct Stop {
    asked: Arc<AtomicBool>,
}

impl Stop {
    /// Listens to SIGTERM, SIGINT and SIGQUIT from now on.
    pub fn on_signals() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in TERM_SIGNALS {
            // In this order: the first signal finds the flag down, and raises it; the second finds it up.
            flag::register_conditional_shutdown(*signal, 1, asked.clone())?;
            flag::register(*signal, asked.clone())?;
        }
        Ok(Self { asked })
    }

    /// Whether somebody asked for the end.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}
