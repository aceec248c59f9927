//! Erda's server: assigns places, keeps the words, cleans.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{Access, Port, Runtime};
use stonecast_media::PersistentRegion;

use crate::PublishedError;
use crate::erda::cleaning::{Cleaning, CleaningState};
use crate::erda::heads::{Head, head_of, span_of};
use crate::erda::recovery;
use crate::erda::word::Word;
use crate::geometry::{Geometry, HEADS_SIZE};
use crate::hub::{Arrival, Hub, Receives};
use crate::message::{DELETE, Kind, Message, Outcome, PUT};
use crate::object::{encode_object, object_size, parse_object};
use crate::table::Table;

/// The server's behaviour where the paper leaves it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErdaOptions {
    /// Percentage of a region that may be used before it is cleaned; at 100 it is cleaned only on request.
    pub clean_at_percent: u64,
    /// The "maximum RTT" for which the cleaner waits after its notice.
    pub round_trip_max_ns: Nanoseconds,
    /// Objects that the cleaner examines between two polls for arrivals.
    pub clean_step: usize,
}

impl Default for ErdaOptions {
    fn default() -> Self {
        Self {
            clean_at_percent: 90,
            round_trip_max_ns: 20_000,
            clean_step: 4,
        }
    }
}

/// Receive buffers of the server.
const RECEIVES: u32 = 512;
/// Interval at which an idle server checks whether it should stop or clean.
const STOP_CHECK_NS: Nanoseconds = 1_000_000;
/// Time for which a cleaning server waits for arrivals.
const CLEANING_LOOK_NS: Nanoseconds = 200;

/// A server of one store.
pub struct ErdaServer {
    pub(super) hub: Hub,
    runtime: Rc<dyn Runtime>,
    pub(super) geometry: Geometry,
    options: ErdaOptions,
    pub(super) memory: Rc<dyn PersistentRegion>,
    pub(super) table: Table,
    pub(super) state: RefCell<State>,
}

pub(super) struct State {
    pub heads: Vec<Head>,
    pub cleaning: Option<Cleaning>,
    /// Regions that no head uses.
    pub free: Vec<u32>,
    /// Heads with a request to clean them.
    asked: Vec<u8>,
    pub cleaned: u64,
}

impl ErdaServer {
    /// Opens the store in `memory`, or creates it. After a crash it checks the objects of the last segment of each
    /// head, as published.
    pub fn open(
        memory: Rc<dyn PersistentRegion>,
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        geometry: Geometry,
        options: ErdaOptions,
    ) -> Result<Self, PublishedError> {
        geometry.check()?;
        if memory.size() < geometry.size() || u64::from(geometry.heads) * 8 > HEADS_SIZE {
            return Err(PublishedError::Full);
        }
        let device = port.device().clone();
        let region = device.register_persistent(
            memory.clone(),
            Access::REMOTE_READ.and(Access::REMOTE_WRITE),
        )?;
        let slot_size = Hub::message_size(&geometry);
        let receives = device.allocate(u64::from(RECEIVES) * slot_size, Access::NONE)?;
        let receives = Receives {
            region: receives,
            offset: 0,
            slot_size,
            slots: RECEIVES,
        };
        let hub = Hub::new(port, runtime.clone(), geometry, region, receives)?;
        let table = Table::new(
            memory.clone(),
            geometry.table(),
            geometry.buckets,
            geometry.key_size,
        );
        let heads: Vec<Head> = (0..geometry.heads)
            .map(|head| recovery::head(&*memory, &geometry, &table, head))
            .collect();
        let free = (0..geometry.regions)
            .filter(|region| heads.iter().all(|head| head.region != *region))
            .collect();
        let state = State {
            heads,
            cleaning: None,
            free,
            asked: Vec::new(),
            cleaned: 0,
        };
        let server = Self {
            hub,
            runtime,
            geometry,
            options,
            memory,
            table,
            state: RefCell::new(state),
        };
        for head in 0..geometry.heads {
            server.point(head);
        }
        Ok(server)
    }

