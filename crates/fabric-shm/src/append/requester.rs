//! The requester's side: reserves places for a run of messages, and publishes them.

use super::{
    AppendLayout, Buffer, CURSOR, Cursor, IN_NEXT, MESSAGE_SIZE_MAX, POSTED, PUBLISHED, STRIDES_MAX,
};
use crate::primitive::Memory;

/// The place of a run of messages: next to each other in one buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation {
    /// The buffer.
    pub(crate) buffer: Buffer,
    /// The place of the first message.
    pub(crate) first: Place,
    /// The number of messages.
    pub(crate) messages: usize,
}

/// The place of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    slot: u64,
    in_next: bool,
    /// Strides from the start of the buffer.
    stride: u64,
}

/// The reason why a reservation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No posted buffer has room.
    NoBuffer,
    /// The message is longer than a whole buffer.
    TooLong,
    /// The receiver wrote a value that no honest receiver writes.
    Hostile,
}

/// Reserves room for a run: the first of the messages of these `sizes`, and as many of the others as fit after it in
/// its buffer. `intents` holds the requester's intent in the word at `intent`.
pub(crate) fn reserve(
    layout: AppendLayout,
    memory: &impl Memory,
    intents: &impl Memory,
    intent: u64,
    sizes: impl Iterator<Item = u32> + Clone,
) -> Result<Reservation, Refusal> {
    let first_size = sizes.clone().next().expect("a run has a first message");
    loop {
        let word = memory.load(CURSOR);
        let from = Cursor::unpack(word);
        match place(layout, memory, from, layout.strides(first_size)) {
            Ok((buffer, here, first_slot)) => {
                let room = buffer.strides - here.stride;
                let (messages, strides) = run_within(layout, room, sizes.clone());
                intents.store(intent, from.named());
                crate::step::step("append: intent stored");
                let slot = first_slot.wrapping_add(from.stride);
                mark(memory, layout.mark(slot), from.named());
                crate::step::step("append: start marked");
                if memory
                    .compare_exchange(CURSOR, word, here.behind(strides, buffer.strides).pack())
                    .is_ok()
                {
                    crate::step::step("append: reserved");
                    let first = Place {
                        slot,
                        in_next: here != from,
                        stride: here.stride,
                    };
                    return Ok(Reservation {
                        buffer,
                        first,
                        messages,
                    });
                }
            }
            // The values read may have been replaced while others moved the cursor; then they are meaningless.
            Err(_) if memory.load(CURSOR) != word => {}
            Err(refusal) => {
                intents.store(intent, 0);
                return Err(refusal);
            }
        }
    }
}

/// The number of messages of these `sizes` that fit one after the other into `room` strides, and the strides that they
/// take.
fn run_within(layout: AppendLayout, room: u64, sizes: impl Iterator<Item = u32>) -> (usize, u64) {
    let (mut messages, mut strides) = (0, 0);
    for size in sizes {
        let more = layout.strides(size);
        if more > room - strides {
            break;
        }
        messages += 1;
        strides += more;
    }
    (messages, strides)
}

impl Reservation {
    /// The place of the message after one of `size` bytes at `place`.
    pub(crate) fn behind(&self, layout: AppendLayout, place: Place, size: u32) -> Place {
        let stride = place.stride + layout.strides(size);
        Place {
            slot: self.buffer.first_slot.wrapping_add(stride),
            in_next: false,
            stride,
        }
    }
}

impl Place {
    /// Bytes from the start of the buffer.
    pub(crate) fn offset(&self, layout: AppendLayout) -> u64 {
        self.stride * u64::from(layout.stride)
    }
}

/// The place of a message of `strides` strides that finds the cursor at `from`: its buffer, its place, and the first
/// slot of the buffer of `from`.
fn place(
    layout: AppendLayout,
    memory: &impl Memory,
    from: Cursor,
    strides: u64,
) -> Result<(Buffer, Cursor, u64), Refusal> {
    let posted = memory.load(POSTED);
    if from.serial >= posted {
        return if from.serial > posted {
            Err(Refusal::Hostile)
        } else {
            Err(Refusal::NoBuffer)
        };
    }
    let buffer = read_descriptor(layout, memory, from.serial).ok_or(Refusal::Hostile)?;
    if from.stride >= buffer.strides {
        return Err(Refusal::Hostile);
    }
    if strides <= buffer.strides - from.stride {
        return Ok((buffer, from, buffer.first_slot));
    }
    if from.stride == 0 {
        return Err(Refusal::TooLong);
    }
    let next = Cursor {
        serial: from.serial + 1,
        stride: 0,
    };
    if next.serial >= posted {
        return Err(Refusal::NoBuffer);
    }
    let first_slot = buffer.first_slot;
    let buffer = read_descriptor(layout, memory, next.serial).ok_or(Refusal::Hostile)?;
    if strides > buffer.strides {
        Err(Refusal::TooLong)
    } else {
        Ok((buffer, next, first_slot))
    }
}

fn read_descriptor(layout: AppendLayout, memory: &impl Memory, serial: u64) -> Option<Buffer> {
    let at = layout.descriptor(serial);
    let named = memory.load(at);
    let buffer = Buffer {
        region: u32::try_from(memory.load(at + 8)).ok()?,
        offset: memory.load(at + 16),
        strides: memory.load(at + 24),
        first_slot: memory.load(at + 32),
    };
    (named == serial + 1 && buffer.strides > 0 && buffer.strides <= STRIDES_MAX).then_some(buffer)
}

/// Raises the mark to `named`. Never lowers it: a requester that slept for a round must not hide a later start.
pub(super) fn mark(memory: &impl Memory, at: u64, named: u64) {
    let mut found = memory.load(at);
    while found < named {
        match memory.compare_exchange(at, found, named) {
            Ok(_) => return,
            Err(now) => found = now,
        }
    }
}

/// Shows the receiver a message that was copied to `place`. The first message of a run is published last.
pub(crate) fn publish(
    layout: AppendLayout,
    memory: &impl Memory,
    place: Place,
    queue_pair: u32,
    size: u32,
) {
    assert!(size <= MESSAGE_SIZE_MAX);
    let flags = if place.in_next {
        PUBLISHED | IN_NEXT
    } else {
        PUBLISHED
    };
    memory.store(
        layout.publication(place.slot),
        flags | u64::from(size) << 32 | u64::from(queue_pair),
    );
    crate::step::step("append: published");
}

/// Ends the intent of a fully published run.
pub(crate) fn finish(intents: &impl Memory, intent: u64) {
    intents.store(intent, 0);
}
