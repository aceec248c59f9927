//! `put`, `get`, `delete`: one key.

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use stonecast_kv::limits::VALUE_SIZE_MAX;
use stonecast_kv::{Condition, Written};

use crate::arguments::{Delete, Get, Put};
use crate::failure::Failure;
use crate::ndjson::Bytes;
use crate::output;
use crate::session::Session;

/// What the three print with `--json`, as far as they know it.
#[derive(Serialize)]
struct Printed<'a> {
    key: Bytes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Bytes<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
}

/// Stores a value.
pub fn put(flags: &Put, session: Session) -> Result<(), Failure> {
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
    let written = session.run(async |client| Ok(client.put_if(key, &value, condition).await?))?;
    session.close();
    match written {
        Written::Done(version) if flags.json => output::json(&Printed {
            key: Bytes(key),
            value: None,
            version: Some(version),
        }),
        Written::Done(version) => {
            output::say_to_a_person(format_args!("OK, version {version}"));
            Ok(())
        }
        Written::Conflict(present) => Err(Failure::operation(match present {
            Some(version) => format!("{} is at version {version}; nothing was done", name(key)),
            None => format!("{} is not there; nothing was done", name(key)),
        })),
    }
}

/// Prints a value.
pub fn get(flags: &Get, session: Session) -> Result<(), Failure> {
    let key = flags.key.as_bytes();
    let mut value = Vec::new();
    let version = session.run(async |client| Ok(client.get(key, &mut value).await?))?;
    session.close();
    let version = version.ok_or_else(|| not_found(key))?;
    if flags.json {
        return output::json(&Printed {
            key: Bytes(key),
            value: Some(Bytes(&value)),
            version: Some(version),
        });
    }
    // The prompt of a shell should not stand behind the value; a program gets the bytes alone.
    if io::stdout().is_terminal() && !value.ends_with(b"\n") {
        value.push(b'\n');
    }
    output::bytes(&value)
}

/// Deletes a key.
pub fn delete(flags: &Delete, session: Session) -> Result<(), Failure> {
    let key = flags.key.as_bytes();
    let was_there = session.run(async |client| Ok(client.delete(key).await?))?;
    session.close();
    if !was_there {
        return Err(not_found(key));
    }
    if flags.json {
        return output::json(&Printed {
            key: Bytes(key),
            value: None,
            version: None,
        });
    }
    output::say_to_a_person("OK");
    Ok(())
}

/// All of `input`, but no more than shows that it is too much.
fn read_value(input: impl Read) -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    input
        .take(VALUE_SIZE_MAX as u64 + 1)
        .read_to_end(&mut value)?;
    if value.len() > VALUE_SIZE_MAX {
        return Err(Failure::operation(format!(
            "the value has more than {VALUE_SIZE_MAX} bytes, which is the limit; nothing was done"
        )));
    }
    Ok(value)
}

fn not_found(key: &[u8]) -> Failure {
    Failure::operation(format!("{} is not there", name(key)))
}

/// A key in a message.
fn name(key: &[u8]) -> String {
    format!("key \"{}\"", key.escape_ascii())
}
