//! The assumptions of a plan about its platform: every other answer, on one axis at a time, under which the same steps
//! break.

use serde::Serialize;
use stonecast_media::{Ddio, PersistenceDomain, ReceiveBuffers};

use crate::plan::Plan;
use crate::platform::{Axis, FlushKind, Platform, Transport};
use crate::step::Step;

use super::{Verdict, check};

/// A declaration on which the plan relies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assumption {
    /// The axis.
    pub axis: Axis,
    /// The declared answer.
    pub declared: String,
    /// The answer under which the plan breaks.
    pub otherwise: String,
    /// A shortest run that breaks the plan there, line by line.
    pub counterexample: Vec<String>,
}

/// The assumptions of `plan`. The answer on an axis without an assumption does not matter.
pub fn assumptions(plan: &Plan) -> Vec<Assumption> {
    let scenario = plan.scenario();
    let declared = &scenario.platform;
    let mut found = Vec::new();
    for axis in Axis::ALL {
        for other in alternatives(declared, *axis) {
            let counterexample = if *axis == Axis::AtomicWrite {
                let uses = plan
                    .steps()
                    .iter()
                    .any(|step| matches!(step, Step::WriteAtomic(_)))
                    && !other.atomic_write;
                uses.then(|| vec!["the NIC refuses ATOMIC_WRITE".to_owned()])
            } else {
                match check(&other, plan.program(), scenario.update) {
                    Verdict::Broken(run) | Verdict::Stuck(run) => Some(run.lines()),
                    Verdict::Sound { .. } => None,
                }
            };
            if let Some(counterexample) = counterexample {
                found.push(Assumption {
                    axis: *axis,
                    declared: declared.word(*axis),
                    otherwise: other.word(*axis),
                    counterexample,
                });
            }
        }
    }
    found
}

/// The platform with every other answer on one axis. Answers that contradict other axes are tried, too, except that NIC
/// buffers are not trusted where the power is not kept.
fn alternatives(platform: &Platform, axis: Axis) -> Vec<Platform> {
    let all: Vec<Platform> = match axis {
        Axis::Persistence => {
            let other = |persistence: &PersistenceDomain| {
                let trusted_nic_buffers =
                    platform.trusted_nic_buffers && *persistence == PersistenceDomain::Wsp;
                Platform {
                    persistence: *persistence,
                    trusted_nic_buffers,
                    ..*platform
                }
            };
            PersistenceDomain::ALL.iter().map(other).collect()
        }
        Axis::Ddio => Ddio::ALL
            .iter()
            .map(|ddio| Platform {
                ddio: *ddio,
                ..*platform
            })
            .collect(),
        Axis::ReceiveBuffers => ReceiveBuffers::ALL
            .iter()
            .map(|receive_buffers| Platform {
                receive_buffers: *receive_buffers,
                ..*platform
            })
            .collect(),
        Axis::Transport => Transport::ALL
            .iter()
            .map(|transport| Platform {
                transport: *transport,
                ..*platform
            })
            .collect(),
        Axis::Flush => FlushKind::ALL
            .iter()
            .map(|flush| Platform {
                flush: *flush,
                ..*platform
            })
            .collect(),
        Axis::AtomicWrite => [false, true]
            .map(|atomic_write| Platform {
                atomic_write,
                ..*platform
            })
            .to_vec(),
        Axis::RelaxedOrdering => [false, true]
            .map(|relaxed_ordering| Platform {
                relaxed_ordering,
                ..*platform
            })
            .to_vec(),
        Axis::TrustedNicBuffers => [false, true]
            .map(|trusted_nic_buffers| Platform {
                trusted_nic_buffers,
                ..*platform
            })
            .to_vec(),
    };
    all.into_iter()
        .filter(|other| other.word(axis) != platform.word(axis))
        .collect()
}

#[cfg(test)]
mod tests {
    use stonecast_media::DeclaredPlatform;

    use super::*;
    use crate::plan::plan_for;
    use crate::scenario::{Operation, Update};

    fn assumed(platform: &Platform, operation: Operation, update: Update) -> Vec<String> {
        let plan = plan_for(platform, operation, update).unwrap();
        assumptions(&plan)
            .iter()
            .map(|found| {
                format!(
                    "{} = {}, not {}",
                    found.axis, found.declared, found.otherwise
                )
            })
            .collect()
    }

    fn of(
        persistence_domain: PersistenceDomain,
        ddio: Ddio,
        receive_buffers: ReceiveBuffers,
    ) -> Platform {
        Platform::of(DeclaredPlatform {
            persistence_domain,
            ddio,
            receive_buffers,
        })
    }

    #[test]
    fn a_message_that_is_written_back_assumes_almost_nothing() {
        let platform = of(PersistenceDomain::Dmp, Ddio::On, ReceiveBuffers::Dram);
        assert_eq!(
            assumed(&platform, Operation::Send, Update::Single),
            ["persistence = dmp, not volatile"]
        );
    }

    #[test]
    fn a_write_with_a_read_behind_it_assumes_that_ddio_is_off_and_order_strict() {
        let platform = of(PersistenceDomain::Dmp, Ddio::Off, ReceiveBuffers::Dram);
        assert_eq!(
            assumed(&platform, Operation::Write, Update::Single),
            [
                "persistence = dmp, not volatile",
                "persistence = dmp, not page-file",
                "ddio = off, not on",
                "flush = read, not native-global",
                "relaxed_ordering = false, not true",
            ]
        );
        let atomic = assumed(
            &platform,
            Operation::Write,
            Update::Compound { large: false },
        );
        assert!(
            atomic.contains(&"atomic_write = true, not false".to_owned()),
            "{atomic:?}"
        );
    }

    #[test]
    fn a_completion_alone_assumes_a_nic_that_forgets_nothing_and_a_transport_that_reports_arrival()
    {
        let platform = of(PersistenceDomain::Wsp, Ddio::On, ReceiveBuffers::Dram);
        let assumed = assumed(&platform, Operation::Write, Update::Single);
        for expected in [
            "persistence = wsp, not mhp",
            "transport = infiniband, not iwarp",
            "trusted_nic_buffers = true, not false",
        ] {
            assert!(assumed.contains(&expected.to_owned()), "{assumed:?}");
        }
    }
}
