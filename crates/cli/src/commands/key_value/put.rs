//! `put`: stores a value under a key.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use stonecast::{Condition, VALUE_SIZE_MAX, Write, Written};

use super::{Printed, name};
use crate::failure::{Failure, Status};
use crate::flags::Connection;
use crate::output;
use crate::session::Session;
use crate::values::Period;
use stonecast_console::ndjson::Bytes;

/// Stores a value under a key. The value is durable when the command returns.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: a value from the command line, one from a file, one only if the key is still at version 17, and one that expires
  stonecast put greeting hello
  stonecast put picture < picture.png
  stonecast put greeting hi --if-version 17
  stonecast put session ada --expire 30min
  stonecast put temperature -- -5")]
#[command(visible_alias = "set")]
pub struct Put {
    /// The key: 1 to 1024 bytes, used as typed.
    pub key: OsString,
    /// The value: at most 16 MiB. Read from stdin if VALUE is missing or `-`; a value that begins with a dash comes
    /// after `--`.
    pub value: Option<OsString>,
    /// Stores only if the key is at this version.
    #[arg(long, value_name = "VERSION", conflicts_with = "if_absent")]
    pub if_version: Option<u64>,
    /// Stores only if the key is absent.
    #[arg(long)]
    pub if_absent: bool,
    /// Lets the key expire after this time: 90s, 30min, 7d. Without it, the key does not expire, whatever it did
    /// before.
    #[arg(long, value_name = "TIME")]
    pub expire: Option<Period>,
    /// Prints {"key":..,"version":..} to stdout.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// Stores a value.
pub fn put(flags: &Put) -> Result<(), Failure> {
    let session = Session::open(&flags.connection)?;
    let key = flags.key.as_bytes();
    let value = match flags.value.as_deref().map(OsStr::as_bytes) {
        None | Some(b"-") => read_value(io::stdin().lock())?,
        Some(value) => value.to_vec(),
    };
    let condition = match flags.if_version {
        Some(version) => Condition::Version(version),
        None if flags.if_absent => Condition::Absent,
        None => Condition::None,
    };
    let write = match flags.expire {
        Some(Period(time)) => Write::new().expires_in(time),
        None => Write::new(),
    };
    let write = write.on(condition);
    let written = session.run(async |client| Ok(client.put_with(key, &value, write).await?))?;
    session.close();
    match written {
        Written::Done(version) if flags.json => output::report(
            &Printed {
                key: Bytes(key),
                value: None,
                version: Some(version),
                expires: None,
            },
            format_args!("{} is stored at version {version}", name(key)),
        ),
        Written::Done(version) => {
            output::say_to_a_person(format_args!("OK, version {version}"));
            Ok(())
        }
        Written::Conflict(present) => {
            let words = match present {
                Some(version) => format!("{} is at version {version}; nothing was done", name(key)),
                None => format!("{} is absent; nothing was done", name(key)),
            };
            Err(Failure::new(Status::Conflict, words)
                .with("key", Bytes(key))
                .with("version", present))
        }
    }
}

/// Reads all of `input`, or just enough to show that the value is too long.
fn read_value(input: impl Read) -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    input
        .take(VALUE_SIZE_MAX as u64 + 1)
        .read_to_end(&mut value)?;
    if value.len() > VALUE_SIZE_MAX {
        return Err(Failure::operation(format!(
            "the value is longer than the limit of {VALUE_SIZE_MAX} bytes; nothing was done"
        )));
    }
    Ok(value)
}
