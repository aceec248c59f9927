//! Errors as exceptions. Their classes stand in `errors.py`; the library's error decides which of them, with which
//! effect.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use stonecast::error::StoreError;
use stonecast::{Effect, Error, ErrorKind, structures};

use crate::per_thread::Unavailable;
use crate::wait::Stopped;
use crate::write::Token;

/// Names of the effects, as the class `Effect` in Python has them.
const NONE: &str = "NONE";
const DONE: &str = "DONE";
const UNKNOWN: &str = "UNKNOWN";

/// The exception of an error of the library.
pub fn raised(py: Python<'_>, error: Error) -> PyErr {
    let (effect, token) = named(error.effect());
    let message = error.to_string();
    exception(py, class_of(error.kind()), &message, effect, token)
}

/// The name of an effect, with the token of an unknown one.
fn named(effect: Effect) -> (&'static str, Option<Token>) {
    match effect {
        Effect::None => (NONE, None),
        Effect::Done => (DONE, None),
        Effect::Unknown { token } => (UNKNOWN, token.map(Token)),
    }
}

/// The exception of a read that failed, or that a handler of a signal has ended.
pub fn read_stopped(py: Python<'_>, stopped: Stopped) -> PyErr {
    match stopped {
        Stopped::Failed(error) => raised(py, error),
        Stopped::Interrupted(exception) => exception,
        Stopped::Unavailable(reason) => unavailable(py, "client", &reason),
    }
}

/// The exception of a write that failed; `token` names an earlier attempt at it. If a handler of a signal has ended the
/// wait, the cause of its exception says that
/// the outcome is unknown.
pub fn write_stopped(py: Python<'_>, stopped: Stopped, token: Option<&Token>) -> PyErr {
    if let Stopped::Interrupted(raised) = &stopped {
        let message = "the write was sent, and the wait for its answer was interrupted; the outcome is unknown";
        let cause = exception(
            py,
            "InterruptedWriteError",
            message,
            UNKNOWN,
            token.cloned(),
        );
        raised.set_cause(py, Some(cause));
    }
    let was_begun = !matches!(stopped, Stopped::Unavailable(_));
    let error = read_stopped(py, stopped);
    match was_begun {
        true => error,
        false => before_retry(py, error, token),
    }
}

/// The exception `error` of a write that was not begun. An earlier attempt, which `token` names, may have taken effect
/// all the same.
pub fn before_retry(py: Python<'_>, error: PyErr, token: Option<&Token>) -> PyErr {
    let Some(token) = token else {
        return error;
    };
    let value = error.value(py);
    let noted = effect_named(py, UNKNOWN)
        .and_then(|effect| value.setattr("effect", effect))
        .and_then(|()| value.setattr("token", token.clone()));
    noted.err().unwrap_or(error)
}

/// The exception of a client that was closed.
pub fn closed(py: Python<'_>) -> PyErr {
    exception(py, "ClosedError", "the client is closed", NONE, None)
}

/// The exception of a call that does not fit the state of its object.
pub fn misused(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "UsageError", message, NONE, None)
}

/// The exception of a call from a thread that cannot use `what`.
pub fn unavailable(py: Python<'_>, what: &str, reason: &Unavailable) -> PyErr {
    let reason = match reason {
        Unavailable::Absent => {
            "it was closed, belongs to the thread that opened it, or to the process before a fork"
        }
        Unavailable::InUse => "a call that is under way in this thread uses it",
    };
    misused(py, &format!("the {what} cannot be used here: {reason}"))
}

/// The exception of an error of data structures.
pub fn structure_raised(py: Python<'_>, error: structures::Error) -> PyErr {
    use structures::Error as Fault;
    let (effect, token) = named(error.effect());
    let class = match error {
        Fault::Connect(error) => return raised(py, error),
        Fault::Held { .. } => "HeldError",
        Fault::TenureOver { .. } => "TenureOverError",
        Fault::Gone { .. } => "GoneError",
        Fault::NotFound { .. } => "NotFoundError",
        Fault::TooOld { .. } => "TooOldError",
        Fault::OtherType { .. } => "OtherTypeError",
        Fault::Name { .. } | Fault::Taken { .. } => "StructureNameError",
        Fault::TooLarge { .. } => "TooLargeError",
        Fault::Forgotten { .. } => "ForgottenUpdateError",
        Fault::NoRoom | Fault::OverQuota { .. } => "NoRoomError",
        _ => "StructureError",
    };
    exception(py, class, &error.to_string(), effect, token)
}

fn class_of(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Address(_) => "AddressError",
        ErrorKind::Setup(_)
        | ErrorKind::ConfigStore(_)
        | ErrorKind::Node(_)
        | ErrorKind::Mirror(_) => "SetupError",
        ErrorKind::Unreachable { .. } => "UnreachableError",
        ErrorKind::Unanswered { .. } | ErrorKind::TimedOut { .. } => "TimedOutError",
        ErrorKind::Durability { .. } => "DurabilityError",
        ErrorKind::OtherSetting { .. } | ErrorKind::TooSmall { .. } => "PoolError",
        ErrorKind::Closed => "ClosedError",
        ErrorKind::Cluster(_) => "ClusterError",
        ErrorKind::Store(error) => class_of_store(error),
    }
}

fn class_of_store(error: &StoreError) -> &'static str {
    match error {
        StoreError::KeySize { .. }
        | StoreError::ValueSize { .. }
        | StoreError::EntrySize { .. }
        | StoreError::BatchKeys { .. }
        | StoreError::BatchNames { .. }
        | StoreError::BatchSize { .. }
        | StoreError::BatchShards { .. }
        | StoreError::Invalid => "InvalidError",
        StoreError::NoSpace { .. }
        | StoreError::MediumFull
        | StoreError::IndexFull
        | StoreError::SpaceFailed => "NoSpaceError",
        StoreError::NoBatch => "ClusterError",
        StoreError::Busy => "BusyError",
        StoreError::Forgotten => "ForgottenError",
        StoreError::Disconnected { .. } | StoreError::Protocol { .. } => "DisconnectedError",
        StoreError::Refused(_) => "RefusedError",
        _ => "StoreError",
    }
}

fn exception(
    py: Python<'_>,
    class: &str,
    message: &str,
    effect: &str,
    token: Option<Token>,
) -> PyErr {
    made(py, class, message, effect, token).map_or_else(|error| error, PyErr::from_value)
}

fn made<'py>(
    py: Python<'py>,
    class: &str,
    message: &str,
    effect: &str,
    token: Option<Token>,
) -> PyResult<Bound<'py, PyAny>> {
    let effect = effect_named(py, effect)?;
    let class = py.import("stonecast.errors")?.getattr(class)?;
    class.call1((message, effect, token))
}

fn effect_named<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static EFFECT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    EFFECT
        .import(py, "stonecast.errors", "Effect")?
        .getattr(name)
}
