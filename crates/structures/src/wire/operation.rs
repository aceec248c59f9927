//! The body of an operation's record: the request of a program, which the back-end executes if the program's front-end
//! does not.

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

/// The kind of an operation. The structure decides about the answer.
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
    /// Makes a structure: the key is its name, the value its description. The operation is one of the domain, whose
    /// number is 0.
    Create = 7,
    /// Gives the key another value if it has a certain one; the value is a [`Comparison`].
    CompareAndUpdate = 8,
    /// Gives a structure another name: the key is its name, the value the other one. Of the domain.
    Rename = 9,
    /// Makes a structure empty: the key is its name. The structure gets another number. Of the domain.
    Clear = 10,
    /// Ends a structure: the key is its name. Of the domain.
    Drop = 11,
    /// Frees memory of ended structures and old versions; the value is a number of blocks (4 bytes). Of the domain.
    Reclaim = 12,
    /// Does several operations, all or none; the value is a [`Group`]. Of the domain.
    Group = 13,
    /// Takes the next item of a queue for the consumer: the key is a token and the item's number, 8 bytes each.
    Take = 14,
    /// Ends an item that was taken: the key is its token.
    Done = 15,
    /// Adds entries to a B+tree if they lie after all of its keys; the value is a [`Run`](super::Run).
    Load = 16,
}

impl Verb {
    const ALL: [Self; 16] = [
        Self::Insert,
        Self::InsertIfAbsent,
        Self::Update,
        Self::Remove,
        Self::Push,
        Self::Pop,
        Self::Create,
        Self::CompareAndUpdate,
        Self::Rename,
        Self::Clear,
        Self::Drop,
        Self::Reclaim,
        Self::Group,
        Self::Take,
        Self::Done,
        Self::Load,
    ];

    /// Whether the verb is for structures with keys.
    pub fn is_for_keys(self) -> bool {
        matches!(
            self,
            Self::Insert
                | Self::InsertIfAbsent
                | Self::Update
                | Self::Remove
                | Self::CompareAndUpdate
        )
    }

    /// Whether the operation is one of the domain and not of a structure.
    pub fn is_of_domain(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Rename | Self::Clear | Self::Drop | Self::Reclaim | Self::Group
        )
    }

    fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| *verb as u8 == code)
    }
}

/// An operation on one structure of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// The number that names the operation, so that a retry takes effect once; 0: the operation is never retried.
    pub token: u64,
    /// The structure, by its number in the domain.
    pub structure: u32,
    /// The kind.
    pub verb: Verb,
    /// The encoded key; empty for structures without keys.
    pub key: &'a [u8],
    /// The encoded value; empty for operations without one.
    pub value: &'a [u8],
}

/// The value of a compare-and-update: the value that the key has to have, and the value that the key gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison<'a> {
    /// The whole value that the key has to have.
    pub expected: &'a [u8],
    /// The value that the key gets.
    pub new: &'a [u8],
}

impl<'a> Comparison<'a> {
    /// The value of the operation.
    pub fn encode(&self) -> Vec<u8> {
        let size = (self.expected.len() as u32).to_le_bytes();
        [&size[..], self.expected, self.new].concat()
    }

    /// Reads the value of an operation; `None`: the bytes are not such a value.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let (size, rest) = value.split_first_chunk()?;
        let size = u32::from_le_bytes(*size) as usize;
        let (expected, new) = rest.split_at_checked(size)?;
        Some(Self { expected, new })
    }
}

/// The value of a group: operations, each after the number of its bytes. A group holds no groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group(Vec<u8>);

impl Group {
    /// Adds an operation at the end. Its token does not count; that of the group does.
    pub fn push(&mut self, operation: &Operation<'_>) {
        let body = operation.encode();
        self.0.extend_from_slice(&(body.len() as u32).to_le_bytes());
        self.0.extend_from_slice(&body);
    }

    /// The value of the operation.
    pub fn value(&self) -> &[u8] {
        &self.0
    }

    /// The group as an operation that is never retried.
    pub fn operation(&self) -> Operation<'_> {
        Operation {
            token: 0,
            structure: 0,
            verb: Verb::Group,
            key: &[],
            value: &self.0,
        }
    }

    /// Reads the value of an operation; `None`: the bytes are not a group.
    pub fn parse(value: &[u8]) -> Option<Vec<Operation<'_>>> {
        let (mut parts, mut rest) = (Vec::new(), value);
        while !rest.is_empty() {
            let (size, behind) = rest.split_first_chunk()?;
            let (body, behind) = behind.split_at_checked(u32::from_le_bytes(*size) as usize)?;
            let part = Operation::parse(body).ok()?;
            if part.verb == Verb::Group {
                return None;
            }
            parts.push(part);
            rest = behind;
        }
        Some(parts)
    }
}

/// The reason why bytes are not an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationFault {
    /// The bytes end inside the header or the key.
    #[error("an operation of {size} bytes, expected at least {needed}")]
    Short {
        /// Bytes that were found.
        size: usize,
        /// Bytes of header and key.
        needed: usize,
    },
    /// The operation was written by another version of the program.
    #[error("an operation of version {0}, expected version {VERSION}")]
    Version(u8),
    /// No verb has this code.
    #[error("no verb has the code {0}")]
    Verb(u8),
}

impl<'a> Operation<'a> {
    /// The body of the operation's record.
    ///
    /// # Panics
    /// Panics if the key has more than 65,535 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.size());
        self.encode_into(&mut body);
        body
    }

    /// Bytes of the body of the operation's record.
    pub fn size(&self) -> usize {
        size_of::<OperationBytes>() + self.key.len() + self.value.len()
    }

    /// Appends the body of the operation's record.
    pub fn encode_into(&self, body: &mut Vec<u8>) {
        let header = OperationBytes {
            token: U64::new(self.token),
            structure: U32::new(self.structure),
            key_size: U16::new(self.key.len().try_into().expect("keys are short")),
            verb: self.verb as u8,
            version: VERSION,
        };
        for part in [header.as_bytes(), self.key, self.value] {
            body.extend_from_slice(part);
        }
    }

    /// Reads the body of an operation's record.
    ///
    /// # Errors
    /// [`OperationFault`]: the bytes are not an operation of this version.
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
    fn a_group_is_read_in_the_order_in_which_it_was_made() {
        let operation = |verb, key| Operation {
            token: 0,
            structure: 3,
            verb,
            key,
            value: b"value",
        };
        let parts = [
            operation(Verb::Insert, &b"key"[..]),
            operation(Verb::Remove, b""),
        ];
        let mut group = Group::default();
        parts.iter().for_each(|part| group.push(part));
        assert_eq!(Group::parse(group.value()), Some(parts.to_vec()));
        for size in 1..group.value().len() {
            let is_whole = size == group.value().len() - 16 - 5 - 4;
            assert_eq!(Group::parse(&group.value()[..size]).is_some(), is_whole);
        }
        let mut nested = Group::default();
        nested.push(&operation(Verb::Group, b""));
        assert_eq!(Group::parse(nested.value()), None);
    }

    #[test]
    fn a_comparison_is_read_as_it_was_written() {
        let comparison = Comparison {
            expected: b"old",
            new: b"",
        };
        let bytes = comparison.encode();
        assert_eq!(Comparison::parse(&bytes), Some(comparison));
        assert_eq!(Comparison::parse(&bytes[..6]), None);
        assert_eq!(Comparison::parse(&[]), None);
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
