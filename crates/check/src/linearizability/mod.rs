//! Linearizability of the operations on one part of an object: is there an order in which each operation took effect at
//! one moment between its call and its answer, and which explains all answers? (Herlihy and Wing 1990; the search is
//! the search of Wing and Gong 1993 with the memory of Lowe 2017.)
//!
//! An operation without an answer may have taken effect or not. An operation that the death of its node cut off took
//! effect before that death or never. This rule makes it *durable* linearizability (Izraelevitz et al. 2016): an
//! answered write, and a value that was read before a crash, survive the crash.
//!
//! ```text
//!   search(done, state):
//!     take every read that may be next and fits the state      (safe: it changes nothing, and cuts nothing off)
//!     all answered operations done: yes
//!     for each other operation that may be next:  search(done + it, its state)
//!   never twice from the same (done, state)
//! ```
//!
//! Operations without an answer would make the search grow without bound, since each may be omitted. The search
//! therefore merges equivalent cases: of operations with the same effect, the operation that was called first and is
//! cut off first goes first; and once an operation is cut off, the search forgets whether it was done. If answers tell
//! more than a model can (versions that grow with each write), the caller ranks operations, and the search keeps their
//! order.
//!
//! The problem is NP-complete (Gibbons and Korach 1997). The search therefore has a bound, and returns *undecided* at
//! the bound.

mod search;
mod window;

use crate::history::{Moment, NEVER, Operation};
use crate::model::Model;

/// Maximum number of states of a search. A history of the campaigns needs a few thousand at most; a state takes some
/// hundred bytes.
pub const STATES_MAX: usize = 1 << 20;

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Some order explains all answers.
    Linearizable,
    /// No order explains all answers.
    NotLinearizable {
        /// The largest number of answered operations, in the order of their calls, that some order
        /// explains.
        explained: usize,
        /// The number of the first answered operation, in the order of calls, that no order explains together with the
        /// operations before it. `None`: no order explains the final state.
        stuck: Option<usize>,
    },
    /// The search met its bound.
    Undecided,
}

/// An operation as the search sees it.
#[derive(Clone, Debug)]
pub(crate) struct Step<C, A> {
    pub called: Moment,
    pub answered: Moment,
    pub call: C,
    pub answer: Option<A>,
    /// Ranks are unique. Operations with ranks took effect in the order of their ranks.
    pub rank: Option<u64>,
    /// The number of the operation; `None` if the caller of the search added the step.
    pub number: Option<usize>,
}

/// Checks the operations on one part of an object, in the order of their calls. Visits at most `states_max` states.
pub fn check<'a, M: Model>(
    model: &M,
    operations: impl Iterator<Item = &'a Operation<M::Call, M::Answer>>,
    states_max: usize,
) -> Verdict
where
    M::Call: 'a,
    M::Answer: 'a,
{
    let steps = operations.enumerate().map(|(number, operation)| Step {
        called: operation.called,
        answered: operation.answered,
        call: operation.call.clone(),
        answer: operation.answer.clone(),
        rank: None,
        number: Some(number),
    });
    check_steps(model, steps.collect(), states_max)
}

/// Checks `steps`, in the order of their calls.
pub(crate) fn check_steps<M: Model>(
    model: &M,
    steps: Vec<Step<M::Call, M::Answer>>,
    states_max: usize,
) -> Verdict {
    search::Search::new(model, steps, states_max).run()
}

/// The moment after all of `steps`: later than every call, and than every answer and end that happened.
pub(crate) fn after_all<C, A>(steps: &[Step<C, A>]) -> Moment {
    let came = |moment: Moment| if moment == NEVER { 0 } else { moment };
    let last = steps
        .iter()
        .map(|step| step.called.max(came(step.answered)));
    last.max().unwrap_or(0) + 1
}
