//! Places that were left without an entry.

use stonecast_base::Span;
use stonecast_log::{Consumption, LogFormat, UNIT_SIZE, first_unit};

/// The places in which no entry was found, although entries lie after them and nothing arrives there any longer.
///
/// A sender that dies within a message leaves such a place. So does a message that is no entry of this pool: an entry
/// under the key of another pool, a damaged entry, or a message that is not an entry. The bytes cannot tell, because a
/// segment is not cleared between two uses. Ended sessions explain a few places each. A number that grows while no
/// session ends means that a peer sends something other than entries: look at the bytes of the first place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holes {
    /// The number of places since the start: grains of messages, and slots on a device that does not pack messages.
    pub count: u64,
    /// The first place, in bytes from the start of the log.
    pub first: Option<Span>,
}

impl Holes {
    /// Notes the places of a segment that is settled. Messages begin at multiples of `grain` bytes.
    pub(super) fn note(&mut self, format: &LogFormat, grain: u32, consumption: &Consumption) {
        let first = first_unit(format);
        let units = (grain / UNIT_SIZE as u32) as usize;
        for range in &consumption.open {
            let mut begins = (first..range.end).step_by(units);
            let place = begins.find(|unit| range.contains(unit));
            let count = place.map_or(0, |_| 1 + begins.count());
            self.count += count as u64;
            let position = |unit| format.position(consumption.number, unit);
            let place = place.map(|unit| Span::new(position(unit), grain.into()));
            self.first = self.first.or(place);
        }
    }
}
