//! Stores that are visible and not yet certain to survive, line by line in the order of the stores.
//!
//! ```text
//!   page --> 64 lines --> oldest store -> next -> ... newest
//! ```
//!
//! A power cut keeps a prefix of a line's stores, and perhaps only some words of the last store. A store becomes
//! certain at a known moment once the line is in transit to the persistence domain; until then it may survive or not,
//! because a cache may evict any line at any time.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::{LINE_SIZE, Nanoseconds};

/// Lines of a page.
const PAGE_LINES: usize = 64;
/// Stores of a line that are kept apart. If a line gets more before it is persisted, the oldest two are merged: fewer
/// crash states, never a wrong one.
const STORES_MAX: u32 = 8;
/// No store.
const NONE: u32 = u32::MAX;
/// The moment of a store that is not in transit.
pub(crate) const NEVER: Nanoseconds = Nanoseconds::MAX;

/// One store to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Store {
    /// Counts the stores to all memories of a world, in order.
    pub serial: u64,
    /// The moment from which the store certainly survives.
    pub certain_at: Nanoseconds,
    /// Bytes of the line that were written.
    pub bytes: u64,
    /// The line's new content, as far as written.
    pub content: [u8; LINE_SIZE],
}

struct Node {
    next: u32,
    store: Store,
}

#[derive(Clone, Copy)]
struct Line {
    oldest: u32,
    newest: u32,
    count: u32,
}

struct Page {
    lines: [Line; PAGE_LINES],
    /// Number of lines that have stores.
    used: u32,
}

#[derive(Default)]
pub(crate) struct Lines {
    pages: Vec<Option<Box<Page>>>,
    /// Pages that have had stores since the last check, perhaps with repetitions.
    touched: Vec<u32>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    noted: u64,
    /// The serial number of the last store to any memory of the world.
    serial: Rc<Cell<u64>>,
    live: usize,
}

const EMPTY: Line = Line {
    oldest: NONE,
    newest: NONE,
    count: 0,
};

impl Lines {
    /// No stores yet; `serial` counts those to all memories of a world.
    pub fn new(serial: Rc<Cell<u64>>) -> Self {
        Self {
            serial,
            ..Self::default()
        }
    }

    /// Number of stores ever noted.
    pub fn noted(&self) -> u64 {
        self.noted
    }

