//! Values that identify the write that made them and show whether they are whole.

use std::fmt;

/// The name of a written value: each write of a history has its own. 0 means "absent".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// No value.
    pub const ABSENT: Self = Self(0);
}

/// For people: `value 7`, `no value`.
impl fmt::Display for ValueId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ABSENT {
            formatter.write_str("no value")
        } else {
            write!(formatter, "value {}", self.0)
        }
    }
}

/// The value of a key, with its version, for people.
pub fn describe(found: Option<(ValueId, u64)>) -> String {
    match found {
        Some((value, version)) => format!("{value} at version {version}"),
        None => ValueId::ABSENT.to_string(),
    }
}

/// Shortest value: its number and its size.
pub const VALUE_SIZE_MIN: usize = 8;

/// The bytes of value `id`, `size` of them.
pub fn encode(id: ValueId, size: usize, into: &mut Vec<u8>) {
    assert!(
        size >= VALUE_SIZE_MIN,
        "a value of {size} bytes cannot hold its number"
    );
    into.clear();
    into.extend_from_slice(&id.0.to_le_bytes());
    into.extend_from_slice(&(size as u32).to_le_bytes());
    let mut word = 1;
    while into.len() < size {
        let bytes = filler(id, word).to_le_bytes();
        into.extend_from_slice(&bytes[..bytes.len().min(size - into.len())]);
        word += 1;
    }
}

/// The value that `bytes` encode; `None` if they are not one whole value.
pub fn decode(bytes: &[u8]) -> Option<ValueId> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    let id = ValueId(u32::from_le_bytes(*head.first_chunk()?));
    let size = u32::from_le_bytes(*head.last_chunk()?);
    if id == ValueId::ABSENT || size as usize != bytes.len() {
        return None;
    }
    let whole = rest
        .chunks(8)
        .zip(1..)
        .all(|(word, number)| filler(id, number).to_le_bytes()[..word.len()] == *word);
    whole.then_some(id)
}

/// The `number`-th word of a value. The word differs in each value and at each place, so that no mixture of two values
/// passes.
fn filler(id: ValueId, number: u32) -> u64 {
    (u64::from(id.0) << 32 | u64::from(number))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(23)
        | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_value_is_recognized_and_a_torn_one_is_not() {
        for size in [8, 9, 16, 63, 64, 300] {
            let (mut old, mut new) = (Vec::new(), Vec::new());
            encode(ValueId(7), size, &mut old);
            encode(ValueId(8), size, &mut new);
            assert_eq!(
                (decode(&old), decode(&new)),
                (Some(ValueId(7)), Some(ValueId(8)))
            );
            for word in (8..size).step_by(8) {
                let mut torn = old.clone();
                torn[word..size.min(word + 8)].copy_from_slice(&new[word..size.min(word + 8)]);
                assert_eq!(decode(&torn), None, "{size} bytes, word at {word}");
            }
            assert_eq!(decode(&old[..size - 1]), None);
        }
        assert_eq!(decode(&[0; 64]), None);
    }
}
