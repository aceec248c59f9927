//! The keys with writes that are decided and perhaps not published.

use crate::server::pipeline::batch::Write;
use crate::server::pipeline::flight::Flights;
use crate::wire::Route;

/// The fewest expectations for which the hashes are sorted. Fewer cost less than the sort.
const EXPECTATIONS_MIN: usize = 16;

/// The hashes of these keys, sorted. Most keys of a bundle with many expectations have no such write, and a look at the
/// hashes spares a look at each write.
pub(super) struct Unpublished(Option<Vec<u64>>);

impl Unpublished {
    /// The keys of `earlier` and of the batches in flight, for so many expectations.
    pub fn of(flights: &Flights, earlier: &[Write], expectations: usize) -> Self {
        if expectations < EXPECTATIONS_MIN {
            return Self(None);
        }
        let writes = flights.writes().chain(earlier);
        let mut hashes: Vec<u64> = writes.map(|write| write.route.hash.0).collect();
        hashes.sort_unstable();
        Self(Some(hashes))
    }

    /// Whether the key of `route` may have such a write.
    pub fn may_have(&self, route: Route) -> bool {
        let Self(hashes) = self;
        let has = |hashes: &Vec<u64>| hashes.binary_search(&route.hash.0).is_ok();
        hashes.as_ref().is_none_or(has)
    }
}