    /// Number of stores that are kept.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Notes a store of `content` at `start` of `line`.
    pub fn note(&mut self, line: u64, start: usize, content: &[u8], certain_at: Nanoseconds) {
        let (page, slot) = (line as usize / PAGE_LINES, line as usize % PAGE_LINES);
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let state = self.pages[page].get_or_insert_with(|| {
            Box::new(Page {
                lines: [EMPTY; PAGE_LINES],
                used: 0,
            })
        });
        if state.used == 0 {
            self.touched.push(page as u32);
        }
        self.noted += 1;
        self.serial.update(|serial| serial + 1);
        let mut store = Store {
            serial: self.serial.get(),
            certain_at,
            bytes: mask(start, content.len()),
            content: [0; LINE_SIZE],
        };
        store.content[start..start + content.len()].copy_from_slice(content);
        let node = Node { next: NONE, store };
        let index = match self.free.pop() {
            Some(index) => {
                self.nodes[index as usize] = node;
                index
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        self.live += 1;
        let of = &mut state.lines[slot];
        if of.count == 0 {
            state.used += 1;
            of.oldest = index;
        } else {
            self.nodes[of.newest as usize].next = index;
        }
        of.newest = index;
        of.count += 1;
        if of.count > STORES_MAX {
            self.merge_oldest(page, slot);
        }
    }

    /// Merges the two oldest stores of a line, unless one is certain to survive before the other.
    fn merge_oldest(&mut self, page: usize, slot: usize) {
        let of = &mut self.pages[page]
            .as_deref_mut()
            .expect("a store was just noted there")
            .lines[slot];
        let oldest = of.oldest;
        let second = self.nodes[oldest as usize].next;
        let mut merged = self.nodes[oldest as usize].store;
        let later = &mut self.nodes[second as usize].store;
        if merged.certain_at != later.certain_at {
            return;
        }
        merged.apply(later);
        merged.serial = later.serial;
        *later = merged;
        of.oldest = second;
        of.count -= 1;
        self.free.push(oldest);
        self.live -= 1;
    }

    /// Makes the content of `line` certain at `at`, unless it becomes certain earlier. Returns the moment at which all
    /// of it is certain; `None` if the line has no stores.
    pub fn send(&mut self, line: u64, at: Nanoseconds) -> Option<Nanoseconds> {
        let mut latest = None;
        let mut next = self.line(line).map_or(NONE, |line| line.oldest);
        while next != NONE {
            let node = &mut self.nodes[next as usize];
            node.store.certain_at = node.store.certain_at.min(at);
            latest = latest.max(Some(node.store.certain_at));
            next = node.next;
        }
        latest
    }

    /// Whether any line near `line` has stores.
    #[inline]
    pub fn page_is_used(&self, line: u64) -> bool {
        matches!(self.pages.get(line as usize / PAGE_LINES), Some(Some(page)) if page.used > 0)
    }

    /// Whether `line` has a store that is not in transit.
    pub fn waits(&self, line: u64) -> bool {
        self.stores(line).any(|store| store.certain_at == NEVER)
    }

    /// The stores of `line`, oldest first.
    pub fn stores(&self, line: u64) -> impl Iterator<Item = &Store> {
        let mut next = self.line(line).map_or(NONE, |line| line.oldest);
        std::iter::from_fn(move || {
            let node = self.nodes.get(next as usize)?;
            next = node.next;
            Some(&node.store)
        })
    }

    /// Takes out the stores that are certain at `now`, and passes them to `keep`, line by line in order.
    pub fn settle(&mut self, now: Nanoseconds, mut keep: impl FnMut(u64, &Store)) {
        let mut index = 0;
        while index < self.touched.len() {
            let page = self.touched[index] as usize;
            for slot in 0..PAGE_LINES {
                self.settle_line(page, slot, now, &mut keep);
            }
            let empty = self.pages[page].as_ref().is_none_or(|page| page.used == 0);
            if empty {
                self.touched.swap_remove(index);
            } else {
                index += 1;
            }
        }
    }

    fn settle_line(
        &mut self,
        page: usize,
        slot: usize,
        now: Nanoseconds,
        keep: &mut impl FnMut(u64, &Store),
    ) {
        let Some(state) = self.pages[page].as_deref_mut() else {
            return;
        };
        let line = state.lines[slot];
        if line.count == 0 {
            return;
        }
        // A certain store takes all earlier ones with it: a line leaves as a whole.
        let mut certain = 0;
        let mut next = line.oldest;
        for position in 1..=line.count {
            let node = &self.nodes[next as usize];
            if node.store.certain_at <= now {
                certain = position;
            }
            next = node.next;
        }
        let number = (page * PAGE_LINES + slot) as u64;
        let mut oldest = line.oldest;
        for _ in 0..certain {
            let node = &self.nodes[oldest as usize];
            keep(number, &node.store);
            self.free.push(oldest);
            oldest = node.next;
        }
        self.live -= certain as usize;
        let left = line.count - certain;
        state.lines[slot] = if left == 0 {
            EMPTY
        } else {
            Line {
                oldest,
                newest: line.newest,
                count: left,
            }
        };
        state.used -= u32::from(left == 0);
    }

    /// The lines that have stores, in order.
    pub fn lines(&self) -> Vec<u64> {
        let mut pages = self.touched.clone();
        pages.sort_unstable();
        pages.dedup();
        let used = |page: u32| {
            let lines = self.pages[page as usize]
                .as_deref()
                .map(|page| page.lines)
                .unwrap_or([EMPTY; PAGE_LINES]);
            let with = lines
                .into_iter()
                .enumerate()
                .filter(|(_, line)| line.count > 0);
            with.map(move |(slot, _)| u64::from(page) * PAGE_LINES as u64 + slot as u64)
                .collect::<Vec<_>>()
        };
        pages.into_iter().flat_map(used).collect()
    }

    fn line(&self, line: u64) -> Option<&Line> {
        let page = self.pages.get(line as usize / PAGE_LINES)?.as_deref()?;
        Some(&page.lines[line as usize % PAGE_LINES]).filter(|line| line.count > 0)
    }
}

impl Store {
    /// Merges `later` into this store.
    pub fn apply(&mut self, later: &Self) {
        self.bytes |= later.bytes;
        for (position, &byte) in later.content.iter().enumerate() {
            if later.bytes >> position & 1 == 1 {
                self.content[position] = byte;
            }
        }
    }

    /// The part of the store that lies in the aligned words of `words`, one bit each.
    pub fn words(&self, words: u8) -> Self {
        let mut part = *self;
        for word in 0..8 {
            if words >> word & 1 == 0 {
                part.bytes &= !(0xff << (8 * word));
            }
        }
        part
    }

    /// The aligned words that were written to, one bit each.
    pub fn words_written(&self) -> u8 {
        (0..8)
            .filter(|word| self.bytes >> (8 * word) & 0xff != 0)
            .fold(0, |mask, word| mask | 1 << word)
    }

    /// Runs of written bytes, each with its place in the line.
    pub fn pieces(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut position = 0;
        std::iter::from_fn(move || {
            let rest = self.bytes.checked_shr(position as u32).unwrap_or(0);
            if rest == 0 {
                return None;
            }
            let start = position + rest.trailing_zeros() as usize;
            let size = (self.bytes >> start).trailing_ones() as usize;
            position = start + size;
            Some((start, &self.content[start..start + size]))
        })
    }
}

/// One bit for each of `size` bytes from `start`.
fn mask(start: usize, size: usize) -> u64 {
    if size == 0 {
        0
    } else {
        (u64::MAX >> (LINE_SIZE - size)) << start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(lines: &mut Lines, now: Nanoseconds) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        lines.settle(now, |line, store| found.push((line, store.serial)));
        found
    }

    #[test]
    fn a_certain_store_takes_exactly_the_earlier_stores_of_its_line() {
        let mut lines = Lines::default();
        lines.note(7, 0, &[1; 8], NEVER);
        lines.note(7, 8, &[2; 8], NEVER);
        lines.note(9, 0, &[3; 64], NEVER);
        assert_eq!(lines.send(7, 50), Some(50));
        assert_eq!(
            lines.send(7, 60),
            Some(50),
            "the line is already in transit"
        );
        assert_eq!(lines.send(8, 60), None);
        lines.note(7, 16, &[4; 8], NEVER);
        assert_eq!(settled(&mut lines, 49), []);
        assert_eq!(settled(&mut lines, 50), [(7, 1), (7, 2)]);
        assert_eq!(lines.lines(), [7, 9]);
        assert_eq!(
            lines
                .stores(7)
                .map(|store| store.serial)
                .collect::<Vec<_>>(),
            [4]
        );
        lines.send(7, 70);
        lines.send(9, 70);
        assert_eq!(settled(&mut lines, 100), [(7, 4), (9, 3)]);
        assert_eq!((lines.lines(), lines.len()), (vec![], 0));
    }

    #[test]
    fn a_line_that_is_stored_to_repeatedly_keeps_the_newest_content() {
        let mut lines = Lines::default();
        for round in 0..100u8 {
            lines.note(3, usize::from(round % 8) * 8, &[round; 8], NEVER);
        }
        assert_eq!(lines.len(), STORES_MAX as usize);
        let mut all = *lines.stores(3).next().unwrap();
        lines.stores(3).skip(1).for_each(|store| all.apply(store));
        assert_eq!(all.bytes, u64::MAX);
        let newest: Vec<u8> = (0..8u8)
            .map(|word| if word < 4 { 96 + word } else { 88 + word })
            .collect();
        assert_eq!(
            all.content
                .chunks(8)
                .map(|word| word[0])
                .collect::<Vec<_>>(),
            newest
        );
    }

    #[test]
    fn a_store_splits_into_its_words_and_its_pieces() {
        let mut lines = Lines::default();
        lines.note(0, 6, &[9; 12], NEVER);
        let store = *lines.stores(0).next().unwrap();
        assert_eq!(store.words_written(), 0b111);
        assert_eq!(
            store.pieces().collect::<Vec<_>>(),
            [(6, [9; 12].as_slice())]
        );
        let torn = store.words(0b101);
        assert_eq!(
            torn.pieces().collect::<Vec<_>>(),
            [(6, [9; 2].as_slice()), (16, [9; 2].as_slice())]
        );
        assert_eq!(mask(0, 64), u64::MAX);
        assert_eq!(mask(63, 1), 1 << 63);
    }
}
