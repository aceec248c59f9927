//! The knowledge of a writer about the memory of its domain: words that it has read, and words as they will be when
//! everything staged is applied.
//!
//! ```text
//!   read of the pool ──learn──▶ │ page │ page │ page │ ──recall──▶ next walk, without a READ
//!   draft ────────────write───▶ └──────┴──────┴──────┘
//! ```
//!
//! While a tenure lasts, only its writer changes the memory of the domain. So a known word is the word of the pool once
//! everything staged is applied, and staged words win over words that are read. This module does not know whether the
//! tenure lasts: a record counts only under the tenure word, and an answer to the program only after a check of that
//! word.
//!
//! A page with staged words stays until the publication that has written to it last is applied. Publications are
//! applied in their order, while the writer goes on. A clock decides which of the other pages stay: those that were
//! asked for.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::rc::Rc;

use stonecast_base::{Span, mutant};

use super::clock::Clock;

/// Bytes of a page: those of a node of a tree.
const PAGE_SIZE: usize = 2048;
const WORDS: usize = PAGE_SIZE / 8;
/// The most pages that are kept, in addition to pages with staged words.
const PAGES_MAX: usize = 8192;
/// Bytes of the longest read that is kept.
const LEARNED_MAX: u64 = 1 << 16;

/// A hash of a number. Pages belong to the writer's own domain, so no other program can choose pages that collide.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x5851_f42d_4c95_7f2d) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

/// Known words of a domain.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    /// The index of each page, by its number.
    indices: HashMap<u64, usize, BuildHasherDefault<Mixer>>,
    /// In no order.
    pages: Vec<Page>,
    clock: Clock,
    /// Pages that each publication has written to, oldest first: those that are not applied. A page stands with each of
    /// them.
    published: VecDeque<Vec<u64>>,
    /// Pages to which staged operations have written that are not published.
    open: Vec<u64>,
    /// Publications that were applied.
    applied: u64,
}

#[derive(Clone)]
struct Page {
    number: u64,
    bytes: Box<[u8; PAGE_SIZE]>,
    /// A bit for each known word.
    known: [u64; WORDS / 64],
    /// The publication that wrote to it last, or will; `None`: the pool has everything.
    staged_in: Option<u64>,
    was_asked: bool,
    /// The node that fills the page, in a form that its structure has given it. Any write takes it away.
    decoded: Option<Rc<dyn Any>>,
}

impl std::fmt::Debug for Page {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known: u32 = self.known.iter().map(|bits| bits.count_ones()).sum();
        write!(formatter, "{known} words, staged in {:?}", self.staged_in)
    }
}

impl Page {
    fn new(number: u64) -> Self {
        Self::in_memory(number, Box::new([0; PAGE_SIZE]))
    }

    /// A page without known words, in the memory of another page.
    fn in_memory(number: u64, bytes: Box<[u8; PAGE_SIZE]>) -> Self {
        Self {
            number,
            bytes,
            known: [0; WORDS / 64],
            staged_in: None,
            was_asked: false,
            decoded: None,
        }
    }

    fn knows(&self, word: usize) -> bool {
        self.known[word / 64] >> (word % 64) & 1 == 1
    }

    /// Bits of `words` in one part of the known ones.
    fn mask(words: &Range<usize>, part: usize) -> u64 {
        let (start, end) = (part * 64, part * 64 + 64);
        let (first, last) = (words.start.max(start), words.end.min(end));
        match first < last {
            true => (u64::MAX >> (64 - (last - first))) << (first - start),
            false => 0,
        }
    }

    fn knows_all(&self, words: &Range<usize>) -> bool {
        let mut parts = self.known.iter().enumerate();
        parts.all(|(part, known)| !known & Self::mask(words, part) == 0)
    }

    fn knows_none(&self, words: &Range<usize>) -> bool {
        let mut parts = self.known.iter().enumerate();
        parts.all(|(part, known)| known & Self::mask(words, part) == 0)
    }

    fn know_all(&mut self, words: &Range<usize>) {
        for (part, known) in self.known.iter_mut().enumerate() {
            *known |= Self::mask(words, part);
        }
    }

