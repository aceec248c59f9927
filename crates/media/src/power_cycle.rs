//! The identity of the current start of the machine. Bytes written but not persisted may be gone after another start.

use std::path::Path;

use uuid::Uuid;

use crate::MediaError;
use crate::error::failed;

/// The kernel's random number of this start of the machine.
pub(crate) fn boot_identifier() -> Result<u128, MediaError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let text = std::fs::read_to_string(path).map_err(failed("reading", path))?;
    let uuid = text
        .trim()
        .parse::<Uuid>()
        .map_err(std::io::Error::other)
        .map_err(failed("reading", path))?;
    Ok(uuid.as_u128())
}
