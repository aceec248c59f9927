//! Items: immutable blocks that hold a key and a value.
//!
//! ```text
//!   | tag | size of the value, size of the key | key | value | zeros to a word |
//! ```

use stonecast_base::Span;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::tag::TagKey;
use super::traversal::Stale;
use crate::wire::Pointer;

/// Bytes before the key of an item.
pub const ITEM_HEADER_SIZE: usize = size_of::<HeaderBytes>();
/// Bytes of the longest encoded key.
pub const KEY_SIZE_MAX: usize = 256;
/// Bytes of the longest value.
pub const VALUE_SIZE_MAX: usize = 1 << 20;
/// Bytes of the longest content of an item: a value, or an answer that holds one.
const CONTENT_SIZE_MAX: usize = VALUE_SIZE_MAX + 64;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeaderBytes {
    tag: U64,
    value_size: U32,
    key_size: U16,
    reserved: U16,
}

/// An item that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub pointer: Pointer,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl Item {
    /// Bytes of the block.
    pub fn size(&self) -> u64 {
        item_size(self.key.len(), self.value.len())
    }
}

/// Bytes of an item.
pub(super) const fn item_size(key_size: usize, value_size: usize) -> u64 {
    (ITEM_HEADER_SIZE + key_size + value_size).next_multiple_of(8) as u64
}

/// The bytes of an item at `pointer`.
pub(super) fn item_bytes(tags: TagKey, pointer: Pointer, key: &[u8], value: &[u8]) -> Vec<u8> {
    let header = HeaderBytes {
        tag: U64::ZERO,
        value_size: U32::new(value.len() as u32),
        key_size: U16::new(key.len() as u16),
        reserved: U16::ZERO,
    };
    let mut bytes = [header.as_bytes(), key, value].concat();
    bytes.resize(item_size(key.len(), value.len()) as usize, 0);
    tags.seal(pointer, 0, &mut bytes);
    bytes
}

/// Reads items whose size is not known: a first read, and perhaps the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemReader {
    pub tags: TagKey,
    /// Bytes to read first.
    pub hint: usize,
}

/// Key and value of an item that was checked, in the bytes that were read.
pub(crate) struct ItemView<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// A judgement of the bytes of an item.
pub(crate) enum ItemRead<I = Item> {
    Whole(I),
    /// The item has more bytes than were read: read this place.
    Longer(Span),
    Stale(Stale),
}

impl ItemReader {
    /// The place to read first.
    pub fn first(&self, pointer: Pointer) -> Span {
        pointer.span(pointer.block_size_max().min(self.hint as u64))
    }

    /// The key of the item of which `bytes` are the start, if the bytes hold it. No tag covers it yet.
    pub fn key_of(bytes: &[u8]) -> Option<&[u8]> {
        let (header, rest) = HeaderBytes::read_from_prefix(bytes).ok()?;
        rest.get(..header.key_size.get().into())
    }

    /// Bytes of the item of which `bytes` are the start, if it is one. No tag covers them yet.
    pub fn size_of(bytes: &[u8]) -> Option<u64> {
        let (header, _) = HeaderBytes::read_from_prefix(bytes).ok()?;
        let (key_size, value_size) = (header.key_size.get(), header.value_size.get());
        let is_item =
            usize::from(key_size) <= KEY_SIZE_MAX && value_size as usize <= CONTENT_SIZE_MAX;
        is_item.then(|| item_size(key_size.into(), value_size as usize))
    }

    /// Judges bytes from the start of the item behind `pointer`.
    pub fn judge(&self, pointer: Pointer, bytes: &[u8]) -> ItemRead {
        match self.view(pointer, bytes) {
            ItemRead::Longer(place) => ItemRead::Longer(place),
            ItemRead::Stale(stale) => ItemRead::Stale(stale),
            ItemRead::Whole(ItemView { key, value }) => ItemRead::Whole(Item {
                pointer,
                key: key.to_vec(),
                value: value.to_vec(),
            }),
        }
    }

    /// Judges bytes from the start of the item behind `pointer`, and copies nothing.
    pub fn view<'a>(&self, pointer: Pointer, bytes: &'a [u8]) -> ItemRead<ItemView<'a>> {
        let stale = |size: usize| {
            ItemRead::Stale(Stale {
                place: pointer.span(size as u64),
                what: "item",
            })
        };
        let Ok((header, rest)) = HeaderBytes::ref_from_prefix(bytes) else {
            return stale(bytes.len());
        };
        let (key_size, value_size) = (
            header.key_size.get() as usize,
            header.value_size.get() as usize,
        );
        if key_size > KEY_SIZE_MAX || value_size > CONTENT_SIZE_MAX {
            return stale(bytes.len());
        }
        let size = item_size(key_size, value_size) as usize;
        if size as u64 > pointer.block_size_max() {
            return stale(bytes.len());
        }
        if size > bytes.len() {
            return ItemRead::Longer(pointer.span(size as u64));
        }
        if !self.tags.is_sealed(pointer, 0, &bytes[..size]) {
            return stale(size);
        }
        ItemRead::Whole(ItemView {
            key: &rest[..key_size],
            value: &rest[key_size..key_size + value_size],
        })
    }
}
