//! Values that were read.

use stonecast::{Entry, Expiry};

use crate::border::Bytes;

/// A value with its version.
///
/// The caller owns a value of stonecast_get. Any thread may read it, or free it with stonecast_value_free.
pub struct Value(pub Entry);

/// The values of several keys, in the order of the keys.
///
/// The caller owns the values. Any thread may read or free them.
pub struct Values(pub Vec<Option<Value>>);

/// The bytes of the value. They live as long as the value.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_value_bytes(value: Option<&Value>) -> Bytes {
    value.map_or(Bytes::NONE, |Value(entry)| Bytes::of(&entry.value))
}

/// The version: the number of the write that stored the value. Of two versions of one key, the larger one is newer. 0
/// for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_value_version(value: Option<&Value>) -> u64 {
    value.map_or(0, |Value(entry)| entry.version)
}

/// The moment from which the key is absent, by the server's time, in milliseconds since the begin of 1970; 0: the key
/// does not expire.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_value_expires_at(value: Option<&Value>) -> u64 {
    value.map_or(0, |Value(entry)| ms_of(entry.expires))
}

/// Frees the value. NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_value_free(value: Option<Box<Value>>) {
    drop(value);
}

/// The number of keys that were asked for. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_values_count(values: Option<&Values>) -> usize {
    values.map_or(0, |Values(values)| values.len())
}

/// The value of the key with this index; NULL if the key was absent, or if there is no such index. The value lives as
/// long as the values; do not free it separately.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_values_at(values: Option<&Values>, index: usize) -> Option<&Value> {
    values?.0.get(index)?.as_ref()
}

/// Frees the values. NULL is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn stonecast_values_free(values: Option<Box<Values>>) {
    drop(values);
}

/// A moment as C has it.
pub fn ms_of(moment: Option<Expiry>) -> u64 {
    moment.map_or(0, Expiry::ms)
}
