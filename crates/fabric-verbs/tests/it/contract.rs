//! The contract of the fabric, on the RDMA devices of this machine.

use crate::world::VerbsWorld;

stonecast_fabric::contract_tests_if_available!("verbs", VerbsWorld::available);
