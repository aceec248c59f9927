//! The clock that leases count on.

use stonecast_fabric_verbs::VerbsDevice;

use crate::device::{devices_or_note, note};
use crate::time_namespace::the_clock_goes_on_while_the_host_is_suspended;
use crate::world::options;

/// Needs `CLOCK_BOOTTIME`.
#[test]
fn a_device_counts_the_time_in_which_its_host_was_suspended() {
    let test = "clock::a_device_counts_the_time_in_which_its_host_was_suspended";
    if let Some(names) = devices_or_note(test) {
        let device = VerbsDevice::open(options(&names[0])).expect("the device can be opened");
        the_clock_goes_on_while_the_host_is_suspended(test, &*device, note);
    }
}
