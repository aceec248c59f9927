//! Many traversals at once: each step reads the places of all of them, so a driver makes one round trip for each level
//! and not for each key.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use smallvec::SmallVec;
use stonecast_base::Span;

use super::traversal::{Place, Places, Stale, Step, Traversal};
use crate::space::Mixer;

/// Drives traversals together. The end has the result of each traversal, in order: a traversal that met a stale place
/// has to begin again.
#[derive(Clone, Debug)]
pub struct Many<T: Traversal> {
    under_way: Vec<UnderWay<T>>,
    ends: Vec<Option<Result<T::End, Stale>>>,
}

#[derive(Clone, Debug)]
struct UnderWay<T> {
    index: usize,
    traversal: T,
    /// The indices of the places that the traversal has asked for.
    asked: SmallVec<[usize; 2]>,
}

/// The places of a step. A place of several traversals is read once.
#[derive(Debug, Default)]
struct Asked {
    places: Places,
    indices: HashMap<Span, usize, BuildHasherDefault<Mixer>>,
}

impl Asked {
    /// The index of a place.
    fn ask(&mut self, place: Place) -> usize {
        let index = *self.indices.entry(place.span).or_insert(self.places.len());
        match self.places.get_mut(index) {
            Some(known) => known.may_be_old &= place.may_be_old,
            None => self.places.push(place),
        }
        index
    }
}

impl<T: Traversal> Many<T> {
    /// Drives all of `traversals`.
    pub fn new(traversals: impl IntoIterator<Item = T>) -> Self {
        let under_way: Vec<UnderWay<T>> = traversals
            .into_iter()
            .enumerate()
            .map(|(index, traversal)| UnderWay {
                index,
                traversal,
                asked: SmallVec::new(),
            })
            .collect();
        let ends = under_way.iter().map(|_| None).collect();
        Self { under_way, ends }
    }
}

impl<T: Traversal> Traversal for Many<T> {
    type End = Vec<Result<T::End, Stale>>;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Self::End> {
        let mut asked = Asked::default();
        let ends = &mut self.ends;
        self.under_way.retain_mut(|one| {
            // A traversal that asks for no place continues without bytes.
            let mut step = match *one.asked {
                [] => one.traversal.step(&[]),
                [index] => one.traversal.step(&bytes[index..=index]),
                ref several => {
                    let own: Vec<Vec<u8>> = several.iter().map(|at| bytes[*at].clone()).collect();
                    one.traversal.step(&own)
                }
            };
            while matches!(&step, Step::Read(wanted) if wanted.is_empty()) {
                step = one.traversal.step(&[]);
            }
            match step {
                Step::Read(wanted) => {
                    one.asked = wanted.into_iter().map(|place| asked.ask(place)).collect();
                    true
                }
                Step::Done(end) => {
                    ends[one.index] = Some(Ok(end));
                    false
                }
                Step::Stale(stale) => {
                    ends[one.index] = Some(Err(stale));
                    false
                }
            }
        });
        if !self.under_way.is_empty() {
            return Step::Read(asked.places);
        }
        let ends = std::mem::take(&mut self.ends).into_iter();
        Step::Done(ends.map(|end| end.expect("all have ended")).collect())
    }
}
