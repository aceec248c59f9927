//! The value that proves that an update is persisted, and the conditions for having one.
//!
//! ```text
//!   Plan ── the planner alone makes one ──▶ Planned ─┐
//!                                                    ├─▶ Persisted
//!   steps run to their end ───────────────▶ Concluded┘
//! ```
//!
//! Invariant: each conclusion belongs to one update and yields at most one [`Persisted`], so `k` updates under one
//! flush have `k` of them.

use crate::plan::Plan;

/// The update is inside the persistence domain of the responder's platform, and a second part is not there without the
/// first, whenever the power fails. Under [`Durability::Process`](stonecast_media::Durability::Process) the update
/// outlives every process, and no more.
///
/// A value exists only because the steps of a [`Plan`] were run to their end:
/// [`Requester::persist`](super::Requester::persist), [`Commit::persist`](super::Commit::persist) and
/// [`Appender::persisted`](super::Appender::persisted) give it out. An
/// acknowledgement or a publication that takes one cannot come too early.
///
/// ```
/// use stonecast_persist::Persisted;
/// fn acknowledge(_: &Persisted) {}
/// ```
///
/// Nothing else makes one: no literal,
///
/// ```compile_fail,E0423
/// use stonecast_persist::Persisted;
/// fn acknowledge(_: &Persisted) {}
/// acknowledge(&Persisted(()));
/// ```
///
/// no copy of an earlier one,
///
/// ```compile_fail,E0599
/// use stonecast_persist::Persisted;
/// fn twice(persisted: &Persisted) -> Persisted { Persisted::clone(persisted) }
/// ```
///
/// no default,
///
/// ```compile_fail,E0277
/// use stonecast_persist::Persisted;
/// fn from_nothing<T: Default>() -> T { T::default() }
/// let _persisted: Persisted = from_nothing();
/// ```
///
/// and no steps that promise nothing:
///
/// ```compile_fail,E0308
/// use stonecast_persist::Persisted;
/// use stonecast_persist::execute::Concluded;
/// fn believe(rehearsed: Concluded) -> Persisted { rehearsed }
/// ```
#[derive(Debug)]
#[must_use = "an acknowledgement takes this value"]
pub struct Persisted(());

impl Persisted {
    /// The witness for one conclusion of a plan's steps.
    pub(super) fn by(_: &Planned, _: Concluded) -> Self {
        Self(())
    }
}

/// The steps were run to their end, for one update. This promises nothing: any steps are allowed.
#[derive(Debug)]
pub struct Concluded(());

impl Concluded {
    /// Must be called at the end of the last step of a program.
    pub(super) fn at_the_end() -> Self {
        Self(())
    }
}

/// Proves that the accompanying steps are those of a plan.
#[derive(Clone, Debug)]
pub(super) struct Planned(());

impl Planned {
    /// Only the planner makes a plan, and only of sound steps.
    pub fn by(_: &Plan) -> Self {
        Self(())
    }
}
