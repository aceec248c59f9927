//! Results go to stdout, words for people to stderr.
//!
//! Nothing here fails because nobody listens on stderr.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::Size;
use crate::failure::Failure;

/// Prints one JSON object on a line of its own.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    bytes(&line)
}

/// Prints one JSON object that says what was done. Where it cannot be printed, the failure says that it was done.
pub fn report(value: &impl Serialize, done: impl Display) -> Result<(), Failure> {
    json(value).map_err(|failure| failure.after(done))
}

/// Prints bytes as they are.
pub fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()?;
    Ok(())
}

/// Prints names and values, the values below each other.
pub fn table(rows: &[(&str, String)]) -> Result<(), Failure> {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: String = rows
        .iter()
        .map(|(name, value)| format!("{name:<width$}  {value}\n"))
        .collect();
    bytes(lines.as_bytes())
}

/// Columns of a line of text.
pub const WIDTH: usize = 110;

/// Appends `words` behind `start`, in lines of [`WIDTH`] columns; further lines begin with `indent`.
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

/// Says something to whoever watches: a line on stderr.
pub fn say(message: impl Display) {
    // A closed stderr has nobody to tell.
    let _ = writeln!(io::stderr(), "{message}");
}

/// Says something that only a person wants to know.
pub fn say_to_a_person(message: impl Display) {
    if io::stderr().is_terminal() {
        say(message);
    }
}

/// Says what went wrong.
pub fn error(message: &impl Display) {
    say(format_args!("error: {message}"));
}

/// A number of bytes as people read it: exact where it is a whole number of a unit, else rounded to a tenth.
pub fn size(bytes: u64) -> String {
    let exact = Size(bytes).to_string();
    if bytes < 1024 || exact.len() <= "1023 GiB".len() {
        exact
    } else {
        bytesize::ByteSize(bytes).to_string()
    }
}
