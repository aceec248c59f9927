//! The server's grants to a client that publishes: the rights, an extent in which only this client stamps records, and
//! a ring for intents.

use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{ReadInto, RemoteAddress, Rkey};
use stonecast_log::{Draft, LogFormat, Secret, Stamp, UNIT_SIZE, record_size};

use super::{Attempt, PUBLISHED_SIZE_MAX, Publisher, Target};
use crate::client::memory::{SCRATCH_SIZE, ServerMemory};
use crate::error::StoreError;
use crate::wire::intent::{INTENTS, Intent, intent_offset};
use crate::wire::limits::LEASE_UNUSED_NS;
use crate::wire::{Answer, Grant, KeyHash, Request, RightsGrant, Verdict, Word};

// A change posts the longest record that is published, an intent and a word from one piece of scratch memory.
const _: () = assert!(PUBLISHED_SIZE_MAX + 128 <= SCRATCH_SIZE);

/// The state of this client's rights to publish.
pub(super) enum PublishingRight {
    /// The client may not publish.
    Never,
    /// The client may ask for the rights.
    MayAsk,
    /// The client has the rights.
    Granted(Box<Rights>),
}

/// The rights that the server has granted, and their use so far.
pub(super) struct Rights {
    pub(super) grant: RightsGrant,
    /// The format with the pool's secret.
    format: LogFormat,
    extent: Option<Extent>,
    /// Intents written so far.
    announced: u64,
    /// Intents that the server has taken, as far as the client knows.
    taken: u64,
    /// Time of the last use of the rights, or of a use a few puts earlier.
    used_at: Nanoseconds,
    /// The record that is being published. Its memory is used again for the next one.
    pub(super) record: Vec<u8>,
}

/// A lease for records that this client stamps.
struct Extent {
    grant: Grant,
    unit: u32,
    last: u32,
}

impl Publisher {
    /// Ensures that this client has rights, an extent with room for `size` bytes, and room for its intents. Returns
    /// false if one of them is missing.
    pub(super) async fn prepare_publishing(self: &Rc<Self>, size: u64) -> Result<bool, StoreError> {
        let now = self.connection.runtime.now();
        let table = self.memory.first_index().table;
        let is_usable = match &mut *self.publishing.borrow_mut() {
            PublishingRight::Never => return Ok(false),
            PublishingRight::MayAsk => false,
            PublishingRight::Granted(rights) => {
                let was_used = now.saturating_sub(rights.used_at) <= LEASE_UNUSED_NS;
                rights.used_at = now;
                rights.grant.table == table && was_used
            }
        };
        if !is_usable && !self.ask_rights(now).await? {
            return Ok(false);
        }
        if !self.rights(|rights| rights.has_room(size)) {
            self.leases.release_beside(self.take_extent());
            // The lease runs beside this put: if the put is given up, the next put uses the extent.
            let publisher = self.clone();
            let leased = self
                .connection
                .conclude_in_task(async move { publisher.lease(size).await });
            if !leased.await? {
                return Ok(false);
            }
        }
        if self.rights(|rights| rights.has_room_for_intents()) {
            return Ok(true);
        }
        let mut taken = [0; 8];
        let remote = self.rights(|rights| rights.ring(0));
        self.memory
            .read(&mut [ReadInto {
                remote,
                into: &mut taken,
            }])
            .await?;
        Ok(self.rights(|rights| {
            rights.note_taken(u64::from_le_bytes(taken));
            rights.has_room_for_intents()
        }))
    }

    /// Gives up the present rights, and asks for rights to publish in the present index. Returns false if the server
    /// gives none at the moment.
    async fn ask_rights(self: &Rc<Self>, now: Nanoseconds) -> Result<bool, StoreError> {
        let extent =
            match std::mem::replace(&mut *self.publishing.borrow_mut(), PublishingRight::MayAsk) {
                PublishingRight::Granted(rights) => rights.extent,
                PublishingRight::MayAsk | PublishingRight::Never => None,
            };
        if let Some(extent) = extent {
            self.leases.release(extent.grant.slot).await?;
        }
        let grant = match self.connection.request(Request::Publish).await? {
            Answer::Rights(grant) => grant,
            Answer::Verdict {
                verdict: Verdict::Busy,
                ..
            } => return Ok(false),
            _ => {
                *self.publishing.borrow_mut() = PublishingRight::Never;
                return Ok(false);
            }
        };
        if let Some(what) = grant.fault() {
            return Err(StoreError::Protocol { what });
        }
        let format = LogFormat {
            secret: Some(Secret::new(grant.secret)),
            ..self.connection.format
        };
        let rights = Rights {
            grant,
            format,
            extent: None,
            announced: 0,
            taken: 0,
            used_at: now,
            record: Vec::new(),
        };
        *self.publishing.borrow_mut() = PublishingRight::Granted(Box::new(rights));
        let index = self.memory.first_index();
        if grant.table != index.table {
            // The rights are for an index that this client does not know yet.
            self.memory.adopt_index(index).await?;
        }
        Ok(true)
    }

