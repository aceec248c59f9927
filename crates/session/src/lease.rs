//! Memory that one peer may touch, through memory windows of its own.
//!
//! ```text
//!   object --grant--> Lease --recall--> asked to give it back --give back / reclaim / owner gone--> Ending --> Revoked --> object
//!                       |                                                                             '-> Unquiesced: never
//!                       '-- the object is inside the lease: using it again takes a `Revoked`
//! ```
//!
//! The object of a lease belongs to the store: an extent of a log, the right to publish, a reader's view of an index,
//! the log of a writer. The lease takes that value, and only revocation returns it, so that no path of a store can
//! reuse memory before the windows on it are closed. A lease for which the device opened no window is not a lease: its
//! object is returned at once.

use smallvec::SmallVec;
use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::{Access, DeviceError, MemoryRegion, Port, QueuePair, Rkey};

/// Memory to open to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The region.
    pub region: MemoryRegion,
    /// The bytes to open.
    pub span: Span,
    /// The rights.
    pub access: Access,
}

impl Opening {
    /// All of `region`.
    pub fn whole(region: MemoryRegion, access: Access) -> Self {
        Self {
            region,
            span: Span::new(0, region.size),
            access,
        }
    }
}

/// The right of one peer to touch memory through windows of its own.
#[derive(Debug)]
#[must_use = "memory that is leased is lost when its lease is dropped: end it"]
pub struct Lease<O> {
    object: O,
    owner: QueuePair,
    epoch: u64,
    windows: SmallVec<[Rkey; 2]>,
    /// The time of the grant, or of the last request to give the lease back.
    asked_at: Nanoseconds,
}

impl<O> Lease<O> {
    /// The leased object.
    pub fn object(&self) -> &O {
        &self.object
    }

    /// The leased object, for the store's own bookkeeping.
    pub fn object_mut(&mut self) -> &mut O {
        &mut self.object
    }

    /// The queue pair of the peer that has it.
    pub fn owner(&self) -> QueuePair {
        self.owner
    }

    /// The epoch in which the lease was granted. The owner's actions count in that epoch alone.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The keys of its windows, in the order in which they were opened.
    pub fn windows(&self) -> &[Rkey] {
        &self.windows
    }

    /// The time, at `now`, since the lease was granted or recalled.
    pub fn held_for(&self, now: Nanoseconds) -> Nanoseconds {
        now.saturating_sub(self.asked_at)
    }

    /// Notes that the owner is asked at `now` to give the lease back. The owner may use the lease until the owner
    /// returns it or the lease is ended.
    pub fn recall(&mut self, now: Nanoseconds) {
        self.asked_at = now;
    }

    /// The same lease, of a value that may hold the object: for leases of different kinds that end together.
    pub fn widen<P: From<O>>(self) -> Lease<P> {
        Lease {
            object: self.object.into(),
            owner: self.owner,
            epoch: self.epoch,
            windows: self.windows,
            asked_at: self.asked_at,
        }
    }

    /// The object, if no window was opened: no peer could reach the object, so nothing has to end. Otherwise the lease.
    pub fn into_unopened(self) -> Result<O, Self> {
        if self.windows.is_empty() {
            Ok(self.object)
        } else {
            Err(self)
        }
    }

    pub(crate) fn into_object(self) -> O {
        self.object
    }
}

/// Grants leases.
#[derive(Clone, Copy)]
pub struct Lessor<'a> {
    /// Opens the windows.
    pub port: &'a Port,
    /// The epoch of its grants.
    pub epoch: u64,
}

impl Lessor<'_> {
    /// Leases `object` to the peer of `owner` at `now`, by opening `openings` to it.
    ///
    /// If the device refuses a window, the lease is returned with the windows that it has, and ends like any other
    /// lease.
    pub fn grant<O>(
        &self,
        owner: QueuePair,
        object: O,
        openings: &[Opening],
        now: Nanoseconds,
    ) -> Result<Lease<O>, (Lease<O>, DeviceError)> {
        let mut lease = Lease {
            object,
            owner,
            epoch: self.epoch,
            windows: SmallVec::new(),
            asked_at: now,
        };
        for opening in openings {
            let Opening {
                region,
                span,
                access,
            } = *opening;
            let device = self.port.device();
            match device.bind_window(owner, region, span.offset, span.size, access) {
                Ok(rkey) => lease.windows.push(rkey),
                Err(error) => return Err((lease, error)),
            }
        }
        Ok(lease)
    }
}

