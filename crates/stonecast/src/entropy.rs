//! Random bytes of the system.

use std::fs::File;
use std::io::Read as _;

use crate::error::{Error, ErrorKind};

/// Bytes that nobody can guess.
pub fn entropy<const SIZE: usize>() -> Result<[u8; SIZE], Error> {
    let mut bytes = [0; SIZE];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| ErrorKind::Setup(format!("cannot read /dev/urandom: {error}")))?;
    Ok(bytes)
}
