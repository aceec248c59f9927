//! The comparison of a wanted key with nodes on the way to it.

use stonecast_base::mutant;

/// The bounds of the keys of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fences<'a> {
    pub low: &'a [u8],
    /// Above all keys of the node; `None`: no key is too high.
    pub high: Option<&'a [u8]>,
}

impl Fences<'_> {
    /// Whether the node holds `key`, if any node of its level does.
    pub fn hold(&self, key: &[u8]) -> bool {
        let is_low = self.high.is_none_or(|high| key < high);
        (self.low <= key && is_low) || mutant!(FenceIgnored)
    }
}

/// The leaf that is wanted, as [`Seek`](super::Seek) names it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aim<'a> {
    At(&'a [u8]),
    Below(Option<&'a [u8]>),
}

impl Aim<'_> {
    /// Whether a child whose keys begin with `separator` may hold the wanted key.
    #[inline]
    pub fn may_begin_at(self, separator: &[u8]) -> bool {
        match self {
            Self::At(key) => separator <= key,
            Self::Below(Some(key)) => separator < key || separator.is_empty(),
            Self::Below(None) => true,
        }
    }

    /// Whether the right link of a node with these fences leads to the wanted key.
    #[inline]
    pub fn is_right_of(self, fences: &Fences<'_>) -> bool {
        let Some(high) = fences.high else {
            return false;
        };
        match self {
            Self::At(key) => !fences.hold(key) && high <= key,
            Self::Below(Some(key)) => high < key,
            Self::Below(None) => true,
        }
    }

    /// Whether the wanted key lies between these fences.
    #[inline]
    pub fn is_at(self, fences: &Fences<'_>) -> bool {
        match self {
            Self::At(key) => fences.hold(key),
            Self::Below(Some(key)) => fences.low < key || fences.low.is_empty(),
            Self::Below(None) => true,
        }
    }
}
