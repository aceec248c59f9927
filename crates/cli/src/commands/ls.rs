//! `ls`: the keys, in the order in which they were stored.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt as _;

use clap::Args;
use serde::Serialize;
use stonecast_kv::Client;

use crate::failure::Failure;
use crate::flags::Connection;
use crate::ndjson::Bytes;
use crate::session::Session;

/// Lists the keys, or those that begin with PREFIX.
///
/// The order is that in which they were stored: a key that is stored again moves to the end. A key that is stored while
/// they are listed may be listed twice. Without --json each key is a line as it is; one with a line feed in it is several.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: all keys, those of one kind, and as JSON with their versions
  stonecast ls
  stonecast ls user:
  stonecast ls --json user:")]
pub struct Ls {
    /// Bytes that the keys begin with.
    pub prefix: Option<OsString>,
    /// Prints {"key":..,"version":..} for each key; a key that is not UTF-8 is {"base64":..}.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// Keys whose places are in memory at a time, 24 bytes each; more take another look at the index.
const PAGE_KEYS: usize = 1 << 20;
/// Bytes printed at once.
const BUFFER_SIZE: usize = 64 << 10;

/// A key, as `--json` prints it.
#[derive(Serialize)]
struct Printed<'a> {
    key: Bytes<'a>,
    version: u64,
}

/// See the module documentation.
pub fn run(flags: &Ls) -> Result<(), Failure> {
    let session = Session::open(&flags.connection)?;
    let mut output = BufWriter::with_capacity(BUFFER_SIZE, io::stdout().lock());
    session.run(async |client| print_all(client, flags, &mut output).await)?;
    session.close();
    Ok(output.flush()?)
}

async fn print_all(client: &Client, flags: &Ls, output: &mut impl Write) -> Result<(), Failure> {
    let prefix = flags.prefix.as_deref().unwrap_or_default().as_bytes();
    let mut batch = Vec::new();
    let mut from = 0;
    loop {
        let mut page = client.entries_from(from, PAGE_KEYS).await?;
        let next = page.next_version();
        loop {
            page.next(client, &mut batch).await?;
            if batch.is_empty() {
                break;
            }
            for entry in batch.iter().filter(|entry| entry.key.starts_with(prefix)) {
                if flags.json {
                    let printed = Printed {
                        key: Bytes(&entry.key),
                        version: entry.version,
                    };
                    serde_json::to_writer(&mut *output, &printed)?;
                } else {
                    output.write_all(&entry.key)?;
                }
                output.write_all(b"\n")?;
            }
        }
        match next {
            Some(version) => from = version,
            None => return Ok(()),
        }
    }
}
