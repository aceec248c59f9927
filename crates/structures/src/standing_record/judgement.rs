//! Judges a record from the sides of a back-end and of a mirror.

use std::cmp::Ordering;

use super::document::StandingRecord;
use super::fault::StandingFault;

/// The facts about a pool that a record is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asking {
    /// The name of the pool.
    pub pool: u128,
    /// The name of the pool's content.
    pub content: u128,
    /// The generation of the content, 1 at least.
    pub generation: u64,
    /// For a back-end: the pool that the back-end is bound to; 0: none.
    pub mirror: u128,
    /// Whether the pool knows that it has a record.
    pub is_recorded: bool,
}

/// The record of a pool that may be served as the back-end's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No record exists, or the record is behind a pool that does not know it; the pool writes the record.
    Found,
    /// The record names the pool; a mirror named there is the only one the pool may bind to.
    Current(StandingRecord),
    /// A detachment was decided, and is not noted in the pool.
    Detached(StandingRecord),
}

/// Judges the record of a pool that is to be served as the back-end's.
pub(crate) fn of_back_end(
    record: Option<&StandingRecord>,
    pool: &Asking,
) -> Result<Verdict, StandingFault> {
    let Some(&record) = record else {
        return match pool.is_recorded {
            true => Err(StandingFault::Absent),
            false => Ok(Verdict::Found),
        };
    };
    check_content(&record, pool)?;
    let (generation, ours) = (record.generation, pool.generation);
    let back_end = record.back_end;
    if back_end != pool.pool {
        return Err(match generation > ours {
            true => StandingFault::Succeeded {
                back_end,
                generation,
                ours,
            },
            false => StandingFault::Rival {
                back_end,
                generation,
                ours,
            },
        });
    }
    let knows_less = generation < ours || (generation == ours && record.mirror == 0);
    match generation.cmp(&ours) {
        Ordering::Equal if record.mirror == pool.mirror => Ok(Verdict::Current(record)),
        _ if knows_less && !pool.is_recorded => Ok(Verdict::Found),
        _ if knows_less => Err(StandingFault::Older { generation, ours }),
        // A crash came between the record and the pool when the pool was being bound.
        Ordering::Equal if pool.mirror == 0 => Ok(Verdict::Current(record)),
        Ordering::Equal => Err(StandingFault::BoundToOther {
            mirror: record.mirror,
        }),
        Ordering::Greater if generation == ours + 1 && record.mirror == 0 => {
            Ok(Verdict::Detached(record))
        }
        _ => Err(StandingFault::PoolOlder { generation, ours }),
    }
}

/// The record of a mirror that may be promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The record names the mirror: the mirror may write the next generation.
    Named(StandingRecord),
    /// The record names the mirror's pool as the back-end's of the next generation; the pool does not note that yet.
    Won,
}

/// Judges the record of a mirror.
pub(crate) fn of_mirror(
    record: Option<&StandingRecord>,
    pool: &Asking,
) -> Result<View, StandingFault> {
    let record = *record.ok_or(StandingFault::Absent)?;
    check_content(&record, pool)?;
    let (generation, ours) = (record.generation, pool.generation);
    if record.back_end == pool.pool && generation == ours + 1 {
        return Ok(View::Won);
    }
    match generation == ours && record.mirror == pool.pool {
        true => Ok(View::Named(record)),
        false => Err(StandingFault::NotNamed {
            back_end: record.back_end,
            generation,
            ours,
        }),
    }
}

