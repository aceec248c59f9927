//! The parts in which a message takes effect, and the time between them.

use stonecast_base::Nanoseconds;

use super::message::LINE_SIZE;
use crate::profile::MachineProfile;

/// The number of lines of `count` that are placed at a time if they are placed in any order.
pub(super) fn scattered_step(count: u32) -> u32 {
    count.div_ceil(4).max(1)
}

/// Time from one piece of a torn READ to the next.
pub(super) const TORN_PAUSE_NS: Nanoseconds = 300;

/// Time from one part of a message to the next.
pub(super) fn part_ns(profile: &MachineProfile) -> Nanoseconds {
    (profile.nic_mtu_bytes * profile.nic_byte_ps.max(profile.pcie_byte_ps)).div_ceil(1000)
}

/// Parts of a message of `size` bytes at `offset` after the first one.
pub(super) fn more_parts(offset: u64, size: u64, mtu: u64) -> u64 {
    (size - part_end(offset, 0, size, mtu)).div_ceil(mtu)
}

/// The end of the part that begins at `done` of `size` bytes at `offset`.
pub(super) fn part_end(offset: u64, done: u64, size: u64, mtu: u64) -> u64 {
    if size - done <= mtu {
        return size;
    }
    let end = (offset + done + mtu) & !(LINE_SIZE - 1);
    (end - offset).min(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs the shorter first part: counted by size alone, a misaligned message ends later than its successor expects.
    #[test]
    fn the_number_of_parts_equals_the_number_of_placements() {
        for (offset, size) in [
            (0, 0),
            (0, 4096),
            (0, 4097),
            (8, 8192),
            (1, 12_287),
            (63, 100_000),
            (64, 8192),
        ] {
            let mut done = part_end(offset, 0, size, 4096);
            let mut parts = 0;
            while done < size {
                assert_eq!(
                    (offset + done) % LINE_SIZE,
                    0,
                    "a part begins inside a line"
                );
                done = part_end(offset, done, size, 4096);
                parts += 1;
            }
            assert_eq!(
                parts,
                more_parts(offset, size, 4096),
                "{size} bytes at {offset}"
            );
        }
    }
}
