//! The bodies of the entries of a shard, and the pieces of long ones.

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_replication::{Piece, Point};

/// Bodies that were not digested here, or not sent to all copies.
#[derive(Default)]
pub struct Bodies {
    whole: BTreeMap<Point, Rc<[u8]>>,
    /// Pieces of records that are not whole, by the first byte of each piece.
    pieces: BTreeMap<Point, BTreeMap<u32, Found>>,
}

struct Found {
    is_last: bool,
    bytes: Vec<u8>,
}

impl Bodies {
    /// Takes the piece of the record at `point` that one entry carries. Returns the body when this piece makes it
    /// whole. Pieces may come in any order, and more than once.
    pub fn gather(&mut self, point: Point, piece: Piece, bytes: Vec<u8>) -> Option<Vec<u8>> {
        if piece.is_whole() {
            return Some(bytes);
        }
        let Piece { offset, is_last } = piece;
        let pieces = self.pieces.entry(point).or_default();
        pieces.insert(offset, Found { is_last, bytes });
        let body = joined(pieces)?;
        self.pieces.remove(&point);
        Some(body)
    }

    pub fn insert(&mut self, point: Point, body: Rc<[u8]>) {
        self.whole.insert(point, body);
    }

    pub fn get(&self, point: Point) -> Option<&Rc<[u8]>> {
        self.whole.get(&point)
    }

    pub fn remove(&mut self, point: Point) -> Option<Rc<[u8]>> {
        self.whole.remove(&point)
    }

    /// Keeps the bodies of the points for which `stays` is true.
    pub fn retain(&mut self, stays: impl Fn(Point) -> bool) {
        self.whole.retain(|&point, _| stays(point));
        self.forget_pieces(|point| !stays(point));
    }

    /// Forgets the pieces of records that will not become whole.
    pub fn forget_pieces(&mut self, is_over: impl Fn(Point) -> bool) {
        self.pieces.retain(|&point, _| !is_over(point));
    }

    pub fn clear(&mut self) {
        self.whole.clear();
        self.pieces.clear();
    }
}

/// The body, if the pieces leave no gap. The pieces may have been cut at different places, since a node may take
/// messages of another length after a start.
fn joined(pieces: &BTreeMap<u32, Found>) -> Option<Vec<u8>> {
    let mut body: Vec<u8> = Vec::new();
    loop {
        let end = body.len() as u32;
        let mut here = pieces.range(..=end).rev();
        let (start, next) = here.find(|(start, found)| *start + found.bytes.len() as u32 > end)?;
        body.extend_from_slice(&next.bytes[(end - start) as usize..]);
        if next.is_last {
            return Some(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use stonecast_cluster::Epoch;

    use super::*;

    const POINT: Point = Point {
        term: Epoch(2),
        version: 7,
    };

    fn gather(bodies: &mut Bodies, body: &[u8], bytes: std::ops::Range<usize>) -> Option<Vec<u8>> {
        let piece = Piece {
            offset: bytes.start as u32,
            is_last: bytes.end == body.len(),
        };
        bodies.gather(POINT, piece, body[bytes].to_vec())
    }

    #[test]
    fn a_body_is_whole_with_its_last_missing_piece_whatever_the_order() {
        let body: Vec<u8> = (0..100).collect();
        let mut bodies = Bodies::default();
        assert_eq!(gather(&mut bodies, &body, 0..100), Some(body.clone()));
        for cuts in [
            [60..100, 0..30, 30..60],
            [0..30, 60..100, 30..60],
            [30..60, 60..100, 0..30],
        ] {
            let [first, second, last] = cuts;
            assert_eq!(gather(&mut bodies, &body, first.clone()), None);
            assert_eq!(gather(&mut bodies, &body, first), None, "it came again");
            assert_eq!(gather(&mut bodies, &body, second), None);
            assert_eq!(gather(&mut bodies, &body, last), Some(body.clone()));
        }
        assert!(bodies.pieces.is_empty(), "nothing is left");
    }

    #[test]
    fn pieces_that_were_cut_at_other_places_make_the_same_body() {
        let body: Vec<u8> = (0..100).collect();
        let mut bodies = Bodies::default();
        assert_eq!(gather(&mut bodies, &body, 0..30), None);
        assert_eq!(gather(&mut bodies, &body, 50..100), None);
        assert_eq!(gather(&mut bodies, &body, 0..50), Some(body.clone()));
        assert_eq!(gather(&mut bodies, &body, 0..40), None);
        bodies.forget_pieces(|point| point == POINT);
        assert_eq!(
            gather(&mut bodies, &body, 40..100),
            None,
            "the rest is forgotten"
        );
    }
}
