//! The clock that leases count on.

use stonecast_fabric_shm::{ShmDevice, ShmOptions};

use crate::not_run::not_run;
use crate::time_namespace::the_clock_goes_on_while_the_host_is_suspended;

/// Needs `CLOCK_BOOTTIME`.
#[test]
fn a_device_counts_the_time_in_which_its_host_was_suspended() {
    let device = ShmDevice::new(ShmOptions::default()).expect("a device");
    let test = "clock::a_device_counts_the_time_in_which_its_host_was_suspended";
    the_clock_goes_on_while_the_host_is_suspended(test, &*device, not_run);
}
