//! Overwriting a key without the server, as a trusted client does if the server permits. `docs/design/0022` explains
//! why this is sound.
//!
//! ```text
//!   READ bucket, record -> FETCH_ADD counter -> WRITE intent, WRITE record with stamp, CAS word     done
//!                                                                                   '-> lost: WRITE void, through the server
//! ```
//!
//! If the provider does all of that in the call, [`in_call`] does the ordinary put, and this module does the remaining
//! puts. [`rights`] holds the rights of this client, and the places to which the client writes.
//!
//! Puts are done one at a time, in turn: records are stamped in the order of their sequences, and puts of one client
//! are committed in the order of the calls. A stamped record is either published or made void before anything else is
//! sent, even if the future that began the put is dropped: that part is a task of its own.
//!
//! Every other put is left to the server, with nothing done. Clients publish only in a pool of one shard, whose index
//! is open from the connect on.

mod attempt;
mod in_call;
mod rights;
mod target;

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;

use stonecast_base::{LINE_SIZE, mutant};
use stonecast_fabric::{ChangeNow, DeviceError, RemoteAddress, Status};
use stonecast_log::{Condition, Draft, Form, KEY_SIZE_MAX, Kind, record_size};

use super::connection::Connection;
use super::leases::Leases;
use super::memory::{Execution, Lent, ServerMemory};
use crate::error::StoreError;
use crate::index::{LookUp, LookUpStep};
use crate::wire::KeyHash;
use crate::wire::intent::SEQUENCE_MAX;

use attempt::Attempt;
use rights::{PublishingRight, Rights};
use target::{Overwritable, Target, start_size};

/// The longest record that is published: one READ fetches the whole record.
const PUBLISHED_SIZE_MAX: u64 = 64 * LINE_SIZE as u64;
/// Buckets that are searched; nearly all keys are in their first or second bucket.
const BUCKETS_MAX: u64 = 8;
/// Puts whose buckets and records are fetched together: as many cache misses as a processor has in flight, and no more
/// lines than its nearest cache keeps until the puts are done.
pub(super) const TOGETHER: usize = 16;
/// Bytes from the start of a record that hold its key, at most.
const START_SIZE_MAX: usize = start_size(KEY_SIZE_MAX);

/// A put without condition and token.
pub(super) fn plain_put<'a>(key: &'a [u8], value: &'a [u8]) -> Draft<'a> {
    Draft {
        kind: Kind::Put,
        form: Form::Whole,
        condition: Condition::None,
        token: 0,
        expires: None,
        key,
        value,
    }
}

/// Overwrites keys without the server.
pub(super) struct Publisher {
    connection: Rc<Connection>,
    memory: Rc<ServerMemory>,
    leases: Rc<Leases>,
    publishing: RefCell<PublishingRight>,
    /// Buffer for the start of the old record, read in the call.
    start: RefCell<Box<[u8; START_SIZE_MAX]>>,
    /// The end of a put that lost in the call and whose record could not be made void there. The put waits for this
    /// future.
    taking_back: RefCell<Option<TakingBack>>,
}

type TakingBack = Pin<Box<dyn Future<Output = Result<(), StoreError>>>>;

impl Publisher {
    /// The publisher of a client that may ask for the rights.
    pub fn new(memory: Rc<ServerMemory>, leases: Rc<Leases>) -> Self {
        Self {
            connection: memory.connection.clone(),
            memory,
            leases,
            publishing: RefCell::new(PublishingRight::MayAsk),
            start: RefCell::new(Box::new([0; START_SIZE_MAX])),
            taking_back: RefCell::default(),
        }
    }

    /// Publishes `draft`, a plain put, if it overwrites a key, and returns the version. `None`: nothing was done, and
    /// the server has to do the put. Called in the turn of this put.
    pub async fn overwrite(self: &Rc<Self>, draft: &Draft<'_>) -> Result<Option<u64>, StoreError> {
        let taking_back = self.taking_back.take();
        if let Some(taken_back) = taking_back {
            taken_back.await?;
        }
        let size = record_size(draft.key.len(), draft.value.len());
        if matches!(*self.publishing.borrow(), PublishingRight::Never) || size > PUBLISHED_SIZE_MAX
        {
            return Ok(None);
        }
        let hash = self.connection.welcome.keys().route(draft.key).hash;
        let mut found = self.find_target(hash, draft.key).await?;
        if found.is_some() && self.connection.has_puts() {
            // Puts that were sent to the server earlier come first.
            self.connection.puts_done().await;
            found = self.find_target(hash, draft.key).await?;
        }
        let Some(mut target) = found else {
            return Ok(None);
        };
        if !self.prepare_publishing(size).await? || !self.is_of_present_index(&target) {
            return Ok(None);
        }
        // A stamped record has to be concluded, so every step that can be refused comes before the stamp.
        let lent = self.memory.lend()?;
        let mut sequence = 0;
        let counter = self.rights(|rights| rights.counter());
        let mut taking = [ChangeNow::FetchAndAdd {
            remote: counter,
            add: 1,
            found: &mut sequence,
        }];
        if self.change(&mut taking, &lent).await? != Status::Success {
            self.connection.end();
            return Ok(None);
        }
        if mutant!(SequenceBeforeRead) {
            let again = self
                .find_target(hash, draft.key)
                .await?
                .filter(|target| self.is_of_present_index(target));
            let Some(again) = again else { return Ok(None) };
            target = again;
        }
        if sequence == 0 || sequence > SEQUENCE_MAX {
            return Err(StoreError::Protocol {
                what: "the server's counter of sequences has an impossible value",
            });
        }
        let attempt = self.rights(|rights| {
            let attempt = rights.stamp_next(&self.memory, draft, hash, &target, sequence);
            rights.note_stamped(&attempt);
            attempt
        });
        // A stamped record is concluded even if this future is dropped, and before the next put.
        let publisher = self.clone();
        self.connection
            .conclude_in_task(async move { publisher.conclude(attempt, lent).await })
            .await
    }

