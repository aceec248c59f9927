//! A receiver of appends describes itself, and its appenders make their plan from the description.
//!
//! ```text
//!   0 u32 platform, see `platform_code.rs`    4 u32 durability: 0 power, 1 process    8 u64 fingerprint of the plan's steps
//!   16 u32 grain    20 u32 bytes of the longest message    24 u64 address for READs    32 u32 key of it
//! ```

use stonecast_base::hash::xxh3_64;
use stonecast_fabric::append::AppendTerms;
use stonecast_fabric::{Placing, RemoteAddress, Rkey};
use stonecast_media::{Durability, Means};

use super::declaration::{DECLARATION_SIZE, ReceiverDeclaration};
use crate::execute::error::ExecuteError;
use crate::execute::medium::check_medium;
use crate::execute::placing::{PlacedInCache, Side, check_placing};
use crate::execute::witness::Planned;
use crate::plan::{NoPlan, Plan, plan_for};
use crate::platform::Platform;
use crate::scenario::{Operation, Update};

/// Bytes of a receiver's description.
pub const RECEIVING_SIZE: usize = 36;

/// The facts about a receiver of appends that its appenders must know. The store sends them when it connects, after
/// its own greeting or in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiving {
    /// The declared platform of the memory that entries land in.
    pub platform: Platform,
    /// The failure that entries have to outlive.
    pub durability: Durability,
    /// The cost of entries.
    pub terms: AppendTerms,
    /// 8 bytes of the memory in which the receive buffers lie, readable by the appender. A READ of them pushes
    /// everything that the appender has sent before: the path of the READ matters, not the bytes.
    pub flush: RemoteAddress,
}

impl Receiving {
    /// The description, as bytes. `means` are those of the memory that entries land in
    /// ([`PersistentRegion::means`](stonecast_media::PersistentRegion::means)): appenders believe the platform, and if
    /// the plan is one-sided, no code looks at the memory later. `placing` is that of the device of the receive buffers
    /// ([`Device::placing`](stonecast_fabric::Device::placing)).
    ///
    /// # Errors
    /// No peer can append durably here. [`ExecuteError::NoPlan`]: nothing survives on this platform, or it contradicts
    /// itself; [`ExecuteError::Medium`]: the memory is not as declared; [`ExecuteError::Placing`]: entries end in a
    /// cache, and the platform says that they do not.
    pub fn say(
        &self,
        means: Means,
        placing: Placing,
    ) -> Result<[u8; RECEIVING_SIZE], ExecuteError> {
        let plan = append_plan(&self.platform, self.durability)?;
        check_receiver(&self.platform, self.durability, means)?;
        check_placing(&plan, placing, Side::Responder)?;
        let declaration = ReceiverDeclaration {
            platform: self.platform,
            durability: self.durability,
            fingerprint: fingerprint(&plan),
        };
        let mut said = [0; RECEIVING_SIZE];
        said[..DECLARATION_SIZE].copy_from_slice(&declaration.say());
        said[16..20].copy_from_slice(&self.terms.grain.to_le_bytes());
        said[20..24].copy_from_slice(&self.terms.message_size_max.to_le_bytes());
        said[24..32].copy_from_slice(&self.flush.address.to_le_bytes());
        said[32..].copy_from_slice(&self.flush.rkey.0.to_le_bytes());
        Ok(said)
    }
}

/// The reason why an appender refuses a receiver. Nothing was made for the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoAgreement {
    /// The description has another number of bytes.
    #[error(
        "the description of a receiver of appends has {RECEIVING_SIZE} bytes, not {found}; use the same version of stonecast on both sides"
    )]
    Size {
        /// Bytes of the description.
        found: usize,
    },
    /// The platform, durability or terms have no meaning here.
    #[error(
        "the receiver declares {what}, which has no meaning here; use the same version of stonecast on both sides"
    )]
    Meaningless {
        /// The meaningless part of the description, in words.
        what: String,
    },
    /// The receiver's entries outlive only its processes, although they have to outlive a power cut.
    #[error(
        "the receiver's entries outlive only its processes, but they have to survive a power cut; start it with durability power"
    )]
    TooWeak,
    /// No plan exists for the receiver's platform.
    #[error("the receiver's platform is {platform}: {reason}")]
    NoPlan {
        /// The platform, in words.
        platform: String,
        /// The reason, and the remedy.
        reason: NoPlan,
    },
    /// The appender's processor places entries, although the plan counts on a NIC.
    #[error(transparent)]
    Placing(#[from] PlacedInCache),
    /// Both sides plan differently for the same platform.
    #[error(
        "the receiver runs other steps than {steps} on {platform}; use the same version of stonecast on both sides"
    )]
    OtherSteps {
        /// The steps of this side.
        steps: String,
        /// The platform, in words.
        platform: String,
    },
}

