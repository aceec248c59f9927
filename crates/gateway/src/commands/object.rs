//! The answers of `OBJECT` and `MEMORY USAGE` for a key: facts that are true of a record in a log.

use stonecast_kv::limits::WHOLE_VALUE_SIZE_MAX;

use super::error::CommandError;
use super::operation::Arguments;
use super::options::{is, positive};
use super::reply::Reply;
use super::value::{State, ValueCommand};

/// A fact about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Values are bytes as they were sent.
    Encoding,
    /// One index word names a record.
    References,
    /// Redis has no answer either without eviction by frequency.
    Frequency,
    /// Bytes of the log and of the index, for a key of this length.
    Memory { key_size: usize },
}

/// Bytes of a record's header, and the bytes that a moment adds.
const HEADER_SIZE: usize = 56;
const MOMENT_SIZE: usize = 8;
/// Records begin at units of this size.
const UNIT_SIZE: usize = 64;
/// Bytes of an index word.
const WORD_SIZE: usize = 8;
/// Bytes of the name of a chunk, of a chunk, and of the value of the record that names chunks. A chunk has a moment.
/// In a pool whose segments have less than 4 MiB, chunks are shorter and thus more.
const CHUNK_NAME_SIZE: usize = 20;
const CHUNK_SIZE: usize = WHOLE_VALUE_SIZE_MAX - 4096;
const HEAD_SIZE: usize = 24;

impl Fact {
    /// The command and its key, of `OBJECT SUBCOMMAND key`.
    pub fn of_object<'a>(
        arguments: Arguments<'a>,
    ) -> Result<(&'a [u8], ValueCommand<'a>), CommandError> {
        let subcommand = arguments.at(1);
        let facts = [
            ("ENCODING", Self::Encoding),
            ("REFCOUNT", Self::References),
            ("FREQ", Self::Frequency),
        ];
        let fact = facts.into_iter().find(|(name, _)| is(subcommand, name));
        match (fact, arguments.get(2)) {
            (Some((_, fact)), Some(key)) if arguments.len() == 3 => {
                Ok((key, ValueCommand::Fact(fact)))
            }
            (Some((name, _)), _) => Err(CommandError::ArgumentCount(format!(
                "object|{}",
                name.to_lowercase()
            ))),
            (None, _) => Err(CommandError::Subcommand {
                command: "OBJECT",
                subcommand: subcommand.to_vec(),
            }),
        }
    }

    /// The command and its key, of `MEMORY USAGE key [SAMPLES count]`.
    pub fn of_memory<'a>(
        arguments: Arguments<'a>,
    ) -> Result<(&'a [u8], ValueCommand<'a>), CommandError> {
        if !is(arguments.at(1), "USAGE") {
            return Err(CommandError::Subcommand {
                command: "MEMORY",
                subcommand: arguments.at(1).to_vec(),
            });
        }
        let wrong_count = || CommandError::ArgumentCount("memory|usage".to_owned());
        let key = arguments.get(2).ok_or_else(wrong_count)?;
        match (arguments.get(3), arguments.get(4)) {
            (None, _) => {}
            (Some(option), Some(count)) if is(option, "SAMPLES") && arguments.len() == 5 => {
                positive(count)?;
            }
            _ => return Err(CommandError::Syntax),
        }
        let key_size = key.len();
        Ok((key, ValueCommand::Fact(Self::Memory { key_size })))
    }

    /// The reply; null if the key is absent.
    pub fn tell<'a>(self, state: &State<'a>) -> Reply<'a> {
        let Some(value) = state.value.as_deref() else {
            return Reply::Null;
        };
        match self {
            Self::Encoding => Reply::Bulk(b"raw".into()),
            Self::References => Reply::Integer(1),
            Self::Frequency => CommandError::Refused(
                "An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between \
                 policies at runtime LRU and LFU data will take some time to adjust.",
            )
            .into(),
            Self::Memory { key_size } => {
                let moment = state.expires.map_or(0, |_| MOMENT_SIZE);
                Reply::Integer(memory(moment + key_size, value.len()) as i64)
            }
        }
    }
}

/// Bytes of the log and of the index that a key takes, with the records of its chunks. `beside`: bytes of the key and
/// its moment.
fn memory(beside: usize, value_size: usize) -> usize {
    let record = |beside: usize, value_size: usize| {
        let size = HEADER_SIZE + beside + value_size;
        size.next_multiple_of(UNIT_SIZE) + WORD_SIZE
    };
    if value_size <= WHOLE_VALUE_SIZE_MAX {
        return record(beside, value_size);
    }
    let chunk = |size| record(CHUNK_NAME_SIZE + MOMENT_SIZE, size);
    let (whole, rest) = (value_size / CHUNK_SIZE, value_size % CHUNK_SIZE);
    let last = if rest == 0 { 0 } else { chunk(rest) };
    record(beside, HEAD_SIZE) + whole * chunk(CHUNK_SIZE) + last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_value_in_chunks_is_that_of_its_chunks_and_of_the_record_that_names_them() {
        assert_eq!(memory(1, 7), 64 + 8);
        assert_eq!(memory(1 + MOMENT_SIZE, 7), 128 + 8);
        let longest = WHOLE_VALUE_SIZE_MAX;
        assert_eq!(memory(1, longest), longest + 64 + 8);
        let chunk = CHUNK_SIZE + 128 + 8;
        let head = 128 + 8;
        // The second chunk has 4,097 bytes.
        assert_eq!(memory(1, longest + 1), head + chunk + 4096 + 128 + 8);
        assert_eq!(memory(1, 5 * CHUNK_SIZE), head + 5 * chunk);
    }
}
