//! A long traversal that reports its progress.

use super::traversal::{Places, Step, Traversal};

/// The places that are read between two reports.
const PLACES_MAX: usize = 512;

/// A traversal that asks for a few places at a time, and reports the number of bytes after each. A walk over a whole
/// structure asks for all nodes of a level at once, and would report nothing in between.
pub struct Watched<'a, T> {
    traversal: T,
    /// Places for which the traversal has asked, and that are not read yet.
    left: Places,
    /// The bytes of those that were read.
    read: Vec<Vec<u8>>,
    watch: &'a dyn Fn(u64),
}

impl<'a, T: Traversal> Watched<'a, T> {
    /// Drives `traversal`, and tells `watch` of the bytes that came since the last time.
    pub fn new(traversal: T, watch: &'a dyn Fn(u64)) -> Self {
        Self {
            traversal,
            left: Places::new(),
            read: Vec::new(),
            watch,
        }
    }

    fn next_places(&mut self) -> Step<T::End> {
        let count = self.left.len().min(PLACES_MAX);
        Step::Read(self.left.drain(..count).collect::<Places>())
    }
}

impl<T: Traversal> Traversal for Watched<'_, T> {
    type End = T::End;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<T::End> {
        (self.watch)(bytes.iter().map(|bytes| bytes.len() as u64).sum());
        self.read.extend_from_slice(bytes);
        if !self.left.is_empty() {
            return self.next_places();
        }
        match self.traversal.step(&std::mem::take(&mut self.read)) {
            Step::Read(places) => {
                self.left = places;
                self.next_places()
            }
            end => end,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use stonecast_base::Span;

    use super::super::traversal::{Place, drive};
    use super::*;

    /// Reads as many places as each of its steps says, and adds their first bytes up.
    struct Sum(std::vec::IntoIter<u64>, u64);

    impl Traversal for Sum {
        type End = u64;

        fn step(&mut self, bytes: &[Vec<u8>]) -> Step<u64> {
            let first = bytes.iter().map(|bytes| u64::from(bytes[0]));
            self.1 = self.1 * 3 + first.sum::<u64>();
            let Some(count) = self.0.next() else {
                return Step::Done(self.1);
            };
            let places = (0..count).map(|place| Place::last(Span::new(place, 2)));
            Step::Read(places.collect())
        }
    }

    #[test]
    fn a_watched_traversal_reads_the_same_and_tells_of_all_bytes_piece_by_piece() {
        let steps = vec![1, 2000, 512, 0, 513];
        let all: u64 = steps.iter().sum();
        let byte = |span: Span| Some(vec![(span.offset % 251) as u8; 2]);
        let alone = drive(Sum(steps.clone().into_iter(), 0), byte);
        let told = RefCell::new(Vec::new());
        let watch = |bytes| told.borrow_mut().push(bytes);
        let watched = Watched::new(Sum(steps.into_iter(), 0), &watch);
        assert_eq!(drive(watched, byte), alone);
        let told = told.into_inner();
        assert_eq!(told.iter().sum::<u64>(), 2 * all);
        assert!(told.iter().all(|bytes| *bytes <= 2 * PLACES_MAX as u64));
    }
}
