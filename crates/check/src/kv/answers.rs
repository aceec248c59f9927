//! The answers of all clients of a store of keys, judged as one history.

use crate::kv::words::WORDS;
use crate::linearizability::{STATES_MAX, Verdict};
use crate::models::register::{self, History};
use crate::violation::Violation;

/// Judges the whole history, key by key.
pub(crate) fn judge_history(history: &History) -> Option<Violation> {
    (0..history.parts()).find_map(|key| {
        let text = match register::check(history.of_part(key), None, STATES_MAX) {
            Verdict::Linearizable => return None,
            Verdict::NotLinearizable { explained, stuck } => {
                let stuck = stuck.and_then(|number| history.of_part(key).nth(number));
                let stuck = stuck.map_or("none".to_owned(), |stuck| WORDS.describe(stuck));
                format!(
                    "key {key}: {explained} operations are explained, but not this one: {stuck}"
                )
            }
            Verdict::Undecided => format!("key {key}: undecided after {STATES_MAX} states"),
        };
        Some(Violation::new("the history is linearizable", text))
    })
}
