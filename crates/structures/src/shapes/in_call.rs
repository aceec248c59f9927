//! Look-ups in memory that is read in the call: no future, and for the usual structures no traversal either.

use smallvec::SmallVec;
use stonecast_base::Span;

use super::btree::InnerNodes;
use super::hash::Directory;
use super::lookup::Lookup;
use super::structure::Structure;
use super::traversal::{Step, Traversal};

/// Memory that is read in the call. A later read returns bytes of the same or a later moment.
pub trait MemoryInCall {
    /// Reads a place; `None`: the read is not possible at this moment, or the place does not belong to the domain.
    fn read(&mut self, span: Span, into: &mut [u8]) -> Option<()>;

    /// Reads a place on which the answer rests, and then checks that the answer counts; `None`: the answer does not
    /// count.
    fn read_last(&mut self, span: Span, into: &mut [u8]) -> Option<()>;

    /// Checks that an answer counts which rests on the bytes read so far.
    fn look(&mut self) -> Option<()>;
}

/// The memory of a reader about one structure, decoded.
#[derive(Debug, Default)]
pub struct Remembered {
    /// Of a tree.
    pub nodes: InnerNodes,
    /// Of a hash table.
    pub directory: Directory,
}

impl Remembered {
    /// Room for `size` bytes of this structure. A structure without a decoded form takes no room.
    pub fn new(structure: &Structure, size: u64) -> Self {
        match structure {
            Structure::BTree(_) | Structure::MvBTree(_) => Self {
                nodes: InnerNodes::new(size),
                ..Self::default()
            },
            Structure::HashTable(_) => Self {
                directory: Directory::new(size),
                ..Self::default()
            },
            _ => Self::default(),
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.directory.clear();
    }
}

impl Structure {
    /// Whether readers in the call remember the structure in decoded form.
    pub fn is_decoded(&self) -> bool {
        matches!(self, Self::BTree(_) | Self::MvBTree(_) | Self::HashTable(_))
    }

    /// Looks an encoded key up, and leaves its value in `value`; `Some(false)`: the key has none. `None`:
    /// [`Structure::find`] has to answer.
    pub fn find_in_call(
        &self,
        key: &[u8],
        remembered: &mut Remembered,
        memory: &mut impl MemoryInCall,
        value: &mut Vec<u8>,
    ) -> Option<bool> {
        match self {
            Self::BTree(tree) => tree.find_in_call(key, &mut remembered.nodes, memory, value),
            Self::MvBTree(version) => {
                let nodes = &mut remembered.nodes;
                version.tree().find_in_call(key, nodes, memory, value)
            }
            Self::HashTable(table) => {
                table.find_in_call(key, &mut remembered.directory, memory, value)
            }
            _ => by_steps(self.find(key)?, memory, value),
        }
    }
}

/// Drives a look-up. Every place is read: a READ in the call costs about as much as a remembered place.
fn by_steps(mut find: Lookup, memory: &mut impl MemoryInCall, value: &mut Vec<u8>) -> Option<bool> {
    let mut bytes: SmallVec<[Vec<u8>; 2]> = SmallVec::new();
    loop {
        match find.step(&bytes) {
            Step::Done(found) => {
                memory.look()?;
                let has_value = found.is_some();
                *value = found.unwrap_or_default();
                return Some(has_value);
            }
            Step::Stale(_) => return None,
            Step::Read(places) => {
                bytes.resize_with(places.len(), Vec::new);
                for (place, bytes) in places.iter().zip(&mut bytes) {
                    bytes.resize(place.span.size as usize, 0);
                    memory.read(place.span, bytes)?;
                }
            }
        }
    }
}
