//! The statistics of a server.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use stonecast::Stat;

use crate::border::read;
use crate::client::{Client, lend};
use crate::error::Error;
use crate::status::Status;

/// The statistics of a server; on a cluster, those of all nodes that lead shards, added up. Later versions append
/// fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// Keys present.
    pub keys: u64,
    /// Keys that the index takes before it grows.
    pub index_capacity: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes of the records of present keys.
    pub live_bytes: u64,
    /// Bytes of the log that are in use.
    pub used_bytes: u64,
    /// Bytes of the whole log.
    pub capacity_bytes: u64,
    /// Connected clients, this one included.
    pub clients: u64,
    /// Openings of the pool.
    pub opening: u64,
    /// Version of the latest write.
    pub version: u64,
    /// Puts done since the server began.
    pub puts: u64,
    /// Deletes done since the server began.
    pub deletes: u64,
    /// Writes refused since the server began.
    pub refused: u64,
    /// Keys that were removed because they had expired, since the server began.
    pub expired: u64,
    /// 1 if acknowledged writes survive a loss of power, 0 if they survive the end of processes alone.
    pub survives_power_loss: u64,
}

impl From<Stat> for Statistics {
    fn from(stat: Stat) -> Self {
        Self {
            keys: stat.keys,
            index_capacity: stat.index_capacity,
            index_bytes: stat.index_bytes,
            live_bytes: stat.live_bytes,
            used_bytes: stat.used_bytes,
            capacity_bytes: stat.capacity_bytes,
            clients: stat.clients,
            opening: stat.opening,
            version: stat.sequence,
            puts: stat.puts,
            deletes: stat.deletes,
            refused: stat.refused,
            expired: stat.expired,
            survives_power_loss: stat.power.into(),
        }
    }
}

/// Asks the server for its statistics. `size` is sizeof(stonecast_statistics), which tells the library the fields that
/// the program knows. The library fills these fields, and sets a field that it does not know itself to 0.
///
/// Errors: those of stonecast_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stonecast_stat(
    client: Option<&Client>,
    statistics: *mut Statistics,
    size: usize,
    error: Option<&mut MaybeUninit<Option<Box<Error>>>>,
) -> Status {
    read(error, || {
        if statistics.is_null() {
            return Err(Error::misuse("statistics is NULL; nothing was done"));
        }
        let stat = lend(client)?.run(async |client| client.stat().await)?;
        let stat = Statistics::from(stat);
        let known = size.min(size_of::<Statistics>());
        let target: *mut u8 = statistics.cast();
        // SAFETY: the header demands `size` writable bytes at `statistics`.
        unsafe { target.write_bytes(0, size) };
        // SAFETY: the source has `known` bytes, all of them integers, and lies on the stack; the header demands
        // `size` writable bytes at the target, which is no less.
        unsafe { target.copy_from_nonoverlapping((&raw const stat).cast(), known) };
        Ok(Status::Ok)
    })
}

/// The version of the library, such as "0.1.0". It ends with a zero byte, and lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_version() -> *const std::ffi::c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    let version: *const c_void = VERSION.as_ptr().cast();
    version.cast()
}
