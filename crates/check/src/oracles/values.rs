//! No read returns a value that is torn or that was never written to that key.

use crate::models::register::History;
use crate::values::{ValueId, decode};
use crate::violation::Violation;

/// The name of the promise.
pub const ORACLE: &str = "no value is torn or invented";

/// The value that `bytes`, found at `key`, encode.
pub fn identify(key: u32, bytes: &[u8]) -> Result<ValueId, Violation> {
    let text = || {
        let start: Vec<String> = bytes
            .iter()
            .take(24)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!(
            "{} bytes of key {key} are not a whole value: {}",
            bytes.len(),
            start.join(" ")
        )
    };
    decode(bytes).ok_or_else(|| Violation::new(ORACLE, text()))
}

/// Judges whether `value`, found at `key`, was ever written there.
pub fn judge(history: &History, key: u32, value: ValueId) -> Result<(), Violation> {
    let mut writes = history.of_part(key);
    if value == ValueId::ABSENT || writes.any(|write| write.call.value() == Some(value)) {
        return Ok(());
    }
    Err(Violation::new(
        ORACLE,
        format!("key {key} has {value}, which was never written there"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::register::Call;
    use crate::values::encode;

    #[test]
    fn a_value_of_another_key_is_as_wrong_as_a_torn_one() {
        let mut history = History::new(2);
        history.call(0, Some(0), 1, Call::Put(ValueId(4)));
        assert!(judge(&history, 1, ValueId(4)).is_ok());
        assert!(judge(&history, 0, ValueId(4)).is_err());
        assert!(judge(&history, 0, ValueId::ABSENT).is_ok());
        let mut bytes = Vec::new();
        encode(ValueId(4), 100, &mut bytes);
        assert_eq!(identify(1, &bytes), Ok(ValueId(4)));
        bytes[50] ^= 1;
        assert!(identify(1, &bytes).is_err());
    }
}
