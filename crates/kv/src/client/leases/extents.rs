//! The place of the next record of this client.
//!
//! A client that may write the log holds an extent, the rest of a segment, and leases the next extent before the first
//! is used up, so that no put waits for a lease. A copying client has one piece of staging memory instead.

use std::task::{Context, Poll, Waker};

use stonecast_base::Nanoseconds;
use stonecast_fabric::{RemoteAddress, Rkey};
use stonecast_log::{GENERATION_MAX, LogFormat, SEGMENT_HEADER_UNITS, STAMP_SIZE, UNIT_SIZE};

use crate::wire::limits::LEASE_UNUSED_NS;
use crate::wire::staging::staging_position;
use crate::wire::{Accesses, Grant, Welcome};

/// The extents of this client, and the place of its next record.
pub(super) struct Extents {
    format: LogFormat,
    /// Whether records go to staging memory.
    copies: bool,
    staging: RemoteAddress,
    /// Remote address of the log.
    log_address: u64,
    current: Option<Extent>,
    next: Option<Extent>,
    /// Time at which the extents were last in use.
    used_at: Nanoseconds,
    leasing: bool,
    /// Tasks to wake when the lease request is over.
    waiting: Vec<Waker>,
}

struct Extent {
    grant: Grant,
    unit: u32,
}

/// A place for one record.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct Spot {
    pub slot: u8,
    pub unit: u32,
    /// The position to which the record's tag is bound.
    pub position: u64,
    pub generation: u32,
    /// Start of the part of the record that the client writes: after the stamp.
    pub remote: RemoteAddress,
}

impl Extents {
    /// No extents; `access` holds the addresses of log and staging memory.
    pub fn new(welcome: &Welcome, access: &Accesses) -> Self {
        Self {
            format: welcome.format(),
            copies: welcome.staging_size.get() != 0,
            staging: RemoteAddress {
                address: access.staging_address,
                rkey: Rkey(access.staging_rkey),
            },
            log_address: access.log_address,
            current: None,
            next: None,
            used_at: 0,
            leasing: false,
            waiting: Vec::new(),
        }
    }

    /// Whether records go to staging memory, so that this client does not know their final places.
    pub fn copies(&self) -> bool {
        self.copies
    }

