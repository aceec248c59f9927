//! The server of both baselines.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::{Access, Port, QueuePair, Runtime};
use stonecast_media::PersistentRegion;
use stonecast_persist::Persisted;
use stonecast_persist::execute::Commit;

use crate::PublishedError;
use crate::baseline::Scheme;
use crate::baseline::storage::Storage;
use crate::geometry::Geometry;
use crate::hub::{Arrival, Hub, Receives};
use crate::message::{Message, Outcome};
use crate::object::{Ask, Record};

/// Receive buffers of Read After Write, whose ring is not the receive queue.
const RECEIVES: u32 = 512;
const STOP_CHECK_NS: Nanoseconds = 20_000_000;
/// Interval at which the ring is polled while a client has a slot.
const POLL_NS: Nanoseconds = 200;

/// A server of one store.
pub struct BaselineServer {
    hub: Hub,
    scheme: Scheme,
    geometry: Geometry,
    memory: Rc<dyn PersistentRegion>,
    commit: Commit,
    state: RefCell<State>,
}

struct State {
    storage: Storage,
    /// Slots with records that are not applied yet, in the order in which they were taken.
    pending: VecDeque<Pending>,
    /// For each key with a pending record, the slot of its newest record.
    newest: HashMap<Vec<u8>, u64>,
    /// Read After Write: free slots, and the clients that wait for one.
    free: VecDeque<u64>,
    waiting: VecDeque<(QueuePair, Vec<u8>)>,
}

struct Pending {
    slot: u64,
    key: Vec<u8>,
    writer: QueuePair,
}

impl BaselineServer {
    /// Creates a store in `memory`; `commit` makes its records durable.
    pub fn open(
        memory: Rc<dyn PersistentRegion>,
        commit: Commit,
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        geometry: Geometry,
        scheme: Scheme,
    ) -> Result<Self, PublishedError> {
        geometry.check()?;
        if memory.size() < geometry.size() {
            return Err(PublishedError::Full);
        }
        let device = port.device().clone();
        let region = device.register_persistent(
            memory.clone(),
            Access::REMOTE_READ.and(Access::REMOTE_WRITE),
        )?;
        let ring = geometry.ring();
        let slot_size = geometry.ring_slot_size();
        let receives = match scheme {
            Scheme::RedoLogging => Receives {
                region,
                offset: ring.offset,
                slot_size,
                slots: geometry.ring_slots,
            },
            Scheme::ReadAfterWrite => {
                let region = device.allocate(u64::from(RECEIVES) * slot_size, Access::NONE)?;
                Receives {
                    region,
                    offset: 0,
                    slot_size,
                    slots: RECEIVES,
                }
            }
        };
        let hub = Hub::new(port, runtime, geometry, region, receives)?;
        let state = RefCell::new(State {
            storage: Storage::new(memory.clone(), geometry),
            pending: VecDeque::new(),
            newest: HashMap::new(),
            free: (0..u64::from(geometry.ring_slots)).collect(),
            waiting: VecDeque::new(),
        });
        Ok(Self {
            hub,
            scheme,
            geometry,
            memory,
            commit,
            state,
        })
    }

    /// Serves until `stop` returns true.
    pub async fn run(&self, stop: &dyn Fn() -> bool) -> Result<(), PublishedError> {
        while !stop() {
            let idle = self.state.borrow().pending.is_empty();
            self.hub
                .wait(if idle { STOP_CHECK_NS } else { POLL_NS })
                .await;
            for gone in self.hub.take_events() {
                self.forget(gone);
            }
            let mut any = false;
            while let Some(arrival) = self.hub.take_arrival() {
                any = true;
                self.serve(&arrival).await?;
            }
            // A third of the ring at a time, as in the artefact; one record while there are no
            // requests.
            let crowded =
                self.state.borrow().pending.len() as u64 > u64::from(self.geometry.ring_slots) / 3;
            if crowded || !any {
                let count = if crowded {
                    self.geometry.ring_slots / 3
                } else {
                    1
                };
                for _ in 0..count.max(1) {
                    if !self.apply_one().await? {
                        break;
                    }
                }
            }
            self.serve_waiting();
        }
        Ok(())
    }

    async fn serve(&self, arrival: &Arrival) -> Result<(), PublishedError> {
        let bytes = self.hub.bytes(arrival);
        let record = Record::parse(&bytes, self.geometry.key_size, self.geometry.value_size);
        let Some(record) = record else {
            return Err(PublishedError::Protocol("a record that is not whole"));
        };
        match record.ask {
            Ask::Get => {
                let answer = match self.look_up(record.key) {
                    Some(value) => Message::answer(Outcome::Done, 0, value),
                    None => Message::answer(Outcome::Absent, 0, Vec::new()),
                };
                self.hub.repost(arrival.slot)?;
                self.hub.send(arrival.qp, &answer);
            }
            Ask::Place => {
                self.hub.repost(arrival.slot)?;
                self.state
                    .borrow_mut()
                    .waiting
                    .push_back((arrival.qp, record.key.to_vec()));
                self.serve_waiting();
            }
            Ask::Put | Ask::Delete => {
                // The record is already in the redo log, which is the receive queue.
                let span = Span::new(self.hub.slot_offset(arrival.slot), bytes.len() as u64);
                let logged = self.commit.persist(&*self.memory, &[span]).await?;
                let state = &mut *self.state.borrow_mut();
                state.pending.push_back(Pending {
                    slot: arrival.slot,
                    key: record.key.to_vec(),
                    writer: arrival.qp,
                });
                state.newest.insert(record.key.to_vec(), arrival.slot);
                let outcome = if state.storage.has_room() {
                    Outcome::Done
                } else {
                    Outcome::Full
                };
                self.acknowledge(arrival.qp, outcome, &logged);
            }
        }
        Ok(())
    }

