//! Progress after healing: each client gets answers to calls that it made after everything has healed.
//! The run bounds the time in which this must happen.

use crate::history::{History, Moment};
use crate::violation::Violation;

/// Judges whether each of the clients `0..clients` got `wanted` answers or more to calls after
/// moment `healed`.
pub fn judge<C, A>(
    history: &History<C, A>,
    healed: Moment,
    clients: u32,
    wanted: usize,
) -> Option<Violation> {
    (0..clients).find_map(|client| {
        let calls = history.operations().iter();
        let calls = calls.filter(|call| call.client == client && call.called > healed);
        let answers = calls.filter(|call| call.answer.is_some()).count();
        (answers < wanted).then(|| {
            Violation::new(
                "clients progress after healing",
                format!(
                    "client {client} got {answers} answers after everything had healed, not {wanted}"
                ),
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails without the moment of the call: an answer to an old call is no progress, and neither is a call that was
    /// given up.
    #[test]
    fn a_client_without_answers_to_its_later_calls_is_found() {
        let mut history: History<&str, ()> = History::new(1);
        let old = history.call(1, Some(0), 0, "before");
        let healed = history.tick();
        history.answer(old, Some(()));
        let first = history.call(0, Some(0), 0, "after");
        history.answer(first, Some(()));
        assert_eq!(judge(&history, healed, 1, 1), None);
        let given_up = history.call(1, Some(0), 0, "after");
        history.answer(given_up, None);
        assert_eq!(
            judge(&history, healed, 2, 1)
                .expect("client 1 stands still")
                .found,
            "client 1 got 0 answers after everything had healed, not 1"
        );
        assert!(judge(&history, healed, 1, 2).is_some());
        let next = history.call(1, Some(0), 0, "after");
        history.answer(next, Some(()));
        assert_eq!(judge(&history, healed, 2, 1), None);
    }
}
