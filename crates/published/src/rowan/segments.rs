//! The segments of a server, and their states.
//!
//! ```text
//!   Free --> Using --> Used --> Committed --> Free
//!            a thread  full     every entry   cleaned
//!            fills it           has its copies
//! ```
//!
//! The table in persistent memory has a word for each segment: state, and the kind of its log. A change is persisted
//! together with the entries of the thread that makes it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_media::PersistentRegion;

use super::RowanOptions;
use super::entry::UNIT;

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Using,
    Used,
    Committed,
}

/// The log of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogKind {
    /// Entries of a worker thread for the shards of this server.
    Primary,
    /// Entries of other servers.
    Backup,
    /// Entries that an index names already: those that were moved, and all of the store like HermesKV.
    Applied,
}

/// All segments of a server.
pub(crate) struct Segments {
    memory: Rc<dyn PersistentRegion>,
    table_size: u64,
    size: u64,
    /// Free segments that only cleaners may take.
    reserve: usize,
    content: RefCell<Content>,
}

struct Content {
    free: VecDeque<u32>,
    segments: Vec<Segment>,
    /// Counts the changes of segments.
    filled: u64,
}

#[derive(Clone, Copy)]
struct Segment {
    state: State,
    kind: LogKind,
    /// Units of entries that an index names.
    live: u32,
    /// Entries whose copies are under way.
    pending: u32,
    filled: u64,
}

/// A segment that may be cleaned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cleanable {
    pub number: u32,
    /// The part of the segment that is live.
    pub live: f64,
    /// Changes of segments since the segment became full.
    pub age: u64,
}

const KINDS: [LogKind; 3] = [LogKind::Primary, LogKind::Backup, LogKind::Applied];
const STATES: [State; 4] = [State::Free, State::Using, State::Used, State::Committed];

impl Segments {
    /// The segments in `memory`, in the states of its table.
    pub fn open(memory: Rc<dyn PersistentRegion>, options: &RowanOptions) -> Self {
        let of = |number: u32| {
            let word = memory.load(u64::from(number) * 8);
            Segment {
                state: STATES[(word & 3) as usize],
                kind: KINDS[(word >> 8) as usize % KINDS.len()],
                live: 0,
                pending: 0,
                filled: 0,
            }
        };
        let segments: Vec<Segment> = (0..options.segments).map(of).collect();
        let is_free = |number: &u32| segments[*number as usize].state == State::Free;
        let content = Content {
            free: (0..options.segments).filter(is_free).collect(),
            segments,
            filled: 0,
        };
        Self {
            table_size: options.table_size(),
            size: options.segment_size.into(),
            reserve: 2 * options.cleaners as usize,
            content: RefCell::new(content),
            memory,
        }
    }

    /// Bytes of a segment.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Free segments.
    pub fn free(&self) -> usize {
        self.content.borrow().free.len()
    }

    /// The number of segments.
    pub fn count(&self) -> u32 {
        self.content.borrow().segments.len() as u32
    }

    /// The first byte of a segment.
    pub fn start(&self, segment: u32) -> u64 {
        self.table_size + u64::from(segment) * self.size
    }

    /// The segment of a place.
    pub fn of(&self, place: u64) -> u32 {
        ((place - self.table_size) / self.size) as u32
    }

    /// Takes a free segment for a log. The caller persists the returned word of the table.
    pub fn take(&self, kind: LogKind) -> Option<(u32, Span)> {
        let content = &mut *self.content.borrow_mut();
        let reserve = if kind == LogKind::Applied {
            0
        } else {
            self.reserve
        };
        if content.free.len() <= reserve {
            return None;
        }
        let number = content.free.pop_front().expect("one is left");
        content.segments[number as usize] = Segment {
            state: State::Using,
            kind,
            live: 0,
            pending: 0,
            filled: 0,
        };
        Some((number, self.note(number, State::Using, kind)))
    }

    /// Changes the state of a segment. The caller persists the returned word of the table.
    pub fn set(&self, number: u32, state: State) -> Span {
        let content = &mut *self.content.borrow_mut();
        content.filled += 1;
        let filled = content.filled;
        let segment = &mut content.segments[number as usize];
        segment.state = state;
        match state {
            State::Used => segment.filled = filled,
            State::Free => content.free.push_back(number),
            State::Using | State::Committed => {}
        }
        let kind = content.segments[number as usize].kind;
        self.note(number, state, kind)
    }

    fn note(&self, number: u32, state: State, kind: LogKind) -> Span {
        let state = STATES.iter().position(|&known| known == state);
        let kind = KINDS.iter().position(|&known| known == kind);
        let word = state.expect("all are listed") | kind.expect("all are listed") << 8;
        let offset = u64::from(number) * 8;
        self.memory.store(offset, word as u64);
        Span::new(offset, 8)
    }

    /// State and log of a segment.
    pub fn state(&self, number: u32) -> (State, LogKind) {
        let segment = self.content.borrow().segments[number as usize];
        (segment.state, segment.kind)
    }

    /// Notes that an index names an entry of `units` at `place`, or no longer does.
    pub fn count_live(&self, place: u64, units: u32, is_live: bool) {
        let number = self.of(place);
        let live = &mut self.content.borrow_mut().segments[number as usize].live;
        *live = if is_live {
            *live + units
        } else {
            live.saturating_sub(units)
        };
    }

    /// Notes that an entry in a segment waits for its copies, or no longer does. Returns whether none waits now and the
    /// segment is full.
    pub fn count_pending(&self, number: u32, is_pending: bool) -> bool {
        let segment = &mut self.content.borrow_mut().segments[number as usize];
        if is_pending {
            segment.pending += 1;
        } else {
            segment.pending -= 1;
        }
        segment.pending == 0 && segment.state == State::Used
    }

    /// Entries of a segment that wait for their copies.
    pub fn pending(&self, number: u32) -> u32 {
        self.content.borrow().segments[number as usize].pending
    }

    /// The segments that may be cleaned.
    pub fn cleanable(&self) -> Vec<Cleanable> {
        let content = self.content.borrow();
        let units = (self.size / UNIT as u64) as f64;
        let numbered = (0..).zip(&content.segments);
        numbered
            .filter(|(_, segment)| segment.state == State::Committed)
            .map(|(number, segment)| Cleanable {
                number,
                live: f64::from(segment.live) / units,
                age: content.filled - segment.filled,
            })
            .collect()
    }
}
