//! Progress of long work, only on a terminal: nothing is drawn into a pipe.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The number of redraws per second.
const REDRAWS: u8 = 10;

/// A progress bar, on stderr as long as this value lives.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Counts bytes. Without a total, as for a pipe, the bar shows the number and the rate.
    pub fn of_bytes(what: &'static str, total: Option<u64>) -> Self {
        let known = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        Self::new(
            what,
            total,
            known,
            "{msg} {spinner} {bytes} {bytes_per_sec} {elapsed}",
        )
    }

    /// Counts items.
    pub fn of_count(what: &'static str, total: Option<u64>) -> Self {
        Self::new(
            what,
            total,
            "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}",
            "{msg} {spinner} {human_pos} {elapsed}",
        )
    }

    fn new(what: &'static str, total: Option<u64>, known: &str, unknown: &str) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(REDRAWS));
        let style = ProgressStyle::with_template(if total.is_some() { known } else { unknown });
        bar.set_style(style.expect("the templates above are well-formed"));
        bar.set_message(what);
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self { bar }
    }

    /// Adds to the progress.
    pub fn advance(&self, by: u64) {
        self.bar.inc(by);
    }

    /// Sets the progress.
    pub fn set(&self, to: u64) {
        self.bar.set_position(to);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
