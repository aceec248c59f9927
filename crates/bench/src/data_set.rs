//! The records that are loaded into every store of a comparison.

use stonecast_workload::{KeyName, value_of};

/// Keys 0 to `keys` - 1 under YCSB's names, each with a value that follows from the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSet {
    /// The number of keys.
    pub keys: u64,
    /// Bytes of each value.
    pub value_size: usize,
    /// Seed of the values.
    pub seed: u64,
}

impl DataSet {
    /// Calls `visit` with name and value of each record, in the order of their numbers, until `visit` fails.
    pub fn try_for_each<E>(
        &self,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut value = vec![0; self.value_size];
        for number in 0..self.keys {
            self.value(number, &mut value);
            visit(KeyName::of(number).as_bytes(), &value)?;
        }
        Ok(())
    }

    /// Writes the value of key `number` into `into`.
    pub fn value(&self, number: u64, into: &mut [u8]) {
        value_of(self.seed, number, into);
    }
}
