//! Detaches a mirror: its standing record decides that it is never promoted, or an operator states that it is
//! destroyed.

use std::rc::Rc;

use stonecast_base::mutant;
use stonecast_media::PersistError;

use crate::backend::{Medium, Role, Standing, StandingError};
use crate::standing_record::{StandingFault, StandingRecordError};

/// The reason why a pool was not detached. The pool is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetachError {
    /// The pool is a mirror.
    #[error(
        "the pool is a mirror, and no back-end's; a mirror becomes the back-end by a promotion"
    )]
    IsMirror,
    /// The pool has no mirror.
    #[error("the pool has no mirror: the back-end goes on alone")]
    HasNone,
    /// The mirror knows no standing record, so only a statement of the operator excludes a promotion.
    #[error(
        "the pool was bound to its mirror without a standing record: if the memory of the mirror is destroyed, state that (--mirror-is-destroyed)"
    )]
    NotStated,
    /// The mirror was promoted.
    #[error(
        "the mirror was promoted: pool {back_end:032x} is the back-end of generation {generation}, as the standing record in {store} says. Serve this pool as its mirror"
    )]
    Promoted {
        /// The pool that is the back-end's.
        back_end: u128,
        /// The generation of that back-end.
        generation: u64,
        /// The store.
        store: String,
    },
    /// The pool has a standing record in a store that was not named.
    #[error(transparent)]
    Standing(#[from] StandingError),
    /// The standing record does not permit the detachment, or the store is unreachable.
    #[error(transparent)]
    Record(#[from] StandingRecordError),
    /// The medium failed.
    #[error(transparent)]
    Persist(#[from] PersistError),
}

/// Detaches the pool, which no server serves, from its mirror: the pool continues alone, in the next generation.
/// Returns the number of that generation. A crash leaves the pool detached or not; with a standing record, the next
/// start notes what was decided.
///
/// With a standing record ([`Medium::recorded_in`]) the record is swapped first: the call is refused if the mirror was
/// promoted, and a mirror that was detached is never promoted.
///
/// Otherwise `is_destroyed` states that the mirror was not promoted and never will be, because its medium is destroyed.
/// No code can check that statement. If the mirror still exists, both may become back-ends, and each lacks the updates
/// that the other acknowledges; when they meet, each refuses the other. With a record, the statement is needed only if
/// the record is lost.
///
/// # Errors
/// [`DetachError`].
pub async fn detach(medium: Rc<Medium>, is_destroyed: bool) -> Result<u64, DetachError> {
    let standing = Standing::read(medium.bytes());
    let mut standing = match standing {
        Some(standing) if standing.role != Role::BackEnd => return Err(DetachError::IsMirror),
        Some(standing) => standing,
        None => return Err(DetachError::HasNone),
    };
    medium.check_record(&standing)?;
    let mut generation = standing.generation + 1;
    if standing.is_recorded {
        generation = detach_in_record(&medium, is_destroyed).await?;
    } else if standing.mirror == 0 {
        return Err(DetachError::HasNone);
    } else if !is_destroyed {
        return Err(DetachError::NotStated);
    }
    let next = Standing {
        generation,
        mirror: 0,
        ..standing
    };
    standing.replace(&medium, next).await?;
    Ok(generation)
}

/// Decides the detachment of a pool that has a standing record. Returns the generation.
async fn detach_in_record(medium: &Medium, is_destroyed: bool) -> Result<u64, DetachError> {
    let record = medium.record().expect("the pool has a record");
    let asking = record.asking(medium);
    if mutant!(DetachedUnrecorded) {
        return Ok(asking.generation + 1);
    }
    match record.detach(asking, is_destroyed).await {
        Ok(Some(detached)) => Ok(detached.generation),
        Ok(None) => Err(DetachError::HasNone),
        Err(fault) => {
            let error = record.error(fault);
            Err(match error.fault {
                StandingFault::Succeeded {
                    back_end,
                    generation,
                    ..
                } => DetachError::Promoted {
                    back_end,
                    generation,
                    store: error.store,
                },
                _ => error.into(),
            })
        }
    }
}
