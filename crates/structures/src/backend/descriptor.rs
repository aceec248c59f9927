//! The descriptor of a domain: where the log of its tenure lies, where the log begins, and where it ends once it is
//! sealed.
//!
//! Two slots are used in turn, so a slot that a crash tore leaves the descriptor before it.

use stonecast_base::{Corruption, Span, hash};
use stonecast_media::Region;
use zerocopy::little_endian::{U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::tenure::{LogArea, Mark};
use crate::wire::Chain;

const MAGIC: [u8; 8] = *b"stondomn";
/// Bytes from the start of the page to each slot. A slot has [`SLOT_SIZE`] bytes.
const SLOTS: [u64; 2] = [1024, 2048];
const SLOT_SIZE: usize = size_of::<DescriptorBytes>();
const CHECKSUM_OFFSET: usize = std::mem::offset_of!(DescriptorBytes, checksum);

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct MarkBytes {
    position: U64,
    tag: U64,
    lsn: U64,
    operation: U64,
    covered: U64,
    tenure: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DescriptorBytes {
    magic: [u8; 8],
    serial: U64,
    log_offset: U64,
    log_size: U64,
    base: MarkBytes,
    own_offset: U64,
    own_size: U64,
    sealed: MarkBytes,
    own_base: MarkBytes,
    reserved: [u8; 8],
    checksum: U128,
}

impl MarkBytes {
    fn of(mark: &Mark) -> Self {
        let Mark { position, chain } = *mark;
        Self {
            position: U64::new(position),
            tag: U64::new(chain.tag),
            lsn: U64::new(chain.lsn),
            operation: U64::new(chain.operation),
            covered: U64::new(chain.covered),
            tenure: U64::new(chain.tenure.into()),
        }
    }

    fn mark(&self) -> Option<Mark> {
        let chain = Chain {
            tag: self.tag.get(),
            lsn: self.lsn.get(),
            tenure: self.tenure.get().try_into().ok()?,
            operation: self.operation.get(),
            covered: self.covered.get(),
        };
        let position = self.position.get();
        Some(Mark { position, chain })
    }
}

/// The durable state of a domain's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// The number of the descriptor in its domain, from 1.
    pub serial: u64,
    /// The log; `None`: everything is applied and durable, and no tenure lasts.
    pub log: Option<LogArea>,
    /// Everything before this mark is applied and durable.
    pub base: Mark,
    /// The end of the tenure, once it is sealed.
    pub sealed: Option<Sealed>,
}

/// The end of a tenure, and the log in which the back-end executes the leftovers of the tenure.
///
/// The back-end's log lies in an area of its own, where no late write of the old tenure reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sealed {
    /// The end of the tenure's records.
    pub end: Mark,
    /// The area of the back-end's records, which are of the next tenure.
    pub own: LogArea,
    /// The first of these records that is not applied and durable. Operations that are covered before it were executed.
    pub own_base: Mark,
}

impl Descriptor {
    /// The areas that hold records.
    pub fn areas(&self) -> Vec<Span> {
        let own = self.sealed.map(|sealed| sealed.own);
        let areas = self.log.into_iter().chain(own);
        areas
            .map(|area| Span::new(area.offset, area.size))
            .collect()
    }

    /// Writes the descriptor over the one before the last. Returns the bytes that the caller must persist.
    pub fn write(&self, region: &dyn Region, page: u64, uuid: u128) -> Span {
        let none = LogArea { offset: 0, size: 0 };
        let log = self.log.unwrap_or(none);
        let sealed = self.sealed.unwrap_or(Sealed {
            end: self.base,
            own: none,
            own_base: self.base,
        });
        let mut bytes = DescriptorBytes {
            magic: MAGIC,
            serial: U64::new(self.serial),
            log_offset: U64::new(log.offset),
            log_size: U64::new(log.size),
            base: MarkBytes::of(&self.base),
            own_offset: U64::new(sealed.own.offset),
            own_size: U64::new(sealed.own.size),
            sealed: MarkBytes::of(&sealed.end),
            own_base: MarkBytes::of(&sealed.own_base),
            reserved: [0; 8],
            checksum: U128::ZERO,
        };
        bytes.checksum = U128::new(checksum(bytes.as_bytes(), page, uuid));
        let offset = page + SLOTS[(self.serial % 2) as usize];
        region.write(offset, bytes.as_bytes());
        Span::new(offset, SLOT_SIZE as u64)
    }

    /// The newest descriptor of the domain whose page is at `page`.
    ///
    /// # Errors
    /// [`Corruption`] if no slot holds a descriptor: a crash leaves one slot whole.
    pub fn read(region: &dyn Region, page: u64, uuid: u128) -> Result<Self, Corruption> {
        let slots = SLOTS.map(|slot| {
            let mut bytes = [0; SLOT_SIZE];
            region.read(page + slot, &mut bytes);
            Self::parse(&bytes, page, uuid)
        });
        let newest = slots.into_iter().flatten().max_by_key(|slot| slot.serial);
        newest.ok_or_else(|| Corruption {
            what: "domain descriptor".into(),
            file: "pool".into(),
            offset: page + SLOTS[0],
            found: "two slots without a whole descriptor".into(),
            expected: "a descriptor with its checksum".into(),
        })
    }

    fn parse(bytes: &[u8; SLOT_SIZE], page: u64, uuid: u128) -> Option<Self> {
        let slot = DescriptorBytes::read_from_bytes(bytes).expect("a slot has this size");
        let is_whole = slot.magic == MAGIC && slot.checksum.get() == checksum(bytes, page, uuid);
        let log = LogArea {
            offset: slot.log_offset.get(),
            size: slot.log_size.get(),
        };
        let sealed = Sealed {
            end: slot.sealed.mark()?,
            own: LogArea {
                offset: slot.own_offset.get(),
                size: slot.own_size.get(),
            },
            own_base: slot.own_base.mark()?,
        };
        is_whole.then_some(Self {
            serial: slot.serial.get(),
            log: (log.size > 0).then_some(log),
            base: slot.base.mark()?,
            sealed: (sealed.own.size > 0).then_some(sealed),
        })
    }
}

fn checksum(bytes: &[u8], page: u64, uuid: u128) -> u128 {
    let mut bound = [0; CHECKSUM_OFFSET + 24];
    bound[..CHECKSUM_OFFSET].copy_from_slice(&bytes[..CHECKSUM_OFFSET]);
    bound[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 16].copy_from_slice(&uuid.to_be_bytes());
    bound[CHECKSUM_OFFSET + 16..].copy_from_slice(&page.to_le_bytes());
    hash::xxh3_128(&bound)
}
