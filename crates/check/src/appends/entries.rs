//! Entries, and the memory of a receiver in which the entries land.
//!
//! ```text
//!   0        ledger: number of the first buffer that was never posted, 8 bytes
//!   64       8 bytes that READs of senders name
//!   128      buffers of 1 KiB: entries at multiples of 64 bytes, or one in each slot of 256
//! ```
//!
//! A buffer is posted once. If a NIC still places bytes for a process that died, the bytes land in a buffer that the
//! next process does not post.

use std::fmt;
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::append::AppendOptions;
use stonecast_fabric_sim::SimBacking;
use stonecast_media::{MediaError, PersistError, PersistentRegion};
use stonecast_persist::Platform;
use stonecast_persist::execute::{Commit, Persisted};

use crate::region;
use crate::values::{ValueId, decode, encode};

/// Buffers of a receiver: more than the ends of all sessions of a run use up.
pub(super) const BUFFERS: u64 = 512;
pub(super) const BUFFER_SIZE: u32 = 1024;
/// Longest entry: one message.
pub(super) const ENTRY_SIZE_MAX: u32 = 256;
const GRAIN: u32 = 64;
/// The terms that a receiver offers.
pub(super) const OPTIONS: AppendOptions = AppendOptions {
    buffers: BUFFERS as u32,
    buffer_size_max: BUFFER_SIZE,
    grain: GRAIN,
    message_size_max: ENTRY_SIZE_MAX,
};
const LEDGER: Span = Span::new(0, 8);
/// Offset of the bytes that READs of senders name.
pub(super) const FLUSH: u64 = 64;
const FIRST: u64 = 128;
const CAPACITY: u64 = 1 << 20;

/// The connections of a sender to all receivers, from its start until one of them ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionId {
    pub sender: u32,
    /// The number of the session among those of the sender, from 1.
    pub number: u32,
}

impl SessionId {
    /// Returns whether `later` is a session of the same sender, which has ended this session.
    pub fn is_before(self, later: Self) -> bool {
        self.sender == later.sender && self.number < later.number
    }
}

/// An entry: its session, and its number there, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryId {
    pub session: SessionId,
    pub number: u32,
}

impl fmt::Display for EntryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            session: SessionId { sender, number },
            ..
        } = self;
        write!(
            formatter,
            "entry {} of session {number} of sender {sender}",
            self.number
        )
    }
}

impl EntryId {
    const SENDER_SHIFT: u32 = 30;
    const SESSION_SHIFT: u32 = 8;

    /// The `size` bytes of the entry. The bytes prove themselves.
    pub fn encode(self, size: u32) -> Vec<u8> {
        let Self {
            session: SessionId { sender, number },
            ..
        } = self;
        let value = sender << Self::SENDER_SHIFT | number << Self::SESSION_SHIFT | self.number;
        let mut bytes = Vec::new();
        encode(ValueId(value), size as usize, &mut bytes);
        bytes
    }

    /// Returns the entry at the start of `bytes` and its size; `None` if `bytes` do not start with a whole entry.
    fn decode(bytes: &[u8]) -> Option<(Self, u32)> {
        let size = u32::from_le_bytes(*bytes.get(4..8)?.first_chunk()?);
        let ValueId(value) = decode(bytes.get(..size as usize)?)?;
        let bits = |from: u32, to: u32| value >> from & ((1 << (to - from)) - 1);
        let session = SessionId {
            sender: bits(Self::SENDER_SHIFT, 32),
            number: bits(Self::SESSION_SHIFT, Self::SENDER_SHIFT),
        };
        let number = bits(0, Self::SESSION_SHIFT);
        Some((Self { session, number }, size))
    }
}

/// The memory of one receiver.
pub(super) struct Memory {
    pub region: Rc<dyn PersistentRegion>,
    commit: Commit,
}

impl Memory {
    /// Opens the content of the module behind `backing`.
    pub fn open(backing: &SimBacking, platform: &Platform) -> Result<Self, MediaError> {
        let (region, commit) = region::open(backing, platform.declared(), CAPACITY)?;
        Ok(Self { region, commit })
    }

    /// The first buffer that was never posted.
    pub fn first_fresh(&self) -> u64 {
        let mut word = [0; 8];
        self.region.read(LEDGER.offset, &mut word);
        u64::from_le_bytes(word)
    }

    /// Notes, before `buffer` is posted, that `buffer` is no longer fresh.
    pub async fn claim(&self, buffer: u64) -> Result<Persisted, PersistError> {
        let next = buffer + 1;
        self.region.write(LEDGER.offset, &next.to_le_bytes());
        self.commit.persist(&*self.region, &[LEDGER]).await
    }

    /// The bytes of a buffer.
    pub fn buffer(buffer: u64) -> Span {
        let size = u64::from(BUFFER_SIZE);
        Span::new(FIRST + buffer * size, size)
    }

    /// All whole entries, in the order of their places.
    pub fn all_entries(&self) -> Vec<EntryId> {
        let posted = 0..self.first_fresh().min(BUFFERS);
        let entries = posted.flat_map(|buffer| self.entries(buffer));
        entries.map(|(entry, _)| entry).collect()
    }

    /// The whole entries of a buffer, in the order of their places.
    pub fn entries(&self, buffer: u64) -> Vec<(EntryId, Span)> {
        let span = Self::buffer(buffer);
        let mut bytes = vec![0; span.size as usize];
        self.region.read(span.offset, &mut bytes);
        let places = (0..bytes.len()).step_by(GRAIN as usize);
        places
            .filter_map(|at| {
                let (entry, size) = EntryId::decode(&bytes[at..])?;
                let place = Span::new(span.offset + at as u64, size.into());
                Some((entry, place))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_known_again_by_its_bytes_wherever_they_end() {
        let entry = EntryId {
            session: SessionId {
                sender: 3,
                number: 70_000,
            },
            number: 123,
        };
        for size in [8, 64, 100, ENTRY_SIZE_MAX] {
            let mut bytes = entry.encode(size);
            bytes.extend([0xff; 16]);
            assert_eq!(EntryId::decode(&bytes), Some((entry, size)));
            bytes[size as usize - 1] ^= 1;
            assert_eq!(EntryId::decode(&bytes), None);
        }
    }
}
