//! Iteration over all records.

use std::mem::MaybeUninit;
use std::rc::Rc;
use std::vec;

use stonecast::local;

use crate::border::{Bytes, emptied, given, read};
use crate::client::{Client, lend};
use crate::error::Error;
use crate::link::Link;
use crate::owner::Right;
use crate::status::Status;
use crate::value::ms_of;

/// An iteration over all records. An iteration belongs to the thread of its client.
pub struct Entries {
    link: Rc<Link>,
    found: local::Entries,
    batch: vec::IntoIter<stonecast::Record>,
    present: Option<Record>,
}

/// A key with its value and version. The record lives until the next call with its iteration.
pub struct Record(stonecast::Record);

/// Begins an iteration over all records, in the commit order of their present versions; on a cluster, shard by shard,
/// and in that order within a shard. Stores the iteration, which the caller ends with stonecast_entries_close; NULL
/// on failure.
///
/// The iteration is no snapshot: a key that is present all the time is found once, and a key that is written or deleted
/// meanwhile may or may not be found. The iteration holds 24 bytes for each key. Its begin reads the whole index,
/// without a time limit.
///
/// Errors: those of stonecast_get.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_entries(
    client: Option<&Client>,
    entries: Option<&mut MaybeUninit<Option<Box<Entries>>>>,
    error: Option<&mut MaybeUninit<Option<Box<Error>>>>,
) -> Status {
    read(error, || {
        let entries = emptied(entries, "entries")?;
        let found = lend(client)?.run(async |client| client.entries().await)?;
        *entries = Some(Box::new(Entries {
            link: given(client, "client")?.link().clone(),
            found,
            batch: Vec::new().into_iter(),
            present: None,
        }));
        Ok(Status::Ok)
    })
}

/// Advances to the next record, and stores a pointer to it; NULL at the end (END), or on failure. After an error, the
/// next call tries the same record again.
///
/// Errors: those of stonecast_get, and CLOSED.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_entries_next<'a>(
    entries: Option<&'a mut Entries>,
    record: Option<&mut MaybeUninit<Option<&'a Record>>>,
    error: Option<&mut MaybeUninit<Option<Box<Error>>>>,
) -> Status {
    read(error, || {
        let record = given(record, "record")?.write(None);
        let Entries {
            link,
            found,
            batch,
            present,
        } = given(entries, "entries")?;
        link.owner().check()?;
        if batch.len() == 0 {
            let next = link
                .lend()?
                .run(async |client| found.next_batch(client).await)?;
            *batch = next.into_iter();
        }
        *present = batch.next().map(Record);
        *record = present.as_ref();
        Ok(if record.is_some() {
            Status::Ok
        } else {
            Status::End
        })
    })
}

/// Ends the iteration and its record. NULL is ignored. In a process that was forked, ends nothing. A call of another
/// thread than the client's does nothing and returns STONECAST_STATUS_MISUSE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stonecast_entries_close(entries: *mut Entries) -> Status {
    read(None, || {
        // SAFETY: the header demands that `entries` is NULL or was stored by `stonecast_entries` and not ended.
        let Some(open) = (unsafe { entries.as_ref() }) else {
            return Ok(Status::Ok);
        };
        let owner = open.link.owner();
        if owner.right() != Right::BeforeFork {
            owner.check()?;
            // SAFETY: the pointer came out of a box in `stonecast_entries`, the caller gives it up, and no reference
            // is left.
            drop(unsafe { Box::from_raw(entries) });
        }
        Ok(Status::Ok)
    })
}

/// The key of the record, which lives as long as the record.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_record_key(record: Option<&Record>) -> Bytes {
    record.map_or(Bytes::NONE, |Record(record)| Bytes::of(&record.key))
}

/// The value of the record, which lives as long as the record.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_record_value(record: Option<&Record>) -> Bytes {
    record.map_or(Bytes::NONE, |Record(record)| Bytes::of(&record.value))
}

/// The version of the record; see stonecast_value_version. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_record_version(record: Option<&Record>) -> u64 {
    record.map_or(0, |Record(record)| record.version)
}

/// The moment from which the key is absent; see stonecast_value_expires_at.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_record_expires_at(record: Option<&Record>) -> u64 {
    record.map_or(0, |Record(record)| ms_of(record.expires))
}
