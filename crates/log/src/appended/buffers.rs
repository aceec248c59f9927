//! The accounting of segments that are posted as buffers: some are being filled, some have come back, and some may be
//! used again.
//!
//! ```text
//!   posted ---------------> consumed ----------> settled ---------------> reusable
//!           device gives it back     scan is done    floors settle all of it, no doubtful peer
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use stonecast_lineage::{Point, Term};
use stonecast_media::Region;

use super::entry::EntryFormat;
use super::lineages::Lineages;
use super::scan::{Arrival, ArrivalScan, Bounds};
use super::stale::Stale;
use crate::format::{LogFormat, UNIT_SIZE};
use crate::state::SegmentState;

/// The segments that appends fill, oldest first.
#[derive(Debug, Default)]
pub struct Buffers {
    held: Vec<Held>,
    /// The number of segments that are posted at any time.
    ahead: usize,
}

#[derive(Debug)]
struct Held {
    state: SegmentState,
    scan: ArrivalScan,
    /// Whether the segment's buffer has come back, or was posted by an earlier run.
    consumed: bool,
    newest: Newest,
    /// Peers that may still write here, although their sessions are over.
    doubtful: BTreeSet<u64>,
}

/// The highest version of the records that were found in a segment, by shard and term.
#[derive(Debug, Default)]
struct Newest(BTreeMap<(u32, Term), u64>);

impl Newest {
    fn note(&mut self, arrival: &Arrival<'_>, lineages: &Lineages) {
        let facts = arrival.facts;
        // Settled entries hold no segment.
        if !facts.is_mark && lineages.counts(&facts) {
            let version = self.0.entry((facts.shard, facts.term)).or_default();
            *version = facts.version.max(*version);
        }
    }
}

/// Stands for the peers of an earlier run, whose numbers are unknown. No peer has this number.
const EARLIER_RUN: u64 = u64::MAX;

/// A search for everything that lay in the segments at one moment; see [`Buffers::begin_search`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search(Vec<(u32, u32, u64)>);

/// The used part of a buffer, for the credits of senders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumption {
    /// Number of the segment.
    pub number: u32,
    /// Units up to the end of the last entry found, with the places that stay empty.
    pub units: u32,
    /// Units of the segment below that end in which no entry was found, in ascending order.
    pub open: Vec<Range<u32>>,
}

impl Buffers {
    /// Begins without a segment. `ahead` segments are to be posted at any time: while one is being filled, senders
    /// without another would wait.
    pub fn new(ahead: usize) -> Self {
        Self {
            held: Vec::new(),
            ahead,
        }
    }

    /// Takes over a segment that an earlier run left. No peer still appends to the segment, because connections end
    /// with their run. Peers that may have outlived the run on the same machine are [doubtful](Self::doubt_adopted).
    pub fn adopt(&mut self, format: &LogFormat, state: SegmentState) {
        self.posted(format, state);
        self.consumed(state.number);
    }

    /// Doubts the adopted segments, before a search of them: writers of the earlier run may have outlived that run.
    /// Until [`Buffers::trust_adopted`], the search of these segments does not end, and they are not used again.
    pub fn doubt_adopted(&mut self, format: &LogFormat) {
        for held in self.held.iter_mut().filter(|held| held.consumed) {
            held.scan = ArrivalScan::new(format, held.state.number);
            held.doubtful.insert(EARLIER_RUN);
        }
    }

    /// Notes that no writer of the earlier run is left, so the search finds everything that they wrote.
    pub fn trust_adopted(&mut self) {
        for held in &mut self.held {
            if held.doubtful.remove(&EARLIER_RUN) {
                held.scan.close();
            }
        }
    }

    /// Whether writers of the earlier run may be left.
    pub fn is_earlier_run_doubtful(&self) -> bool {
        let mut held = self.held.iter();
        held.any(|held| held.doubtful.contains(&EARLIER_RUN))
    }