    /// Knows of `words` those that were known `before`, and of the others the same as now.
    fn know_again(&mut self, words: &Range<usize>, before: &[u64; WORDS / 64]) {
        for (part, (known, before)) in self.known.iter_mut().zip(before).enumerate() {
            let mask = Self::mask(words, part);
            *known = *known & !mask | before & mask;
        }
    }
}

/// The words that a draft has written, as the writer knew them before, in the order of the writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Undo {
    writes: Vec<Before>,
    /// The bytes of all writes, one after the other.
    bytes: Vec<u8>,
}

/// Some words of a page before they were written.
#[derive(Clone, Debug)]
struct Before {
    number: u64,
    words: Range<usize>,
    known: [u64; WORDS / 64],
}

impl Undo {
    /// Forgets all writes: they stay.
    pub fn clear(&mut self) {
        self.writes.clear();
        self.bytes.clear();
    }
}

/// The parts of a span that lie in one page each: the page, the bytes in it, and the bytes of the span.
fn parts(span: Span) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let size = PAGE_SIZE as u64;
    let (mut at, end) = (span.offset, span.offset + span.size);
    std::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let (page, start) = (at / size, (at % size) as usize);
        let count = (PAGE_SIZE - start).min((end - at) as usize);
        let of_span = (at - span.offset) as usize;
        at += count as u64;
        Some((page, start..start + count, of_span..of_span + count))
    })
}

/// The number of the page that `span` fills.
fn page_of(span: Span) -> Option<u64> {
    let is_page = span.size == PAGE_SIZE as u64 && span.offset.is_multiple_of(span.size);
    is_page.then(|| span.offset / span.size)
}

/// The words that bytes of a page touch.
fn words_of(bytes: &Range<usize>) -> Range<usize> {
    bytes.start / 8..bytes.end.div_ceil(8)
}

impl Image {
    /// Reads a span whose words are all known. Returns false if a word is not known.
    pub fn recall(&mut self, span: Span, into: &mut [u8]) -> bool {
        for (number, bytes, of_span) in parts(span) {
            let Some(page) = self.known_page(number) else {
                return false;
            };
            if !page.knows_all(&words_of(&bytes)) {
                return false;
            }
            page.was_asked = true;
            into[of_span].copy_from_slice(&page.bytes[bytes]);
        }
        true
    }

    /// The bytes of a span that lies in one page, if all of its words are known. Counts as [`Image::recall`].
    pub fn known(&mut self, span: Span) -> Option<&[u8]> {
        let start = (span.offset % PAGE_SIZE as u64) as usize;
        let bytes = start..start + span.size as usize;
        let page = self.known_page(span.offset / PAGE_SIZE as u64)?;
        if bytes.end > PAGE_SIZE || !page.knows_all(&words_of(&bytes)) {
            return None;
        }
        page.was_asked = true;
        Some(&page.bytes[bytes])
    }