    /// The word of `key`, if the word is not claimed by the server and names a record that clients overwrite.
    async fn find_target(
        self: &Rc<Self>,
        hash: KeyHash,
        key: &[u8],
    ) -> Result<Option<Target>, StoreError> {
        let mut start = Vec::new();
        loop {
            let index = self.memory.first_index();
            let wanted = Overwritable::new(&self.connection.format, key);
            let mut look_up = LookUp::new(wanted, hash, index.bits).within(BUCKETS_MAX);
            let first = LookUpStep::Bucket(look_up.home());
            let end = self.memory.drive(&index, &mut look_up, first, &mut start);
            match end.await? {
                LookUpStep::Moved => self.memory.adopt_index(index).await?,
                LookUpStep::Found(Some(size)) if self.memory.reads(&index) => {
                    return Ok(Some(Target::new(index.table, &look_up, size)));
                }
                _ => return Ok(None),
            }
        }
    }

    /// Whether `target` was found in the current index, and this client has rights for that index.
    fn is_of_present_index(&self, target: &Target) -> bool {
        self.memory.first_index().table == target.table
            && self.rights(|rights| rights.grant.table == target.table)
    }

    /// Publishes the record, or makes it void. The changes of both are posted from `lent`.
    async fn conclude(
        self: &Rc<Self>,
        attempt: Attempt,
        lent: Rc<Lent>,
    ) -> Result<Option<u64>, StoreError> {
        let record = self.rights(|rights| std::mem::take(&mut rights.record));
        let intent = attempt.intent.encode(attempt.intent_number);
        let mut found = 0;
        let done = self
            .change_stamped(&mut attempt.changes(&record, &intent, &mut found), &lent)
            .await;
        self.rights(|rights| rights.record = record);
        done?;
        if attempt.has_won(found) || mutant!(LostSwapBelieved) {
            self.connection.note_version(attempt.sequence);
            return Ok(Some(attempt.sequence));
        }
        let place = self.rights(|rights| rights.next_intent());
        self.take_back(&attempt, place, &lent).await.map(|()| None)
    }

    /// Makes void the record of a publication that lost to a faster writer, and announces the void record. The record
    /// has its sequence already, and must not count beside the writes that came in between.
    async fn take_back(
        &self,
        attempt: &Attempt,
        (number, intent_at): (u64, RemoteAddress),
        lent: &Rc<Lent>,
    ) -> Result<(), StoreError> {
        let (void, intent) = attempt.taken_back(number);
        self.change_stamped(&mut attempt.taking_back(&void, intent_at, &intent), lent)
            .await
    }

    /// Makes the changes that a stamped record needs. If they fail, the connection ends, so that the server decides
    /// about the record; until then the record may count.
    async fn change_stamped(
        &self,
        changes: &mut [ChangeNow<'_>],
        lent: &Rc<Lent>,
    ) -> Result<(), StoreError> {
        if matches!(self.change(changes, lent).await, Ok(Status::Success)) {
            return Ok(());
        }
        self.connection.end();
        Err(StoreError::Disconnected { unknown: true })
    }

    /// Changes memory of the server with one doorbell, from `lent`.
    async fn change(
        &self,
        changes: &mut [ChangeNow<'_>],
        lent: &Rc<Lent>,
    ) -> Result<Status, DeviceError> {
        let Connection {
            meter, port, qp, ..
        } = &*self.connection;
        meter.note_round_trip();
        port.change(*qp, changes, lent.span(), Some(lent.clone()))
            .await
    }

    fn rights<T>(&self, look: impl FnOnce(&mut Rights) -> T) -> T {
        match &mut *self.publishing.borrow_mut() {
            PublishingRight::Granted(rights) => look(rights),
            _ => panic!("a client that publishes has the rights until its turn is over"),
        }
    }
}
