//! The options of a write.

use std::time::Duration;

use stonecast::{Condition, Expiry, Lifetime, Token};

use crate::border::{given, read};
use crate::error::Error;
use crate::status::Status;

/// The options of a write in addition to key and value: a condition, the time for which the key is present, and whether
/// the write can be repeated.
///
/// The caller owns the options, and frees them with stonecast_write_free. The options serve any number of writes, by
/// one thread at a time. The functions that set an option return STONECAST_STATUS_MISUSE, and change nothing, if an
/// argument does not fit.
#[derive(Default)]
pub struct Write {
    pub condition: Option<Condition>,
    pub lifetime: Lifetime,
    pub is_retryable: bool,
    /// Names the earlier attempt at the next write.
    pub token: Option<Token>,
}

impl Write {
    /// The options of the next write. A token names one write, so it serves one attempt: a further attempt takes it
    /// from the error of this one, and no other write can have it by mistake.
    pub fn take(&mut self) -> (stonecast::Write, Option<Token>) {
        let token = self.token.take();
        let write = match &token {
            Some(token) => stonecast::Write::retry(token.clone()),
            None if self.is_retryable => stonecast::Write::retryable(),
            None => stonecast::Write::new(),
        };
        let write = write.living(self.lifetime);
        let write = match self.condition {
            Some(condition) => write.on(condition),
            None => write,
        };
        (write, token)
    }
}

fn set(write: Option<&mut Write>, setting: impl FnOnce(&mut Write) -> Result<(), Error>) -> Status {
    read(None, || {
        setting(given(write, "write")?)?;
        Ok(Status::Ok)
    })
}

/// Makes options of a write without a condition and without an expiry, which cannot be repeated. Never returns NULL.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_write_new() -> Box<Write> {
    Box::default()
}

/// Frees the options. NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_write_free(write: Option<Box<Write>>) {
    drop(write);
}

/// The write takes effect only if the key is absent at its moment. Replaces another condition.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_write_if_absent(write: Option<&mut Write>) -> Status {
    set(write, |write| {
        write.condition = Some(Condition::Absent);
        Ok(())
    })
}

/// The write takes effect only if the key has this version at its moment. Replaces another condition.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_write_if_version(write: Option<&mut Write>, version: u64) -> Status {
    set(write, |write| {
        write.condition = Some(Condition::Version(version));
        Ok(())
    })
}

/// The key expires after this time from the write on, in milliseconds, by the server's time.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_write_expires_in(
    write: Option<&mut Write>,
    milliseconds: u64,
) -> Status {
    set(write, |write| {
        write.lifetime = Lifetime::For(Duration::from_millis(milliseconds));
        Ok(())
    })
}

/// The key expires at this moment, in milliseconds since the begin of 1970, by the server's time. 0 is no moment.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_write_expires_at(
    write: Option<&mut Write>,
    milliseconds: u64,
) -> Status {
    set(write, |write| {
        let moment = Expiry::at_ms(milliseconds);
        let moment = moment.ok_or_else(|| Error::misuse("0 is no moment of a key"))?;
        write.lifetime = Lifetime::Until(moment);
        Ok(())
    })
}

/// Writes with these options can be repeated if their outcome is unknown: see stonecast_write_retry. Takes 8 bytes of
/// each record.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_write_retryable(write: Option<&mut Write>) -> Status {
    set(write, |write| {
        write.is_retryable = true;
        Ok(())
    })
}

/// Makes the next write with these options a further attempt at the write whose outcome is unknown by `error`. Key,
/// value and condition must be those of the first attempt; the write takes effect once, whatever the number of
/// attempts, over this or another connection and after a restart of the server.
///
/// The options then serve one attempt, whatever its outcome. If the outcome is still unknown, the error of that attempt
/// serves the next one. Returns STONECAST_STATUS_MISUSE if the error names no write (stonecast_error_can_retry).
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_write_retry(
    write: Option<&mut Write>,
    error: Option<&Error>,
) -> Status {
    set(write, |write| {
        let token = given(error, "error")?.token().cloned();
        let none = || Error::misuse("the error names no write that can be repeated");
        write.token = Some(token.ok_or_else(none)?);
        Ok(())
    })
}
