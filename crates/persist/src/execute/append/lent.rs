//! Appends to memory that the receiver has lent: the appender chooses the place of each entry.
//!
//! ```text
//!   LentAppender::flush           WRITE, WRITE, READ of the word  ---->  lent memory        one-sided, where a plan exists
//!                                 <----  the word
//!   LentAppender::flush_telling   WRITE, WRITE, SEND of a notice  ---->  the store persists, and answers with a number
//! ```
//!
//! Two plans are agreed. The planner's plan for a WRITE serves entries that have to be durable. The plan with an answer
//! serves entries about which the receiver has to hear anyway, and all entries where the planner's plan has an answer,
//! too.
//!
//! **The READ is also a look at a word** of the receiver: the word was read after all entries of the batch were visible
//! there. If the receiver changes the word before its last look at the memory, an appender that has read the old value
//! knows that this look finds its entries. That needs READs that pass no WRITE, so a platform with relaxed ordering, or
//! with a native FLUSH in place of the READ, is served by answers.

use std::future::poll_fn;
use std::task::{Context, Poll};

use stonecast_base::hash::xxh3_64;
use stonecast_base::mutant;
use stonecast_fabric::{LocalSpan, Operation, Placing, RemoteAddress};
use stonecast_media::{Ddio, Durability, Means};

use super::agreement::{NoAgreement, check_receiver};
use super::appender::Route;
use super::declaration::{DECLARATION_SIZE, ReceiverDeclaration};
use super::pipeline::{AppendFailure, NotAppended, Pipeline, Standing, WrongAnswer};
use super::steps::Until;
use crate::execute::error::ExecuteError;
use crate::execute::placing::{Side, check_placing};
use crate::execute::witness::{Persisted, Planned};
use crate::plan::{NoPlan, Plan, plan_answered, plan_for};
use crate::platform::{FlushKind, Platform};
use crate::scenario::{Operation as Planning, Update};

/// Bytes of a lender's description.
pub const LENDING_SIZE: usize = DECLARATION_SIZE;

/// The facts about memory that an owner lends to appenders. The owner sends them when an appender connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lending {
    /// The declared platform of the memory.
    pub platform: Platform,
    /// The failure that entries have to outlive.
    pub durability: Durability,
}

impl Lending {
    /// The description, as bytes. `means` are those of the memory: appenders believe the platform, and if the plan is
    /// one-sided, no code looks at the memory later. `placing` is that of the owner's device: where a processor places
    /// entries, they end in a cache, and the description says so whatever the machine's NICs do.
    ///
    /// # Errors
    /// No peer can append durably here: [`ExecuteError::NoPlan`], [`ExecuteError::Medium`].
    pub fn say(&self, means: Means, placing: Placing) -> Result<[u8; LENDING_SIZE], ExecuteError> {
        let mut platform = self.platform;
        let mut plans = Plans::of(&platform, self.durability)?;
        check_receiver(&platform, self.durability, means)?;
        if check_placing(&plans.cheapest, placing, Side::Responder).is_err() {
            platform.ddio = Ddio::On;
            plans = Plans::of(&platform, self.durability)?;
        }
        let declaration = ReceiverDeclaration {
            platform,
            durability: self.durability,
            fingerprint: plans.fingerprint(),
        };
        Ok(declaration.say())
    }
}

/// The plans for lent memory on a platform.
#[derive(Clone, Debug)]
struct Plans {
    cheapest: Plan,
    answered: Plan,
}

impl Plans {
    fn of(platform: &Platform, durability: Durability) -> Result<Self, NoPlan> {
        let platform = platform.under(durability);
        Ok(Self {
            cheapest: plan_for(&platform, Planning::Write, Update::Single)?,
            answered: plan_answered(&platform)?,
        })
    }

    /// Whether an appender needs no answer.
    fn is_one_sided(&self) -> bool {
        let platform = &self.cheapest.scenario().platform;
        let reads_in_order = platform.flush == FlushKind::Read && !platform.relaxed_ordering;
        self.cheapest.is_one_sided() && reads_in_order
    }

    fn fingerprint(&self) -> u64 {
        let [cheapest, answered] = [&self.cheapest, &self.answered].map(Plan::program);
        xxh3_64(0, format!("{cheapest}; {answered}").as_bytes())
    }
}

