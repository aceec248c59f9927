//! `get`: prints the value of a key.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use stonecast::{Entry, Expiry};

use super::{Printed, not_found};
use crate::failure::Failure;
use crate::flags::Connection;
use crate::output;
use crate::session::Session;
use stonecast_console::ndjson::Bytes;

/// Prints the value of a key.
///
/// The bytes go to stdout unchanged; on a terminal, a line feed follows.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: a value as it is, as JSON with its version, and into another pool
  stonecast get picture > picture.png
  stonecast get greeting --json
  stonecast get greeting --json | stonecast import --connect shm:/srv/other/socket")]
pub struct Get {
    /// The key.
    pub key: OsString,
    /// Prints {"key":..,"value":..,"version":..} instead, and "expires" in ms since 1970 if the key expires.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// Prints a value.
pub fn get(flags: &Get) -> Result<(), Failure> {
    let session = Session::open(&flags.connection)?;
    let key = flags.key.as_bytes();
    let entry = session.run(async |client| Ok(client.get(key).await?))?;
    session.close();
    let Entry {
        mut value,
        version,
        expires,
    } = entry.ok_or_else(|| not_found(key))?;
    if flags.json {
        return output::json(&Printed {
            key: Bytes(key),
            value: Some(Bytes(&value)),
            version: Some(version),
            expires: expires.map(Expiry::ms),
        });
    }
    // On a terminal, the prompt of the shell starts on a line of its own; a program gets only the bytes.
    if io::stdout().is_terminal() && !value.ends_with(b"\n") {
        value.push(b'\n');
    }
    output::bytes(&value)
}
