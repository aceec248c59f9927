//! Whether bytes get to where a plan counts on them: into memory, or into a cache.
//!
//! `ddio` says where the NICs of a machine put bytes. A processor that stands in for a NIC puts them into one of its caches,
//! whatever `ddio` says. A plan for `ddio = off` may then lose them: its READ empties NIC and I/O controller, and no cache.

use stonecast_fabric::Placing;
use stonecast_media::Ddio;

use crate::plan::{Plan, plan_for};
use crate::platform::Platform;
use crate::scenario::Scenario;

/// A processor places bytes, and the plan counts on a NIC that puts them past the caches. Nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{placing} places bytes over this fabric, so they end in a cache, and {steps} is the plan for ddio = off; declare ddio = on for \
     this way to the responder and plan again"
)]
pub struct PlacedInCache {
    /// Who places bytes.
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

/// Refuses a plan that `placing`, as the device of `side` says it, makes unsound. A requester's device says nothing of its
/// responder's, unless the requester itself places.
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

/// Whether the same steps are the plan where NICs write into caches.
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

    /// Needs the refusal: the litmus model finds a power cut that takes what each of these plans calls persisted.
    #[test]
    fn the_plans_that_lose_what_lies_in_a_cache_and_no_others_are_refused_where_a_processor_places()
    {
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
            // The own software device says nothing of the one at the other end.
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