/// An appender's agreement with the owner of lent memory: the plans for the owner's platform, which both run.
///
/// ```
/// use stonecast_fabric::Placing;
/// use stonecast_media::{Ddio, DeclaredPlatform, Durability, Means, PersistenceDomain, ReceiveBuffers};
/// use stonecast_persist::Platform;
/// use stonecast_persist::execute::{LentAgreement, Lending};
///
/// let on = |persistence_domain| Lending {
///     platform: Platform::of(DeclaredPlatform {
///         persistence_domain,
///         ddio: Ddio::Off,
///         receive_buffers: ReceiveBuffers::Dram,
///     }),
///     durability: Durability::Power,
/// };
/// let said = on(PersistenceDomain::Dmp).say(Means::WriteBack, Placing::Nic)?;
/// let agreed = LentAgreement::hear(&said, Durability::Power)?;
/// assert_eq!(agreed.plan().program().to_string(), "rq.write(a) rq.flush rq.await(flush)");
///
/// let refused = on(PersistenceDomain::Volatile).say(Means::WriteBack, Placing::Nic).unwrap_err();
/// assert!(refused.to_string().starts_with("nothing survives a power cut on this platform"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LentAgreement {
    plans: Plans,
    durability: Durability,
}

impl LentAgreement {
    /// The agreement with the owner whose description is `said`. Entries have to outlive the failure `wanted`.
    ///
    /// # Errors
    /// [`NoAgreement`] names the owner's platform and the remedy.
    pub fn hear(said: &[u8; LENDING_SIZE], wanted: Durability) -> Result<Self, NoAgreement> {
        let declaration = ReceiverDeclaration::hear(said, wanted)?;
        let plans = Plans::of(&declaration.platform, declaration.durability).map_err(|reason| {
            NoAgreement::NoPlan {
                platform: declaration.words(),
                reason,
            }
        })?;
        if plans.fingerprint() != declaration.fingerprint {
            return Err(NoAgreement::OtherSteps {
                steps: plans.cheapest.program().to_string(),
                platform: declaration.words(),
            });
        }
        Ok(Self {
            plans,
            durability: declaration.durability,
        })
    }

    /// The plan for entries about which the owner need not hear.
    pub fn plan(&self) -> &Plan {
        &self.plans.cheapest
    }

    /// The plan for entries about which the owner has to hear.
    pub fn answered_plan(&self) -> &Plan {
        &self.plans.answered
    }

    /// The failure that entries outlive.
    pub fn durability(&self) -> Durability {
        self.durability
    }
}

/// A part of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The bytes.
    pub local: LocalSpan,
    /// The place of the bytes.
    pub remote: RemoteAddress,
}

/// Adds a piece to a batch. A piece that goes on where the one before it ends is a part of its WRITE. Entries of a
/// batch become durable together, and an owner believes no entry before the ones in front of it, so nothing rests on
/// the order of their bytes.
fn gather(batch: &mut Vec<Operation>, piece: Piece) {
    if let Some(Operation::Write { local, remote }) = batch.last_mut() {
        let size = u64::from(local.size);
        let is_next = local.region == piece.local.region
            && local.offset + size == piece.local.offset
            && remote.rkey == piece.remote.rkey
            && remote.address + size == piece.remote.address;
        if is_next && let Some(size) = local.size.checked_add(piece.local.size) {
            local.size = size;
            return;
        }
    }
    batch.push(Operation::Write {
        local: piece.local,
        remote: piece.remote,
    });
}

/// Appends to lent memory, durably, any number of entries at a time: entries are gathered, go out together, and are
/// concluded in their order, each once.
///
/// Entries belong to the device from [`LentAppender::append`] until they are concluded, or until the queue pair is
/// destroyed, even if this value is dropped earlier.
pub struct LentAppender {
    route: Route,
    pipeline: Pipeline,
    is_one_sided: bool,
    /// Both plans promise the same.
    planned: Planned,
}

