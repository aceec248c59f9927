//! Results go to stdout, words for people to stderr.
//!
//! No function of this module fails because stderr is closed.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::Size;
use crate::failure::Failure;
use crate::log;

/// Prints one JSON object as a line.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    bytes(&line)
}

/// Prints one JSON object that reports work that was done. If the object cannot be printed, the failure says that the
/// work was done.
pub fn report(value: &impl Serialize, done: impl Display) -> Result<(), Failure> {
    json(value).map_err(|failure| failure.after(done))
}

/// Prints bytes unchanged.
pub fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()?;
    Ok(())
}

/// Prints names and values, with the values aligned.
pub fn table(rows: &[(&str, String)]) -> Result<(), Failure> {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: String = rows
        .iter()
        .map(|(name, value)| format!("{name:<width$}  {value}\n"))
        .collect();
    bytes(lines.as_bytes())
}

/// The number of columns of a line of text.
pub const WIDTH: usize = 110;

/// Appends `start` and `words`, in lines of [`WIDTH`] columns; further lines begin with `indent`.
pub fn wrap(text: &mut String, indent: &str, start: &str, words: &str) {
    let mut line = start.to_owned();
    let mut empty = true;
    for word in words.split_whitespace() {
        if !empty && line.chars().count() + word.chars().count() >= WIDTH {
            *text += line.trim_end();
            text.push('\n');
            line = indent.to_owned();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    *text += line.trim_end();
    text.push('\n');
}

/// Prints a message as a line on stderr.
pub fn say(message: impl Display) {
    if !log::takes(&message, false) {
        line(&message);
    }
}

fn line(message: &impl Display) {
    // A closed stderr has no reader.
    let _ = writeln!(io::stderr(), "{message}");
}

/// Prints a message for people if stderr is a terminal.
pub fn say_to_a_person(message: impl Display) {
    if io::stderr().is_terminal() {
        say(message);
    }
}

/// Prints an error.
pub fn error(message: &impl Display) {
    if !log::takes(message, true) {
        line(&format_args!("error: {message}"));
    }
}

/// Formats a number of bytes for people: a whole number of a unit is exact, any other number is rounded to a tenth.
pub fn size(bytes: u64) -> String {
    let exact = Size(bytes).to_string();
    if bytes < 1024 || exact.len() <= "1023 GiB".len() {
        exact
    } else {
        bytesize::ByteSize(bytes).to_string()
    }
}