    /// The number of further segments to post now.
    pub fn wanted(&self) -> usize {
        self.ahead.saturating_sub(self.posted_now())
    }

    /// The number of segments in which a message finds a place.
    pub fn posted_now(&self) -> usize {
        self.held.iter().filter(|held| !held.consumed).count()
    }

    /// Notes that the device got the segment of `state` as a buffer, from [`first_unit`](super::first_unit) to the
    /// segment's end.
    ///
    /// # Panics
    /// If the segment is held already.
    pub fn posted(&mut self, format: &LogFormat, state: SegmentState) {
        let is_new = !self.numbers().any(|number| number == state.number);
        assert!(is_new, "segment {} is posted once", state.number);
        self.held.push(Held {
            state,
            scan: ArrivalScan::new(format, state.number),
            consumed: false,
            newest: Newest::default(),
            doubtful: BTreeSet::new(),
        });
    }

    /// Like [`Buffers::posted`], with the entries that lay there before. The search then finds everything that arrives,
    /// even entries that the floors settle before the search finds them. The accounting of credits needs that.
    ///
    /// # Panics
    /// Panics as [`Buffers::posted`] does.
    pub fn posted_over(&mut self, format: &LogFormat, state: SegmentState, stale: Stale) {
        self.posted(format, state);
        let held = self.find(state.number);
        held.scan = ArrivalScan::new(format, state.number).finding_settled(stale);
    }

    /// Notes that the device has given the buffer of segment `number` back: nothing lands there from then on, except
    /// from doubtful peers.
    pub fn consumed(&mut self, number: u32) {
        let held = self.find(number);
        held.consumed = true;
        held.scan.close();
    }

    /// Notes that a peer has not confirmed that it is quiet: the peer may still finish a write into any segment posted
    /// so far.
    pub fn doubt(&mut self, peer: u64) {
        self.held.iter_mut().for_each(|held| {
            held.doubtful.insert(peer);
        });
    }

    /// Notes that the peer is quiet or gone.
    pub fn trust(&mut self, peer: u64) {
        self.held.iter_mut().for_each(|held| {
            held.doubtful.remove(&peer);
        });
    }

    /// Looks for entries in all segments that are not settled, in each within `bounds`; see [`ArrivalScan::step`].
    /// Returns the segments that have become settled.
    pub fn step(
        &mut self,
        (region, format): (&dyn Region, &LogFormat),
        entries: &dyn EntryFormat,
        lineages: &Lineages,
        bounds: Bounds,
        visit: &mut dyn FnMut(&Arrival<'_>),
    ) -> Vec<Consumption> {
        let mut settled = Vec::new();
        for held in self.held.iter_mut().filter(|held| !held.scan.is_settled()) {
            let newest = &mut held.newest;
            let mut note = |arrival: &Arrival<'_>| {
                newest.note(arrival, lineages);
                visit(arrival);
            };
            held.scan
                .step((region, format), entries, lineages, bounds, &mut note);
            if held.scan.is_settled() {
                settled.push(Consumption {
                    number: held.state.number,
                    units: held.scan.reach() - super::first_unit(format),
                    open: held.scan.open_units().to_vec(),
                });
            }
        }
        settled
    }

    /// Looks at `offset` bytes behind the start of the buffer in segment `number`, where a message has arrived; see
    /// [`ArrivalScan::look_at`].
    pub fn look_at(
        &mut self,
        (region, format): (&dyn Region, &LogFormat),
        entries: &dyn EntryFormat,
        lineages: &Lineages,
        (number, offset): (u32, u32),
        visit: &mut dyn FnMut(&Arrival<'_>),
    ) {
        let Some(held) = self.held.iter_mut().find(|it| it.state.number == number) else {
            return;
        };
        let newest = &mut held.newest;
        let mut note = |arrival: &Arrival<'_>| {
            newest.note(arrival, lineages);
            visit(arrival);
        };
        let unit = super::first_unit(format) + offset / UNIT_SIZE as u32;
        held.scan
            .look_at((region, format), entries, lineages, unit, &mut note);
    }