    /// The node that fills a span, if it is known in the decoded form `T`. Counts as [`Image::recall`].
    pub fn decoded<T: 'static>(&mut self, span: Span) -> Option<Rc<T>> {
        let page = self.known_page(page_of(span)?)?;
        let decoded = page.decoded.clone()?.downcast().ok()?;
        page.was_asked = true;
        Some(decoded)
    }

    /// Keeps the decoded form of the node that fills `span`, if all of its words are known.
    pub fn keep_decoded<T: 'static>(&mut self, span: Span, node: T) {
        let page = page_of(span).and_then(|number| self.known_page(number));
        if let Some(page) = page
            && page.knows_all(&(0..WORDS))
        {
            page.decoded = Some(Rc::new(node));
        }
    }

    /// Takes bytes of the pool, and puts known words over them.
    pub fn learn(&mut self, span: Span, read: &mut [u8]) {
        let keeps = span.size <= LEARNED_MAX && span.offset.is_multiple_of(8);
        for (number, bytes, of_span) in parts(span) {
            let read = &mut read[of_span];
            let page = match keeps {
                true => self.page(number),
                false => match self.known_page(number) {
                    Some(page) => page,
                    None => continue,
                },
            };
            // A word at the end of which a part was read stays unknown.
            let whole = bytes.start.div_ceil(8)..bytes.end / 8;
            if keeps && page.knows_none(&words_of(&bytes)) {
                let size = whole.len() * 8;
                page.bytes[bytes.start..bytes.start + size].copy_from_slice(&read[..size]);
                page.know_all(&whole);
                continue;
            }
            for word in words_of(&bytes) {
                let (first, last) = ((word * 8).max(bytes.start), (word * 8 + 8).min(bytes.end));
                let of_read = first - bytes.start..last - bytes.start;
                if page.knows(word) {
                    read[of_read].copy_from_slice(&page.bytes[first..last]);
                } else if keeps && whole.contains(&word) {
                    page.bytes[first..last].copy_from_slice(&read[of_read]);
                    page.know_all(&(word..word + 1));
                }
            }
        }
    }

    /// Notes whole words as they will be, and their knowledge before.
    pub fn write(&mut self, offset: u64, bytes: &[u8], undo: &mut Undo) {
        let publication = self.applied + self.published.len() as u64;
        for (number, of_page, of_span) in parts(Span::new(offset, bytes.len() as u64)) {
            let page = self.page(number);
            let words = words_of(&of_page);
            undo.bytes.extend_from_slice(&page.bytes[of_page.clone()]);
            undo.writes.push(Before {
                number,
                words: words.clone(),
                known: page.known,
            });
            page.know_all(&words);
            page.decoded = None;
            page.bytes[of_page].copy_from_slice(&bytes[of_span]);
            if page.staged_in.replace(publication) != Some(publication) {
                self.open.push(number);
            }
        }
    }

    /// Takes all writes of a draft back.
    pub fn restore(&mut self, undo: &mut Undo) {
        while let Some(Before {
            number,
            words,
            known,
        }) = undo.writes.pop()
        {
            let page = self.known_page(number).expect("staged pages stay");
            let before = undo.bytes.len() - words.len() * 8;
            page.bytes[words.start * 8..words.end * 8].copy_from_slice(&undo.bytes[before..]);
            undo.bytes.truncate(before);
            page.know_again(&words, &known);
            page.decoded = None;
        }
    }

    /// Everything staged is published.
    pub fn note_published(&mut self) {
        self.published.push_back(std::mem::take(&mut self.open));
    }

    /// The oldest publication is applied, so the pool has it.
    pub fn note_applied(&mut self) {
        let Some(written) = self.published.pop_front() else {
            return;
        };
        let applied = self.applied;
        for number in written {
            if let Some(page) = self.known_page(number)
                && (page.staged_in == Some(applied) || mutant!(PageReleasedEarly))
            {
                page.staged_in = None;
            }
        }
        self.applied += 1;
    }

    /// Forgets everything. Words that are published and not applied have to be known elsewhere.
    pub fn forget(&mut self) {
        self.indices.clear();
        self.pages.clear();
        self.open.clear();
        self.applied += self.published.len() as u64;
        self.published.clear();
    }

    fn known_page(&mut self, number: u64) -> Option<&mut Page> {
        let index = self.indices.get(&number)?;
        Some(&mut self.pages[*index])
    }

    fn page(&mut self, number: u64) -> &mut Page {
        let index = match self.indices.get(&number) {
            Some(index) => *index,
            None => self.add_page(number),
        };
        &mut self.pages[index]
    }

    /// Adds a page without known words, in the place of others if there are too many. Returns its index.
    fn add_page(&mut self, number: u64) -> usize {
        let mut spare = None;
        while self.pages.len() >= PAGES_MAX {
            match self.evict() {
                Some(page) => spare = Some(page),
                None => break,
            }
        }
        let index = self.pages.len();
        self.pages.push(match spare {
            Some(page) => Page::in_memory(number, page.bytes),
            None => Page::new(number),
        });
        self.indices.insert(number, index);
        index
    }

    /// Takes a page out; `None`: all have staged words.
    fn evict(&mut self) -> Option<Page> {
        let Self { pages, indices, .. } = self;
        let index = self.clock.next(pages.len(), |index| {
            let page = &mut pages[index];
            page.staged_in.is_some() || std::mem::take(&mut page.was_asked)
        })?;
        let page = pages.swap_remove(index);
        indices.remove(&page.number);
        if let Some(moved) = pages.get(index) {
            indices.insert(moved.number, index);
        }
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;
    use stonecast_base::random_from_seed;

    use super::*;

    /// A pool for tests, and its content once everything staged is applied.
    #[test]
    fn an_image_puts_staged_words_over_words_that_were_read_and_takes_drafts_back() {
        for seed in 0..50 {
            let mut random = random_from_seed(seed);
            let size = 4 * PAGE_SIZE as u64;
            let pool: Vec<u8> = (0..size).map(|_| random.random()).collect();
            let mut expected = pool.clone();
            let mut image = Image::default();
            for _ in 0..300 {
                let offset = random.random_range(0..size / 8 - 1) * 8;
                let count = random.random_range(1..=(size - offset).min(300));
                match random.random_range(0..3) {
                    0 => {
                        let bytes = vec![random.random(); (count as usize).next_multiple_of(8)];
                        let bytes = &bytes[..bytes.len().min((size - offset) as usize)];
                        let mut undo = Undo::default();
                        image.write(offset, bytes, &mut undo);
                        if random.random() {
                            image.restore(&mut undo);
                        } else {
                            let start = offset as usize;
                            expected[start..start + bytes.len()].copy_from_slice(bytes);
                        }
                    }
                    _ => {
                        let span = Span::new(offset + random.random_range(0..8), count);
                        let span = Span::new(span.offset, span.size.min(size - span.offset));
                        let range = span.offset as usize..(span.offset + span.size) as usize;
                        let mut read = vec![0; span.size as usize];
                        if !image.recall(span, &mut read) {
                            read.copy_from_slice(&pool[range.clone()]);
                            image.learn(span, &mut read);
                        }
                        assert_eq!(read, expected[range], "seed {seed}: {span:?}");
                    }
                }
            }
        }
    }

    /// Needs the mark of the whole page, and that writes take the node away, those that are taken back included.
    #[test]
    fn a_decoded_node_stays_as_long_as_its_page_is_the_one_that_was_decoded() {
        let span = Span::new(PAGE_SIZE as u64, PAGE_SIZE as u64);
        let (mut image, mut undo) = (Image::default(), Undo::default());
        let keep = |image: &mut Image| image.keep_decoded(span, "a node");
        let is_kept = |image: &mut Image| image.decoded::<&str>(span).is_some();
        image.learn(Span::new(span.offset, 512), &mut [1; 512]);
        keep(&mut image);
        assert!(!is_kept(&mut image), "a part of the page is known");
        image.learn(span, &mut [1; PAGE_SIZE]);
        keep(&mut image);
        assert!(is_kept(&mut image));
        image.write(span.offset, &[2; 8], &mut undo);
        assert!(!is_kept(&mut image), "the page was written");
        keep(&mut image);
        image.restore(&mut undo);
        assert!(!is_kept(&mut image), "the write was taken back");
    }

    /// Needs the mark of staged pages, and the clock.
    #[test]
    fn staged_pages_stay_and_the_others_are_kept_within_bounds() {
        let mut image = Image::default();
        let place = |number: usize| Span::new((number * PAGE_SIZE) as u64, 8);
        image.write(place(0).offset, &[7; 8], &mut Undo::default());
        for number in 1..PAGES_MAX * 2 {
            image.learn(place(number), &mut [1; 8]);
        }
        assert!(image.pages.len() <= PAGES_MAX);
        let mut word = [0; 8];
        assert!(image.recall(place(0), &mut word) && word == [7; 8]);
        image.note_published();
        image.note_applied();
        for number in 1..PAGES_MAX * 3 {
            image.learn(place(number), &mut [1; 8]);
        }
        assert!(!image.recall(place(0), &mut word));
    }
}
