//! Detaches a mirror: an operator states that it is destroyed.

use std::rc::Rc;

use stonecast_media::PersistError;

use crate::backend::{Medium, Role, Standing};

/// The reason why a pool was not detached. Nothing was changed.
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
    /// The medium failed.
    #[error(transparent)]
    Persist(#[from] PersistError),
}

/// Lets the pool, which nobody serves, go on without its mirror, in the next generation. Returns the number of that
/// generation. A crash leaves the pool detached or not.
///
/// The call states that the mirror was not promoted and never will be, because its medium is destroyed. Nothing can
/// check that. If the mirror is there, both become back-ends, and each lacks the updates that the other acknowledges;
/// when they meet, each refuses the other.
///
/// # Errors
/// [`DetachError`].
pub async fn detach(medium: Rc<Medium>) -> Result<u64, DetachError> {
    let mut standing = match Standing::read(medium.bytes()) {
        Some(standing) if standing.role != Role::BackEnd => return Err(DetachError::IsMirror),
        Some(standing) if standing.mirror != 0 => standing,
        _ => return Err(DetachError::HasNone),
    };
    let generation = standing.generation + 1;
    let next = Standing {
        generation,
        mirror: 0,
        ..standing
    };
    standing.replace(&medium, next).await?;
    Ok(generation)
}
