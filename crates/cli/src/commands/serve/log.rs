//! Flags of the log of a server.

use clap::{Args, ValueEnum};
use stonecast_console::log::{self, Format};
use tracing::Level;

/// The form of the log on stderr, and the least level that it shows.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "The log, on stderr")]
pub struct LogFlags {
    /// Lines for people, or a JSON object for each event [default: plain].
    #[arg(long, value_enum, env = "STONECAST_LOG_FORMAT")]
    pub log_format: Option<FormatArgument>,
    /// Least level that is logged [default: info].
    #[arg(long, value_enum, env = "STONECAST_LOG_LEVEL")]
    pub log_level: Option<LevelArgument>,
}

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatArgument {
    /// The message, after its level unless that is info.
    Plain,
    /// An object with timestamp, level, target, message, and the facts of the message.
    Json,
}

/// The level of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LevelArgument {
    /// The server, or a part of its work, ends.
    Error,
    /// A repair, or a refusal.
    Warn,
    /// Starts, ends, and changes that an operator asked for.
    Info,
    /// Every event, those for developers included.
    Debug,
}

impl LogFlags {
    /// Logs as the flags ask for from now on.
    pub fn start(&self) {
        let format = match self.log_format {
            None | Some(FormatArgument::Plain) => Format::Plain,
            Some(FormatArgument::Json) => Format::Json,
        };
        let level = match self.log_level {
            Some(LevelArgument::Error) => Level::ERROR,
            Some(LevelArgument::Warn) => Level::WARN,
            None | Some(LevelArgument::Info) => Level::INFO,
            Some(LevelArgument::Debug) => Level::DEBUG,
        };
        log::start(format, level);
    }
}
