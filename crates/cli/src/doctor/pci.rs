//! A bit of a device's PCI configuration: whether the device may request relaxed ordering of its writes.
//!
//! ```text
//!   0x34  offset of the first capability        each: number, offset of the next, ...
//!   capability 0x10 (PCI Express) + 8           device control: bit 4 enables relaxed ordering
//! ```
//!
//! (PCI Express base specification, device control register.) The kernel shows only the first 64 bytes to users who may
//! not administer the machine, so the answer is often *not seen*.

use serde::Serialize;

use crate::doctor::root::Root;

/// The state of relaxed ordering in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelaxedOrdering {
    /// The device may not ask for relaxed ordering.
    Disabled,
    /// The device may ask for relaxed ordering; each memory registration decides whether it does.
    Enabled,
    /// The kernel did not show the register.
    NotSeen,
}

const STATUS: usize = 0x06;
const STATUS_HAS_CAPABILITIES: u8 = 1 << 4;
const FIRST_CAPABILITY: usize = 0x34;
const PCI_EXPRESS: u8 = 0x10;
const DEVICE_CONTROL: usize = 8;
const ENABLE_RELAXED_ORDERING: u8 = 1 << 4;
/// More capabilities than fit into their 256 bytes: a longer list is circular.
const CAPABILITIES_MAX: usize = 48;

/// Reads the state of relaxed ordering from the configuration in `file`.
pub fn relaxed_ordering(root: &Root, file: &str) -> RelaxedOrdering {
    let bytes = root.bytes(file).unwrap_or_default();
    match device_control(&bytes) {
        Some(control) if control & ENABLE_RELAXED_ORDERING != 0 => RelaxedOrdering::Enabled,
        Some(_) => RelaxedOrdering::Disabled,
        None => RelaxedOrdering::NotSeen,
    }
}

/// The low byte of the device control register.
fn device_control(bytes: &[u8]) -> Option<u8> {
    if bytes.get(STATUS)? & STATUS_HAS_CAPABILITIES == 0 {
        return None;
    }
    let mut at = usize::from(bytes.get(FIRST_CAPABILITY)? & !3);
    for _ in 0..CAPABILITIES_MAX {
        let (number, next) = (*bytes.get(at)?, *bytes.get(at + 1)?);
        if number == PCI_EXPRESS {
            return bytes.get(at + DEVICE_CONTROL).copied();
        }
        at = usize::from(next & !3);
        if at == 0 {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration with a power management capability at 0x40 and PCI Express at 0x70.
    fn configuration(control: u8) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        bytes[STATUS] = STATUS_HAS_CAPABILITIES;
        bytes[FIRST_CAPABILITY] = 0x40;
        bytes[0x40..0x42].copy_from_slice(&[0x01, 0x70]);
        bytes[0x70..0x72].copy_from_slice(&[PCI_EXPRESS, 0]);
        bytes[0x78] = control;
        bytes
    }

    #[test]
    fn the_bit_is_found_behind_other_capabilities() {
        assert_eq!(device_control(&configuration(0x10)), Some(0x10));
        assert_eq!(device_control(&configuration(0x2f)), Some(0x2f));
    }

    #[test]
    fn a_configuration_that_is_cut_off_or_circular_is_not_seen() {
        let whole = configuration(0x10);
        for size in 0..0x79 {
            assert_eq!(device_control(&whole[..size]), None, "{size} bytes");
        }
        let mut circle = configuration(0x10);
        circle[0x41] = 0x40;
        assert_eq!(device_control(&circle), None);
        let mut none = configuration(0x10);
        none[STATUS] = 0;
        assert_eq!(device_control(&none), None);
        let mut outside = configuration(0x10);
        outside[FIRST_CAPABILITY] = 0xfc;
        outside[0xfd] = 0xff;
        assert_eq!(device_control(&outside), None);
    }
}
