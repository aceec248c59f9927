//! Checks that bytes reach the place that a plan relies on: memory, or a cache.
//!
//! `ddio` states the place to which the NICs of a machine write. A processor that acts as a NIC puts bytes into one of
//! its caches, whatever `ddio` states. A plan for `ddio = off` may then lose them: its READ empties NIC and I/O
//! controller, but no cache.

use stonecast_fabric::Placing;
use stonecast_media::Ddio;

use crate::plan::{Plan, plan_for};
use crate::platform::Platform;
use crate::scenario::Scenario;

/// A processor places bytes, and the plan relies on a NIC that writes past the caches. Nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{placing} places bytes over this fabric, so they end in a cache, and {steps} is the plan for ddio = off; declare ddio = on for \
     this way to the responder and plan again"
)]
pub struct PlacedInCache {
    /// The agent that places bytes.
    pub placing: Placing,
    /// The steps of the plan.
    pub steps: String,
}

/// One side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Requester,
    Responder,
}

/// Refuses a plan that `placing`, as reported by the device of `side`, makes unsound. A requester's device reports
/// nothing about its responder's device, unless the requester itself places.
pub(super) fn check_placing(
    plan: &Plan,
    placing: Placing,
    side: Side,
) -> Result<(), PlacedInCache> {
    let in_cache = match placing {
        Placing::Nic => false,
        Placing::RequesterProcessor => true,
        Placing::ResponderProcessor => side == Side::Responder,
    };
    if !in_cache || is_plan_with_ddio(plan) {
        return Ok(());
    }
    Err(PlacedInCache {
        placing,
        steps: plan.program().to_string(),
    })
}

/// Whether the same steps are also the plan if NICs write into caches.
fn is_plan_with_ddio(plan: &Plan) -> bool {
    let Scenario {
        platform,
        operation,
        update,
    } = *plan.scenario();
    let with_ddio = Platform {
        ddio: Ddio::On,
        ..platform
    };
    plan_for(&with_ddio, operation, update).is_ok_and(|other| other.program() == plan.program())
}

#[cfg(test)]
mod tests {
    use stonecast_media::{DeclaredPlatform, PersistenceDomain, ReceiveBuffers};

    use super::*;
    use crate::litmus;
    use crate::platform::FlushKind;
    use crate::scenario::{Operation, Update};

    /// Every plan of InfiniBand for machines whose NICs write past the caches.
    fn plans_without_ddio() -> Vec<Plan> {
        let mut plans = Vec::new();
        for &persistence_domain in PersistenceDomain::ALL {
            for &receive_buffers in ReceiveBuffers::ALL {
                for &flush in FlushKind::ALL {
                    let platform = Platform {
                        flush,
                        ..Platform::of(DeclaredPlatform {
                            persistence_domain,
                            ddio: Ddio::Off,
                            receive_buffers,
                        })
                    };
                    let operations = Operation::PUBLISHED.iter().chain(&[Operation::Append]);
                    for (&operation, &update) in operations.flat_map(|operation| {
                        Update::ALL.iter().map(move |update| (operation, update))
                    }) {
                        plans.extend(plan_for(&platform, operation, update));
                    }
                }
            }
        }
        plans
    }

    /// Needs the refusal: for each of these plans the litmus model finds a power cut that takes data which the plan
    /// calls persisted.
    #[test]
    fn exactly_the_plans_that_lose_cached_data_are_refused_if_a_processor_places() {
        let mut refused = 0;
        for plan in plans_without_ddio() {
            let scenario = plan.scenario();
            let in_cache = Platform {
                ddio: Ddio::On,
                ..scenario.platform
            };
            let verdict = litmus::check(&in_cache, plan.program(), scenario.update);
            let check = |placing, side| check_placing(&plan, placing, side).is_ok();
            let accepted = check(Placing::RequesterProcessor, Side::Requester);
            assert_eq!(
                accepted,
                verdict.is_sound(),
                "{scenario:?}: {}",
                plan.program()
            );
            assert_eq!(
                accepted,
                check(Placing::RequesterProcessor, Side::Responder)
            );
            assert_eq!(
                accepted,
                check(Placing::ResponderProcessor, Side::Responder)
            );
            // The requester's software device reports nothing about the device at the other end.
            assert!(check(Placing::ResponderProcessor, Side::Requester));
            assert!(check(Placing::Nic, Side::Requester) && check(Placing::Nic, Side::Responder));
            refused += u32::from(!accepted);
            assert!(
                accepted || scenario.platform.persistence == PersistenceDomain::Dmp,
                "{scenario:?}: only the persistence domain of a DIMM ends in front of the caches"
            );
        }
        assert!(refused > 10, "{refused} plans");
    }
}
