//! Readers of structures with partitions.

use std::time::Duration;

use futures_util::future::try_join_all;
use stonecast_structures::Key as _;

use super::part::Hashing;
use crate::structures::error::Error;
use crate::structures::reader::Reader;
use crate::structures::types::Keyed;

/// A reader of all partitions of a structure of type `S`. [`Sessions::reader`](super::Sessions::reader) makes it.
pub struct PartitionedReader<S: Keyed> {
    hashing: Hashing,
    partitions: Vec<Reader<S>>,
}

impl<S: Keyed> PartitionedReader<S> {
    pub(super) fn new(hashing: Hashing, partitions: Vec<Reader<S>>) -> Self {
        Self {
            hashing,
            partitions,
        }
    }

    /// Accepts answers of this age, as [`Reader::max_staleness`].
    #[must_use]
    pub fn max_staleness(self, limit: Duration) -> Self {
        let partitions = self.partitions.into_iter();
        Self {
            partitions: partitions
                .map(|reader| reader.max_staleness(limit))
                .collect(),
            ..self
        }
    }

    /// The value of `key`, as [`Reader::get`] returns it.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::get`].
    pub async fn get(&mut self, key: &S::Key) -> Result<Option<S::Value>, Error> {
        let partition = self.hashing.partition_of(&key.encoded());
        self.partitions[partition].get(key).await
    }

    /// The values of several keys, in the order of the keys. Each key had its value at some moment of the call. The
    /// keys of each partition are looked up together, and all partitions at once.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::get`]. An error of one partition ends the call.
    pub async fn get_many<'a>(
        &mut self,
        keys: impl IntoIterator<Item = &'a S::Key>,
    ) -> Result<Vec<Option<S::Value>>, Error>
    where
        S::Key: 'a,
    {
        let mut of_partitions: Vec<Vec<(usize, &S::Key)>> = Vec::new();
        of_partitions.resize_with(self.partitions.len(), Vec::new);
        let mut count = 0;
        for (index, key) in keys.into_iter().enumerate() {
            let partition = self.hashing.partition_of(&key.encoded());
            of_partitions[partition].push((index, key));
            count = index + 1;
        }
        let asked = self.partitions.iter_mut().zip(&of_partitions);
        let asked = asked.map(|(reader, keys)| reader.get_many(keys.iter().map(|(_, key)| *key)));
        let found = try_join_all(asked).await?;
        let mut values = Vec::new();
        values.resize_with(count, || None);
        for (keys, found) in of_partitions.iter().zip(found) {
            for ((index, _), value) in keys.iter().zip(found) {
                values[*index] = value;
            }
        }
        Ok(values)
    }
}