/// The leases of one owner, in numbered slots that both sides know.
#[derive(Debug)]
pub struct Leases<O, const SLOTS: usize> {
    slots: [Slot<O>; SLOTS],
}

#[derive(Debug)]
enum Slot<O> {
    Free,
    Held(Lease<O>),
    /// The lease was taken from an owner that has not returned it: the owner's later messages about this slot do not
    /// concern another lease.
    Reclaimed,
}

impl<O> Slot<O> {
    fn held(&self) -> Option<&Lease<O>> {
        match self {
            Self::Held(lease) => Some(lease),
            Self::Free | Self::Reclaimed => None,
        }
    }
}

impl<O, const SLOTS: usize> Default for Leases<O, SLOTS> {
    fn default() -> Self {
        Self {
            slots: std::array::from_fn(|_| Slot::Free),
        }
    }
}

impl<O, const SLOTS: usize> Leases<O, SLOTS> {
    /// A slot for another lease.
    pub fn free_slot(&self) -> Option<usize> {
        self.slots
            .iter()
            .position(|slot| matches!(slot, Slot::Free))
    }

    /// Puts `lease` into `slot`, which is free.
    pub fn hold(&mut self, slot: usize, lease: Lease<O>) {
        let before = std::mem::replace(&mut self.slots[slot], Slot::Held(lease));
        assert!(matches!(before, Slot::Free), "slot {slot} is free");
    }

    /// The lease in `slot`.
    pub fn get(&self, slot: usize) -> Option<&Lease<O>> {
        self.slots.get(slot)?.held()
    }

    /// All leases that are held.
    pub fn held(&self) -> impl Iterator<Item = &Lease<O>> {
        self.slots.iter().filter_map(Slot::held)
    }

    /// All leases that are held, for changes.
    pub fn held_mut(&mut self) -> impl Iterator<Item = &mut Lease<O>> {
        self.slots.iter_mut().filter_map(|slot| match slot {
            Slot::Held(lease) => Some(lease),
            Slot::Free | Slot::Reclaimed => None,
        })
    }

    /// Whether the lease in `slot` was taken from its owner, which has not returned it since.
    pub fn is_reclaimed(&self, slot: usize) -> bool {
        matches!(self.slots.get(slot), Some(Slot::Reclaimed))
    }

    /// Notes that the owner returns `slot`. Returns its lease, unless the lease was reclaimed before.
    #[must_use = "a lease that was given back must be ended"]
    pub fn give_back(&mut self, slot: usize) -> Option<Lease<O>> {
        match std::mem::replace(self.slots.get_mut(slot)?, Slot::Free) {
            Slot::Held(lease) => Some(lease),
            Slot::Free | Slot::Reclaimed => None,
        }
    }

    /// Takes the leases that satisfy `chosen`, without their owner's consent. Their slots stay taken until the owner
    /// returns them.
    #[must_use = "a lease that was reclaimed must be ended"]
    pub fn reclaim(&mut self, chosen: impl Fn(&Lease<O>) -> bool) -> Vec<Lease<O>> {
        let mut reclaimed = Vec::new();
        for slot in &mut self.slots {
            if slot.held().is_some_and(&chosen)
                && let Slot::Held(lease) = std::mem::replace(slot, Slot::Reclaimed)
            {
                reclaimed.push(lease);
            }
        }
        reclaimed
    }

    /// All leases of an owner that is gone.
    pub fn into_held(self) -> impl Iterator<Item = Lease<O>> {
        self.slots.into_iter().filter_map(|slot| match slot {
            Slot::Held(lease) => Some(lease),
            Slot::Free | Slot::Reclaimed => None,
        })
    }
}
