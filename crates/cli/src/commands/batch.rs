//! `batch`: several keys, all or nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use stonecast::{Applied, BATCH_KEYS_MAX, BATCH_SIZE_MAX, Batch as Changes, Expectation, Expiry};

use crate::failure::{Failure, Status};
use crate::flags::Connection;
use crate::output;
use crate::session::Session;
use stonecast_console::changes::{Change, Expected, Line};
use stonecast_console::ndjson::{Bytes, Reader};

/// Changes several keys together, all or nothing.
///
/// Each line names one key: {"key":KEY} with "value":VALUE or "delete":true, with "expect":VERSION, "expect":"absent"
/// or "expect":"present", or with both. KEY and VALUE are strings or {"base64":"..."}; "expires" beside a value is a
/// moment in ms since 1970. If every key is as expected before the batch, all changes are done, and durable as one,
/// when the command returns; otherwise none is. A broken line ends the command before anything is sent. A batch has at
/// most 4096 keys and 1 MiB.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: an order that takes the last of the stock, if the stock is still at version 17 and the order is new
  stonecast batch <<'END'
  {\"key\":\"stock\",\"expect\":17,\"value\":\"0\"}
  {\"key\":\"order 7\",\"expect\":\"absent\",\"value\":\"one\"}
  {\"key\":\"draft 7\",\"delete\":true}
  END")]
pub struct Batch {
    /// The file; stdin if FILE is missing or `-`.
    pub file: Option<PathBuf>,
    /// Prints {"keys":..,"changes":..,"version":..} to stdout: the version of the first changed key. The next changed
    /// key has the next version, in the order of the lines.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// The result, as `--json` prints it.
#[derive(Serialize)]
struct Printed {
    /// Keys that the batch names.
    keys: usize,
    /// Keys that it changed.
    changes: u64,
    /// The version of the first change; `None`: the batch changes nothing.
    version: Option<u64>,
}

/// Reads a batch, and applies it.
pub fn run(flags: &Batch) -> Result<(), Failure> {
    let read = match flags.file.as_deref().filter(|path| *path != Path::new("-")) {
        None => Lines::read(io::stdin().lock())?,
        Some(path) => {
            let refuse =
                |error| Failure::operation(format!("cannot read {}: {error}", path.display()));
            Lines::read(BufReader::new(File::open(path).map_err(refuse)?))?
        }
    };
    let session = Session::open(&flags.connection)?;
    let applied = session.run(async |client| Ok(client.apply(&read.batch).await?))?;
    session.close();
    let versions = match applied {
        Applied::Done(versions) => versions,
        Applied::Contradicted { key } => {
            let line = read.numbers.get(&key);
            let words = format!(
                "key \"{}\" is not as line {} expects; nothing was done",
                key.escape_ascii(),
                line.map_or("?".to_owned(), u64::to_string)
            );
            return Err(Failure::new(Status::Conflict, words)
                .with("key", Bytes(&key))
                .with("line", line));
        }
    };
    let printed = Printed {
        keys: read.batch.len(),
        changes: versions.end - versions.start,
        version: (!versions.is_empty()).then_some(versions.start),
    };
    let words = match versions.is_empty() {
        true => "OK, every key is as expected".to_owned(),
        false => format!("OK, versions {} to {}", versions.start, versions.end - 1),
    };
    if flags.json {
        return output::report(&printed, format_args!("the batch is done: {words}"));
    }
    output::say_to_a_person(words);
    Ok(())
}

/// The lines of a batch.
#[derive(Default)]
struct Lines {
    batch: Changes,
    /// The line of each key.
    numbers: BTreeMap<Vec<u8>, u64>,
}

impl Lines {
    /// Reads a whole batch, or just enough of it to show a fault.
    fn read(input: impl BufRead) -> Result<Self, Failure> {
        let mut reader = Reader::new(input);
        let mut lines = Self::default();
        loop {
            let line = reader
                .next_change()
                .map_err(|error| refused(&error.to_string()))?;
            let Some(line) = line else { break };
            lines.add(reader.line(), line)?;
        }
        match lines.batch.is_empty() {
            true => Err(refused("the batch is empty")),
            false => Ok(lines),
        }
    }

    fn add(&mut self, number: u64, line: Line) -> Result<(), Failure> {
        let key = &line.key;
        if let Some(earlier) = self.numbers.insert(key.clone(), number) {
            let key = key.escape_ascii();
            let message = format!("lines {earlier} and {number} name the same key \"{key}\"");
            return Err(refused(&message));
        }
        match line.change {
            None => {}
            Some(Change::Put { value, expires }) => {
                let expires = expires.and_then(Expiry::at_ms);
                self.batch.put_until(key, &value, expires);
            }
            Some(Change::Delete) => drop(self.batch.delete(key)),
        }
        let expectation = line.expected.map(|expected| match expected {
            Expected::Version(version) => Expectation::Version(version),
            Expected::Absent => Expectation::Absent,
            Expected::Present => Expectation::Present,
        });
        if let Some(expectation) = expectation {
            self.batch.expect(key, expectation);
        }
        let (keys, size) = (self.batch.len(), self.batch.size());
        if keys > BATCH_KEYS_MAX {
            let message = format!("line {number}: a batch has at most {BATCH_KEYS_MAX} keys");
            return Err(refused(&message));
        }
        if size > BATCH_SIZE_MAX {
            let message = format!("line {number}: a batch has at most {BATCH_SIZE_MAX} bytes");
            return Err(refused(&message));
        }
        Ok(())
    }
}

fn refused(reason: &str) -> Failure {
    Failure::operation(format!("{reason}; nothing was done"))
}