/// An appender's agreement with a receiver: the plan for the receiver's platform, which both run.
///
/// ```
/// use stonecast_fabric::append::AppendTerms;
/// use stonecast_fabric::{Placing, RemoteAddress, Rkey};
/// use stonecast_media::{Ddio, DeclaredPlatform, Durability, Means, PersistenceDomain, ReceiveBuffers};
/// use stonecast_persist::Platform;
/// use stonecast_persist::execute::{Agreement, Receiving};
///
/// let on = |persistence_domain| Receiving {
///     platform: Platform::of(DeclaredPlatform {
///         persistence_domain,
///         ddio: Ddio::Off,
///         receive_buffers: ReceiveBuffers::Dram,
///     }),
///     durability: Durability::Power,
///     terms: AppendTerms { grain: 64, message_size_max: 4096 },
///     flush: RemoteAddress { address: 1 << 20, rkey: Rkey(7) },
/// };
/// let said = on(PersistenceDomain::Dmp).say(Means::WriteBack, Placing::Nic)?;
/// let agreed = Agreement::hear(&said, Durability::Power)?;
/// assert_eq!(agreed.plan().program().to_string(), "rq.append(a) rq.read rq.await(read)");
///
/// let refused = on(PersistenceDomain::Volatile).say(Means::Process, Placing::Nic).unwrap_err();
/// assert!(refused.to_string().starts_with("nothing survives a power cut on this platform"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Agreement {
    receiving: Receiving,
    plan: Plan,
    planned: Planned,
}

impl Agreement {
    /// The agreement with the receiver whose description is `said`. Entries have to outlive the failure `wanted`: a
    /// receiver whose entries outlive only processes is of no use to a store that promises to survive power cuts.
    ///
    /// # Errors
    /// [`NoAgreement`] names the receiver's platform and the remedy.
    pub fn hear(said: &[u8], wanted: Durability) -> Result<Self, NoAgreement> {
        let found = said.len();
        let said: &[u8; RECEIVING_SIZE] =
            said.try_into().map_err(|_| NoAgreement::Size { found })?;
        let short = |at: usize| u32::from_le_bytes(*said[at..].first_chunk().expect("in bounds"));
        let long = |at: usize| u64::from_le_bytes(*said[at..].first_chunk().expect("in bounds"));
        let declared = said.first_chunk().expect("the description is longer");
        let declaration = ReceiverDeclaration::hear(declared, wanted)?;
        let ReceiverDeclaration {
            platform,
            durability,
            fingerprint: theirs,
        } = declaration;
        let (grain, message_size_max) = (short(16), short(20));
        if grain == 0 || message_size_max == 0 || !message_size_max.is_multiple_of(grain) {
            return Err(NoAgreement::Meaningless {
                what: format!("messages of {message_size_max} bytes at multiples of {grain}"),
            });
        }
        let plan = append_plan(&platform, durability).map_err(|reason| NoAgreement::NoPlan {
            platform: declaration.words(),
            reason,
        })?;
        if fingerprint(&plan) != theirs {
            return Err(NoAgreement::OtherSteps {
                steps: plan.program().to_string(),
                platform: declaration.words(),
            });
        }
        let receiving = Receiving {
            platform,
            durability,
            terms: AppendTerms {
                grain,
                message_size_max,
            },
            flush: RemoteAddress {
                address: long(24),
                rkey: Rkey(short(32)),
            },
        };
        let planned = Planned::by(&plan);
        Ok(Self {
            receiving,
            plan,
            planned,
        })
    }

    /// The receiver's description of itself.
    pub fn receiving(&self) -> &Receiving {
        &self.receiving
    }

    /// The plan that both sides run.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn planned(&self) -> Planned {
        self.planned.clone()
    }
}

/// Refuses memory that does not fit `platform`. Entries that have to outlive only processes may lie in any memory.
pub(super) fn check_receiver(
    platform: &Platform,
    durability: Durability,
    means: Means,
) -> Result<(), ExecuteError> {
    match durability {
        Durability::Power => check_medium(platform, means),
        Durability::Process => Ok(()),
    }
}

/// The plan for entries on `platform` that have to outlive the failure `durability`.
pub(super) fn append_plan(platform: &Platform, durability: Durability) -> Result<Plan, NoPlan> {
    plan_for(
        &platform.under(durability),
        Operation::Append,
        Update::Single,
    )
}

