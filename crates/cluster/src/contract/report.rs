//! The body of a test of [`store_contract_tests`](crate::store_contract_tests).

use std::rc::Rc;

use stonecast_fabric::contract::report::note;

use super::{World, check};

/// Checks the promise `name`, or notes that it could not be checked.
pub fn test(store: &str, name: &str, world: Result<Rc<dyn World>, String>) {
    match world {
        Ok(world) => check(name, world),
        Err(reason) => note(store, name, &reason),
    }
}
