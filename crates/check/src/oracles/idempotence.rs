//! Recovery is idempotent: whatever happens to the lines that a finished recovery left undecided, the next recovery
//! finds the same content.

use crate::values::{ValueId, describe};
use crate::violation::Violation;

/// Compares the result of a second recovery with `first`, the result of the first one: value and version of each key.
pub fn judge(
    first: &[Option<(ValueId, u64)>],
    second: &[Option<(ValueId, u64)>],
) -> Option<Violation> {
    let (key, (before, after)) = first
        .iter()
        .zip(second)
        .enumerate()
        .find(|(_, (before, after))| before != after)?;
    let (before, after) = (describe(*before), describe(*after));
    Some(Violation::new(
        "recovery is idempotent",
        format!("key {key} had {before} and has {after} after another recovery"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_changes_from_one_recovery_to_the_next_is_found() {
        let first = [Some((ValueId(1), 7)), None];
        assert_eq!(judge(&first, &first), None);
        let found = judge(&first, &[None, None])
            .expect("a key has changed")
            .found;
        assert_eq!(
            found,
            "key 0 had value 1 at version 7 and has no value after another recovery"
        );
        assert!(judge(&first, &[Some((ValueId(1), 8)), None]).is_some());
    }
}