    /// Serves until `stop` returns true.
    pub async fn run(&self, stop: &dyn Fn() -> bool) -> Result<(), PublishedError> {
        while !stop() {
            let cleaning = self.state.borrow().cleaning.is_some();
            self.hub
                .wait(if cleaning {
                    CLEANING_LOOK_NS
                } else {
                    STOP_CHECK_NS
                })
                .await;
            self.hub.take_events();
            while let Some(arrival) = self.hub.take_arrival() {
                self.serve(&arrival)?;
            }
            self.clean(self.options.clean_step, self.runtime.now());
            self.begin_cleaning_if_due();
        }
        Ok(())
    }

    /// Requests a cleaning of the log of `head`.
    pub fn ask_to_clean(&self, head: u8) {
        let asked = &mut self.state.borrow_mut().asked;
        if !asked.contains(&head) {
            asked.push(head);
        }
    }

    /// The state of the cleaner.
    pub fn cleaning(&self) -> CleaningState {
        let state = self.state.borrow();
        CleaningState {
            running: state.cleaning.is_some(),
            finished: state.cleaned,
        }
    }

    fn begin_cleaning_if_due(&self) {
        let limit = self.geometry.region_size * self.options.clean_at_percent / 100;
        let due = {
            let state = &mut *self.state.borrow_mut();
            if state.cleaning.is_some() || state.free.is_empty() {
                return;
            }
            let full = || {
                (0..)
                    .zip(&state.heads)
                    .find(|(_, head)| head.tail > limit)
                    .map(|(number, _)| number)
            };
            state.asked.pop().or_else(full)
        };
        if let Some(head) = due {
            self.begin_cleaning(head, self.runtime.now() + self.options.round_trip_max_ns);
        }
    }

    fn serve(&self, arrival: &Arrival) -> Result<(), PublishedError> {
        let answer = match arrival.requester {
            Some(requester) => {
                let (operation, key) = self.hub.request(requester)?;
                Some(self.grant(operation, &key)?)
            }
            None => self.serve_message(arrival)?,
        };
        self.hub.repost(arrival.slot)?;
        if let Some(answer) = answer {
            self.hub.send(arrival.qp, &answer);
        }
        Ok(())
    }

    /// Assigns the place for an object: metadata first, then the answer (paper section 3.3).
    /// Nothing is written back.
    fn grant(&self, operation: u8, key: &[u8]) -> Result<Message, PublishedError> {
        let head = head_of(key, self.geometry.heads);
        let state = &mut *self.state.borrow_mut();
        if state
            .cleaning
            .as_ref()
            .is_some_and(|cleaning| cleaning.head == head)
        {
            return Ok(Message::answer(Outcome::Cleaning, 0, Vec::new()));
        }
        if operation != PUT && operation != DELETE {
            return Err(PublishedError::Protocol("an unknown operation"));
        }
        let found = self.table.find(key);
        if operation == DELETE && found.is_none() {
            return Ok(Message::answer(Outcome::Absent, 0, Vec::new()));
        }
        let at = &mut state.heads[usize::from(head)];
        let Some(offset) = at.take(&self.geometry) else {
            return Ok(Message::answer(Outcome::Full, 0, Vec::new()));
        };
        match found {
            Some((place, word)) => self.table.set_word(place, Word(word).updated(offset).0),
            None => match self.table.insert(key, head, Word::first(offset).0) {
                Ok(_) => {}
                Err(PublishedError::Full) => {
                    return Ok(Message::answer(Outcome::Full, 0, Vec::new()));
                }
                Err(error) => return Err(error),
            },
        }
        let base = self.geometry.region(at.region).offset;
        Ok(Message::answer(Outcome::Done, base + offset, Vec::new()))
    }

    fn serve_message(&self, arrival: &Arrival) -> Result<Option<Message>, PublishedError> {
        let message = Message::parse(&self.hub.bytes(arrival))?;
        let (key, value) = message
            .body
            .split_at_checked(self.geometry.key_size)
            .ok_or(PublishedError::Protocol("a missing key"))?;
        match message.kind {
            Kind::Get => Ok(Some(self.look_up(key))),
            Kind::Put => {
                self.geometry.check_sizes(key, Some(value))?;
                self.append(key, Some(value)).map(Some)
            }
            Kind::Delete => self.append(key, None).map(Some),
            Kind::Repair => {
                self.repair(key, message.number);
                Ok(None)
            }
            _ => Err(PublishedError::Protocol("not for a server")),
        }
    }

