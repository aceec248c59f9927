//! The outcomes of several writes.

use crate::error::Error;

/// The outcome of each pair of stonecast_multi_put.
///
/// The caller owns the outcomes. Any thread may read or free them.
pub struct Outcomes(Vec<Result<u64, Error>>);

impl Outcomes {
    pub fn new(stored: Vec<Result<u64, stonecast::Error>>) -> Self {
        let stored = stored.into_iter();
        Self(stored.map(|one| one.map_err(Error::from)).collect())
    }

    pub fn all_stored(&self) -> bool {
        self.0.iter().all(Result::is_ok)
    }
}

/// The number of pairs. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_outcomes_count(outcomes: Option<&Outcomes>) -> usize {
    outcomes.map_or(0, |Outcomes(outcomes)| outcomes.len())
}

/// The version of the pair with this index; 0 if it was not stored, or if there is no such index.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_outcomes_version(outcomes: Option<&Outcomes>, index: usize) -> u64 {
    match outcomes.and_then(|Outcomes(outcomes)| outcomes.get(index)) {
        Some(Ok(version)) => *version,
        _ => 0,
    }
}

/// The error for which the pair with this index was not stored; NULL if it was stored, or if there is no such index.
/// The error lives as long as the outcomes; do not free it separately.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_outcomes_error(
    outcomes: Option<&Outcomes>,
    index: usize,
) -> Option<&Error> {
    outcomes?.0.get(index)?.as_ref().err()
}

/// Frees the outcomes. NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_outcomes_free(outcomes: Option<Box<Outcomes>>) {
    drop(outcomes);
}
