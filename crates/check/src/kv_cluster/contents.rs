//! The content that a restart of all nodes finds, and its judgement.
//!
//! ```text
//!   history so far, whose open calls end with the power cut
//!     keys        each key is read                     acknowledged values are there, batches are whole
//!     repeated    each client's latest write again     an acknowledged one has its answer again; others are done once
//!     after       each key is read once more           the whole is linearizable
//! ```

use crate::explorer::Judge;
use crate::history::OperationId;
use crate::kv::{Contents as OfKeys, WithBatches, batch, judge_history};
use crate::models::register::{Answer, Call, History};
use crate::oracles::idempotence;
use crate::timeline::LAST_READER;
use crate::values::ValueId;
use crate::violation::Violation;

const ONCE: &str = "a repeated write is done once";

/// The value and the version of a key that is present.
pub(super) type KeyRead = Option<(ValueId, u64)>;

/// The content that a restart found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    /// For each key, what was read first.
    pub keys: Vec<KeyRead>,
    /// The answers to writes that were repeated.
    pub repeated: Vec<(OperationId, Answer)>,
    /// For each key, what was read after these.
    pub after: Vec<KeyRead>,
}

impl Judge<Contents> for WithBatches<'_> {
    fn judge(&self, contents: &Contents) -> Result<(), Violation> {
        let found = OfKeys {
            keys: contents.keys.clone(),
            torn_tails: 0,
        };
        Judge::judge(self, &found)?;
        for &(id, again) in &contents.repeated {
            if let Some(before) = self.history.operation(id).answer {
                must_be_the_same(before, again)?;
            }
        }
        let history = continued(self.history, contents);
        judge_history(&batch::complete(&history, self.batches)).map_or(Ok(()), Err)
    }

    fn judge_again(&self, first: &Contents, second: &Contents) -> Result<(), Violation> {
        let found = idempotence::judge(&first.after, &second.keys);
        found.map_or(Ok(()), Err)?;
        let remembered = |(_, before): &&(_, Answer)| is_remembered(*before);
        for &(id, before) in first.repeated.iter().filter(remembered) {
            if let Some(&(_, again)) = second.repeated.iter().find(|(other, _)| *other == id) {
                must_be_the_same(before, again)?;
            }
        }
        Ok(())
    }
}

/// Judges the answer to a repeated write that was answered `before`.
fn must_be_the_same(before: Answer, again: Answer) -> Result<(), Violation> {
    if before == again {
        return Ok(());
    }
    let text = format!("the answer {again:?} to a repeated write was {before:?}");
    Err(Violation::new(ONCE, text))
}

/// Whether a write with this answer is remembered: it has changed something. Another write is decided anew when it is
/// repeated, and may change something then.
pub(super) fn is_remembered(answer: Answer) -> bool {
    matches!(answer, Answer::Stored(_) | Answer::Removed(true))
}

/// The history, continued by what a client saw and did after the restart.
fn continued(history: &History, contents: &Contents) -> History {
    let mut history = history.clone();
    history.crash_of_all();
    let read = |history: &mut History, keys: &[KeyRead]| {
        for (key, &found) in (0..).zip(keys) {
            let id = history.call(LAST_READER, None, key, Call::Get);
            history.answer(id, Some(Answer::Got(found)));
        }
    };
    read(&mut history, &contents.keys);
    for &(id, answer) in &contents.repeated {
        if history.operation(id).answer.is_none() {
            history.again(id, None);
            history.answer(id, Some(answer));
        }
    }
    read(&mut history, &contents.after);
    history
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracles::acknowledged::Allowed;

    fn judged(history: &History, contents: &Contents) -> Option<&'static str> {
        let mut allowed = Allowed::default();
        allowed.update(history);
        let judge = WithBatches {
            allowed: &allowed,
            history,
            batches: &[],
        };
        let judged = Judge::<Contents>::judge(&judge, contents);
        judged.err().map(|violation| violation.oracle)
    }

    /// Fails without the comparison of answers: nobody else wrote the key, so the history is linearizable with either.
    #[test]
    fn a_repeated_write_has_its_answer_again() {
        let mut history = History::new(1);
        let value = ValueId(7);
        let id = history.call(0, None, 0, Call::Put(value));
        history.answer(id, Some(Answer::Stored(3)));
        let with = |version| Contents {
            keys: vec![Some((value, 3))],
            repeated: vec![(id, Answer::Stored(version))],
            after: vec![Some((value, 3))],
        };
        assert_eq!(judged(&history, &with(3)), None);
        assert_eq!(judged(&history, &with(4)), Some(ONCE));
    }

    /// Fails without the answers of repeated writes in the history: an unanswered write may be lost.
    #[test]
    fn a_write_that_was_repeated_with_an_answer_is_there() {
        let mut history = History::new(1);
        let value = ValueId(7);
        let id = history.call(0, None, 0, Call::Put(value));
        let with = |after: KeyRead| Contents {
            keys: vec![None],
            repeated: vec![(id, Answer::Stored(3))],
            after: vec![after],
        };
        assert_eq!(judged(&history, &with(Some((value, 3)))), None);
        assert_eq!(
            judged(&history, &with(None)),
            Some("the history is linearizable")
        );
    }

    /// Fails without the end of open calls at the power cut: the write would take effect between the two reads.
    #[test]
    fn a_write_that_was_open_at_the_cut_does_not_appear_after_a_read() {
        let mut history = History::new(1);
        history.call(0, None, 0, Call::Put(ValueId(7)));
        let contents = Contents {
            keys: vec![None],
            repeated: Vec::new(),
            after: vec![Some((ValueId(7), 3))],
        };
        assert_eq!(
            judged(&history, &contents),
            Some("the history is linearizable")
        );
    }
}
