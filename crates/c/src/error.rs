//! Errors as objects of C.

use std::ffi::{CString, c_char};

use stonecast::{Effect as LibraryEffect, Token};

use crate::status::{Effect, Status};

/// An error: a message, a status, and the effect of the failed call on the data.
///
/// The caller owns the error, and frees it with stonecast_error_free. Any thread may do so.
#[derive(Debug)]
pub struct Error {
    status: Status,
    effect: Effect,
    message: CString,
    /// Names the write for its next attempt.
    token: Option<Token>,
}

impl Error {
    pub fn new(status: Status, effect: Effect, message: &str) -> Self {
        let message = CString::new(message.replace('\0', "?")).expect("it has no zero byte");
        Self {
            status,
            effect,
            message,
            token: None,
        }
    }

    /// The error of a call that does not keep the contract of the header. Nothing was begun.
    pub fn misuse(message: &str) -> Self {
        Self::new(Status::Misuse, Effect::None, message)
    }

    /// This error of an attempt that was not begun. An earlier attempt, which `token` names, may have taken effect
    /// all the same.
    pub fn before_attempt(mut self, token: Option<Token>) -> Self {
        if token.is_some() {
            self.effect = Effect::Unknown;
            self.token = token;
        }
        self
    }

    pub fn status(&self) -> Status {
        self.status
    }

    pub fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }
}

impl From<stonecast::Error> for Error {
    #[cold]
    fn from(error: stonecast::Error) -> Self {
        let (effect, token) = match error.effect() {
            LibraryEffect::None => (Effect::None, None),
            LibraryEffect::Done => (Effect::Done, None),
            LibraryEffect::Unknown { token } => (Effect::Unknown, token),
        };
        Self {
            token,
            ..Self::new(Status::of(error.kind()), effect, &error.to_string())
        }
    }
}

/// The message, in English: what was wrong, and what to do. The message ends with a zero byte and lives as long as the
/// error. NULL for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_error_message(error: Option<&Error>) -> *const c_char {
    error.map_or(std::ptr::null(), |error| error.message.as_ptr())
}

/// The status that the failed call returned. STONECAST_STATUS_OK for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_error_status(error: Option<&Error>) -> Status {
    error.map_or(Status::Ok, Error::status)
}

/// The effect of the failed call on the data. STONECAST_EFFECT_NONE for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_error_effect(error: Option<&Error>) -> Effect {
    error.map_or(Effect::None, |error| error.effect)
}

/// Whether the error names a write that can be repeated: see stonecast_write_retry. False for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_error_can_retry(error: Option<&Error>) -> bool {
    error.is_some_and(|error| error.token.is_some())
}

/// Frees the error. NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_error_free(error: Option<Box<Error>>) {
    drop(error);
}