    /// Answers a put or delete. Takes the proof that its record is durable in the redo log.
    fn acknowledge(&self, writer: QueuePair, outcome: Outcome, _: &Persisted) {
        self.hub
            .send(writer, &Message::answer(outcome, 0, Vec::new()));
    }

    /// Gives slots of the ring to waiting clients.
    fn serve_waiting(&self) {
        let state = &mut *self.state.borrow_mut();
        while let Some((qp, key)) = state.waiting.pop_front() {
            let Some(slot) = state.free.pop_front() else {
                state.waiting.push_front((qp, key));
                return;
            };
            let offset = self.slot_offset(slot);
            // The previous record must not pass as the next one.
            self.memory.store(offset, 0);
            state.pending.push_back(Pending {
                slot,
                key,
                writer: qp,
            });
            self.hub
                .send(qp, &Message::answer(Outcome::Done, offset, Vec::new()));
        }
    }

    fn slot_offset(&self, slot: u64) -> u64 {
        self.geometry.ring().offset + slot * self.geometry.ring_slot_size()
    }

    fn slot_bytes(&self, slot: u64) -> Vec<u8> {
        let size = self.geometry.ring_slot_size() as usize;
        let mut bytes = vec![0; size];
        self.memory.read(self.slot_offset(slot), &mut bytes);
        bytes
    }

    /// Looks `key` up, first in the log or ring, then in the destination.
    fn look_up(&self, key: &[u8]) -> Option<Vec<u8>> {
        let state = self.state.borrow();
        let Geometry {
            key_size,
            value_size,
            ..
        } = self.geometry;
        let slots: Vec<u64> = match self.scheme {
            Scheme::RedoLogging => state.newest.get(key).copied().into_iter().collect(),
            Scheme::ReadAfterWrite => state
                .pending
                .iter()
                .rev()
                .filter(|slot| slot.key == key)
                .map(|slot| slot.slot)
                .collect(),
        };
        for slot in slots {
            let bytes = self.slot_bytes(slot);
            if let Some(record) =
                Record::parse(&bytes, key_size, value_size).filter(|record| record.key == key)
            {
                return (record.ask == Ask::Put).then(|| record.value.to_vec());
            }
        }
        state.storage.get(key)
    }

    /// Applies the oldest record, if it has arrived. Returns whether a record was applied.
    async fn apply_one(&self) -> Result<bool, PublishedError> {
        let Geometry {
            key_size,
            value_size,
            ..
        } = self.geometry;
        let Some(slot) = self
            .state
            .borrow()
            .pending
            .front()
            .map(|pending| pending.slot)
        else {
            return Ok(false);
        };
        let bytes = self.slot_bytes(slot);
        let Some(record) = Record::parse(&bytes, key_size, value_size) else {
            return Ok(false);
        };
        let applied = match record.ask {
            Ask::Put => self
                .state
                .borrow_mut()
                .storage
                .put(record.key, record.value),
            _ => Ok(self.state.borrow_mut().storage.delete(record.key)),
        };
        match applied {
            Ok(spans) => drop(self.commit.persist(&*self.memory, &spans).await?),
            // The writer learnt this from the answer to its request, or is gone.
            Err(PublishedError::Full) => {}
            Err(error) => return Err(error),
        }
        {
            let state = &mut *self.state.borrow_mut();
            state.pending.pop_front();
            if state.newest.get(record.key) == Some(&slot) {
                state.newest.remove(record.key);
            }
        }
        self.give_back(slot)?;
        Ok(true)
    }

    fn give_back(&self, slot: u64) -> Result<(), PublishedError> {
        match self.scheme {
            Scheme::RedoLogging => self.hub.repost(slot),
            Scheme::ReadAfterWrite => {
                self.state.borrow_mut().free.push_back(slot);
                Ok(())
            }
        }
    }

    /// Forgets a client that is gone: a record for which it has a slot and that it did not write
    /// will not arrive.
    fn forget(&self, qp: QueuePair) {
        let Geometry {
            key_size,
            value_size,
            ..
        } = self.geometry;
        let state = &mut *self.state.borrow_mut();
        state.waiting.retain(|(waiting, _)| *waiting != qp);
        if self.scheme == Scheme::ReadAfterWrite {
            let State { pending, free, .. } = state;
            pending.retain(|slot| {
                let keep = slot.writer != qp
                    || Record::parse(&self.slot_bytes(slot.slot), key_size, value_size).is_some();
                if !keep {
                    free.push_back(slot.slot);
                }
                keep
            });
        }
    }
}
