//! Keys, encoded so that their bytes compare as the keys do.
//!
//! Numbers are stored with the highest byte first; the sign bit of a signed number is flipped. The bytes of a text are
//! stored with `00 ff` for each zero byte and `00 00` at the end, so that no key is the start of another one, and
//! tuples compare part by part.

/// The reason why bytes are not a key of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{size} bytes are no key of type {type_name}")]
pub struct KeyFault {
    /// Bytes that were found.
    pub size: usize,
    /// The type that was expected.
    pub type_name: &'static str,
}

/// A type whose values are keys. The encoded bytes of two keys compare as the keys do, and no encoded key is the start
/// of another one.
///
/// ```
/// use stonecast_structures::Key;
///
/// assert!((-1_i32).encoded() < 0_i32.encoded());
/// assert!(("a".to_owned(), 9_u64).encoded() < ("ab".to_owned(), 1_u64).encoded());
/// assert_eq!(u64::decoded(&7_u64.encoded()), Ok(7));
/// ```
pub trait Key: Ord + Sized {
    /// Appends the encoded key.
    fn encode(&self, into: &mut Vec<u8>);

    /// Takes the encoded key from the start of `bytes`. `None` if they do not begin with one.
    fn decode(bytes: &mut &[u8]) -> Option<Self>;

    /// The encoded key.
    fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        bytes
    }

    /// The key that `bytes`, as a whole, encode.
    ///
    /// # Errors
    /// [`KeyFault`]: the bytes encode no key of this type.
    fn decoded(bytes: &[u8]) -> Result<Self, KeyFault> {
        let mut rest = bytes;
        let fault = KeyFault {
            size: bytes.len(),
            type_name: std::any::type_name::<Self>(),
        };
        let key = Self::decode(&mut rest).ok_or(fault)?;
        rest.is_empty().then_some(key).ok_or(fault)
    }
}

macro_rules! numbers {
    ($($number:ty, $flip:expr;)+) => {
        $(impl Key for $number {
            fn encode(&self, into: &mut Vec<u8>) {
                into.extend_from_slice(&(*self ^ $flip).to_be_bytes());
            }

            fn decode(bytes: &mut &[u8]) -> Option<Self> {
                let (first, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(Self::from_be_bytes(*first) ^ $flip)
            }
        })+
    };
}

numbers! {
    u8, 0; u16, 0; u32, 0; u64, 0; u128, 0;
    i8, i8::MIN; i16, i16::MIN; i32, i32::MIN; i64, i64::MIN; i128, i128::MIN;
}

const ZERO: u8 = 0;
const END: u8 = 0;
const ESCAPED: u8 = 0xff;

fn encode_text(text: &[u8], into: &mut Vec<u8>) {
    for &byte in text {
        into.push(byte);
        if byte == ZERO {
            into.push(ESCAPED);
        }
    }
    into.extend_from_slice(&[ZERO, END]);
}

impl Key for Vec<u8> {
    fn encode(&self, into: &mut Vec<u8>) {
        encode_text(self, into);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let mut key = Vec::new();
        loop {
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            if byte == ZERO {
                let (&next, rest) = bytes.split_first()?;
                *bytes = rest;
                match next {
                    END => return Some(key),
                    ESCAPED => {}
                    _ => return None,
                }
            }
            key.push(byte);
        }
    }
}

impl Key for String {
    fn encode(&self, into: &mut Vec<u8>) {
        encode_text(self.as_bytes(), into);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Self::from_utf8(Vec::decode(bytes)?).ok()
    }
}

impl<A: Key, B: Key> Key for (A, B) {
    fn encode(&self, into: &mut Vec<u8>) {
        self.0.encode(into);
        self.1.encode(into);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Some((A::decode(bytes)?, B::decode(bytes)?))
    }
}

impl<A: Key, B: Key, C: Key> Key for (A, B, C) {
    fn encode(&self, into: &mut Vec<u8>) {
        self.0.encode(into);
        self.1.encode(into);
        self.2.encode(into);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Some((A::decode(bytes)?, B::decode(bytes)?, C::decode(bytes)?))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use proptest::prelude::*;

    use super::*;

    fn agree<K: Key + Debug>(one: &K, other: &K) {
        let (first, second) = (one.encoded(), other.encoded());
        assert_eq!(first.cmp(&second), one.cmp(other), "{one:?} and {other:?}");
        assert_eq!(K::decoded(&first).as_ref(), Ok(one));
        assert!(
            first == second || !second.starts_with(&first),
            "{one:?} starts {other:?}"
        );
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(
            prop_oneof![Just(0_u8), Just(1), Just(0xff), any::<u8>()],
            0..6,
        )
    }

    proptest! {
        #[test]
        fn encoded_keys_compare_as_the_keys_do(
            numbers in any::<[(u64, i64, u8, i128); 2]>(),
            texts in [text(), text()],
            names in any::<[String; 2]>(),
        ) {
            let [one, other] = &numbers;
            agree(&one.0, &other.0);
            agree(&one.1, &other.1);
            agree(&one.2, &other.2);
            agree(&one.3, &other.3);
            agree(&texts[0], &texts[1]);
            agree(&names[0], &names[1]);
            let [one, other] = [0, 1].map(|side| (texts[side].clone(), numbers[side].1, names[side].clone()));
            agree(&one, &other);
            agree(&(one.0, one.1), &(other.0, other.1));
        }

        #[test]
        fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = <(String, u64)>::decoded(&bytes);
            let _ = Vec::<u8>::decoded(&bytes);
        }
    }

    #[test]
    fn a_key_of_another_type_is_refused_by_name() {
        let fault = u64::decoded(&7_u32.encoded()).unwrap_err();
        assert_eq!(fault.to_string(), "4 bytes are no key of type u64");
        u32::decoded(&7_u64.encoded()).unwrap_err();
    }
}
