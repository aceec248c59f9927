//! Import and export of a structure, as NDJSON.

mod export;
mod import;

use std::marker::PhantomData;

use clap::ValueEnum;
pub use export::{Export, export};
pub use import::{Import, import};

/// A kind of structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Entries in the order of their keys.
    BTree,
    /// Entries in no order.
    HashTable,
    /// Entries in the order of their keys, in versions.
    MvBTree,
    /// A skip list, to compare with.
    SkipList,
    /// A binary search tree, to compare with.
    Bst,
    /// A multi-version binary search tree, to compare with.
    MvBst,
    /// Values without keys: the last line comes out first.
    Stack,
    /// Values without keys: the first line comes out first.
    Queue,
}

type Bytes = Vec<u8>;

/// The lines of a structure with keys, read from a leaf after the other.
struct Entries<S>(PhantomData<S>);
/// The lines of a structure with versions, read from one of them.
struct Versions<S>(PhantomData<S>);
/// The lines of a structure without keys, in the order in which its values were put in.
struct Values<S>(PhantomData<S>);
