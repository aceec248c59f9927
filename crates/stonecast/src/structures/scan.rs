//! Scans of hash tables, which go on segment by segment.

use std::vec;

use super::error::Error;
use super::reader::{Reader, entry};
use super::types::{Entry, HashTable, Key, Value};

/// The entries of a hash table, in no order; see [`Reader::scan`].
pub struct Scan<'a, K: Key, V: Value> {
    reader: &'a mut Reader<HashTable<K, V>>,
    /// The number of the table whose segments were read.
    number: Option<u32>,
    /// The hash with which the next segment begins; `None` behind the last one.
    next: Option<u64>,
    left: vec::IntoIter<(Vec<u8>, Vec<u8>)>,
}

impl<K: Key, V: Value> Reader<HashTable<K, V>> {
    /// All entries, in no order, of which those of one segment are held at a time: some hundred, and at most a few
    /// thousand. [`Reader::entries`] holds all of them.
    ///
    /// Beside a writer, each bucket is as it was at a moment of the scan: a key that is there all the time comes once,
    /// and one that comes or goes meanwhile once or not at all. A table that is made empty meanwhile has no more
    /// entries for the scan.
    ///
    /// ```
    /// use stonecast::structures::{self, HashTable, Server};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let server = Server::builder(folder.path().join("pool"))
    /// #     .durability(stonecast::Durability::Process).capacity(32 << 20).serve()?;
    /// let connection = structures::connect(&server.address().to_string())?;
    /// connection.run(async |session| {
    ///     let mut stock = session.writer::<HashTable<u64, u64>>("stock").await?;
    ///     let entries: Vec<(u64, u64)> = (0..5_000).map(|article| (article, 3)).collect();
    ///     stock.insert_all(entries.iter().map(|(article, count)| (article, count))).await?;
    ///     let mut seen = session.reader::<HashTable<u64, u64>>("stock").await?;
    ///     let (mut scan, mut sum) = (seen.scan(), 0);
    ///     while let Some((_, count)) = scan.next().await? {
    ///         sum += count;
    ///     }
    ///     assert_eq!(sum, 15_000);
    ///     Ok::<(), structures::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scan(&mut self) -> Scan<'_, K, V> {
        Scan {
            reader: self,
            number: None,
            next: Some(0),
            left: Vec::new().into_iter(),
        }
    }
}

impl<K: Key, V: Value> Scan<'_, K, V> {
    /// The next entry of the segment that was read last.
    pub(super) fn next_of_segment(&mut self) -> Option<Result<Entry<HashTable<K, V>>, Error>> {
        let (key, value) = self.left.next()?;
        Some(entry::<HashTable<K, V>>(self.reader.name(), &key, &value))
    }

    /// The next entry; `None` at the end. After an error the next call tries the same segment again.
    ///
    /// # Errors
    ///
    /// The same as [`Reader::get`].
    pub async fn next(&mut self) -> Result<Option<Entry<HashTable<K, V>>>, Error> {
        loop {
            if let Some(entry) = self.next_of_segment() {
                return entry.map(Some);
            }
            let Some(from) = self.next else {
                return Ok(None);
            };
            let part = self.reader.read_with(|table| table.part(from)).await?;
            let number = self.reader.number();
            if *self.number.get_or_insert(number) != number {
                self.next = None;
                return Ok(None);
            }
            self.next = part.next;
            self.left = part.items.into_iter();
        }
    }
}