    /// Handles a reader's report of a broken newest object: the older object becomes the newest (paper section 4.2),
    /// even if its writer is still at work (flaw E3).
    fn repair(&self, key: &[u8], broken: u64) {
        if let Some((place, word)) = self.table.find(key) {
            let word = Word(word);
            if word.newest() == Some(broken) && word.older().is_some() {
                self.table.set_word(place, word.rolled_back().0);
            }
        }
    }

    fn look_up(&self, key: &[u8]) -> Message {
        let absent = || Message::answer(Outcome::Absent, 0, Vec::new());
        let Some((_, word)) = self.table.find(key) else {
            return absent();
        };
        let state = self.state.borrow();
        let head = head_of(key, self.geometry.heads);
        let word = Word(word);
        let newest = word
            .newest()
            .map(|offset| (state.heads[usize::from(head)].region, offset));
        let cleaning = state
            .cleaning
            .as_ref()
            .filter(|cleaning| cleaning.head == head);
        let moved = cleaning.and_then(|cleaning| cleaning.latest_in_new_region(word));
        let versions = match moved {
            Some(moved) => [Some(moved), None],
            // While cleaning, the other offset is not an older version.
            None if cleaning.is_some() => [newest, None],
            None => [
                newest,
                word.older()
                    .map(|offset| (state.heads[usize::from(head)].region, offset)),
            ],
        };
        for (region, offset) in versions.into_iter().flatten() {
            let bytes = self.object(region, offset);
            if let Some(object) =
                parse_object(&bytes, self.geometry.key_size, self.geometry.value_size)
                && object.key == key
            {
                return match object.value {
                    Some(value) => Message::answer(Outcome::Done, 0, value.to_vec()),
                    None => absent(),
                };
            }
        }
        absent()
    }

    /// Stores an object from a message: while a head is cleaned, clients do not write its objects
    /// themselves.
    fn append(&self, key: &[u8], value: Option<&[u8]>) -> Result<Message, PublishedError> {
        let head = head_of(key, self.geometry.heads);
        let found = self.table.find(key);
        if value.is_none() && found.is_none() {
            return Ok(Message::answer(Outcome::Absent, 0, Vec::new()));
        }
        let state = &mut *self.state.borrow_mut();
        let old = &mut state.heads[usize::from(head)];
        let cleaning = state
            .cleaning
            .as_mut()
            .filter(|cleaning| cleaning.head == head);
        let word = found.map(|(_, word)| Word(word));
        let (region, offset, word) = match cleaning {
            Some(cleaning) if cleaning.writes_go_to_new_region() => {
                let Some(offset) = cleaning.new.take(&self.geometry) else {
                    return Ok(full());
                };
                cleaning.note_copied(key);
                (
                    cleaning.new.region,
                    offset,
                    word.unwrap_or(Word(0)).with_older(offset),
                )
            }
            during => {
                let Some(offset) = old.take(&self.geometry) else {
                    return Ok(full());
                };
                let word = match (word, during.is_some()) {
                    (None, _) => Word::first(offset),
                    (Some(word), true) => word.with_newest(offset),
                    (Some(word), false) => word.updated(offset),
                };
                (old.region, offset, word)
            }
        };
        self.memory.write(
            span_of(&self.geometry, region, offset).offset,
            &encode_object(key, value),
        );
        match found {
            Some((place, _)) => self.table.set_word(place, word.0),
            None => match self.table.insert(key, head, word.0) {
                Ok(_) => {}
                Err(PublishedError::Full) => return Ok(full()),
                Err(error) => return Err(error),
            },
        }
        Ok(Message::answer(Outcome::Done, 0, Vec::new()))
    }

    /// The bytes at the place of an object, written or not.
    pub(super) fn object(&self, region: u32, offset: u64) -> Vec<u8> {
        let mut bytes = vec![0; object_size(self.geometry.key_size, self.geometry.value_size)];
        self.memory
            .read(span_of(&self.geometry, region, offset).offset, &mut bytes);
        bytes
    }

    /// Stores the start of the region of `head` in the head array.
    pub(super) fn point(&self, head: u8) {
        let region = self.state.borrow().heads[usize::from(head)].region;
        self.memory.store(
            self.geometry.head_offset(head),
            self.geometry.region(region).offset,
        );
    }
}

fn full() -> Message {
    Message::answer(Outcome::Full, 0, Vec::new())
}
