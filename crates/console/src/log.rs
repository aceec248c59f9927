//! The log of a server: events with a level, one line each on stderr, for people or for programs.
//!
//! Libraries below emit events through `tracing` and know nothing of formats.

use std::fmt::{self, Display};
use std::io;
use std::sync::OnceLock;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The message, after its level unless that is `info`. The journal of systemd, which notes the time, gets the level
    /// as a priority (`sd-daemon(3)`).
    Plain,
    /// An object with the fields `timestamp` (UTC), `level`, `target` (the module), `message`, and the facts of the
    /// message.
    Json,
}

/// The format of this process; empty before [`start`].
static FORMAT: OnceLock<Format> = OnceLock::new();

/// Prints events of `level` and above in `format` from now on. The first call of a process counts.
pub fn start(format: Format, level: Level) {
    if FORMAT.set(format).is_err() {
        return;
    }
    let lines = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_max_level(level);
    let started = match format {
        Format::Json => lines.json().flatten_event(true).try_init(),
        Format::Plain => {
            let has_priorities = is_read_by_the_journal();
            lines.event_format(Plain { has_priorities }).try_init()
        }
    };
    debug_assert!(started.is_ok(), "a process has one log");
}

/// Emits a message that is not an event of the log, as the error for which a process ends, if the log is for programs:
/// then every line is an object. Returns whether it is.
pub(crate) fn takes(message: &impl Display, is_error: bool) -> bool {
    if FORMAT.get() != Some(&Format::Json) {
        return false;
    }
    if is_error {
        tracing::error!("{message}");
    } else {
        tracing::info!("{message}");
    }
    true
}

/// Whether stderr is the stream that systemd names: `$JOURNAL_STREAM` has its device and inode (`systemd.exec(5)`).
fn is_read_by_the_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").ok();
    let stderr = rustix::fs::fstat(io::stderr()).ok();
    named
        .zip(stderr)
        .is_some_and(|(named, stderr)| named == format!("{}:{}", stderr.st_dev, stderr.st_ino))
}

struct Plain {
    has_priorities: bool,
}

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (priority, word) = words(*event.metadata().level());
        if self.has_priorities {
            write!(writer, "<{priority}>")?;
        }
        writer.write_str(word)?;
        let mut message = Message(writer.by_ref(), Ok(()));
        event.record(&mut message);
        message.1?;
        writeln!(writer)
    }
}

/// The priority of a level in the journal, and the word before a message.
fn words(level: Level) -> (u8, &'static str) {
    match level {
        Level::ERROR => (3, "error: "),
        Level::WARN => (4, "warning: "),
        Level::INFO => (6, ""),
        Level::DEBUG | Level::TRACE => (7, "debug: "),
    }
}

/// Writes the message alone, which names the facts in words.
struct Message<'a>(Writer<'a>, fmt::Result);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.1 = write!(self.0, "{value:?}");
        }
    }
}
