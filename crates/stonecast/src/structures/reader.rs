//! Readers of structures, and ranges that go on leaf by leaf.

use std::marker::PhantomData;
use std::ops::{self, Bound, RangeBounds};

use stonecast_structures::shapes::Structure;
use stonecast_structures::shapes::btree::{Page, Seek};
use stonecast_structures::{Key as _, StructureReader};

use super::error::Error;
use super::session::encoded_bound;
use super::types::{Entry, Keyed, Ordered, Sequence, Shape};
use super::writer::decoded;

/// A reader of a structure of type `S`. Any number of readers in any process read beside the writer; each answer is one that the structure gave at a moment
/// of the call.
pub struct Reader<S: Shape> {
    name: String,
    reader: StructureReader,
    shape: PhantomData<S>,
}

impl<S: Shape> Reader<S> {
    pub(super) fn new(name: &str, reader: StructureReader) -> Self {
        Self {
            name: name.to_owned(),
            reader,
            shape: PhantomData,
        }
    }
}

impl<S: Keyed> Reader<S> {
    /// The value of `key`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]: the structure was dropped. [`Error::Gone`]: connect anew. [`Error::Damaged`], [`Error::Decode`].
    pub async fn get(&mut self, key: &S::Key) -> Result<Option<S::Value>, Error> {
        let key = key.encoded();
        let find = |structure: &Structure| structure.find(&key).expect("a structure with keys");
        let found = self.reader.end_of(find).await;
        let found = found.map_err(|error| Error::of(&self.name, error))?;
        found
            .map(|bytes| decoded::<S>(&self.name, &bytes))
            .transpose()
    }

    /// All entries, as they were at one moment: by key in a B+tree, in no order in a hash table.
    ///
    /// # Errors
    ///
    /// The same as [`Reader::get`].
    pub async fn entries(&mut self) -> Result<Vec<Entry<S>>, Error> {
        let contents = self.reader.end_of(Structure::walk).await;
        let contents = contents.map_err(|error| Error::of(&self.name, error))?;
        let entries = contents.items.iter();
        entries
            .map(|(key, value)| entry::<S>(&self.name, key, value))
            .collect()
    }
}

impl<S: Sequence> Reader<S> {
    /// The value that comes next; `None`: there is none.
    ///
    /// # Errors
    ///
    /// The same as [`Reader::get`].
    pub async fn peek(&mut self) -> Result<Option<S::Value>, Error> {
        let peek = |structure: &Structure| structure.peek().expect("a structure without keys");
        let found = self.reader.end_of(peek).await;
        let found = found.map_err(|error| Error::of(&self.name, error))?;
        found
            .map(|bytes| decoded::<S>(&self.name, &bytes))
            .transpose()
    }

    /// All values, in the order in which they come out, as they were at one moment.
    ///
    /// # Errors
    ///
    /// The same as [`Reader::get`].
    pub async fn values(&mut self) -> Result<Vec<S::Value>, Error> {
        let contents = self.reader.end_of(Structure::walk).await;
        let contents = contents.map_err(|error| Error::of(&self.name, error))?;
        let values = contents.items.iter();
        values
            .map(|(_, value)| decoded::<S>(&self.name, value))
            .collect()
    }
}

impl<S: Ordered> Reader<S> {
    /// The entries with keys in `keys`, by key. Each leaf is read as it was at one moment. A range of another reader goes on behind the last key that this
    /// one has given ([`Bound::Excluded`]), so that a scan resumes after a restart of the back-end.
    pub fn range(&mut self, keys: impl RangeBounds<S::Key>) -> Range<'_, S> {
        let start = encoded_bound(keys.start_bound());
        let end = encoded_bound(keys.end_bound());
        Range {
            next: Some(match &start {
                Bound::Unbounded => Seek::At(Vec::new()),
                Bound::Included(key) | Bound::Excluded(key) => Seek::At(key.clone()),
            }),
            reader: self,
            start,
            end,
            is_reversed: false,
            page: Page::default(),
            left: 0..0,
        }
    }

    /// The entry with the lowest key.
    ///
    /// # Errors
    ///
    /// The same as [`Reader::get`].
    pub async fn first(&mut self) -> Result<Option<Entry<S>>, Error> {
        self.range(..).next().await
    }

    /// The entry with the highest key.
    ///
    /// # Errors
    ///
    /// The same as [`Reader::get`].
    pub async fn last(&mut self) -> Result<Option<Entry<S>>, Error> {
        self.range(..).reversed().next().await
    }
}

