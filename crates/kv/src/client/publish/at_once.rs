//! An overwrite that nobody else has to run for: the ordinary case as straight as it can be, without a future. Only where the
//! provider reads and changes the server's memory in the call.
//!
//! ```text
//!   bucket -> a word with the fingerprint -> start of the record: the key's, claimed by nobody
//!      -> counter -> report, record with stamp, word      done
//!                                               '-> lost: void
//!   anything else: nothing was done, and `publish.rs` does what there is to do
//! ```
//!
//! Invariants: what is done here is what `publish.rs` does after the same READs, in the same order; and a put is done here only
//! where all that this client was asked for before are done. Whether the rights were used lately is not asked: those that were taken
//! away because they were not open nothing, and then nothing is done.

use std::rc::Rc;

use stonecast_base::LINE_SIZE;
use stonecast_fabric::{ChangeNow, ReadInto};
use stonecast_log::{Condition, Draft, Kind, record_size};

use super::{Attempt, Overwritable, PUBLISHED_SIZE_MAX, Publishing, Rights, Target};
use crate::client::Inner;
use crate::client::at_once::AtOnce;
use crate::client::write::check_key;
use crate::index::{LookUp, LookUpStep};
use crate::wire::KeyHash;
use crate::wire::intent::SEQUENCE_MAX;

/// One in how many puts notes when it was: a look at the clock takes a while, and what is noted too early only lets the rights be
/// asked for anew.
const USED_EVERY: u64 = 64;

impl Inner {
    /// Whether this client publishes overwrites in the call.
    pub(in crate::client) fn publishes_in_call(&self) -> bool {
        self.at_once == AtOnce::Now && matches!(*self.publishing.borrow(), Publishing::Granted(_))
    }

    /// Publishes a plain put, if it is an overwrite that can be done here; its version then. `None`: nothing was done.
    #[inline]
    pub(in crate::client) fn publish_at_once(
        self: &Rc<Self>,
        key: &[u8],
        value: &[u8],
    ) -> Option<u64> {
        if self.at_once != AtOnce::Now || self.turns.are_taken() {
            return None;
        }
        self.overwrite_with_rights(key, value)
    }

    /// As [`Inner::publish_at_once`] for who has the turn: those who wait come after.
    pub(in crate::client) fn publish_in_turn(self: &Rc<Self>, draft: &Draft<'_>) -> Option<u64> {
        if self.at_once != AtOnce::Now || draft.condition != Condition::None || draft.token != 0 {
            return None;
        }
        self.overwrite_with_rights(draft.key, draft.value)
    }

    #[inline]
    fn overwrite_with_rights(self: &Rc<Self>, key: &[u8], value: &[u8]) -> Option<u64> {
        let publishing = &mut *self.publishing.borrow_mut();
        let Publishing::Granted(rights) = publishing else {
            return None;
        };
        self.overwrite_at_once(rights, key, value)
    }

    #[inline]
    fn overwrite_at_once(
        self: &Rc<Self>,
        rights: &mut Rights,
        key: &[u8],
        value: &[u8],
    ) -> Option<u64> {
        if self.pending.borrow().has_puts() || self.closed.get() || check_key(key).is_err() {
            return None;
        }
        let size = record_size(key.len(), value.len());
        let access = self.access.get();
        if size > PUBLISHED_SIZE_MAX || rights.grant.table != access.table || !rights.has_room(size)
        {
            return None;
        }
        if !rights.has_room_for_reports() {
            let mut taken = [0; 8];
            self.read_now(&mut [ReadInto {
                remote: rights.ring(0),
                into: &mut taken,
            }])?;
            rights.note_taken(u64::from_le_bytes(taken));
            if !rights.has_room_for_reports() {
                return None;
            }
        }
        let hash = KeyHash::of(self.format.tag_key, key);
        let target = self.find_target_at_once(hash, key)?;
        let mut sequence = 0;
        self.change_now(&mut [ChangeNow::FetchAndAdd {
            remote: rights.counter(),
            add: 1,
            found: &mut sequence,
        }])?;
        if sequence == 0 || sequence > SEQUENCE_MAX {
            return None;
        }
        let draft = Draft {
            kind: Kind::Put,
            condition: Condition::None,
            token: 0,
            key,
            value,
        };
        let attempt = rights.stamp_next(self, &draft, hash, &target, sequence);
        let report = attempt.report.encode(attempt.report_number);
        let mut found = 0;
        self.change_now(&mut attempt.changes(&rights.record, &report, &mut found))?;
        rights.note_stamped(&attempt);
        if attempt.report_number.is_multiple_of(USED_EVERY) {
            rights.note_used(self.runtime.now());
        }
        if attempt.has_won(found) {
            self.latest.set(self.latest.get().max(sequence));
            return Some(sequence);
        }
        self.take_back_at_once(rights, attempt);
        None
    }

    /// The word of `key`, where it is the first in its home bucket that could be.
    #[inline]
    fn find_target_at_once(&self, hash: KeyHash, key: &[u8]) -> Option<Target> {
        let access = self.access.get();
        let wanted = Overwritable::new(&self.format, key);
        let mut look_up = LookUp::new(wanted, hash, access.index_bits);
        let mut line = [0; LINE_SIZE];
        self.read_now(&mut [ReadInto {
            remote: self.index_address(look_up.home()),
            into: &mut line,
        }])?;
        let LookUpStep::Record { position, size } = look_up.bucket(&line) else {
            return None;
        };
        let start = &mut self.read_at_once_to.borrow_mut().record[..size];
        self.read_now(&mut [ReadInto {
            remote: self.log_address(position),
            into: start,
        }])?;
        match look_up.record(start) {
            LookUpStep::Found(Some(size)) => Some(Target::new(access.table, &look_up, size)),
            _ => None,
        }
    }

    /// Makes a record void whose publication was lost. Where that cannot be done in the call, it is done before the next put.
    #[cold]
    fn take_back_at_once(self: &Rc<Self>, rights: &mut Rights, attempt: Attempt) {
        let place = rights.next_report();
        let (void, report) = attempt.taken_back(place.0);
        if self
            .change_now(&mut attempt.taking_back(&void, place.1, &report))
            .is_none()
        {
            drop(self.beside(async move |inner: &Rc<Self>| inner.take_back(&attempt, place).await));
        }
    }

    #[inline]
    fn change_now(&self, changes: &mut [ChangeNow<'_>]) -> Option<()> {
        self.meter.note_round_trip();
        self.port
            .device()
            .change_now(self.qp, changes)
            .then_some(())
    }
}
