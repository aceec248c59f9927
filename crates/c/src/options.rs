//! The options of a connection.

use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use stonecast::{Connector, Durability};

use crate::border::{given, read, text};
use crate::error::Error;
use crate::status::Status;

/// No time limit, for stonecast_options_operation_timeout.
pub const STONECAST_NO_LIMIT: u64 = u64::MAX;

/// The options of a connection. An option that is not set has its default.
///
/// The caller owns the options, and frees them with stonecast_options_free. The options serve any number of
/// connections, by one thread at a time. The functions that set an option return STONECAST_STATUS_MISUSE, and change
/// nothing, if an argument is NULL.
#[derive(Default)]
pub struct Options(Vec<Setting>);

/// Sets one option.
type Setting = Box<dyn Fn(Connector) -> Connector>;

impl Options {
    /// Connects to `url` with these options.
    pub fn connector(&self, url: &str) -> Result<Connector, Error> {
        let connector = Connector::new(url)?;
        Ok(self.0.iter().fold(connector, |made, set| set(made)))
    }
}

fn set(
    options: Option<&mut Options>,
    setting: impl Fn(Connector) -> Connector + 'static,
) -> Status {
    read(None, || {
        given(options, "options")?.0.push(Box::new(setting));
        Ok(Status::Ok)
    })
}

/// Makes options with all defaults. Never returns NULL.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_options_new() -> Box<Options> {
    Box::default()
}

/// Frees the options. NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_options_free(options: Option<Box<Options>>) {
    drop(options);
}

/// Sets the time in which the server must accept the connection, in milliseconds. 10,000 by default.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_options_connect_timeout(
    options: Option<&mut Options>,
    milliseconds: u64,
) -> Status {
    let limit = Duration::from_millis(milliseconds);
    set(options, move |connector| connector.connect_timeout(limit))
}

/// Sets the time limit of a call, in milliseconds; STONECAST_NO_LIMIT for none. 60,000 by default. The outcome of a
/// write that exceeds the limit is unknown.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_options_operation_timeout(
    options: Option<&mut Options>,
    milliseconds: u64,
) -> Status {
    let limit = (milliseconds != STONECAST_NO_LIMIT).then(|| Duration::from_millis(milliseconds));
    set(options, move |connector| connector.operation_timeout(limit))
}

/// Sets the time for which a call polls for its answer before its thread sleeps, in microseconds. 50 by default. A
/// longer time saves wake-ups, about ten microseconds each, and keeps a processor busy.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_options_spin(
    options: Option<&mut Options>,
    microseconds: u64,
) -> Status {
    let time = Duration::from_micros(microseconds);
    set(options, move |connector| connector.spin(time))
}

/// Refuses a pool whose acknowledged writes survive the end of processes and not the loss of power.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_options_expect_power(options: Option<&mut Options>) -> Status {
    set(options, |connector| {
        connector.expect_durability(Durability::Power)
    })
}

/// Sets whether the client overwrites keys without the server, if the server lets clients do so. True by default.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_options_publishing(
    options: Option<&mut Options>,
    publishes: bool,
) -> Status {
    set(options, move |connector| connector.publishing(publishes))
}

/// Sets the number of keys whose places a client over RDMA remembers, so that a read of such a key takes one round
/// trip. Each place takes 16 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_options_remembered_places(
    options: Option<&mut Options>,
    count: usize,
) -> Status {
    set(options, move |connector| connector.remembered_places(count))
}

/// Sets the path of the key file for addresses that begin with "verbs:". It is read when the client connects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stonecast_options_keys(
    options: Option<&mut Options>,
    path: *const c_char,
) -> Status {
    read(None, || {
        // SAFETY: the header demands that `path` is NULL or ends with a zero byte, and lives during the call.
        let path = unsafe { text(path, "path") }?;
        let path = OsStr::from_bytes(path.to_bytes()).to_owned();
        Ok(set(options, move |connector| connector.keys(&path)))
    })
}

/// Sets the RDMA device by its name, in UTF-8, as `rdma link` shows it. The first device by default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stonecast_options_rdma_device(
    options: Option<&mut Options>,
    name: *const c_char,
) -> Status {
    read(None, || {
        // SAFETY: the header demands that `name` is NULL or ends with a zero byte, and lives during the call.
        let name = unsafe { text(name, "name") }?;
        let name = name.to_string_lossy().into_owned();
        Ok(set(options, move |connector| connector.rdma_device(&*name)))
    })
}

/// Sets the entry of the RDMA device's table of addresses. By default an entry for RoCE v2.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_options_gid_index(options: Option<&mut Options>, index: u8) -> Status {
    set(options, move |connector| connector.gid_index(index))
}
