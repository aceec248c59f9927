//! `SETRANGE`: overwrites a part of a value.

use stonecast_kv::StoreError;
use stonecast_kv::limits::VALUE_SIZE_MAX;

use super::error::CommandError;
use super::operation::Arguments;
use super::options::integer;
use super::reply::Reply;
use super::value::State;

/// Bytes, and their place in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch<'a> {
    offset: u64,
    bytes: &'a [u8],
}

impl<'a> Patch<'a> {
    /// `SETRANGE key offset value`.
    pub fn read(arguments: Arguments<'a>) -> Result<Self, CommandError> {
        let offset = u64::try_from(integer(arguments.at(2))?);
        Ok(Self {
            offset: offset.map_err(|_| CommandError::Refused("offset is out of range"))?,
            bytes: arguments.at(3),
        })
    }

    /// Returns the length of the value afterwards. Without bytes, nothing changes.
    pub fn apply(self, state: &mut State<'a>) -> Reply<'a> {
        let before = state.value.as_deref().map_or(0, <[u8]>::len);
        if self.bytes.is_empty() {
            return Reply::Integer(before as i64);
        }
        // A value that no store takes is not made: its offset may be any number.
        let end = self.offset.saturating_add(self.bytes.len() as u64);
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        if end > VALUE_SIZE_MAX {
            let (size, max) = (end, VALUE_SIZE_MAX);
            return StoreError::ValueSize { size, max }.into();
        }
        let value = state.value.get_or_insert_default().to_mut();
        if value.len() < end {
            value.resize(end, 0);
        }
        value[end - self.bytes.len()..end].copy_from_slice(self.bytes);
        state.is_changed = true;
        Reply::Integer(before.max(end) as i64)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn patched(
        before: Option<&[u8]>,
        offset: u64,
        bytes: &[u8],
    ) -> (Option<Vec<u8>>, bool, String) {
        let mut state = State::of(before.map(Cow::Borrowed));
        let reply = Patch { offset, bytes }.apply(&mut state).to_string();
        let value = state.value.map(Cow::into_owned);
        (value, state.is_changed, reply)
    }

    #[test]
    fn bytes_are_overwritten_and_a_gap_is_filled() {
        let some = |bytes: &[u8]| Some(bytes.to_vec());
        assert_eq!(
            patched(Some(b"hello"), 1, b"uLL"),
            (some(b"huLLo"), true, "5".into())
        );
        assert_eq!(
            patched(Some(b"he"), 4, b"o"),
            (some(b"he\0\0o"), true, "5".into())
        );
        assert_eq!(patched(None, 1, b"x"), (some(b"\0x"), true, "2".into()));
    }

    #[test]
    fn no_bytes_change_nothing_and_make_no_key() {
        assert_eq!(patched(None, 7, b""), (None, false, "0".into()));
        let (value, is_changed, reply) = patched(Some(b"abc"), 7, b"");
        assert!(value.as_deref() == Some(b"abc") && !is_changed && reply == "3");
    }

    /// Needs the comparison before the value is made: otherwise the offset is the size of an allocation.
    #[test]
    fn a_value_that_would_be_too_long_is_refused_before_it_is_made() {
        let last = VALUE_SIZE_MAX as u64 - 1;
        assert_eq!(patched(None, last, b"x").2, VALUE_SIZE_MAX.to_string());
        for offset in [last + 1, i64::MAX as u64, u64::MAX] {
            let (value, is_changed, reply) = patched(None, offset, b"x");
            assert!(
                value.is_none() && !is_changed && reply.starts_with("ERR value of "),
                "{reply}"
            );
        }
    }
}
