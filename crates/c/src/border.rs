//! The border to C: arguments as C has them, and functions that no panic leaves.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::Error;
use crate::status::{Effect, Status};

/// A place of the caller for a result; null if the caller does not want it.
pub type Slot<'a, T> = Option<&'a mut MaybeUninit<T>>;
/// A place for the error of a call.
pub type ErrorSlot<'a> = Slot<'a, Option<Box<Error>>>;

/// Bytes that are somewhere else: `size` bytes at `data`, which may be NULL if `size` is 0.
///
/// Bytes that a function returns live as long as the object that it was asked about.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    /// The first byte.
    pub data: *const c_void,
    /// The number of bytes.
    pub size: usize,
}

impl Bytes {
    /// No bytes.
    pub const NONE: Self = Self {
        data: std::ptr::null(),
        size: 0,
    };

    /// Where `bytes` are.
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            data: bytes.as_ptr().cast(),
            size: bytes.len(),
        }
    }
}

/// Runs the body of a function that changes no data.
pub fn read(error: ErrorSlot<'_>, body: impl FnOnce() -> Result<Status, Error>) -> Status {
    call(error, Effect::None, body)
}

/// Runs the body of a function that changes data: what a panic has done is unknown.
pub fn write(error: ErrorSlot<'_>, body: impl FnOnce() -> Result<Status, Error>) -> Status {
    call(error, Effect::Unknown, body)
}

fn call(
    error: ErrorSlot<'_>,
    of_panic: Effect,
    body: impl FnOnce() -> Result<Status, Error>,
) -> Status {
    // A client that was lent to a body that panicked is not lent again, and nothing else outlives a call.
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        // The drop of a payload may panic in its turn.
        std::mem::forget(panic);
        let message = "the library has a defect, which standard error describes; close the client";
        Err(Error::new(Status::Defect, of_panic, message))
    });
    let (status, failure) = match result {
        Ok(status) => (status, None),
        Err(failure) => (failure.status(), Some(Box::new(failure))),
    };
    if let Some(slot) = error {
        slot.write(failure);
    }
    status
}

/// Makes `slot` hold nothing, so that the caller may free its content whatever happens.
pub fn emptied<'a, T>(
    slot: Slot<'a, Option<Box<T>>>,
    name: &str,
) -> Result<&'a mut Option<Box<T>>, Error> {
    Ok(given(slot, name)?.write(None))
}

/// The argument `name`, which must not be null.
pub fn given<T>(argument: Option<T>, name: &str) -> Result<T, Error> {
    argument.ok_or_else(|| Error::misuse(&format!("{name} is NULL; nothing was done")))
}

/// Stores `value` if the caller wants it.
pub fn put<T>(slot: Slot<'_, T>, value: T) {
    if let Some(slot) = slot {
        slot.write(value);
    }
}

/// The `size` elements at `data`.
///
/// # Safety
///
/// If `size` is not 0 and `data` is not null, `size` elements are readable at `data`, and nobody changes them during
/// the call.
pub unsafe fn slice<'a, T>(data: *const T, size: usize, name: &str) -> Result<&'a [T], Error> {
    if size == 0 {
        return Ok(&[]);
    }
    let fits = size
        .checked_mul(size_of::<T>())
        .is_some_and(|bytes| isize::try_from(bytes).is_ok());
    if data.is_null() || !data.is_aligned() || !fits {
        return Err(Error::misuse(&format!(
            "{name} is NULL, not aligned, or longer than any object, with a size of {size}; nothing was done"
        )));
    }
    // SAFETY: the pointer is neither null nor unaligned, and the size fits, as checked above; the caller grants the
    // rest.
    Ok(unsafe { std::slice::from_raw_parts(data, size) })
}

/// The `size` bytes at `data`.
///
/// # Safety
///
/// The same as for [`slice()`].
pub unsafe fn bytes<'a>(data: *const c_void, size: usize, name: &str) -> Result<&'a [u8], Error> {
    // SAFETY: the caller grants it.
    unsafe { slice(data.cast(), size, name) }
}

/// The text `name`, which ends with a zero byte.
///
/// # Safety
///
/// If `text` is not null, it points to bytes that end with a zero byte and that nobody changes during the call.
pub unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a CStr, Error> {
    if text.is_null() {
        return Err(Error::misuse(&format!("{name} is NULL; nothing was done")));
    }
    // SAFETY: it is not null, and the caller grants the rest.
    Ok(unsafe { CStr::from_ptr(text) })
}
