//! Sizes in the nodes of a tree.

use crate::shapes::item::KEY_SIZE_MAX;

/// Bytes of a node.
pub(super) const NODE_SIZE: u64 = 2048;
/// Bytes of tag, sizes and right link.
pub(super) const HEADER_SIZE: usize = 24;
/// Bytes before the key of a slot.
pub(super) const SLOT_HEADER_SIZE: usize = 8;
/// Slots of a node, at least: both halves of a split have room.
const SLOTS_MIN: usize = 4;
/// Bytes of the longest value that lies in a slot.
const INLINE_MAX: usize = 256;
/// Bytes of a pointer to a value in a block of its own.
pub(super) const POINTER_SIZE: usize = 8;

/// Sizes in the nodes of a tree. They follow from the longest key and the typical value, and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    leaf: NodeGeometry,
    inner: NodeGeometry,
}

impl Geometry {
    /// A tree whose encoded keys have at most `key_size_max` bytes. Values of up to `value_size` bytes lie in the leaf,
    /// if the leaf has room for enough of them; longer values have blocks of their own.
    ///
    /// # Panics
    /// Panics if keys are longer than 256 bytes.
    pub fn new(key_size_max: usize, value_size: usize) -> Self {
        assert!((1..=KEY_SIZE_MAX).contains(&key_size_max));
        let key_size = key_size_max.next_multiple_of(8);
        let mut value_size = value_size.min(INLINE_MAX).next_multiple_of(8);
        value_size = value_size.max(POINTER_SIZE);
        while NodeGeometry::new(key_size, value_size).slots < SLOTS_MIN {
            value_size -= 8;
        }
        Self {
            leaf: NodeGeometry::new(key_size, value_size),
            inner: NodeGeometry::new(key_size, POINTER_SIZE),
        }
    }

    /// Bytes of the longest encoded key.
    pub fn key_size_max(&self) -> usize {
        self.leaf.key_size
    }

    /// Whether a value of this size lies in a leaf.
    pub(super) fn takes_inline(&self, value_size: usize) -> bool {
        value_size <= self.leaf.value_size
    }

    pub(super) fn of_level(&self, level: u32) -> NodeGeometry {
        match level {
            0 => self.leaf,
            _ => self.inner,
        }
    }
}

/// Sizes in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeGeometry {
    /// Bytes that the longest key takes.
    pub key_size: usize,
    /// Bytes of the longest value in a slot.
    pub value_size: usize,
    slots: usize,
}

impl NodeGeometry {
    fn new(key_size: usize, value_size: usize) -> Self {
        let mut geometry = Self {
            key_size,
            value_size,
            slots: 0,
        };
        let room = NODE_SIZE as usize - geometry.words_offset() - geometry.slot_size();
        geometry.slots = (room / (8 + geometry.slot_size())).min(255);
        geometry
    }

    /// Bytes of a slot.
    #[inline]
    pub fn slot_size(&self) -> usize {
        SLOT_HEADER_SIZE + self.key_size + self.value_size
    }

    /// Bytes before the words.
    #[inline]
    pub fn words_offset(&self) -> usize {
        HEADER_SIZE + 2 * self.key_size
    }

    /// Keys of a full node. A node has one slot more than words, so that a full node takes another value for a key.
    #[inline]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Bytes that the tag of the node covers, and the tag.
    #[inline]
    pub fn head_size(&self) -> usize {
        self.words_offset() + 8 * self.slots()
    }

    /// Bytes before a slot.
    #[inline]
    pub fn slot_offset(&self, slot: usize) -> usize {
        self.head_size() + slot * self.slot_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_room_for_some_slots_of_any_size() {
        for key_size in 1..=KEY_SIZE_MAX {
            for value_size in [0, 8, 100, 256, 5000] {
                let geometry = Geometry::new(key_size, value_size);
                for level in [0, 1] {
                    let node = geometry.of_level(level);
                    let end = node.slot_offset(node.slots() + 1);
                    assert!(node.slots() >= SLOTS_MIN && end <= NODE_SIZE as usize);
                }
            }
        }
        let usual = Geometry::new(8, 100);
        assert_eq!((usual.leaf.slots(), usual.inner.slots()), (14, 62));
    }
}
