//! The search for an order that explains all answers.

use std::collections::HashSet;

use smallvec::SmallVec;

use super::window::Window;
use super::{Step, Verdict};
use crate::history::{Moment, NEVER};
use crate::model::Model;

/// A step of `M`.
type StepOf<M> = Step<<M as Model>::Call, <M as Model>::Answer>;

/// Maximum number of operations that are called while one of `steps` is pending. `steps` are in the order of their
/// calls.
fn overlap<C, A>(steps: &[Step<C, A>]) -> usize {
    let during = |(index, step): (usize, &Step<C, A>)| {
        steps[index..].partition_point(|later| later.called <= step.answered)
    };
    steps.iter().enumerate().map(during).max().unwrap_or(0)
}

pub(super) struct Search<'a, M: Model> {
    model: &'a M,
    /// Answered operations, in the order of their calls.
    answered: Vec<StepOf<M>>,
    unanswered: Vec<StepOf<M>>,
    /// States from which no path leads to the end.
    seen: HashSet<Done<M::State>>,
    states_max: usize,
    explained: usize,
}

/// The operations that are done, and the state after them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Done<S> {
    /// All answered operations before this one are done.
    base: usize,
    /// The answered operations from `base` on that are done, one bit each.
    window: Window,
    /// The unanswered operations that are done.
    unanswered: Window,
    state: S,
    /// The highest rank of all done operations.
    rank: u64,
    /// The latest call of all done operations. An operation that a crash before this call cut off cannot take effect.
    latest: Moment,
}

impl<'a, M: Model> Search<'a, M> {
    pub fn new(model: &'a M, steps: Vec<StepOf<M>>, states_max: usize) -> Self {
        let (answered, unanswered) = steps.into_iter().partition(|step| step.answer.is_some());
        Self {
            model,
            answered,
            unanswered,
            seen: HashSet::new(),
            states_max,
            explained: 0,
        }
    }

    pub fn run(mut self) -> Verdict {
        let start = Done {
            base: 0,
            window: Window::new(overlap(&self.answered) + 1),
            unanswered: Window::new(self.unanswered.len().max(1)),
            state: self.model.start(),
            rank: 0,
            latest: 0,
        };
        let mut stack = vec![start];
        while let Some(done) = stack.pop() {
            let done = self.forget_cut_off(self.take_reads(done));
            self.explained = self.explained.max(done.base);
            if done.base == self.answered.len() {
                return Verdict::Linearizable;
            }
            if self.seen.len() == self.states_max {
                return Verdict::Undecided;
            }
            if self.seen.insert(done.clone()) {
                // The first answered operation is on top and tried first.
                self.push_choices(&done, &mut stack);
            }
        }
        Verdict::NotLinearizable {
            explained: self.explained,
            stuck: self.answered[self.explained].number,
        }
    }

    fn apply(&self, step: &StepOf<M>, state: &M::State) -> Option<M::State> {
        self.model.apply(state, &step.call, step.answer.as_ref())
    }

    /// The moment before which an operation must be called to be next: every pending operation was answered after this
    /// moment.
    fn horizon(&self, done: &Done<M::State>) -> Moment {
        let mut horizon = NEVER;
        for (index, step) in self.answered[done.base..].iter().enumerate() {
            if step.called > horizon {
                break;
            }
            if !done.window.has(index) {
                horizon = horizon.min(step.answered);
            }
        }
        horizon
    }

    /// The moment of the first crash that cuts off operations that may still take effect. An operation called later
    /// cuts them off.
    fn barrier(&self, done: &Done<M::State>) -> Moment {
        let open = |(index, step): &(usize, &StepOf<M>)| {
            !done.unanswered.has(*index) && step.answered > done.latest
        };
        self.unanswered
            .iter()
            .enumerate()
            .filter(open)
            .map(|(_, step)| step.answered)
            .min()
            .unwrap_or(NEVER)
    }

    /// Takes all reads that may be next, and that change nothing and cut nothing off.
    fn take_reads(&self, mut done: Done<M::State>) -> Done<M::State> {
        let barrier = self.barrier(&done);
        loop {
            done.base += done.window.advance();
            let horizon = self.horizon(&done).min(barrier);
            let mut any = false;
            for (index, step) in self.answered[done.base..].iter().enumerate() {
                if step.called > horizon {
                    break;
                }
                let open = !done.window.has(index);
                let is_read = || !self.model.changes(&step.call, step.answer.as_ref());
                if open && is_read() && self.apply(step, &done.state).is_some() {
                    done.window.add(index);
                    done.latest = done.latest.max(step.called);
                    any = true;
                }
            }
            if !any {
                return done;
            }
        }
    }

    /// Forgets operations that are cut off: they cannot take effect, so it makes no difference whether they did.
    fn forget_cut_off(&self, mut done: Done<M::State>) -> Done<M::State> {
        for (index, _) in self
            .unanswered
            .iter()
            .enumerate()
            .filter(|(_, step)| step.answered <= done.latest)
        {
            done.unanswered.add(index);
        }
        done
    }

    fn push_choices(&self, done: &Done<M::State>, stack: &mut Vec<Done<M::State>>) {
        let horizon = self.horizon(done);
        let open = |index: usize| !done.window.has(index);
        let in_reach = self.answered[done.base..]
            .iter()
            .enumerate()
            .take_while(|(_, step)| step.called <= horizon);
        // Ranks are in order: no operation may come before a pending one with a lower rank.
        let next_rank = in_reach
            .clone()
            .filter(|(index, _)| open(*index))
            .filter_map(|(_, step)| step.rank)
            .min();
        let in_order = |step: &StepOf<M>| {
            step.rank
                .is_none_or(|rank| rank > done.rank && next_rank.is_none_or(|next| rank <= next))
        };
        let mut firsts: SmallVec<[&StepOf<M>; 16]> = SmallVec::new();
        for (index, step) in self.unanswered.iter().enumerate() {
            if step.called >= horizon {
                break;
            }
            let open = !done.unanswered.has(index) && step.answered > done.latest;
            // An earlier call with the same effect that is cut off no later is interchangeable with this operation.
            let is_first = |step: &StepOf<M>| {
                !firsts.iter().any(|first| {
                    (&first.call, first.rank) == (&step.call, step.rank)
                        && first.answered <= step.answered
                })
            };
            if !open || !is_first(step) {
                continue;
            }
            firsts.push(step);
            if in_order(step)
                && let Some(state) = self.apply(step, &done.state)
                && state != done.state
            {
                let mut next = done.after(step, state);
                next.unanswered.add(index);
                stack.push(next);
            }
        }
        let candidates: Vec<_> = in_reach
            .filter(|(index, step)| open(*index) && in_order(step))
            .collect();
        for (index, step) in candidates.into_iter().rev() {
            if let Some(state) = self.apply(step, &done.state) {
                let mut next = done.after(step, state);
                next.window.add(index);
                stack.push(next);
            }
        }
    }
}

impl<S> Done<S> {
    /// The state after `step`, which leaves `state`. The caller marks the step as done.
    fn after<C, A>(&self, step: &Step<C, A>, state: S) -> Self {
        Self {
            base: self.base,
            window: self.window.clone(),
            unanswered: self.unanswered.clone(),
            state,
            rank: step.rank.unwrap_or(self.rank),
            latest: self.latest.max(step.called),
        }
    }
}