/// The entries of a range of keys; see [`Reader::range`].
pub struct Range<'a, S: Ordered> {
    reader: &'a mut Reader<S>,
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    is_reversed: bool,
    /// The next leaf; `None` behind the last one.
    next: Option<Seek>,
    page: Page,
    /// Indices of the items of the page that are left.
    left: ops::Range<usize>,
}

impl<S: Ordered> Range<'_, S> {
    /// The same range from its end to its start.
    #[must_use]
    pub fn reversed(mut self) -> Self {
        self.is_reversed = true;
        self.next = Some(match &self.end {
            Bound::Unbounded => Seek::Below(None),
            // The leaf of the key itself; keys above it are left out.
            Bound::Included(key) => Seek::At(key.clone()),
            Bound::Excluded(key) => Seek::Below(Some(key.clone())),
        });
        self.left = 0..0;
        self
    }

    /// The next entry of the leaf that was read last.
    pub(super) fn next_of_leaf(&mut self) -> Option<Result<Entry<S>, Error>> {
        let index = match self.is_reversed {
            false => self.left.next(),
            true => self.left.next_back(),
        };
        let (key, value) = self.page.item(index?);
        Some(entry::<S>(&self.reader.name, key, value))
    }

    /// The next entry; `None` at the end. After an error the next call tries the same leaf again.
    ///
    /// # Errors
    ///
    /// The same as [`Reader::get`].
    pub async fn next(&mut self) -> Result<Option<Entry<S>>, Error> {
        loop {
            if let Some(entry) = self.next_of_leaf() {
                return entry.map(Some);
            }
            let Some(seek) = &self.next else {
                return Ok(None);
            };
            let page = |structure: &Structure| {
                let page = structure.page(seek.clone());
                page.expect("a structure with an order")
            };
            let page = self.reader.reader.end_of(page).await;
            let page = page.map_err(|error| Error::of(&self.reader.name, error))?;
            let (start, end) = (&self.start, &self.end);
            let is_above = |key: &[u8]| match start {
                Bound::Unbounded => true,
                Bound::Included(start) => &**start <= key,
                Bound::Excluded(start) => &**start < key,
            };
            let is_below = |key: &[u8]| match end {
                Bound::Unbounded => true,
                Bound::Included(end) => key <= &**end,
                Bound::Excluded(end) => key < &**end,
            };
            self.left = page.partition_point(|key| !is_above(key))..page.partition_point(is_below);
            // A leaf that lies behind the range ends it.
            let (low, high) = (&page.low, page.high.as_deref());
            self.next = match self.is_reversed {
                false => high
                    .filter(|high| is_below(high))
                    .map(|high| Seek::At(high.to_vec())),
                true => (!low.is_empty() && is_above(low)).then(|| Seek::Below(Some(low.clone()))),
            };
            self.page = page;
        }
    }

    /// All entries that are left.
    ///
    /// # Errors
    ///
    /// The same as [`Reader::get`].
    pub async fn collect(mut self) -> Result<Vec<Entry<S>>, Error> {
        let mut all = Vec::new();
        while let Some(entry) = self.next().await? {
            all.push(entry);
        }
        Ok(all)
    }
}

fn entry<S: Keyed>(name: &str, key: &[u8], value: &[u8]) -> Result<Entry<S>, Error> {
    let decoded_key = S::Key::decoded(key).map_err(|_| Error::Decode {
        name: name.to_owned(),
        size: key.len(),
        what: S::words(),
    })?;
    Ok((decoded_key, decoded::<S>(name, value)?))
}
