//! Gives a closed pool more segments.
//!
//! ```text
//!   log      old capacity ----> new capacity, the rest a hole      synced
//!   header                                       old copy ----> new copy ----> both new
//! ```
//!
//! No byte of the log changes, and none moves. The header alone decides: up to the first whole copy with the new
//! capacity, the pool has the old one, and a log that is longer than its header says counts as long as nothing was ever
//! written after its end.

use crate::pool::content::Content;
use crate::pool::copies::{self, Found, find_header};
use crate::pool::geometry::check_geometry;
use crate::pool::header::Header;
use crate::pool::{Pool, check_features, refusal};
use crate::{Backing, MediaError, OpenMode};

/// The capacity of a pool before and after [`Pool::grow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Bytes of the log before.
    pub from: u64,
    /// Bytes of the log afterwards; the same if the pool had this capacity.
    pub to: u64,
    /// Bytes of a segment.
    pub segment_size: u64,
}

impl Pool {
    /// Gives the closed pool in `backing` a log of `capacity` bytes, durably. Keys, versions and settings stay. The new
    /// segments take space when a server prepares them.
    ///
    /// A crash at any moment, or an error, leaves a closed pool of the old capacity, or of the new one, and the call
    /// may be repeated. A pool that already has the capacity stays unchanged.
    ///
    /// # Errors
    ///
    /// Nothing was changed if the pool was not closed ([`MediaError::NotClosed`]), is larger ([`MediaError::Shrink`]),
    /// or is of a kind that does not grow ([`MediaError::CannotGrow`]), and if `capacity` is no multiple of its segment
    /// size or too large ([`MediaError::Options`]). A pool in use is refused when the backing is opened
    /// ([`MediaError::InUse`]).
    pub fn grow(backing: &dyn Backing, capacity: u64) -> Result<Growth, MediaError> {
        let Found {
            header,
            stale_first,
            ..
        } = find_header(backing)?;
        check_growable(&header, backing)?;
        let (from, segment_size) = (header.capacity(), header.segment_size());
        if capacity < from {
            return Err(MediaError::Shrink {
                path: backing.place(),
                capacity: from,
                asked: capacity,
            });
        }
        check_geometry(capacity, segment_size).map_err(|needed| {
            MediaError::Options(format!(
                "a pool with segments of {segment_size} bytes needs {needed}, not {capacity}"
            ))
        })?;
        if capacity > from {
            backing.grow_log(from, capacity)?;
            copies::store(backing, &header.grown(capacity), stale_first)?;
        }
        Ok(Growth {
            from,
            to: capacity,
            segment_size,
        })
    }
}

fn check_growable(header: &Header, backing: &dyn Backing) -> Result<(), MediaError> {
    let path = backing.place();
    check_features(header, backing)?;
    if let Some(refusal) = refusal(header, backing, OpenMode::Serve) {
        return Err(refusal);
    }
    let reason = if header.content() == Content::Structures {
        "its data structures lie in memory that is divided when the pool is created; export them, and import them into a larger pool"
    } else if header.cluster_seed().is_some() {
        "it belongs to a node of a cluster; add a node with a larger pool, and remove this one"
    } else if !header.clean() {
        return Err(MediaError::NotClosed { path });
    } else {
        return Ok(());
    };
    Err(MediaError::CannotGrow { path, reason })
}
