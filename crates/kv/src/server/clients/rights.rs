//! The rights of a client that publishes, its intents, and the segments that the client leaves at its end.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::MemoryRegion;
use stonecast_media::Region;

use crate::metrics::ClientPath;
use crate::wire::intent::{Intent, intent_offset};

/// The intents of a client.
pub(super) struct Ring {
    pub(super) memory: Rc<dyn Region>,
    pub(super) taken: Cell<u64>,
    /// The client's records with a lower sequence are published or void: a client publishes one record after the other.
    pub(super) unsettled: Cell<u64>,
    /// The path by which the client reaches the store.
    pub(super) path: ClientPath,
}

/// Rights of a client to publish.
pub(super) struct PublishingRights {
    pub(super) ring: Rc<Ring>,
    pub(super) region: MemoryRegion,
    /// Intents taken when the client last advanced, and that time.
    pub(super) seen: (u64, Nanoseconds),
}

/// A segment that a client returned or lost.
pub(super) struct Returned {
    pub segment: u32,
    pub stamper: Stamper,
}

/// The author of the stamps in the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamper {
    Server,
    /// A client with no publication in progress.
    Client,
    /// A client whose rights were taken away, perhaps in the middle of a publication.
    DeadClient,
}

impl Ring {
    /// Takes the next intent, if there is one.
    pub(super) fn take(&self) -> Option<Intent> {
        let number = self.taken.get() + 1;
        let offset = intent_offset(number);
        let words = std::array::from_fn(|word| self.memory.load(offset + word as u64 * 8));
        let intent = Intent::parse(words, number)?;
        self.taken.set(number);
        self.unsettled.set(intent.sequence);
        Some(intent)
    }
}

impl PublishingRights {
    /// The ring, once the client can announce nothing more.
    pub fn into_ring(self) -> Rc<Ring> {
        self.ring
    }

    /// The memory of the ring.
    pub fn region(&self) -> MemoryRegion {
        self.region
    }
}
