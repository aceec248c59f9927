//! Structures that are read in the call, beside a writer.

use stonecast_base::{Random, Span};
use stonecast_structures::shapes::btree::{BTree, InnerNodes, Page, Seek};
use stonecast_structures::shapes::{MemoryInCall, Remembered, Structure};

use super::maps::read_torn;
use super::store::Store;

/// Memory whose READs are torn, and whose answers count while the root word is the same.
struct Torn<'a> {
    store: &'a mut Store,
    random: &'a mut Random,
    root: (Span, u64),
}

impl MemoryInCall for Torn<'_> {
    fn read(&mut self, span: Span, into: &mut [u8]) -> Option<()> {
        into.copy_from_slice(&read_torn(self.store, self.random, span)?);
        Some(())
    }

    fn read_last(&mut self, span: Span, into: &mut [u8]) -> Option<()> {
        self.read(span, into)?;
        self.look()
    }

    fn look(&mut self) -> Option<()> {
        let (place, expected) = self.root;
        let word = self.store.read(place)?;
        (word == expected.to_le_bytes()).then_some(())
    }
}

/// Memory that does not change meanwhile, and whose answers always count.
struct Still<'a>(&'a Store);

impl MemoryInCall for Still<'_> {
    fn read(&mut self, span: Span, into: &mut [u8]) -> Option<()> {
        into.copy_from_slice(&self.0.read(span)?);
        Some(())
    }

    fn read_last(&mut self, span: Span, into: &mut [u8]) -> Option<()> {
        self.read(span, into)
    }

    fn look(&mut self) -> Option<()> {
        Some(())
    }
}

/// The value of a key of one version, if the tree answers in the call.
pub fn find_still(store: &Store, tree: &BTree, key: &[u8]) -> Option<Option<Vec<u8>>> {
    let (mut nodes, mut value) = (InnerNodes::default(), Vec::new());
    let found = tree.find_in_call(key, &mut nodes, &mut Still(store), &mut value)?;
    Some(found.then_some(value))
}

fn tree_of(structure: &Structure) -> Option<BTree> {
    match structure {
        Structure::BTree(tree) => Some(*tree),
        Structure::MvBTree(version) => Some(*version.tree()),
        _ => None,
    }
}

/// The value of a key, if the structure answers in the call.
pub fn find(
    (store, random): (&mut Store, &mut Random),
    (structure, root): (&Structure, (Span, u64)),
    remembered: &mut Remembered,
    key: &[u8],
) -> Option<Option<Vec<u8>>> {
    let mut memory = Torn {
        store,
        random,
        root,
    };
    let mut value = Vec::new();
    let found = structure.find_in_call(key, remembered, &mut memory, &mut value)?;
    Some(found.then_some(value))
}

/// A leaf, if the structure is a tree and answers in the call.
pub fn page(
    (store, random): (&mut Store, &mut Random),
    (structure, root): (&Structure, (Span, u64)),
    nodes: &mut InnerNodes,
    seek: &Seek,
) -> Option<Page> {
    let mut memory = Torn {
        store,
        random,
        root,
    };
    let tree = tree_of(structure)?;
    let last = Seek::Below(None);
    // Nothing of the page whose memory is used again is left.
    let spare = tree.page_in_call(&last, nodes, &mut memory, Page::default())?;
    tree.page_in_call(seek, nodes, &mut memory, spare)
}
