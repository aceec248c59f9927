//! Pages of the minimal store: words, outcomes, and ballast.
//!
//! ```text
//!   from 0 on: the words of that key and of later ones;  from OUTCOMES on: outcomes by the numbers of writes;  from BALLAST on: bytes of nothing
//!   an item:   0 kind u64    8 key, or number of the write u64    16 term u64    24 version u64    32 number of the write u64    40
//! ```

use stonecast_cluster::Epoch;
use stonecast_node::Page;
use stonecast_replication::Point;

use super::store::{Map, Word};

const OUTCOMES: u64 = 1 << 8;
const BALLAST: u64 = 1 << 60;
const ITEM_SIZE: usize = 40;
/// Few enough for several pages.
const WORDS_MAX: usize = 4;
/// More than are added while a page is on its way.
const OUTCOMES_MAX: usize = 64;

/// A part of a page.
#[derive(Clone, Copy, Debug)]
pub enum Item {
    Word(u8, Word),
    Outcome(u64, Point),
}

/// Live bytes of a shard that no key has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ballast {
    pub size: u64,
    /// The factor by which pages are longer than the node asks for.
    pub stretch: usize,
}

impl Ballast {
    /// Some bytes, in pages as long as the node asks for.
    pub const fn of(size: u64) -> Self {
        Self { size, stretch: 1 }
    }
}

/// The page of `map` that begins at `from`.
pub fn page(map: &Map, from: u64, (size, ballast): (usize, Ballast)) -> Page {
    let (size, ballast) = (size * ballast.stretch, ballast.size);
    if from >= BALLAST {
        return ballast_page(from - BALLAST, size as u64, ballast);
    }
    let (items, items_max) = match from < OUTCOMES {
        true => (words(map, from), WORDS_MAX),
        false => (outcomes(map, from - OUTCOMES), OUTCOMES_MAX),
    };
    let behind = items.get(items_max).map(|(at, _)| *at);
    let next = match from < OUTCOMES {
        true => Some(behind.unwrap_or(OUTCOMES)),
        false => behind.map(|at| OUTCOMES + at).or(Some(BALLAST)),
    };
    let items = items.iter().take(items_max);
    let mut bytes: Vec<u8> = items.flat_map(|(_, item)| item.bytes()).collect();
    if ballast > 0 {
        // A page of live data is as long as the node asks for.
        bytes.resize(size / ITEM_SIZE * ITEM_SIZE, 0xff);
    }
    let (words, outcomes) = (map.words.len() as u64, map.done.len() as u64);
    Page {
        bytes,
        next: next.filter(|&next| next < BALLAST || ballast > 0),
        left: ballast + (words + outcomes) * ITEM_SIZE as u64,
    }
}

fn words(map: &Map, from: u64) -> Vec<(u64, Item)> {
    let words = map.words.range(from as u8..).take(WORDS_MAX + 1);
    let words = words.map(|(&key, &word)| (key.into(), Item::Word(key, word)));
    words.collect()
}

fn outcomes(map: &Map, from: u64) -> Vec<(u64, Item)> {
    let done = map.done.range(from..).take(OUTCOMES_MAX + 1);
    let done = done.map(|(&number, &point)| (number, Item::Outcome(number, point)));
    done.collect()
}

/// Items of an unknown kind.
fn ballast_page(from: u64, size: u64, ballast: u64) -> Page {
    let size = size.min(ballast - from) / ITEM_SIZE as u64 * ITEM_SIZE as u64;
    let next = (size > 0).then_some(from + size);
    Page {
        bytes: vec![0xff; size as usize],
        next: next.map(|next| BALLAST + next),
        left: ballast - from - size,
    }
}

/// The items of a page.
pub fn items(page: &[u8]) -> impl Iterator<Item = Item> {
    page.chunks_exact(ITEM_SIZE).filter_map(Item::read)
}

impl Item {
    fn bytes(&self) -> Vec<u8> {
        let (kind, name, point, number) = match *self {
            Self::Word(key, word) => (0, key.into(), word.point, word.number),
            Self::Outcome(number, point) => (1, number, point, number),
        };
        let longs = [kind, name, point.term.0, point.version, number];
        longs.iter().flat_map(|long| long.to_le_bytes()).collect()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let [kind, name, term, version, number] =
            [0, 8, 16, 24, 32].map(|at| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap()));
        let term = Epoch(term);
        let point = Point { term, version };
        match kind {
            0 => Some(Self::Word(name as u8, Word { point, number })),
            1 => Some(Self::Outcome(name, point)),
            _ => None,
        }
    }
}
