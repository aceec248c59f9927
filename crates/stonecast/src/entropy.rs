//! Random bytes of the system.

use crate::error::{Error, ErrorKind};

/// Unpredictable bytes.
pub fn entropy<const SIZE: usize>() -> Result<[u8; SIZE], Error> {
    let mut bytes = [0; SIZE];
    getrandom::fill(&mut bytes)
        .map_err(|error| ErrorKind::Setup(format!("the system has no random numbers: {error}")))?;
    Ok(bytes)
}
