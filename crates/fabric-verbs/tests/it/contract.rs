//! The contract of the fabric, on the RDMA devices of this machine, and on the same devices treated as ones without
//! memory windows.

use crate::world::VerbsWorld;

stonecast_fabric::contract_tests_if_available!("verbs", VerbsWorld::available);

mod without_windows {
    use crate::world::VerbsWorld;

    stonecast_fabric::contract_tests_if_available!(
        "verbs without windows",
        VerbsWorld::without_windows
    );
}
