//! Recovery of a responder after a crash: finishes the messages that its persistent receive buffers kept.
//!
//! ```text
//!   buffer   message whole?   no --> nothing was promised
//!              yes: first part to its place, persisted; second part; message cleared, persisted
//! ```
//!
//! Invariants:
//! - The first part is persisted before the second is written, so a crash during recovery leaves no second part without
//!   the first. The message stays until both parts are persisted, so the next recovery begins again.
//! - A buffer that a NIC may write to holds no whole message ([`clear`] comes before the buffer is posted again), so an
//!   old message never overwrites later data.

use stonecast_base::Span;
use stonecast_media::{PersistError, PersistentRegion, persist_spans};

use crate::execute::message::{Framed, Kind, parse};

/// The parts of a responder's persistent region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The data, which requesters write. Places of updates count from its start.
    pub data: Span,
    /// Receive buffers, one after the other; `None` if they are volatile.
    pub receive_buffers: Option<Span>,
    /// Bytes of a receive buffer: the longest message. A multiple of 64.
    pub buffer_size: u32,
}

impl Layout {
    /// The receive buffers, if they are persistent.
    pub fn buffers(&self) -> impl Iterator<Item = Span> {
        let Self {
            receive_buffers,
            buffer_size,
            ..
        } = *self;
        let all = receive_buffers.unwrap_or(Span::new(0, 0));
        let size = u64::from(buffer_size);
        (0..all.size / size.max(1)).map(move |index| Span::new(all.offset + index * size, size))
    }
}

/// Result of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Number of messages that were finished.
    pub messages: u64,
    /// Number of whole messages that name places outside the data, and were dropped.
    pub misplaced: u64,
}

/// Finishes the messages in the persistent receive buffers of `region`. To be called before any requester connects. A
/// crash during the call leaves messages for the next call.
pub async fn recover(
    region: &dyn PersistentRegion,
    layout: &Layout,
) -> Result<Replayed, PersistError> {
    let mut found: Vec<(Span, Vec<u8>, Framed)> = Vec::new();
    for buffer in layout.buffers() {
        let mut bytes = vec![0; buffer.size as usize];
        region.read(buffer.offset, &mut bytes);
        if let Some(message) = parse(&bytes).filter(|message| message.kind == Kind::Values) {
            found.push((buffer, bytes, message));
        }
    }
    // Several messages are present only if none of them was begun. The messages of one session have ascending numbers
    // in the order of sending.
    found.sort_by_key(|(_, _, message)| message.number);
    let mut replayed = Replayed::default();
    for (buffer, bytes, message) in found {
        if message
            .places
            .iter()
            .all(|place| place.fits(layout.data.size))
        {
            finish(region, layout, &bytes, &message).await?;
            replayed.messages += 1;
        } else {
            replayed.misplaced += 1;
        }
        clear(region, buffer).await?;
    }
    Ok(replayed)
}

/// Writes each part of a message to its place, persisted before the next part.
pub(crate) async fn finish(
    region: &dyn PersistentRegion,
    layout: &Layout,
    bytes: &[u8],
    message: &Framed,
) -> Result<(), PersistError> {
    for (place, value) in message.places.iter().zip(&message.values) {
        let target = Span::new(layout.data.offset + place.offset, place.size);
        region.write(target.offset, &bytes[value.clone()]);
        persist_spans(region, &[target]).await?;
    }
    Ok(())
}

/// Clears the start of a buffer, so that it holds no message.
pub(crate) async fn clear(region: &dyn PersistentRegion, buffer: Span) -> Result<(), PersistError> {
    region.store(buffer.offset, 0);
    persist_spans(region, &[Span::new(buffer.offset, 8)]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_or_cleared_buffer_is_no_message() {
        assert_eq!(parse(&[0; 256]), None);
        let mut bytes = crate::execute::message::with_values(1, &[(0, &[1; 8])]);
        bytes[..8].fill(0);
        assert_eq!(parse(&bytes), None);
    }

    #[test]
    fn buffers_are_contiguous_and_whole() {
        let layout = Layout {
            data: Span::new(0, 4096),
            receive_buffers: Some(Span::new(4096, 700)),
            buffer_size: 256,
        };
        assert_eq!(
            layout.buffers().collect::<Vec<_>>(),
            [Span::new(4096, 256), Span::new(4352, 256)]
        );
        assert_eq!(
            Layout {
                receive_buffers: None,
                ..layout
            }
            .buffers()
            .count(),
            0
        );
    }
}
