//! Calls that change data.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use stonecast::{Condition, Written};

use crate::border::{Bytes, Slot, bytes, emptied, given, put, write};
use crate::client::{Client, lend};
use crate::error::Error;
use crate::outcomes::Outcomes;
use crate::read::all_bytes;
use crate::status::{Status, of_conflict};
use crate::write::Write;

/// Stores a value of up to 16 MiB under a key of 1 to 1024 bytes. The value is durable and visible when the call
/// returns OK. `version` gets the version of the key, and may be NULL. The key does not expire.
///
/// Errors: INVALID, NO_SPACE, BUSY, TIMED_OUT, DISCONNECTED, CLUSTER, STORE; stonecast_error_effect tells their effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stonecast_put(
    client: Option<&Client>,
    key: *const c_void,
    key_size: usize,
    value: *const c_void,
    value_size: usize,
    version: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<Option<Box<Error>>>>,
) -> Status {
    write(error, || {
        // SAFETY: the header demands `key_size` readable bytes at `key` during the call.
        let key = unsafe { bytes(key, key_size, "key") }?;
        // SAFETY: the header demands `value_size` readable bytes at `value` during the call.
        let value = unsafe { bytes(value, value_size, "value") }?;
        let stored = lend(client)?.run(async |client| client.put(key, value).await)?;
        put(version, stored);
        Ok(Status::Ok)
    })
}

/// Stores a value with `options`, which may be NULL. `version` may be NULL; it gets the new version (OK), the present
/// version (CONFLICT), or 0 (ABSENT: the condition names a version, and the key is absent).
///
/// Errors: those of stonecast_put, and FORGOTTEN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stonecast_put_with(
    client: Option<&Client>,
    key: *const c_void,
    key_size: usize,
    value: *const c_void,
    value_size: usize,
    options: Option<&mut Write>,
    version: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<Option<Box<Error>>>>,
) -> Status {
    write(error, || {
        let (options, token) = options.map(Write::take).unwrap_or_default();
        let ready = || {
            // SAFETY: the header demands `key_size` readable bytes at `key` during the call.
            let key = unsafe { bytes(key, key_size, "key") }?;
            // SAFETY: the header demands `value_size` readable bytes at `value` during the call.
            let value = unsafe { bytes(value, value_size, "value") }?;
            Ok((lend(client)?, key, value))
        };
        let (mut lent, key, value) = ready().map_err(|error: Error| error.before_attempt(token))?;
        let written = lent.run(async |client| client.put_with(key, value, options).await)?;
        Ok(told(written, version))
    })
}

/// Removes a key. Returns OK if the key was there, otherwise ABSENT. The removal is durable and visible when the call
/// returns.
///
/// Errors: those of stonecast_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stonecast_delete(
    client: Option<&Client>,
    key: *const c_void,
    key_size: usize,
    error: Option<&mut MaybeUninit<Option<Box<Error>>>>,
) -> Status {
    write(error, || {
        // SAFETY: the header demands `key_size` readable bytes at `key` during the call.
        let key = unsafe { bytes(key, key_size, "key") }?;
        let was_there = lend(client)?.run(async |client| client.delete(key).await)?;
        Ok(if was_there {
            Status::Ok
        } else {
            Status::Absent
        })
    })
}

/// Removes a key with `options`, which may be NULL; a lifetime there is ignored. `version` may be NULL; it gets the
/// version of the removal itself (OK), the present version (CONFLICT), or 0 (ABSENT).
///
/// Errors: those of stonecast_put, and FORGOTTEN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stonecast_delete_with(
    client: Option<&Client>,
    key: *const c_void,
    key_size: usize,
    options: Option<&mut Write>,
    version: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<Option<Box<Error>>>>,
) -> Status {
    write(error, || {
        let (options, token) = options.map(Write::take).unwrap_or_default();
        let ready = || {
            // SAFETY: the header demands `key_size` readable bytes at `key` during the call.
            let key = unsafe { bytes(key, key_size, "key") }?;
            Ok((lend(client)?, key))
        };
        let (mut lent, key) = ready().map_err(|error: Error| error.before_attempt(token))?;
        let written = lent.run(async |client| client.delete_with(key, options).await)?;
        Ok(told(written, version))
    })
}

/// Gives a key the lifetime of `options`, or makes it permanent if `options` have none; the value stays. With a version
/// as the condition, the call does so only if the key has that version. Other options do not fit (MISUSE). `version`
/// may be NULL; it gets the new version (OK), the present version (CONFLICT), or 0 (ABSENT).
///
/// A crash leaves the key with the old lifetime or with the new one. Errors: those of stonecast_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stonecast_touch(
    client: Option<&Client>,
    key: *const c_void,
    key_size: usize,
    options: Option<&Write>,
    version: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<Option<Box<Error>>>>,
) -> Status {
    write(error, || {
        // SAFETY: the header demands `key_size` readable bytes at `key` during the call.
        let key = unsafe { bytes(key, key_size, "key") }?;
        let options = given(options, "options")?;
        let expected = match options.condition {
            None => None,
            Some(Condition::Version(version)) => Some(version),
            Some(_) => {
                let message = "a key that must be absent has no lifetime; nothing was done";
                return Err(Error::misuse(message));
            }
        };
        if let Some(token) = &options.token {
            let error = Error::misuse("a new lifetime is no attempt at another write");
            return Err(error.before_attempt(Some(token.clone())));
        }
        if options.is_retryable {
            let message = "a new lifetime cannot be repeated by a token; nothing was done";
            return Err(Error::misuse(message));
        }
        let lifetime = options.lifetime;
        let touch =
            lend(client)?.run(async |client| client.touch(key, lifetime, expected).await)?;
        Ok(told(touch, version))
    })
}

/// Stores `count` values, each under the key with the same index, all in flight together. Each is a write of its own:
/// a crash may leave any of them. Stores the outcome of each pair, which the caller frees with
/// stonecast_outcomes_free. Returns OK if all were stored, and PARTLY if some were not. On an error of the whole
/// call, stores NULL, and stonecast_error_effect holds for each pair.
///
/// Errors: those of stonecast_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stonecast_multi_put(
    client: Option<&Client>,
    keys: *const Bytes,
    values: *const Bytes,
    count: usize,
    outcomes: Option<&mut MaybeUninit<Option<Box<Outcomes>>>>,
    error: Option<&mut MaybeUninit<Option<Box<Error>>>>,
) -> Status {
    write(error, || {
        let outcomes = emptied(outcomes, "outcomes")?;
        // SAFETY: the header demands `count` elements at `keys`, each with its bytes, during the call.
        let keys = unsafe { all_bytes(keys, count, "keys") }?;
        // SAFETY: the header demands `count` elements at `values`, each with its bytes, during the call.
        let values = unsafe { all_bytes(values, count, "values") }?;
        let pairs: Vec<_> = keys.into_iter().zip(values).collect();
        let stored = lend(client)?.run(async |client| client.multi_put(&pairs).await)?;
        let stored = outcomes.insert(Box::new(Outcomes::new(stored)));
        Ok(match stored.all_stored() {
            true => Status::Ok,
            false => Status::Partly,
        })
    })
}

/// The status of a write that was answered.
fn told(written: Written, version: Slot<'_, u64>) -> Status {
    let (status, found) = match written {
        Written::Done(version) => (Status::Ok, version),
        Written::Conflict(found) => of_conflict(found),
    };
    put(version, found);
    status
}
