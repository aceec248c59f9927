//! A join, as the primary that fills the joiner knows it.

use stonecast_base::Nanoseconds;
use stonecast_replication::Lineage;

use crate::letter::{PIECE_SIZE_MAX, Piece};
use crate::store::{Page, Store};

/// The most letters that answer one ask: as many as a session takes at a time.
const PIECES_MAX: usize = 4;
/// Most bytes of a page that answer one ask, and bytes of a page that the node asks a store for.
pub const ANSWER_SIZE_MAX: usize = PIECES_MAX * PIECE_SIZE_MAX;

/// A node that a primary fills, or has filled in its term.
pub struct Join {
    /// The number of the join, by which the streams of the node are named.
    pub number: u64,
    /// The history with which the joiner begins.
    pub begun: Lineage,
    /// Whether the joiner has everything that was published.
    pub is_pulled: bool,
    /// The page that was last sent to the joiner, and its number. The page stays the same while the
    /// joiner asks for it.
    page: Option<(u64, Page)>,
    /// Bytes of the pages before.
    copied: u64,
    /// The time at which the joiner last said something new.
    pub heard_at: Nanoseconds,
}

impl Join {
    pub fn new(number: u64, begun: Lineage, now: Nanoseconds) -> Self {
        Self {
            number,
            begun,
            is_pulled: false,
            page: None,
            copied: 0,
            heard_at: now,
        }
    }

    /// The parts of page `number` from `offset` on. An ask for an earlier page than the last one is late, and gets no
    /// answer.
    pub fn pieces(
        &mut self,
        store: &impl Store,
        shard: u32,
        (number, offset): (u64, u64),
    ) -> Vec<Piece> {
        if self.asks_for_next(number) {
            let known = self.page.take().map(|(_, page)| page);
            self.copied += known.as_ref().map_or(0, |page| page.bytes.len() as u64);
            let from = known.map_or(Some(0), |page| page.next);
            let Some(from) = from else {
                return Vec::new();
            };
            self.page = Some((number, store.page(shard, from, ANSWER_SIZE_MAX)));
        }
        let Some((_, page)) = self.page.as_ref().filter(|(known, _)| *known == number) else {
            return Vec::new();
        };
        let size = page.bytes.len() as u64;
        let rest = page.bytes.get(offset as usize..).unwrap_or_default();
        let piece = |(nth, bytes): (usize, &[u8])| Piece {
            join: self.number,
            page: number,
            offset: offset + (nth * PIECE_SIZE_MAX) as u64,
            size,
            is_last: page.next.is_none(),
            bytes: bytes.to_vec(),
        };
        // A page without bytes is a page, too.
        if size == 0 {
            return vec![piece((0, &[]))];
        }
        let parts = rest.chunks(PIECE_SIZE_MAX).take(PIECES_MAX).enumerate();
        parts.map(piece).collect()
    }

    fn asks_for_next(&self, number: u64) -> bool {
        match &self.page {
            None => number == 0,
            Some((known, _)) => number == known + 1,
        }
    }

    /// Bytes that the joiner has, and an estimate of the bytes that it still lacks.
    pub fn progress(&self) -> (u64, u64) {
        let page = self.page.as_ref().map(|(_, page)| page);
        let left = page.map_or(0, |page| page.left + page.bytes.len() as u64);
        match self.is_pulled {
            true => (self.copied + left, 0),
            false => (self.copied, left),
        }
    }
}