fn fingerprint(plan: &Plan) -> u64 {
    xxh3_64(0, plan.program().to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};

    use super::*;
    use crate::execute::platform_code::platform_code;

    fn receiving(persistence_domain: PersistenceDomain, durability: Durability) -> Receiving {
        Receiving {
            platform: Platform::of(DeclaredPlatform {
                persistence_domain,
                ddio: Ddio::On,
                receive_buffers: ReceiveBuffers::Dram,
            }),
            durability,
            terms: AppendTerms {
                grain: 64,
                message_size_max: 4096,
            },
            flush: RemoteAddress {
                address: 9 << 40,
                rkey: Rkey(5),
            },
        }
    }

    /// The description of a receiver on memory of the right kind.
    fn said(receiving: &Receiving) -> Result<[u8; RECEIVING_SIZE], ExecuteError> {
        use PersistenceDomain::{Dmp, Mhp, PageFile, Volatile, Wsp};
        let means = match receiving.platform.persistence {
            Volatile => Means::Process,
            PageFile => Means::FileSync,
            Dmp => Means::WriteBack,
            Mhp | Wsp => Means::Fence,
        };
        receiving.say(means, Placing::Nic)
    }

    fn refusal(said: &[u8]) -> String {
        let refused = Agreement::hear(said, Durability::Process).unwrap_err();
        refused.to_string()
    }

    #[test]
    fn an_appender_reads_back_the_description_of_its_receiver_on_every_platform_with_a_plan() {
        for &domain in PersistenceDomain::ALL {
            for durability in [Durability::Power, Durability::Process] {
                let receiving = receiving(domain, durability);
                let Ok(said) = said(&receiving) else {
                    assert_eq!(domain, PersistenceDomain::Volatile);
                    assert_eq!(durability, Durability::Power);
                    continue;
                };
                let agreed = Agreement::hear(&said, durability).unwrap();
                assert_eq!(agreed.receiving(), &receiving);
                if durability == Durability::Process {
                    assert!(agreed.plan().is_one_sided(), "{domain}: visible is enough");
                }
            }
        }
    }

    #[test]
    fn a_platform_for_which_no_plan_exists_is_refused_by_name_with_the_remedy() {
        let mut said = said(&receiving(PersistenceDomain::Dmp, Durability::Power)).unwrap();
        let volatile = receiving(PersistenceDomain::Volatile, Durability::Power).platform;
        said[..4].copy_from_slice(&platform_code(Some(&volatile)).code.to_le_bytes());
        let said = refusal(&said);
        assert!(
            said.starts_with("the receiver's platform is persistence volatile, ddio on")
                && said.contains("declare page-file, dmp, mhp or wsp"),
            "{said}"
        );
    }

    /// Needs the comparison with the wanted durability: a READ is the plan for both failures, so each appender would
    /// conclude.
    #[test]
    fn a_receiver_whose_entries_outlive_only_processes_is_refused_by_an_appender_that_survives_power_cuts()
     {
        let weak = said(&receiving(PersistenceDomain::Mhp, Durability::Process)).unwrap();
        let refused = Agreement::hear(&weak, Durability::Power).unwrap_err();
        assert!(matches!(refused, NoAgreement::TooWeak), "{refused}");
        let strong = said(&receiving(PersistenceDomain::Mhp, Durability::Power)).unwrap();
        for wanted in [Durability::Power, Durability::Process] {
            assert!(Agreement::hear(&strong, wanted).is_ok());
        }
    }

    /// Needs the check of the medium in the description: with a one-sided plan, no other code looks at the memory.
    #[test]
    fn a_receiver_whose_memory_is_not_as_declared_gives_no_description() {
        let declared = receiving(PersistenceDomain::Mhp, Durability::Power);
        let say = |receiving: Receiving| receiving.say(Means::FileSync, Placing::Nic);
        let refused = say(declared).unwrap_err().to_string();
        assert!(
            refused.contains("persistence = mhp") && refused.contains("syncing a file"),
            "{refused}"
        );
        let process = Receiving {
            durability: Durability::Process,
            ..declared
        };
        assert!(say(process).is_ok(), "any memory outlives processes");
    }

    #[test]
    fn a_description_that_no_receiver_gives_is_refused_and_named() {
        let right = said(&receiving(PersistenceDomain::Dmp, Durability::Power)).unwrap();
        for size in 0..RECEIVING_SIZE {
            let said = refusal(&right[..size]);
            assert!(
                said.contains(&format!("has 36 bytes, not {size}")),
                "{said}"
            );
        }
        let with = |at: usize, word: u32| {
            let mut said = right;
            said[at..at + 4].copy_from_slice(&word.to_le_bytes());
            refusal(&said)
        };
        assert!(with(0, 1).contains("platform unknown (0x1)"));
        assert!(with(4, 2).contains("durability 2"));
        assert!(with(8, 2).contains("other steps than rq.append(a) rsp.receive(a)"));
        assert!(with(16, 0).contains("multiples of 0"));
        assert!(with(20, 100).contains("messages of 100 bytes at multiples of 64"));
    }
}
