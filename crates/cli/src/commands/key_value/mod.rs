//! `put`, `get`, `delete`: one key.

mod delete;
mod get;
mod put;

use serde::Serialize;

pub use delete::{Delete, delete};
pub use get::{Get, get};
pub use put::{Put, put};

use crate::failure::{Failure, Status};
use stonecast_console::ndjson::Bytes;

/// The object that the three commands print with `--json`, with the fields that each knows.
#[derive(Serialize)]
struct Printed<'a> {
    key: Bytes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Bytes<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// Milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
}

fn not_found(key: &[u8]) -> Failure {
    Failure::new(Status::Absent, format!("{} is absent", name(key))).with("key", Bytes(key))
}

/// A key in a message.
fn name(key: &[u8]) -> String {
    format!("key \"{}\"", key.escape_ascii())
}
