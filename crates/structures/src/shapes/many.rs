//! Many traversals at once: each step reads what all of them need, so a driver makes one round trip for each level and not for each key.

use super::traversal::{Places, Stale, Step, Traversal};

/// Drives traversals together. The end has the result of each, in their order: a traversal that met a stale place has to begin again.
#[derive(Clone, Debug)]
pub struct Many<T: Traversal> {
    under_way: Vec<UnderWay<T>>,
    ends: Vec<Option<Result<T::End, Stale>>>,
}

#[derive(Clone, Debug)]
struct UnderWay<T> {
    index: usize,
    traversal: T,
    /// Places that it has asked for.
    asked: usize,
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
                asked: 0,
            })
            .collect();
        let ends = under_way.iter().map(|_| None).collect();
        Self { under_way, ends }
    }
}

impl<T: Traversal> Traversal for Many<T> {
    type End = Vec<Result<T::End, Stale>>;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Self::End> {
        let (mut places, mut rest) = (Places::new(), bytes);
        let ends = &mut self.ends;
        self.under_way.retain_mut(|one| {
            let (own, others) = rest.split_at(one.asked);
            rest = others;
            // A traversal that asks for nothing at all goes on with nothing.
            let mut step = one.traversal.step(own);
            while matches!(&step, Step::Read(wanted) if wanted.is_empty()) {
                step = one.traversal.step(&[]);
            }
            match step {
                Step::Read(wanted) => {
                    one.asked = wanted.len();
                    places.extend(wanted);
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
            return Step::Read(places);
        }
        let ends = std::mem::take(&mut self.ends).into_iter();
        Step::Done(ends.map(|end| end.expect("all have ended")).collect())
    }
}
