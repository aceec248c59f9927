//! Structures of bytes. The library knows the type of a structure by a type of Rust, and a program in Python names it
//! by a value: while a structure is opened, the
//! shape describes itself by the types that are being opened in this thread.

use std::cell::RefCell;

use stonecast::structures::{Key, Keyed, Ordered, Sequence, Shape, StructureKind, Versioned};
use stonecast_structures::Key as Codec;
use stonecast_structures::shapes::Description;

use super::types::Types;

thread_local! {
    static OPENED: RefCell<Option<(Description, String)>> = const { RefCell::new(None) };
}

/// Runs `open`, in which shapes describe themselves as `types`.
pub fn opening<R>(types: Types, open: impl FnOnce() -> R) -> R {
    OPENED.set(Some(types.described()));
    let opened = open();
    OPENED.set(None);
    opened
}

fn described<R>(of: impl FnOnce(&(Description, String)) -> R) -> R {
    OPENED.with_borrow(|opened| of(opened.as_ref().expect("only `opening` opens structures")))
}

/// A key in its encoded form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Encoded(pub Vec<u8>);

impl Codec for Encoded {
    fn encode(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.0);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self(std::mem::take(bytes).to_vec()))
    }
}

impl Key for Encoded {
    const SIZE_MAX: usize = 0;

    fn schema(_: &mut String) {}
}

macro_rules! shapes {
    ($($name:ident)+) => {
        $(
            pub struct $name;

            impl Shape for $name {
                type Value = Vec<u8>;
                const KIND: StructureKind = StructureKind::$name;
                const KEY_SIZE_MAX: usize = 0;

                fn schema() -> String {
                    Self::words()
                }

                fn description() -> Description {
                    described(|(description, _)| *description)
                }

                fn words() -> String {
                    described(|(_, words)| words.clone())
                }
            }
        )+
    };
}

shapes! { BTree HashTable MvBTree Queue Stack }

impl Keyed for BTree {
    type Key = Encoded;
}

impl Keyed for HashTable {
    type Key = Encoded;
}

impl Keyed for MvBTree {
    type Key = Encoded;
}

impl Ordered for BTree {}
impl Ordered for MvBTree {}
impl Versioned for MvBTree {}
impl Sequence for Queue {}
impl Sequence for Stack {}
