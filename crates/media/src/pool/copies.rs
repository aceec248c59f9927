//! The two copies of the header: finds the copy that counts, and writes both.

use stonecast_base::Corruption;

use crate::pool::header::{Header, HeaderPlace, NoHeader};
use crate::pool::layout;
use crate::{Backing, Blob, MediaError};

/// Both copies, in the order of their places.
pub(super) const COPIES: [Blob; 2] = [Blob::HeaderFirst, Blob::HeaderSecond];

/// Writes `header` to both copies in `order`, each durable before the next. A crash leaves at least one whole copy, if
/// the second of `order` was whole before.
pub(super) fn store(
    backing: &dyn Backing,
    header: &Header,
    order: [Blob; 2],
) -> Result<(), MediaError> {
    let bytes = header.encode();
    for copy in order {
        backing.store(copy, &bytes)?;
    }
    Ok(())
}

/// The header that counts, and the state of its copies.
pub(super) struct Found {
    pub header: Header,
    /// The copies in the order of writing: first the copy that may be lost.
    pub stale_first: [Blob; 2],
    /// Damage of the other copy.
    pub damage: Option<Corruption>,
}

/// Reads both copies. Of two whole ones the later generation counts.
pub(super) fn find_header(backing: &dyn Backing) -> Result<Found, MediaError> {
    let [first, second] = COPIES.map(|copy| load_copy(backing, copy));
    let (first, second) = match (first?, second?) {
        (None, None) => {
            return Err(MediaError::NotFound {
                path: backing.place(),
            });
        }
        // A copy without any bytes beside a copy that has some counts as cut off.
        (first, second) => (
            first.unwrap_or_else(|| no_bytes(backing, 0)),
            second.unwrap_or_else(|| no_bytes(backing, 1)),
        ),
    };
    match (first, second) {
        (Err(NoHeader::OtherVersion { version }), _)
        | (_, Err(NoHeader::OtherVersion { version })) => {
            let (path, found, supported) = (backing.place(), version, layout::VERSION);
            Err(match found < supported {
                true => MediaError::OutdatedVersion {
                    path,
                    found,
                    supported,
                },
                false => MediaError::UnsupportedVersion {
                    path,
                    found,
                    supported,
                },
            })
        }
        (Ok(first), Ok(second)) if second.generation() > first.generation() => Ok(Found {
            header: second,
            stale_first: COPIES,
            damage: None,
        }),
        (Ok(first), Ok(_)) => Ok(Found {
            header: first,
            stale_first: [COPIES[1], COPIES[0]],
            damage: None,
        }),
        (Ok(first), Err(NoHeader::Damaged(damage))) => Ok(Found {
            header: first,
            stale_first: [COPIES[1], COPIES[0]],
            damage: Some(damage),
        }),
        (Err(NoHeader::Damaged(damage)), Ok(second)) => Ok(Found {
            header: second,
            stale_first: COPIES,
            damage: Some(damage),
        }),
        (Err(NoHeader::Damaged(first)), Err(NoHeader::Damaged(second))) => {
            Err(MediaError::HeaderLost { first, second })
        }
    }
}

fn load_copy(
    backing: &dyn Backing,
    copy: Blob,
) -> Result<Option<Result<Header, NoHeader>>, MediaError> {
    let place = place_of(backing, copy);
    Ok(backing
        .load(copy)?
        .map(|bytes| Header::decode(&bytes, &place)))
}

fn no_bytes(backing: &dyn Backing, index: usize) -> Result<Header, NoHeader> {
    Header::decode(&[], &place_of(backing, COPIES[index]))
}

fn place_of(backing: &dyn Backing, copy: Blob) -> HeaderPlace {
    let (file, offset) = backing.locate(copy);
    HeaderPlace { file, offset }
}
