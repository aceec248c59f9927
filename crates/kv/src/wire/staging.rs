//! Positions of records in staging memory, which is no part of the log.

use stonecast_log::UNIT_SIZE;

/// Set in the position of every staged record, so that its tag fits no place of the log.
const STAGING_BIT: u64 = 1 << 62;

/// The position that enters the tag of a record at `unit` of staging memory.
pub(crate) fn staging_position(unit: u32) -> u64 {
    STAGING_BIT | (u64::from(unit) * UNIT_SIZE)
}
