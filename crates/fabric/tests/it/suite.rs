//! The contract on the reference provider, in each of its flavours.

use std::rc::Rc;

use stonecast_fabric::contract::{Outcome, World, cases, check};

use crate::loopback::{Fault, LIBERAL, LoopbackWorld, PLAIN, POOR, PROTECTION_DOMAINS};

fn world() -> Rc<dyn World> {
    LoopbackWorld::new(PLAIN, Fault::Nothing)
}

stonecast_fabric::contract_tests!(world());

#[test]
fn a_provider_that_takes_every_liberty_keeps_every_promise() {
    for case in cases() {
        println!("{}", case.name);
        let outcome = check(case.name, LoopbackWorld::new(LIBERAL, Fault::Nothing));
        let lacks_nothing =
            case.name == "an_operation_that_the_device_lacks_is_refused_and_harms_nothing";
        assert_eq!(
            outcome == Outcome::Kept,
            !lacks_nothing,
            "{}: {outcome:?}",
            case.name
        );
    }
}

#[test]
fn a_provider_that_separates_peers_by_protection_domains_keeps_every_promise() {
    for case in cases() {
        println!("{}", case.name);
        let outcome = check(
            case.name,
            LoopbackWorld::new(PROTECTION_DOMAINS, Fault::Nothing),
        );
        let lacks_nothing =
            case.name == "an_operation_that_the_device_lacks_is_refused_and_harms_nothing";
        assert_eq!(
            outcome == Outcome::Kept,
            !lacks_nothing,
            "{}: {outcome:?}",
            case.name
        );
    }
}

#[test]
fn a_provider_without_options_keeps_the_rest_and_names_its_gaps() {
    for case in cases() {
        println!("{}", case.name);
        let outcome = check(case.name, LoopbackWorld::new(POOR, Fault::Nothing));
        let optional = !case.needs.is_empty()
            && case.name != "an_operation_that_the_device_lacks_is_refused_and_harms_nothing";
        match outcome {
            Outcome::Kept => assert!(!optional, "{} cannot have been checked", case.name),
            Outcome::NotRun { device, reason } => {
                assert!(optional, "{} needs nothing", case.name);
                assert_eq!(device, "poor reference provider");
                assert!(
                    reason.starts_with("device has no ") || reason == "world cannot kill a node",
                    "{reason}"
                );
            }
        }
    }
}
