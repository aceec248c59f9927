//! Memory that one peer may touch, through memory windows of its own.
//!
//! ```text
//!   object --grant--> Lease --recall--> asked to give it back --give back / reclaim / owner gone--> Ending --> Revoked --> object
//!                       |                                                                             '-> Unquiesced: never
//!                       '-- the object is inside the lease: using it again takes a `Revoked`
//! ```
//!
//! The object of a lease is the store's: an extent of a log, the right to publish, a reader's view of an index, the log of a writer. The
//! lease moves that value in, and it comes out of revocation alone, so that no path of a store can use memory again before the
//! windows on it are closed. A lease that the device gave no window at all is none: its object comes out at once.

use smallvec::SmallVec;
use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::{Access, DeviceError, MemoryRegion, Port, QueuePair, Rkey};

/// Memory to open to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The region.
    pub region: MemoryRegion,
    /// Which of its bytes.
    pub span: Span,
    /// For what.
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

/// A right of one peer. See the module documentation.
#[derive(Debug)]
#[must_use = "memory that is leased is lost when its lease is dropped: end it"]
pub struct Lease<O> {
    object: O,
    owner: QueuePair,
    epoch: u64,
    windows: SmallVec<[Rkey; 2]>,
    /// When it was granted, or its owner was last asked to give it back.
    asked_at: Nanoseconds,
}

impl<O> Lease<O> {
    /// What is leased.
    pub fn object(&self) -> &O {
        &self.object
    }

    /// What the store keeps of it.
    pub fn object_mut(&mut self) -> &mut O {
        &mut self.object
    }

    /// The queue pair of the peer that has it.
    pub fn owner(&self) -> QueuePair {
        self.owner
    }

    /// The epoch in which it was granted. What its owner does counts in that epoch alone.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The keys of its windows, in the order in which they were opened.
    pub fn windows(&self) -> &[Rkey] {
        &self.windows
    }

    /// How long, at `now`, the owner has had it since it was granted or recalled.
    pub fn held_for(&self, now: Nanoseconds) -> Nanoseconds {
        now.saturating_sub(self.asked_at)
    }

    /// Notes that the owner is asked at `now` to give it back. The owner may use the lease until then, or until the lease is ended.
    pub fn recall(&mut self, now: Nanoseconds) {
        self.asked_at = now;
    }

    /// The same lease, of a value that holds the object among others: for leases of different kinds that end together.
    pub fn widen<P: From<O>>(self) -> Lease<P> {
        Lease {
            object: self.object.into(),
            owner: self.owner,
            epoch: self.epoch,
            windows: self.windows,
            asked_at: self.asked_at,
        }
    }

    /// The object, if no window was opened: no peer could reach it, so nothing has to end. Otherwise the lease.
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
    /// The epoch that it grants in.
    pub epoch: u64,
}

impl Lessor<'_> {
    /// Leases `object` to the peer of `owner` at `now`, by opening `openings` to it.
    ///
    /// If the device refuses a window, the lease comes back with the windows that it has, and ends like any other.
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
    /// Taken from an owner that has not returned it: what it still says of this slot is not about another lease.
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

    /// All of them.
    pub fn held(&self) -> impl Iterator<Item = &Lease<O>> {
        self.slots.iter().filter_map(Slot::held)
    }

    /// All of them.
    pub fn held_mut(&mut self) -> impl Iterator<Item = &mut Lease<O>> {
        self.slots.iter_mut().filter_map(|slot| match slot {
            Slot::Held(lease) => Some(lease),
            Slot::Free | Slot::Reclaimed => None,
        })
    }

    /// Whether the lease in `slot` was taken from its owner, and not returned since.
    pub fn is_reclaimed(&self, slot: usize) -> bool {
        matches!(self.slots.get(slot), Some(Slot::Reclaimed))
    }

    /// The owner returns `slot`. The lease that was in it, unless it was reclaimed before.
    #[must_use = "a lease that was given back is to be ended"]
    pub fn give_back(&mut self, slot: usize) -> Option<Lease<O>> {
        match std::mem::replace(self.slots.get_mut(slot)?, Slot::Free) {
            Slot::Held(lease) => Some(lease),
            Slot::Free | Slot::Reclaimed => None,
        }
    }

    /// Takes the leases for which `chosen` holds, without their owner. Their slots stay taken until it returns them.
    #[must_use = "a lease that was reclaimed is to be ended"]
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
