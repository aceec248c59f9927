//! Operations drawn in advance, so that a measured loop reads them in memory order.

use stonecast_base::random_from_seed;

use crate::chooser::{Chooser, Distribution};
use crate::key::KeyName;
use crate::mix::Mix;

/// The parameters of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceOptions {
    /// The mix of operations.
    pub mix: Mix,
    /// The distribution of keys.
    pub distribution: Distribution,
    /// The number of keys.
    pub keys: u64,
    /// The number of operations; a longer loop starts again.
    pub length: usize,
    /// The same seed draws the same operations.
    pub seed: u64,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    number: u32,
    update: bool,
    name: KeyName,
}

impl Operation {
    /// Number of the key.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number.into()
    }

    /// Name of the key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// Whether the key's value is replaced; otherwise it is read.
    #[inline]
    pub fn is_update(&self) -> bool {
        self.update
    }
}

/// Operations drawn in advance, 32 bytes each.
pub struct Sequence {
    operations: Vec<Operation>,
}

impl Sequence {
    /// Draws the operations.
    pub fn new(options: SequenceOptions) -> Self {
        assert!(options.length > 0, "a sequence has at least one operation");
        assert!(
            options.keys <= u64::from(u32::MAX),
            "keys of a sequence are numbered with 32 bits"
        );
        let chooser = Chooser::new(options.distribution, options.keys);
        let mut random = random_from_seed(options.seed);
        let draw = |_| {
            let number = chooser.next(&mut random);
            Operation {
                number: number as u32,
                update: options.mix.is_update(&mut random),
                name: KeyName::of(number),
            }
        };
        Self {
            operations: (0..options.length).map(draw).collect(),
        }
    }

    /// All operations, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// A cursor that repeats the operations, starting at the `start`-th (modulo their number).
    pub fn cursor(&self, start: usize) -> Cursor<'_> {
        Cursor {
            operations: &self.operations,
            next: start % self.operations.len(),
        }
    }
}

/// A place in a sequence; after the last operation comes the first.
#[derive(Clone)]
pub struct Cursor<'a> {
    operations: &'a [Operation],
    next: usize,
}

impl<'a> Cursor<'a> {
    /// The next operation.
    #[inline]
    pub fn take(&mut self) -> &'a Operation {
        let operation = &self.operations[self.next];
        self.next += 1;
        if self.next == self.operations.len() {
            self.next = 0;
        }
        operation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: SequenceOptions = SequenceOptions {
        mix: Mix::A,
        distribution: Distribution::ScrambledZipfian,
        keys: 1000,
        length: 500,
        seed: 9,
    };

    #[test]
    fn a_seed_always_draws_the_same_operations_and_another_seed_draws_others() {
        let (first, second) = (Sequence::new(OPTIONS), Sequence::new(OPTIONS));
        assert_eq!(first.operations(), second.operations());
        let other = Sequence::new(SequenceOptions {
            seed: 10,
            ..OPTIONS
        });
        assert_ne!(first.operations(), other.operations());
    }

    /// The first operations of seed 9. A change of generator, hash or powers changes them.
    #[test]
    fn a_seed_means_the_same_operations_for_ever() {
        let sequence = Sequence::new(OPTIONS);
        let found: Vec<(u64, bool)> = sequence.operations()[..8]
            .iter()
            .map(|o| (o.number(), o.is_update()))
            .collect();
        let expected = [
            (8, true),
            (965, false),
            (393, true),
            (787, true),
            (637, false),
            (149, false),
            (558, true),
            (987, false),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_cursor_visits_each_operation_once_per_round() {
        let sequence = Sequence::new(OPTIONS);
        let mut cursor = sequence.cursor(1207);
        let round: Vec<_> = (0..500).map(|_| *cursor.take()).collect();
        assert_eq!(round[..293], sequence.operations()[207..]);
        assert_eq!(round[293..], sequence.operations()[..207]);
        assert!(
            sequence
                .operations()
                .iter()
                .all(|operation| operation.key() == KeyName::of(operation.number()).as_bytes())
        );
    }
}
