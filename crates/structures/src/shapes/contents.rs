//! Everything that a structure holds.

use crate::wire::Pointer;

/// Everything that a structure holds, as a walk over all of it finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Keys and values, in the order of the structure. Values of structures without keys have an empty key.
    pub items: Vec<(Vec<u8>, Vec<u8>)>,
    /// The blocks of the structure, with their sizes in bytes.
    pub blocks: Vec<(Pointer, u64)>,
    /// The number of items that the structure itself counts.
    pub length: u64,
}
