//! The promise of an object, as a sequential specification.

use std::fmt::Debug;
use std::hash::Hash;

/// The sequential specification of an object: the answers that a call may get from a state, and the state afterwards.
///
/// A model is a pure function. The checker tries calls in many orders, so a state must be cheap to clone and to
/// compare.
///
/// An object may consist of independent parts, like the keys of a store. Each operation of a
/// [`History`](crate::history::History) names its part, a model describes one part, and parts are judged one by one
/// (Herlihy and Wing 1990: linearizability is a local property). A queue, and a map with ranges, are one part each: the
/// whole object.
///
/// ```
/// use stonecast_check::model::Model;
///
/// /// A number that is counted up; the answer is the number before.
/// struct Counter;
///
/// impl Model for Counter {
///     type State = u64;
///     type Call = ();
///     type Answer = u64;
///
///     fn start(&self) -> u64 {
///         0
///     }
///
///     fn apply(&self, state: &u64, (): &(), answer: Option<&u64>) -> Option<u64> {
///         answer.is_none_or(|told| told == state).then_some(state + 1)
///     }
/// }
/// ```
pub trait Model {
    /// The content of one part of the object.
    type State: Clone + Debug + Eq + Hash;
    /// A call.
    type Call: Clone + Debug + PartialEq;
    /// An answer.
    type Answer: Clone + Debug + PartialEq;

    /// The initial state.
    fn start(&self) -> Self::State;

    /// The state after `call` took effect on `state`. `None` if the call cannot take effect on this state, or not with
    /// this answer. Without an answer every outcome is possible.
    fn apply(
        &self,
        state: &Self::State,
        call: &Self::Call,
        answer: Option<&Self::Answer>,
    ) -> Option<Self::State>;

    /// Whether a call with this answer can change a state. The checker takes calls that change nothing as early as they
    /// fit, which keeps the search short.
    fn changes(&self, _call: &Self::Call, _answer: Option<&Self::Answer>) -> bool {
        true
    }
}
