//! The two logs (Figure 2 of the paper). The widths of the fields are not published.
//!
//! ```text
//!   operation log   size (4) │ checksum (4) │ operation
//!   memory log      flag (1), zeros (3), length (4), address (8), data or pointer     for each entry
//!                   flag COMMIT, zeros (3), checksum of everything before it (4)      the end mark
//! ```
//!
//! All of them take whole words. No entry has a number: an old transaction checks as well as a new one.

use stonecast_base::Span;
use stonecast_media::Region;

const INLINE: u8 = 1;
const POINTER: u8 = 2;
const COMMIT: u8 = 3;
/// The log goes on at the start of the ring.
const WRAP: u8 = 4;
const ENTRY_HEADER_SIZE: usize = 16;
const END_SIZE: usize = 8;

/// A transaction of the memory log that is being made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLog(Vec<u8>);

/// One operation as the operation log holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationLog(pub Vec<u8>);

/// A change that a transaction asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub address: u64,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Inline(Vec<u8>),
    /// Bytes of the operation log.
    Pointer(Span),
}

impl MemoryLog {
    /// Writes bytes to an address.
    pub fn push(&mut self, address: u64, data: &[u8]) {
        self.header(INLINE, data.len(), address);
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
    }

    /// Writes bytes that stand in the operation log to an address.
    pub fn push_pointer(&mut self, address: u64, logged: Span) {
        self.header(POINTER, logged.size as usize, address);
        self.0.extend_from_slice(&logged.offset.to_le_bytes());
    }

    fn header(&mut self, flag: u8, length: usize, address: u64) {
        self.0.extend_from_slice(&[flag, 0, 0, 0]);
        self.0.extend_from_slice(&(length as u32).to_le_bytes());
        self.0.extend_from_slice(&address.to_le_bytes());
    }

    /// Whether nothing would be written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The transaction with its end mark.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let checksum = crc32fast::hash(&self.0);
        self.0.extend_from_slice(&[COMMIT, 0, 0, 0]);
        self.0.extend_from_slice(&checksum.to_le_bytes());
        self.0
    }
}

impl OperationLog {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = (self.0.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&crc32fast::hash(&self.0).to_le_bytes());
        bytes.extend_from_slice(&self.0);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    /// Bytes in front of the operation.
    pub(super) const HEADER_SIZE: u64 = 8;
}

/// The mark that sends a reader of the log to the start of the ring.
pub(super) fn wrap_mark() -> [u8; 8] {
    [WRAP, 0, 0, 0, 0, 0, 0, 0]
}

/// A ring of bytes in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    pub start: u64,
    pub size: u64,
}

impl Ring {
    /// Where `size` bytes go that follow `position`, and whether a mark has to send readers there. Nothing lies
    /// across the end.
    pub fn place(&self, position: u64, size: u64) -> (u64, bool) {
        let inside = position % self.size;
        match inside + size + END_SIZE as u64 <= self.size {
            true => (position, false),
            false => (position - inside + self.size, true),
        }
    }

    pub fn offset(&self, position: u64) -> u64 {
        self.start + position % self.size
    }
}

/// Reads the transaction at `position`: its writes, and the position behind it. `None`: no transaction there checks.
pub(super) fn read_transaction(
    memory: &dyn Region,
    ring: Ring,
    mut position: u64,
) -> Option<(Vec<Write>, u64)> {
    let mut bytes = [0; ENTRY_HEADER_SIZE];
    memory.read(ring.offset(position), &mut bytes[..8]);
    if bytes[0] == WRAP {
        position = position - position % ring.size + ring.size;
    }
    let (start, mut writes) = (position, Vec::new());
    let mut body = Vec::new();
    loop {
        let left = ring.size - position % ring.size;
        let mut header = [0; ENTRY_HEADER_SIZE];
        let size = left.min(ENTRY_HEADER_SIZE as u64) as usize;
        memory.read(ring.offset(position), &mut header[..size]);
        let length = u32::from_le_bytes(*header[4..].first_chunk()?);
        if header[0] == COMMIT {
            let is_whole = position > start && crc32fast::hash(&body) == length;
            return is_whole.then_some((writes, position + END_SIZE as u64));
        }
        let stored = match header[0] {
            INLINE => u64::from(length).next_multiple_of(8),
            POINTER => 8,
            _ => return None,
        };
        if ENTRY_HEADER_SIZE as u64 + stored + END_SIZE as u64 > left {
            return None;
        }
        let mut data = vec![0; stored as usize];
        memory.read(ring.offset(position) + ENTRY_HEADER_SIZE as u64, &mut data);
        body.extend_from_slice(&header);
        body.extend_from_slice(&data);
        position += ENTRY_HEADER_SIZE as u64 + stored;
        let address = u64::from_le_bytes(*header[8..].first_chunk()?);
        let value = match header[0] {
            POINTER => {
                let offset = u64::from_le_bytes(*data.first_chunk()?);
                Value::Pointer(Span::new(offset, length.into()))
            }
            _ => {
                data.truncate(length as usize);
                Value::Inline(data)
            }
        };
        writes.push(Write { address, value });
    }
}

/// Reads the operations of a log from `position` on, until one does not check.
pub(super) fn read_operations(memory: &dyn Region, ring: Ring, mut position: u64) -> Vec<Vec<u8>> {
    let mut operations = Vec::new();
    loop {
        let mut header = [0; 8];
        memory.read(ring.offset(position), &mut header);
        let [size, checksum] = [0, 4].map(|at: usize| {
            u32::from_le_bytes(
                *header[at..]
                    .first_chunk()
                    .expect("8 bytes hold two numbers"),
            )
        });
        let end = position % ring.size + OperationLog::HEADER_SIZE + u64::from(size);
        if size == 0 || end > ring.size {
            return operations;
        }
        let mut operation = vec![0; size as usize];
        memory.read(
            ring.offset(position) + OperationLog::HEADER_SIZE,
            &mut operation,
        );
        if crc32fast::hash(&operation) != checksum {
            return operations;
        }
        operations.push(operation);
        position += (OperationLog::HEADER_SIZE + u64::from(size)).next_multiple_of(8);
    }
}
