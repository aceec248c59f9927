//! A part of the log that one client writes to.

use stonecast_base::Nanoseconds;

use crate::wire::limits::LEASE_RECLAIM_NS;

/// The rest of a segment, to which one client writes.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct Extent {
    pub segment: u32,
    /// Whether the client stamps the records that it writes there.
    pub publishes: bool,
    /// The segment's end when the client last advanced, and that time.
    pub(super) seen: (u32, Nanoseconds),
}

impl Extent {
    /// Notes the segment's end. Returns whether the client has written there lately.
    pub(super) fn is_used(&mut self, end: u32, now: Nanoseconds) -> bool {
        if end != self.seen.0 {
            self.seen = (end, now);
        }
        now.saturating_sub(self.seen.1) < LEASE_RECLAIM_NS
    }
}
