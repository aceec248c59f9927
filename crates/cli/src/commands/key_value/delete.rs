//! `delete`: deletes a key.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::Args;

use super::{Printed, name, not_found};
use crate::failure::Failure;
use crate::flags::Connection;
use crate::output;
use crate::session::Session;
use stonecast_console::ndjson::Bytes;

/// Deletes a key. The deletion is durable when the command returns.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stonecast delete greeting")]
#[command(visible_alias = "del")]
pub struct Delete {
    /// The key.
    pub key: OsString,
    /// Prints {"key":..} to stdout.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// Deletes a key.
pub fn delete(flags: &Delete) -> Result<(), Failure> {
    let session = Session::open(&flags.connection)?;
    let key = flags.key.as_bytes();
    let was_there = session.run(async |client| Ok(client.delete(key).await?))?;
    session.close();
    if !was_there {
        return Err(not_found(key));
    }
    if flags.json {
        return output::report(
            &Printed {
                key: Bytes(key),
                value: None,
                version: None,
                expires: None,
            },
            format_args!("{} is deleted", name(key)),
        );
    }
    output::say_to_a_person("OK");
    Ok(())
}
