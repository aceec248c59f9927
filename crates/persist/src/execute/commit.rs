//! The responder's half of a plan for servers that decide on each update themselves before it counts: the requester writes
//! to the place or sends, the server looks, makes durable, and answers.
//!
//! ```text
//!   rq.write_imm(a) -->  rsp.receive(&a)  [decide]  rsp.write_back(a)  [publish]  rsp.send(ack)  --> rq.receive(ack)
//! ```
//!
//! This is the message way of the planner, which is sound wherever anything survives. What a server adds between the steps
//! is its own: it stores to the place (a stamp, a copy), which the write-back covers, and it publishes what is durable.

use stonecast_base::Span;
use stonecast_media::{
    DeclaredPlatform, Durability, Means, PersistError, PersistenceDomain, PersistentRegion, persist,
};

use crate::execute::{ExecuteError, Persisted, check_medium};
use crate::plan::NoPlan;
use crate::platform::Platform;
use crate::program::Program;
use crate::step::{Item, Message, Step};

/// See the module documentation. Chosen once, when a server starts.
#[derive(Clone, Debug)]
pub struct Commit {
    program: Program,
}

/// Why a server has no way to keep its promise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoCommit {
    /// No steps are sound.
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
    /// The medium is not what was declared.
    #[error(transparent)]
    Medium(#[from] ExecuteError),
}

impl Commit {
    /// The steps for a server on a medium that makes bytes durable by `means`, declared to be `platform`.
    ///
    /// With [`Durability::Process`] nothing is written back: stores outlive every process as soon as they are made.
    pub fn choose(
        platform: DeclaredPlatform,
        durability: Durability,
        means: Means,
    ) -> Result<Self, NoCommit> {
        let platform = Platform::of(platform);
        let writes_back = match durability {
            Durability::Process => false,
            Durability::Power if platform.persistence == PersistenceDomain::Volatile => {
                return Err(NoPlan::NothingSurvives.into());
            }
            Durability::Power => {
                check_medium(&platform, means)?;
                !matches!(
                    platform.persistence,
                    PersistenceDomain::Mhp | PersistenceDomain::Wsp
                )
            }
        };
        let mut steps = vec![
            Step::WriteImmediate(Item::A),
            Step::Receive(Message::Address(Item::A)),
        ];
        steps.extend(writes_back.then_some(Step::WriteBack(Item::A)));
        steps.extend([Step::SendAck, Step::ReceiveAck]);
        Ok(Self {
            program: Program::new(steps),
        })
    }

    /// The steps, of which the server does the responder's.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Does what must be done between the receipt of updates and their answers: `spans`, which hold all of them and what the
    /// server stored beside them, are persisted together.
    pub async fn persist(
        &self,
        region: &dyn PersistentRegion,
        spans: &[Span],
    ) -> Result<Persisted, PersistError> {
        // Also where no line is written back: the server's own stores must have left its store buffer.
        let _local = persist(region, spans).await?;
        Ok(Persisted(()))
    }
}

#[cfg(test)]
mod tests {
    use stonecast_media::{Ddio, ReceiveBuffers};

    use super::*;

    fn chosen(
        domain: PersistenceDomain,
        durability: Durability,
        means: Means,
    ) -> Result<String, String> {
        let platform = DeclaredPlatform {
            persistence_domain: domain,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        };
        let commit = Commit::choose(platform, durability, means);
        commit
            .map(|commit| commit.program().to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_server_writes_back_where_caches_are_lost_and_only_there() {
        use PersistenceDomain::{Dmp, Mhp, PageFile, Wsp};
        for (domain, means, writes_back) in [
            (PageFile, Means::FileSync, true),
            (Dmp, Means::WriteBack, true),
            (Mhp, Means::Fence, false),
            (Wsp, Means::Fence, false),
        ] {
            let steps = chosen(domain, Durability::Power, means).unwrap();
            assert_eq!(
                steps.contains("rsp.write_back(a) rsp.send(ack)"),
                writes_back,
                "{steps}"
            );
        }
    }

    /// Needs the check of the medium: a file whose pages are synced keeps no promise about cache lines.
    #[test]
    fn what_keeps_no_promise_is_refused_in_words() {
        let refused = chosen(
            PersistenceDomain::Volatile,
            Durability::Power,
            Means::Process,
        )
        .unwrap_err();
        assert!(refused.contains("nothing survives"), "{refused}");
        let refused =
            chosen(PersistenceDomain::Dmp, Durability::Power, Means::FileSync).unwrap_err();
        assert!(
            refused.contains("persistence = dmp") && refused.contains("syncing a file"),
            "{refused}"
        );
        assert!(
            chosen(
                PersistenceDomain::Volatile,
                Durability::Process,
                Means::Process
            )
            .is_ok()
        );
    }
}
