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
    is_recorded: U64,
    checksum: U128,
}

/// The role of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The back-end's copy.
    BackEnd,
    /// A mirror's copy that lacks a part of the pool.
    Copying,
    /// A mirror's complete copy.
    Mirror,
}

/// The standing of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The number of the standing among those of the copy.
    pub serial: u64,
    /// The number of back-ends that the content has had.
    pub generation: u64,
    /// The role of the copy.
    pub role: Role,
    /// The name of the mirror's pool, without which the back-end acknowledges nothing; 0: the back-end has no mirror.
    pub mirror: u128,
    /// The name of the pool whose content this is.
    pub content: u128,
    /// Seed of the tags of records.
    pub key: u64,
    /// The lease of the source.
    pub lease_ns: Nanoseconds,
    /// Whether back-end and mirror share a standing record, which decides about promotion and detachment.
    pub is_recorded: bool,
}

/// The reason why a pool is not served as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StandingError {
    /// The pool is a mirror.
    #[error("the pool is a mirror of generation {generation}: serve it as a mirror, or promote it")]
    IsMirror {
        /// The generation of the mirror's content.
        generation: u64,
    },
    /// The back-end acknowledges nothing without its mirror, which may have become the back-end.
    #[error(
        "the pool is bound to its mirror, which may be the back-end now: name the mirror, or detach the pool from it if its memory is destroyed"
    )]
    Bound,
    /// The pool has a standing record, and the server does not know the store.
    #[error(
        "the pool and its mirror share a standing record in a store, which decides about them: name that store (--structures-cluster)"
    )]
    Recorded,
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
            is_recorded: false,
        }
    }

    /// The standing of the pool in `region`; `None`: the pool never had another copy.
    pub fn read(region: &dyn Region) -> Option<Self> {
        let slots = SLOTS.map(|slot| {
            let mut bytes = [0; SLOT_SIZE];
            region.read(slot, &mut bytes);
            Self::parse(&bytes)
        });
        slots.into_iter().flatten().max_by_key(|slot| slot.serial)
    }

    /// Makes `next` the standing of the pool, durably. A crash leaves the old or the new standing.
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
            is_recorded: U64::new(next.is_recorded.into()),
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
            is_recorded: slot.is_recorded.get() == 1,
        })
    }
}
