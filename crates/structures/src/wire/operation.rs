//! The body of an operation's record: what a program asked for, so that the back-end can do it if the program's front-end does not.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The version of the format of operations.
const VERSION: u8 = 1;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct OperationBytes {
    token: U64,
    structure: U32,
    key_size: U16,
    verb: u8,
    version: u8,
}

/// What an operation does. The structure decides about the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verb {
    /// Gives the key a value.
    Insert = 1,
    /// Gives the key a value if the key has none.
    InsertIfAbsent = 2,
    /// Gives the key another value if it has one.
    Update = 3,
    /// Removes the key.
    Remove = 4,
    /// Puts a value on top of a stack, or at the end of a queue.
    Push = 5,
    /// Removes the value on top of a stack, or at the head of a queue.
    Pop = 6,
    /// Makes a structure: the key is its name, the value what it is. The operation is one of the domain, whose number is 0.
    Create = 7,
}

impl Verb {
    const ALL: [Self; 7] = [
        Self::Insert,
        Self::InsertIfAbsent,
        Self::Update,
        Self::Remove,
        Self::Push,
        Self::Pop,
        Self::Create,
    ];

    /// Whether the verb is for structures with keys.
    pub fn is_for_keys(self) -> bool {
        matches!(
            self,
            Self::Insert | Self::InsertIfAbsent | Self::Update | Self::Remove
        )
    }

    fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| *verb as u8 == code)
    }
}

/// An operation on one structure of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// Names the operation, so that a retry takes effect once; 0: the operation is never retried.
    pub token: u64,
    /// The structure, by its number in the domain.
    pub structure: u32,
    /// What is done.
    pub verb: Verb,
    /// The encoded key; empty for structures without keys.
    pub key: &'a [u8],
    /// The encoded value; empty for operations without one.
    pub value: &'a [u8],
}

/// The reason why bytes are no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationFault {
    /// The bytes end inside the header or the key.
    #[error("an operation of {size} bytes, expected at least {needed}")]
    Short {
        /// Bytes at hand.
        size: usize,
        /// Bytes of header and key.
        needed: usize,
    },
    /// The operation was written by another version of the program.
    #[error("an operation of version {0}, expected version {VERSION}")]
    Version(u8),
    /// The code is that of no verb.
    #[error("no verb has the code {0}")]
    Verb(u8),
}

impl<'a> Operation<'a> {
    /// The body of the operation's record.
    ///
    /// # Panics
    /// If the key has more than 65,535 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let header = OperationBytes {
            token: U64::new(self.token),
            structure: U32::new(self.structure),
            key_size: U16::new(self.key.len().try_into().expect("keys are short")),
            verb: self.verb as u8,
            version: VERSION,
        };
        [header.as_bytes(), self.key, self.value].concat()
    }

    /// Reads the body of an operation's record.
    ///
    /// # Errors
    /// [`OperationFault`]: the bytes are no operation of this version.
    pub fn parse(body: &'a [u8]) -> Result<Self, OperationFault> {
        let short = |needed| OperationFault::Short {
            size: body.len(),
            needed,
        };
        let (header, rest) = OperationBytes::read_from_prefix(body)
            .map_err(|_| short(size_of::<OperationBytes>()))?;
        if header.version != VERSION {
            return Err(OperationFault::Version(header.version));
        }
        let key_size = header.key_size.get() as usize;
        let (key, value) = rest
            .split_at_checked(key_size)
            .ok_or(short(size_of::<OperationBytes>() + key_size))?;
        Ok(Self {
            token: header.token.get(),
            structure: header.structure.get(),
            verb: Verb::of(header.verb).ok_or(OperationFault::Verb(header.verb))?,
            key,
            value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_read_as_it_was_written() {
        for verb in Verb::ALL {
            let operation = Operation {
                token: 7,
                structure: 3,
                verb,
                key: b"key",
                value: b"value",
            };
            assert_eq!(Operation::parse(&operation.encode()), Ok(operation));
        }
    }

    #[test]
    fn bytes_that_are_no_operation_are_refused_by_name() {
        let operation = Operation {
            token: 0,
            structure: 1,
            verb: Verb::Remove,
            key: b"key",
            value: b"",
        };
        let bytes = operation.encode();
        let fault = Operation::parse(&bytes[..18]).unwrap_err();
        assert_eq!(
            fault,
            OperationFault::Short {
                size: 18,
                needed: 19
            }
        );
        let mut other = bytes.clone();
        other[14] = 99;
        assert_eq!(Operation::parse(&other), Err(OperationFault::Verb(99)));
        other[15] = 2;
        assert_eq!(Operation::parse(&other), Err(OperationFault::Version(2)));
    }
}