fn check_content(record: &StandingRecord, pool: &Asking) -> Result<(), StandingFault> {
    match record.content == pool.content {
        true => Ok(()),
        false => Err(StandingFault::Foreign {
            content: record.content,
            ours: pool.content,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: Asking = Asking {
        pool: 7,
        content: 1,
        generation: 3,
        mirror: 0,
        is_recorded: true,
    };
    const BOUND: Asking = Asking { mirror: 8, ..POOL };
    const RECORD: StandingRecord = StandingRecord {
        content: 1,
        generation: 3,
        back_end: 7,
        mirror: 0,
        openings: 1,
    };
    const BINDING: StandingRecord = StandingRecord {
        mirror: 8,
        ..RECORD
    };

    #[test]
    fn a_back_end_is_served_as_the_record_says() {
        let judge = |record, pool| of_back_end(Some(&record), &pool);
        assert_eq!(judge(RECORD, POOL), Ok(Verdict::Current(RECORD)));
        assert_eq!(judge(BINDING, BOUND), Ok(Verdict::Current(BINDING)));
        // The crash came between the record and the pool.
        assert_eq!(judge(BINDING, POOL), Ok(Verdict::Current(BINDING)));
        let detached = StandingRecord {
            generation: 4,
            ..RECORD
        };
        assert_eq!(judge(detached, BOUND), Ok(Verdict::Detached(detached)));
        let promoted = StandingRecord {
            back_end: 8,
            ..detached
        };
        let succeeded = StandingFault::Succeeded {
            back_end: 8,
            generation: 4,
            ours: 3,
        };
        assert_eq!(judge(promoted, BOUND), Err(succeeded));
        let rival = StandingRecord {
            back_end: 8,
            ..RECORD
        };
        let rivals = judge(rival, POOL);
        assert!(matches!(rivals, Err(StandingFault::Rival { .. })));
        let other = StandingRecord {
            mirror: 9,
            ..RECORD
        };
        let bound = StandingFault::BoundToOther { mirror: 9 };
        assert_eq!(judge(other, BOUND), Err(bound));
        let foreign = StandingRecord {
            content: 2,
            ..RECORD
        };
        let foreign = judge(foreign, POOL);
        assert!(matches!(foreign, Err(StandingFault::Foreign { .. })));
    }

    #[test]
    fn a_record_or_a_pool_that_went_back_is_told() {
        let judge = |record, pool| of_back_end(Some(&record), &pool);
        let older = StandingRecord {
            generation: 2,
            ..RECORD
        };
        for (record, pool) in [(older, POOL), (RECORD, BOUND)] {
            let judged = judge(record, pool);
            assert!(
                matches!(judged, Err(StandingFault::Older { .. })),
                "{judged:?}"
            );
            let unknowing = Asking {
                is_recorded: false,
                ..pool
            };
            assert_eq!(judge(record, unknowing), Ok(Verdict::Found));
        }
        for (generation, mirror) in [(5, 0), (4, 8)] {
            let later = StandingRecord {
                generation,
                mirror,
                ..RECORD
            };
            let judged = judge(later, POOL);
            let is_older = matches!(judged, Err(StandingFault::PoolOlder { .. }));
            assert!(is_older, "{judged:?}");
        }
        assert_eq!(of_back_end(None, &POOL), Err(StandingFault::Absent));
        let new = Asking {
            is_recorded: false,
            ..POOL
        };
        assert_eq!(of_back_end(None, &new), Ok(Verdict::Found));
    }

    #[test]
    fn a_mirror_follows_only_a_record_that_names_it() {
        let mirror = Asking { pool: 8, ..POOL };
        let judge = |record| of_mirror(Some(&record), &mirror);
        assert_eq!(judge(BINDING), Ok(View::Named(BINDING)));
        let won = StandingRecord {
            generation: 4,
            back_end: 8,
            ..RECORD
        };
        assert_eq!(judge(won), Ok(View::Won));
        let detached = StandingRecord {
            generation: 4,
            ..RECORD
        };
        let of_later = StandingRecord {
            generation: 4,
            ..BINDING
        };
        for record in [RECORD, detached, of_later] {
            let judged = judge(record);
            let is_left = matches!(judged, Err(StandingFault::NotNamed { .. }));
            assert!(is_left, "{judged:?}");
        }
        assert_eq!(of_mirror(None, &mirror), Err(StandingFault::Absent));
    }
}
