//! The memory of a node: entries as bytes, some of them durable.

use std::collections::BTreeMap;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::Random;
use stonecast_cluster::{Epoch, Nonce};
use stonecast_replication::{AppendKey, Entry, HEADER_SIZE, Header, Kind, NotAnEntry, Point};

use crate::state::{Key, Word, Write};

const NONCE: Nonce = Nonce::from_u128(0x57);
/// The cluster before its configuration was restored.
const EARLIER_NONCE: Nonce = Nonce::from_u128(0x56);

/// The nonce of the cluster.
pub fn nonce() -> Nonce {
    NONCE
}

/// The key of appends to the pool of `node`.
pub fn append_key(node: usize) -> AppendKey {
    AppendKey::new([node as u64, 1], NONCE)
}

/// The key that primaries of the cluster had before its configuration was restored.
pub fn earlier_append_key(node: usize) -> AppendKey {
    AppendKey::new([node as u64, 1], EARLIER_NONCE)
}

/// The bytes of an entry at some place of the memory.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The entry that the sender made.
    pub entry: Entry,
    bytes: Rc<[u8]>,
    pub durable: bool,
}

impl Cell {
    /// An entry for the pool that has `key`. `write` is the body, if the entry is a record.
    pub fn new(key: &AppendKey, entry: Entry, write: Option<Write>) -> Self {
        let mut bytes = vec![0; HEADER_SIZE];
        if let Some(write) = write {
            bytes.extend(encoded(write));
        }
        entry.write_header(key, &mut bytes);
        Self {
            entry,
            bytes: bytes.into(),
            durable: false,
        }
    }

    /// Judges the bytes, as the pool that has `key` does.
    pub fn read(&self, key: &AppendKey) -> Result<Entry, NotAnEntry> {
        let header = Header::read(key, self.bytes.first_chunk().expect("a header"))?;
        header.check_body(key, &self.bytes[HEADER_SIZE..])?;
        Ok(header.entry)
    }

    /// The write in the body.
    pub fn write(&self) -> Write {
        decoded(&self.bytes[HEADER_SIZE..])
    }

    /// Tears the body, as a power cut does.
    fn tear(&mut self) {
        let mut bytes = self.bytes.to_vec();
        bytes[HEADER_SIZE..].fill(0);
        self.bytes = bytes.into();
    }
}

fn encoded(write: Write) -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&write.number.to_le_bytes());
    bytes[8] = write.key;
    bytes[9] = write.present.into();
    bytes
}

fn decoded(bytes: &[u8]) -> Write {
    let (number, rest) = bytes.split_first_chunk().expect("a body of this world");
    Write {
        number: u64::from_le_bytes(*number),
        key: Key::from(rest[0]),
        present: rest[1] == 1,
    }
}

/// Everything that has landed on a node, in the order of landing.
#[derive(Clone)]
pub struct Memory {
    key: AppendKey,
    cells: BTreeMap<u64, Cell>,
    next: u64,
}

impl Memory {
    pub fn of(node: usize) -> Self {
        Self {
            key: append_key(node),
            cells: BTreeMap::new(),
            next: 0,
        }
    }

    /// Lands a cell, and returns its place.
    pub fn land(&mut self, cell: Cell) -> u64 {
        self.next += 1;
        self.cells.insert(self.next, cell);
        self.next
    }

    /// The place of the cell that landed last.
    pub fn last(&self) -> u64 {
        self.next
    }

    /// The entries of `shard` that landed after `place`.
    pub fn entries_after(&self, place: u64, shard: u32) -> Vec<Entry> {
        let cells = self.cells.range(place + 1..).map(|(_, cell)| cell);
        let entries = cells.filter_map(|cell| cell.read(&self.key).ok());
        entries.filter(|entry| entry.shard == shard).collect()
    }

    /// The write of `shard` at `point`.
    pub fn word(&self, shard: u32, point: Point) -> Word {
        let of_point = |cell: &&Cell| {
            let Entry { shard: found, .. } = cell.entry;
            found == shard && cell.entry.kind == Kind::Record && cell.entry.point() == point
        };
        let mut cells = self.cells.values().filter(of_point);
        let cell = cells.find(|cell| cell.read(&self.key).is_ok());
        Word {
            point,
            write: cell.expect("the entry is in memory").write(),
        }
    }

    /// Whether the entry of `shard` at `point` is durable.
    pub fn has_durably(&self, shard: u32, point: Point) -> bool {
        let mut cells = self.cells.values();
        cells.any(|cell| {
            let is_it = cell.entry.shard == shard && cell.entry.point() == point;
            cell.durable && is_it && cell.read(&self.key).is_ok()
        })
    }

    /// The durable writes of `shard`, in the order of their points.
    pub fn durable_words(&self, shard: u32) -> Vec<Word> {
        let is_record = |cell: &&Cell| {
            cell.durable && cell.entry.shard == shard && cell.entry.kind == Kind::Record
        };
        let cells = self.cells.values().filter(is_record);
        let genuine = cells.filter(|cell| cell.read(&self.key).is_ok());
        let words = genuine.map(|cell| Word {
            point: cell.entry.point(),
            write: cell.write(),
        });
        let mut words: Vec<_> = words.collect();
        words.sort_by_key(|word| word.point);
        words
    }

    /// Makes the cell at `place` durable, if it is still there.
    pub fn persist(&mut self, place: u64) {
        if let Some(cell) = self.cells.get_mut(&place) {
            cell.durable = true;
        }
    }

    pub fn persist_all(&mut self) {
        self.cells.values_mut().for_each(|cell| cell.durable = true);
    }

    /// Drops some entries of `shard` up to `floor`: segments are used again at different times.
    pub fn forget(&mut self, shard: u32, floor: Point, random: &mut Random) {
        self.cells.retain(|_, cell| {
            let may_go = cell.entry.shard == shard && cell.entry.point() <= floor;
            !may_go || random.random_bool(0.5)
        });
    }

    /// Drops some entries of `shard`: the copy is dropped, and segments are used again later.
    pub fn forget_some(&mut self, shard: u32, random: &mut Random) {
        let all = Point {
            term: Epoch(u64::MAX),
            version: u64::MAX,
        };
        self.forget(shard, all, random);
    }

    /// Loses the entry of `shard` at `point`, at all its places.
    pub fn lose(&mut self, shard: u32, point: Point) {
        self.cells
            .retain(|_, cell| cell.entry.shard != shard || cell.entry.point() != point);
    }

    /// Lets the power fail: any of the cells that are not durable survive, torn or whole. Returns the number of torn
    /// cells.
    pub fn power_fails(&mut self, torn_percent: u32, random: &mut Random) -> u64 {
        let mut torn = 0;
        self.cells
            .retain(|_, cell| cell.durable || random.random_bool(0.5));
        for cell in self.cells.values_mut() {
            if !cell.durable && random.random_ratio(torn_percent.min(100), 100) {
                cell.tear();
                torn += 1;
            }
            cell.durable = true;
        }
        torn
    }
}
