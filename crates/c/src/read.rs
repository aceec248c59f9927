//! Reads of keys.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use crate::border::{Bytes, bytes, emptied, given, put, read, slice};
use crate::client::{Client, lend};
use crate::error::Error;
use crate::status::Status;
use crate::value::{Value, Values};

/// Reads the value of a key of 1 to 1024 bytes. Stores the value, which the caller frees with stonecast_value_free;
/// NULL if the key is absent (ABSENT), or on failure. A read runs no code of the server.
///
/// Errors: INVALID, TIMED_OUT, DISCONNECTED, CLUSTER, STORE. Their effect is STONECAST_EFFECT_NONE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stonecast_get(
    client: Option<&Client>,
    key: *const c_void,
    key_size: usize,
    value: Option<&mut MaybeUninit<Option<Box<Value>>>>,
    error: Option<&mut MaybeUninit<Option<Box<Error>>>>,
) -> Status {
    read(error, || {
        let value = emptied(value, "value")?;
        // SAFETY: the header demands `key_size` readable bytes at `key` during the call.
        let key = unsafe { bytes(key, key_size, "key") }?;
        let found = lend(client)?.run(async |client| client.get(key).await)?;
        *value = found.map(|mut entry| {
            // A tool that watches memory then notices a read behind the value.
            entry.value.shrink_to_fit();
            Box::new(Value(entry))
        });
        Ok(if value.is_some() {
            Status::Ok
        } else {
            Status::Absent
        })
    })
}

/// Reads the value of a key into a buffer of the caller, and makes no object. `size` gets the size of the value, which
/// may be larger than `capacity`: then nothing is copied, and the call returns TOO_SMALL. A value has at most 16 MiB
/// (STONECAST_VALUE_SIZE_MAX). `size` gets 0 if the key is absent (ABSENT), or on failure. `version` may be NULL.
///
/// Errors: those of stonecast_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stonecast_get_into(
    client: Option<&Client>,
    key: *const c_void,
    key_size: usize,
    buffer: *mut c_void,
    capacity: usize,
    size: Option<&mut MaybeUninit<usize>>,
    version: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<Option<Box<Error>>>>,
) -> Status {
    read(error, || {
        let size = given(size, "size")?.write(0);
        if buffer.is_null() && capacity > 0 {
            return Err(Error::misuse("buffer is NULL; nothing was done"));
        }
        // SAFETY: the header demands `key_size` readable bytes at `key` during the call.
        let key = unsafe { bytes(key, key_size, "key") }?;
        let mut lent = lend(client)?;
        let Some(found) = lent.get(key)? else {
            return Ok(Status::Absent);
        };
        let value = &lent.connected().value;
        *size = value.len();
        put(version, found);
        if value.len() > capacity {
            return Ok(Status::TooSmall);
        }
        if !value.is_empty() {
            // SAFETY: the header demands `capacity` writable bytes at `buffer`, which is not null, and the value is
            // no longer. The memory of the connection is not the caller's, so they do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), buffer.cast(), value.len()) };
        }
        Ok(Status::Ok)
    })
}

/// Reads the values of `count` keys, all in flight together. Stores the values in the order of the keys, which the
/// caller frees with stonecast_values_free; NULL on failure. Each value is read as by stonecast_get; together they
/// are no snapshot.
///
/// Errors: those of stonecast_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stonecast_multi_get(
    client: Option<&Client>,
    keys: *const Bytes,
    count: usize,
    values: Option<&mut MaybeUninit<Option<Box<Values>>>>,
    error: Option<&mut MaybeUninit<Option<Box<Error>>>>,
) -> Status {
    read(error, || {
        let values = emptied(values, "values")?;
        // SAFETY: the header demands `count` elements at `keys`, each with its bytes, during the call.
        let keys = unsafe { all_bytes(keys, count, "keys") }?;
        let found = lend(client)?.run(async |client| client.multi_get(&keys).await)?;
        let found = found.into_iter().map(|entry| entry.map(Value)).collect();
        *values = Some(Box::new(Values(found)));
        Ok(Status::Ok)
    })
}

/// The bytes of each of the `count` elements at `data`.
///
/// # Safety
///
/// As for [`slice()`], for the elements and for the bytes of each.
pub unsafe fn all_bytes<'a>(
    data: *const Bytes,
    count: usize,
    name: &str,
) -> Result<Vec<&'a [u8]>, Error> {
    // SAFETY: the caller grants it.
    let elements = unsafe { slice(data, count, name) }?.iter();
    elements
        // SAFETY: the caller grants it.
        .map(|element| unsafe { bytes(element.data, element.size, name) })
        .collect()
}
