//! The standing of a pool among its copies: back-end or mirror, the generation, and the pools that belong together.
//!
//! ```text
//!   back-end, alone  --bind-->  back-end with a mirror  --detach-->  back-end of the next generation, alone
//!   mirror, copying  --whole-->  mirror  --promote-->  back-end of the next generation, alone
//! ```
//!
//! The standing lies on the first page of the pool and is never copied: each copy has its own. Two slots are used in
//! turn, so a slot that a crash tore leaves the standing before it.
//!
//! Invariants:
//! - A back-end with a mirror acknowledges nothing without it.
//! - The generation grows with each promotion, and with each back-end that goes on without its mirror. A copy of a
//!   lower generation knows less.

use stonecast_base::{Nanoseconds, Span, hash};
use stonecast_media::{PersistError, Region};
use zerocopy::little_endian::{U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::medium::Medium;

const MAGIC: [u8; 8] = *b"stonmirr";
/// Bytes from the start of the pool to each slot.
const SLOTS: [u64; 2] = [128, 256];
const SLOT_SIZE: usize = size_of::<SlotBytes>();
const CHECKSUM_OFFSET: usize = std::mem::offset_of!(SlotBytes, checksum);
/// The bytes that belong to one copy alone: the serving word and the standing.
pub(crate) const STANDING: Span = Span::new(64, 448);

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SlotBytes {
    magic: [u8; 8],
    serial: U64,
    generation: U64,
    role: U64,
    mirror: U128,
    content: U128,
    key: U64,
    lease_ns: U64,
    checksum: U128,
}

/// The use of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is the back-end's.
    BackEnd,
    /// It is a mirror that lacks a part of the pool.
    Copying,
    /// It is a mirror that has everything.
    Mirror,
}

/// The standing of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Counts the standings of the copy.
    pub serial: u64,
    /// Counts the back-ends of the content.
    pub generation: u64,
    /// The use of the copy.
    pub role: Role,
    /// Names the pool of the mirror, without which the back-end acknowledges nothing; 0: it has none.
    pub mirror: u128,
    /// Names the pool whose content this is.
    pub content: u128,
    /// Seed of the tags of records.
    pub key: u64,
    /// The lease of the source.
    pub lease_ns: Nanoseconds,
}

/// The reason why a pool is not served as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StandingError {
    /// The pool is a mirror.
    #[error("the pool is a mirror of generation {generation}: serve it as a mirror, or promote it")]
    IsMirror {
        /// Its generation.
        generation: u64,
    },
    /// The back-end acknowledges nothing without its mirror, which may have become the back-end.
    #[error(
        "the pool is bound to its mirror, which may be the back-end now: name the mirror, or detach the pool from it if its memory is destroyed"
    )]
    Bound,
}

impl Standing {
    /// The standing of a pool that has never had another copy.
    pub fn alone(content: u128, key: u64) -> Self {
        Self {
            serial: 0,
            generation: 0,
            role: Role::BackEnd,
            mirror: 0,
            content,
            key,
            lease_ns: 0,
        }
    }

    /// The standing of the pool in `region`; `None`: it never had another copy.
    pub fn read(region: &dyn Region) -> Option<Self> {
        let slots = SLOTS.map(|slot| {
            let mut bytes = [0; SLOT_SIZE];
            region.read(slot, &mut bytes);
            Self::parse(&bytes)
        });
        slots.into_iter().flatten().max_by_key(|slot| slot.serial)
    }

    /// Makes `next` the standing of the pool, durably. A crash leaves the one before or the next.
    ///
    /// # Errors
    /// [`PersistError`]: it is unknown which of the two is durable.
    pub async fn replace(&mut self, medium: &Medium, next: Self) -> Result<(), PersistError> {
        let next = Self {
            serial: self.serial + 1,
            ..next
        };
        let mut bytes = SlotBytes {
            magic: MAGIC,
            serial: U64::new(next.serial),
            generation: U64::new(next.generation),
            role: U64::new(next.role as u64),
            mirror: U128::new(next.mirror),
            content: U128::new(next.content),
            key: U64::new(next.key),
            lease_ns: U64::new(next.lease_ns),
            checksum: U128::ZERO,
        };
        bytes.checksum = U128::new(hash::xxh3_128(&bytes.as_bytes()[..CHECKSUM_OFFSET]));
        let offset = SLOTS[(next.serial % 2) as usize];
        medium.bytes().write(offset, bytes.as_bytes());
        let slot = Span::new(offset, SLOT_SIZE as u64);
        let _replaced = medium.persist_here(&[slot]).await?;
        *self = next;
        Ok(())
    }

    fn parse(bytes: &[u8; SLOT_SIZE]) -> Option<Self> {
        let slot = SlotBytes::read_from_bytes(bytes).expect("a slot has this size");
        let checksum = hash::xxh3_128(&bytes[..CHECKSUM_OFFSET]);
        let role = match slot.role.get() {
            0 => Role::BackEnd,
            1 => Role::Copying,
            2 => Role::Mirror,
            _ => return None,
        };
        let is_whole = slot.magic == MAGIC && slot.checksum.get() == checksum;
        is_whole.then_some(Self {
            serial: slot.serial.get(),
            generation: slot.generation.get(),
            role,
            mirror: slot.mirror.get(),
            content: slot.content.get(),
            key: slot.key.get(),
            lease_ns: slot.lease_ns.get(),
        })
    }
}