impl LentAppender {
    /// Appends by `route`, as agreed. [`Route::flush`] is the word that each batch without an answer reads into
    /// [`Route::scratch`].
    ///
    /// If the appender's own processor places bytes in caches, and the plan counts on a NIC that writes past them, all
    /// entries are answered.
    pub fn new(route: Route, agreement: &LentAgreement) -> Self {
        let plans = &agreement.plans;
        let placing = route.port.device().placing();
        let is_placed = check_placing(&plans.cheapest, placing, Side::Requester).is_ok();
        Self {
            pipeline: Pipeline::new(route.port.clone(), route.qp, true),
            route,
            is_one_sided: plans.is_one_sided() && is_placed,
            planned: Planned::by(&plans.cheapest),
        }
    }

    /// Whether entries become durable without the owner: [`LentAppender::flush`] may be called.
    pub fn is_one_sided(&self) -> bool {
        self.is_one_sided
    }

    /// Takes an entry, and returns its number: 1 for the first entry.
    ///
    /// # Errors
    /// Nothing was taken; [`NotAppended`] says why.
    pub fn append(&mut self, pieces: &[Piece]) -> Result<u64, NotAppended> {
        self.pipeline.append(|batch| {
            pieces.iter().for_each(|piece| gather(batch, *piece));
            Ok(())
        })
    }

    /// Requests of the entries that were taken and not sent. Pieces that lie side by side at both ends are one.
    pub fn gathered_requests(&self) -> usize {
        self.pipeline.gathered_requests()
    }

    /// Whether entries were taken and not sent.
    pub fn has_gathered(&self) -> bool {
        self.pipeline.has_gathered()
    }

    /// Sends all entries that were taken, and then a READ of the word, with one doorbell. The call does not wait.
    ///
    /// # Errors
    /// [`NotAppended::Refused`]: nothing was sent, and the entries wait for the next call.
    ///
    /// # Panics
    /// If the appender is not one-sided.
    pub fn flush(&mut self) -> Result<(), NotAppended> {
        assert!(
            self.is_one_sided,
            "entries are durable when they are answered"
        );
        let read = (!mutant!(LentNotFlushed)).then(|| self.route.read());
        self.pipeline.flush(read, Until::Completed)
    }

    /// Sends all entries that were taken, and `notice` after them, with one doorbell. They are durable when the owner
    /// has answered with their number or a later number ([`LentAppender::answered`]). The bytes of `notice` belong to
    /// the device as entries do.
    ///
    /// # Errors
    /// The errors of [`LentAppender::flush`].
    pub fn flush_telling(&mut self, notice: LocalSpan) -> Result<(), NotAppended> {
        let notice = Operation::Send { local: notice };
        self.pipeline.flush([notice], Until::Answered)
    }

    /// The word that the latest batch without an answer has read.
    pub fn word(&self) -> u64 {
        let mut word = [0; 8];
        let LocalSpan { region, offset, .. } = self.route.scratch;
        self.route
            .port
            .device()
            .memory(region)
            .read(offset, &mut word);
        u64::from_le_bytes(word)
    }

    /// Takes the owner's answer, as [`Appender::answered`](super::Appender::answered) does.
    ///
    /// # Errors
    /// [`WrongAnswer`], with which the connection has failed.
    pub fn answered(&mut self, number: u64) -> Result<(), WrongAnswer> {
        self.pipeline.answered(number)
    }

    /// Notes that the connection ended, as [`Appender::fail`](super::Appender::fail) does.
    pub fn fail(&mut self, cause: &str) {
        self.pipeline.fail(cause.to_owned());
    }

    /// The next entry that is persisted: numbers come in order, each once.
    ///
    /// # Errors
    /// [`AppendFailure`], after all entries that are persisted were given out.
    pub fn poll_persisted(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(u64, Persisted), AppendFailure>> {
        let concluded = self.pipeline.poll_concluded(context);
        concluded.map_ok(|(number, concluded)| (number, Persisted::by(&self.planned, concluded)))
    }

    /// Waits for the next entry that is persisted. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The errors of [`LentAppender::poll_persisted`].
    pub async fn persisted(&mut self) -> Result<(u64, Persisted), AppendFailure> {
        poll_fn(|context| self.poll_persisted(context)).await
    }

    /// The progress of the entries.
    pub fn standing(&self) -> Standing {
        self.pipeline.standing()
    }
}