    /// The fault of a lease for a record of `size` bytes, if any. No place taken from a lease without a fault lies
    /// outside its segment, and the lease has room for the record: a client that accepted less would ask for another
    /// lease forever.
    pub fn fault(&self, grant: &Grant, size: u64) -> Option<&'static str> {
        let units = self.format.segment_units();
        if self.copies {
            return Some("the server leases an extent to a client that copies");
        }
        if grant.segment >= self.format.segment_count
            || !(SEGMENT_HEADER_UNITS..=units).contains(&grant.start)
        {
            return Some("the server leases an extent that is not part of the log");
        }
        if grant.last >= grant.start
            || grant.durable > grant.start
            || grant.generation > GENERATION_MAX
        {
            return Some("the server leases an extent with impossible facts");
        }
        let room = u64::from(units - grant.start) * UNIT_SIZE;
        (room < size).then_some("the server leases less room than was asked for")
    }

    /// The place of a record of `size` bytes; the place of a copying client's record is `ring_offset` of the staging
    /// ring. `None`: the client has to lease first.
    pub fn place(&mut self, size: u64, ring_offset: u64) -> Option<Spot> {
        if self.copies {
            let staging = self.staging;
            let unit = (ring_offset / UNIT_SIZE) as u32;
            let remote = RemoteAddress {
                address: staging.address + ring_offset + STAMP_SIZE as u64,
                rkey: staging.rkey,
            };
            return Some(Spot {
                slot: 0,
                unit,
                position: staging_position(unit),
                generation: 0,
                remote,
            });
        }
        let segment_size = self.format.segment_size;
        let extent = self.current.as_mut()?;
        let (grant, unit) = (extent.grant, extent.unit);
        let start = u64::from(unit) * UNIT_SIZE;
        if start + size > segment_size {
            return None;
        }
        extent.unit += (size / UNIT_SIZE) as u32;
        let position = self.format.position(grant.segment, unit);
        Some(Spot {
            slot: grant.slot,
            unit,
            position,
            generation: grant.generation,
            remote: RemoteAddress {
                address: self.log_address + position + STAMP_SIZE as u64,
                rkey: Rkey(grant.rkey),
            },
        })
    }

    /// Whether a record of `size` bytes has a place without a lease.
    pub fn has_room(&self, size: u64) -> bool {
        self.copies
            || self
                .current
                .as_ref()
                .is_some_and(|extent| self.room(extent) >= size)
    }

    /// Switches to the extent leased ahead, if that extent has room, and returns the slot of the extent to give back.
    pub fn advance(&mut self, size: u64) -> Option<Option<u8>> {
        if self
            .next
            .as_ref()
            .is_some_and(|extent| self.room(extent) >= size)
        {
            let old = std::mem::replace(&mut self.current, self.next.take());
            return Some(old.map(|extent| extent.grant.slot));
        }
        None
    }

    /// Whether it is time to lease ahead.
    pub fn should_lease_ahead(&self) -> bool {
        let low = self
            .current
            .as_ref()
            .is_some_and(|extent| self.room(extent) < self.format.segment_size / 2);
        !self.copies && !self.leasing && self.next.is_none() && low
    }

    /// Marks a lease request as in flight. Returns false if another one is in flight already.
    pub fn begin_leasing(&mut self) -> bool {
        !std::mem::replace(&mut self.leasing, true)
    }

    /// Ends the lease request that `begin_leasing` began. Returns the tasks to wake once nothing is borrowed.
    #[must_use = "tasks wait"]
    pub fn end_leasing(&mut self) -> Vec<Waker> {
        self.leasing = false;
        std::mem::take(&mut self.waiting)
    }

    /// Waits until no lease request is in flight.
    pub fn poll_leased(&mut self, context: &Context<'_>) -> Poll<()> {
        if !self.leasing {
            return Poll::Ready(());
        }
        self.waiting.push(context.waker().clone());
        Poll::Pending
    }

    /// Keeps a new extent as the next one, and returns the slot of the extent that the new one displaces.
    pub fn put_next(&mut self, grant: Grant) -> Option<u8> {
        let extent = Extent {
            grant,
            unit: grant.start,
        };
        self.next.replace(extent).map(|old| old.grant.slot)
    }

    /// Gives up the extent in use, which has no room for the next record, and returns its slot. If space is short, the
    /// segment of that extent is cleaned, too.
    pub fn give_up(&mut self) -> Option<u8> {
        self.current.take().map(|extent| extent.grant.slot)
    }

    /// Notes that the server has taken back the unused lease of `slot`. Returns whether the client still held the
    /// lease.
    pub fn forget(&mut self, slot: u8) -> bool {
        let has = |extent: &mut Option<Extent>| {
            extent.take_if(|extent| extent.grant.slot == slot).is_some()
        };
        has(&mut self.current) || has(&mut self.next)
    }

    /// Notes that extents are in use, before a record is placed. Returns the slots of extents that have been unused
    /// long enough for the server to take them back.
    pub fn use_at(&mut self, now: Nanoseconds) -> Vec<u8> {
        let since = std::mem::replace(&mut self.used_at, now);
        if now.saturating_sub(since) > LEASE_UNUSED_NS {
            self.take_all()
        } else {
            Vec::new()
        }
    }

    /// Gives up the extents if they were not in use for `unused_ns`, and returns their slots.
    pub fn take_unused(&mut self, now: Nanoseconds, unused_ns: Nanoseconds) -> Vec<u8> {
        match now.saturating_sub(self.used_at) >= unused_ns {
            true => self.take_all(),
            false => Vec::new(),
        }
    }

    /// Gives up all extents and returns their slots.
    pub fn take_all(&mut self) -> Vec<u8> {
        self.current
            .take()
            .into_iter()
            .chain(self.next.take())
            .map(|extent| extent.grant.slot)
            .collect()
    }

    fn room(&self, extent: &Extent) -> u64 {
        self.format.segment_size - u64::from(extent.unit) * UNIT_SIZE
    }
}
