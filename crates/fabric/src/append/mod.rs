//! Receiver-placed appends: many senders put messages next to each other into buffers that one receiver posted, without
//! its help while buffers last.
//!
//! ```text
//!   packed   a device with multi-packet queues: messages lie at multiples of a grain, as close as they fit
//!            |##|###|#|....|####|
//!   slots    any other device: each message lies at the start of a slot that holds the longest one
//!            |##......|###.....|#.......|
//!
//!   receiver                                       sender
//!     AppendQueue::post: memory
//!     AppendQueue::grant: credits  ---- by message ---->  Appender::add_credits
//!                                  <---- SENDs ----------  Appender::append: pays, or is refused at once
//! ```
//!
//! The caller decides on the content of a message. A receiver finds messages by reading its memory, so messages must
//! prove themselves: a place may hold a whole message, a part of one, or earlier bytes.
//!
//! Invariants:
//! - Messages of one sender lie in the order in which they were appended, with any sizes. There is no promise between
//!   senders; a message may lie after a place that is still empty.
//! - The credits ever granted never exceed the grains that settled buffers took plus the grains that the other buffers
//!   take at least. A sender that pays therefore always finds room, and waits for no other sender. A sender that does
//!   not pay meets the retries of its own queue pair, which are bounded, and may take room that others paid for: peers
//!   are trusted not to do so.
//!
//! The device leaves a buffer when the next message does not fit into the rest. A buffer therefore takes at least its
//! grains less those of one longest message, plus one grain.

mod appender;
mod queue;

pub use appender::{AppendError, Appender};
pub use queue::{AppendOptions, AppendQueue};

/// The price of messages, known to both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendTerms {
    /// Bytes that one credit pays for. Messages begin at multiples of this size.
    pub grain: u32,
    /// Bytes of the longest message; a multiple of `grain`. Longer entries are appended as several messages in a row.
    pub message_size_max: u32,
}

impl AppendTerms {
    /// Credits that a message of `size` bytes costs, and grains that the message takes: at least one.
    pub const fn cost(&self, size: u32) -> u64 {
        let grains = size.div_ceil(self.grain);
        if grains == 0 { 1 } else { grains as u64 }
    }

    /// Grains of the messages that a buffer of `size` bytes takes at least.
    const fn room(&self, size: u32) -> u64 {
        let grains = (size / self.grain) as u64;
        (grains + 1).saturating_sub(self.cost(self.message_size_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKED: AppendTerms = AppendTerms {
        grain: 64,
        message_size_max: 4096,
    };

    /// Needs the reserve for the longest message: without it the last credits of a buffer would find no room.
    #[test]
    fn buffers_take_the_messages_that_their_room_pays_for_whatever_the_sizes() {
        use rand::RngExt as _;
        let seed = 17;
        let mut random = stonecast_base::random_from_seed(seed);
        const BUFFERS: u64 = 4;
        for size in [4096, 8192, 10_000, 65_536] {
            let grains = u64::from(size / PACKED.grain);
            for _ in 0..200 {
                let (mut buffer, mut used, mut paid) = (0, 0, 0);
                loop {
                    let cost = PACKED.cost(random.random_range(0..=4096));
                    paid += cost;
                    if paid > BUFFERS * PACKED.room(size) {
                        break;
                    }
                    if used + cost > grains {
                        (buffer, used) = (buffer + 1, 0);
                    }
                    used += cost;
                    assert!(buffer < BUFFERS, "seed {seed}: {size} bytes, {paid} paid");
                }
            }
        }
    }

    #[test]
    fn a_slot_takes_one_message_of_any_size_for_one_credit() {
        let slots = AppendTerms {
            grain: 4096,
            message_size_max: 4096,
        };
        assert_eq!([0, 1, 4096].map(|size| slots.cost(size)), [1; 3]);
        assert_eq!(slots.room(3 * 4096), 3);
        assert_eq!(slots.room(4095), 0, "no slot");
    }
}