    /// Whether the device has given back a buffer that is still being searched.
    pub fn are_closing(&self) -> bool {
        let mut closing = self.held.iter().filter(|held| held.consumed);
        closing.any(|held| !held.scan.is_settled())
    }

    /// The segments that may be used again: their scan is settled, `lineages` settle every record found there, and no
    /// doubtful peer may still write there. The floors have to be durable before such a segment is used.
    pub fn reusable(&self, lineages: &Lineages) -> Vec<SegmentState> {
        let is_free = |held: &&Held| {
            let mut newest = held.newest.0.iter();
            held.scan.is_settled()
                && held.doubtful.is_empty()
                && newest.all(|(&(shard, term), &version)| {
                    lineages.settles(shard, Point { term, version })
                })
        };
        let free = self.held.iter().filter(is_free);
        free.map(|held| held.state).collect()
    }

    /// Takes out a reusable segment, which is about to change its generation.
    ///
    /// # Panics
    /// If `lineages` do not make the segment reusable.
    pub fn release(&mut self, number: u32, lineages: &Lineages) -> SegmentState {
        let mut reusable = self.reusable(lineages).into_iter();
        let state = reusable.find(|state| state.number == number);
        let state = state.unwrap_or_else(|| panic!("segment {number} is needed"));
        self.held.retain(|held| held.state.number != number);
        state
    }

    /// Begins to look for everything that lies in the segments at this moment, so that the last bytes of a quiet peer
    /// become known. Steps whose bounds cover the credits of senders do the work.
    pub fn begin_search(&self) -> Search {
        let segment = |held: &Held| {
            let SegmentState {
                number, generation, ..
            } = held.state;
            (number, generation, held.scan.searched_at())
        };
        Search(self.held.iter().map(segment).collect())
    }

    /// Whether everything was found that lay in the segments when `search` began.
    pub fn has_searched(&self, search: &Search) -> bool {
        search.0.iter().all(|&(number, generation, rounds)| {
            let mut held = self.held.iter();
            let same =
                |held: &&Held| (held.state.number, held.state.generation) == (number, generation);
            held.find(same)
                .is_none_or(|held| held.scan.has_searched(rounds))
        })
    }

    /// The states of all segments, oldest first.
    pub fn states(&self) -> impl Iterator<Item = SegmentState> {
        self.held.iter().map(|held| held.state)
    }

    /// The units that may hold something that arrived before an entry found in segment `number` and that no search has
    /// found: the open units below the last entry there, and those of all segments posted before. A device no longer
    /// fills the end of a segment once something has arrived in a later segment.
    pub fn open_units_up_to(&self, format: &LogFormat, number: u32) -> u64 {
        let mut open = 0;
        for held in &self.held {
            let scan = &held.scan;
            let ranges = scan.open_units().iter();
            let below: u32 = ranges.map(|range| range.end - range.start).sum();
            let is_last = held.state.number == number;
            let tail = match is_last {
                true => 0,
                false => format.segment_units() - scan.reach(),
            };
            if !scan.is_settled() {
                open += u64::from(below + tail);
            }
            if is_last {
                break;
            }
        }
        open
    }

    /// The segments that are still being searched, oldest first: entries may still be found there.
    pub fn unsettled(&self) -> impl Iterator<Item = SegmentState> {
        let unsettled = self.held.iter().filter(|held| !held.scan.is_settled());
        unsettled.map(|held| held.state)
    }

    /// All segments, oldest first.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.held.iter().map(|held| held.state.number)
    }

    fn find(&mut self, number: u32) -> &mut Held {
        let mut all = self.held.iter_mut();
        all.find(|held| held.state.number == number)
            .unwrap_or_else(|| panic!("segment {number} was not posted"))
    }
}
