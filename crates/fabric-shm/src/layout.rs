//! The layout of the memory that two devices share.
//!
//! ```text
//!   connection area, one per connection, writable by both ends
//!     0           direction 0: the connecting side is the requester
//!     DIRECTION   direction 1: the accepting side is the requester
//!
//!   direction                                    written by
//!       0  tail of the ring                      requester
//!     128  announcement                          requester
//!     136  append intent                         requester
//!     256  closed: honours no request      requester
//!     384  head of the ring                      responder
//!     392  verdict on the entry at the head      responder
//!    4096  ring
//!
//!   device page, the start of the key table, writable by its owner alone
//!       0  magic, version
//!      64  reasons for the owner's sleep
//!    4096  keys, 64 bytes each
//!
//!   bell, writable by peers of the same user
//!       0  futex word (4 bytes)
//! ```
//!
//! Words of different writers lie 128 bytes apart, because the processor fetches lines in pairs.

use crate::ring::RingLayout;

/// Changes whenever the meaning of anything shared by two processes changes.
pub(crate) const PROTOCOL_VERSION: u32 = 2;
/// Bytes of each ring. Holds a few of the longest messages, and thousands of small ones.
pub(crate) const RING_CAPACITY: u64 = 256 << 10;
/// Longest SEND.
pub(crate) const SEND_SIZE_MAX: u32 = 64 << 10;
/// Grain of mappings, in bytes.
pub(crate) const PAGE_SIZE: u64 = 4096;

const DIRECTION_SIZE: u64 = PAGE_SIZE + RING_CAPACITY;
/// Bytes of a connection area.
pub(crate) const AREA_SIZE: u64 = 2 * DIRECTION_SIZE;

/// Offset of the word in the device page with the reasons for the owner's sleep.
pub(crate) const SLEEPING: u64 = 64;
/// Offset of the first key in a key table.
pub(crate) const KEYS: u64 = 4096;
/// Bytes of a key: one cache line.
pub(crate) const KEY_SIZE: u64 = 64;
/// Keys of a device. The index is the lower half of an rkey.
pub(crate) const KEY_CAPACITY: u64 = 1 << 16;
/// Bytes of a key table, of which only touched pages exist.
pub(crate) const KEY_TABLE_SIZE: u64 = KEYS + KEY_CAPACITY * KEY_SIZE;
/// Bytes of a bell.
pub(crate) const BELL_SIZE: u64 = PAGE_SIZE;

/// One direction of a connection area.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direction {
    base: u64,
}

impl Direction {
    /// The direction in which the connecting side requests.
    pub(crate) const CONNECTING: Self = Self { base: 0 };
    /// The direction in which the accepting side requests.
    pub(crate) const ACCEPTING: Self = Self {
        base: DIRECTION_SIZE,
    };

    pub(crate) fn announcement(self) -> u64 {
        self.base + 128
    }

    pub(crate) fn intent(self) -> u64 {
        self.base + 136
    }

    pub(crate) fn closed(self) -> u64 {
        self.base + 256
    }

    pub(crate) fn verdict(self) -> u64 {
        self.base + 392
    }

    pub(crate) fn ring(self) -> RingLayout {
        RingLayout {
            tail: self.base,
            head: self.base + 384,
            data: self.base + PAGE_SIZE,
            capacity: RING_CAPACITY,
            payload_max: SEND_SIZE_MAX,
        }
    }
}