    /// Leases an extent for records that this client stamps. Returns false if the server gives none at the moment.
    async fn lease(&self, size: u64) -> Result<bool, StoreError> {
        let Ok(grant) = self.leases.ask(size, true).await? else {
            return Ok(false);
        };
        self.rights(|rights| {
            rights.extent = Some(Extent {
                grant,
                unit: grant.start,
                last: grant.last,
            });
        });
        Ok(true)
    }

    /// Gives up the extent in which this client publishes, so that the caller returns it. Called with no put in flight.
    pub fn take_extent(&self) -> Option<u8> {
        match &mut *self.publishing.borrow_mut() {
            PublishingRight::Granted(rights) => {
                rights.extent.take().map(|extent| extent.grant.slot)
            }
            _ => None,
        }
    }
}

impl Rights {
    pub(super) fn counter(&self) -> RemoteAddress {
        RemoteAddress {
            address: self.grant.counter_address,
            rkey: Rkey(self.grant.counter_rkey),
        }
    }

    pub(super) fn ring(&self, offset: u64) -> RemoteAddress {
        RemoteAddress {
            address: self.grant.ring_address + offset,
            rkey: Rkey(self.grant.ring_rkey),
        }
    }

    /// Number and place of the next intent.
    pub(super) fn next_intent(&mut self) -> (u64, RemoteAddress) {
        self.announced += 1;
        (self.announced, self.ring(intent_offset(self.announced)))
    }

    /// Whether there is an extent with room for `size` bytes.
    pub(super) fn has_room(&self, size: u64) -> bool {
        let segment_size = self.format.segment_size;
        self.extent
            .as_ref()
            .is_some_and(|extent| u64::from(extent.unit) * UNIT_SIZE + size <= segment_size)
    }

    /// Whether the ring has room for both intents that one put may write: the announcement of the put, and the
    /// announcement that the put was taken back.
    pub(super) fn has_room_for_intents(&self) -> bool {
        self.announced + 2 - self.taken <= INTENTS
    }

    /// Notes the time of use of the rights.
    pub(super) fn note_used(&mut self, now: Nanoseconds) {
        self.used_at = now;
    }

    /// Notes the number of intents that the server has taken.
    pub(super) fn note_taken(&mut self, taken: u64) {
        self.taken = taken.min(self.announced);
    }

    /// Makes the stamped record for the next place. The place stays free until the record is
    /// [noted](Rights::note_stamped): no other party has seen the record before.
    pub(super) fn stamp_next(
        &mut self,
        memory: &ServerMemory,
        draft: &Draft<'_>,
        hash: KeyHash,
        target: &Target,
        sequence: u64,
    ) -> Attempt {
        let size = record_size(draft.key.len(), draft.value.len());
        let opening = memory.connection.welcome.opening.get();
        let Extent { grant, unit, last } = *self
            .extent
            .as_ref()
            .expect("the extent was checked in this turn");
        let position = self.format.position(grant.segment, unit);
        let tag = draft.encode(
            &self.format,
            position,
            grant.generation,
            opening,
            &mut self.record,
        );
        // The extent has one writer, whose stores arrive in order: everything below is as durable as promised.
        let stamp = Stamp {
            sequence,
            previous: last,
            durable: grant.durable,
            opening,
        };
        let commit_tag = stamp.put_into(
            &mut self.record,
            &self.format,
            position,
            grant.generation,
            tag,
            size,
        );
        let after = Word::new(position, grant.generation, hash, size);
        let units = (target.size / UNIT_SIZE, size / UNIT_SIZE);
        let intent = Intent {
            before: target.word,
            after,
            sequence,
            units,
            is_taken_back: false,
        };
        let intent_number = self.announced + 1;
        let bucket = memory.first_index().address(target.bucket);
        Attempt {
            sequence,
            commit_tag,
            record_at: RemoteAddress {
                address: memory.log_address(position).address,
                rkey: Rkey(grant.rkey),
            },
            word_at: RemoteAddress {
                address: bucket.address + target.slot * 8,
                rkey: Rkey(self.grant.index_rkey),
            },
            intent,
            intent_number,
            intent_at: self.ring(intent_offset(intent_number)),
        }
    }

    /// Notes that the record is in the log, or on its way there. From here on the record has to be concluded.
    pub(super) fn note_stamped(&mut self, attempt: &Attempt) {
        let extent = self
            .extent
            .as_mut()
            .expect("the extent was checked in this turn");
        extent.last = extent.unit;
        extent.unit += attempt.intent.units.1 as u32;
        self.announced = attempt.intent_number;
    }
}
