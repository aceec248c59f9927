//! Readers of structures, and ranges that go on leaf by leaf.

use std::marker::PhantomData;
use std::ops::{self, Bound, RangeBounds};
use std::rc::Rc;
use std::time::Duration;

use stonecast_structures::shapes::btree::{Page, Seek};
use stonecast_structures::shapes::{Structure, Traversal};
use stonecast_structures::{FrontEndError, Key as _, StructureReader};

use super::error::Error;
use super::session::encoded_bound;
use super::tally::{OpenSnapshot, Tally};
use super::types::{Entry, Keyed, Ordered, Sequence, Shape};
use super::update::decoded;
use crate::connector::nanoseconds;

/// A reader of a structure of type `S`. Any number of readers in any process read beside the writer; each answer was
/// true at some moment of the call.
/// ```
/// use stonecast::structures::{self, BTree, Queue, Server};
///
/// # let folder = tempfile::tempdir()?;
/// # let server = Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).capacity(32 << 20).serve()?;
/// let connection = structures::connect(&server.address().to_string())?;
/// connection.run(async |session| {
///     let mut orders = session.writer::<BTree<u64, String>>("orders").await?;
///     for (number, article) in [(1, "pins"), (2, "nails"), (3, "glue")] {
///         orders.insert(&number, &article.to_owned()).await?;
///     }
///     assert_eq!(session.reader::<BTree<u64, String>>("orders").await?.len().await?, 3);
///     // The reader caches 1 MiB of inner nodes.
///     let mut seen = session.reader_caching::<BTree<u64, String>>("orders", 1 << 20).await?;
///     assert_eq!(seen.first().await?, Some((1, "pins".to_owned())));
///     let mut range = seen.range(..).reversed();
///     assert_eq!(range.next().await?, Some((3, "glue".to_owned())));
///     let rest = range.rest(); // plain data, from which this or another reader goes on
///     let left = seen.resume(&rest).collect().await?;
///     assert_eq!(left.into_iter().map(|(number, _)| number).collect::<Vec<_>>(), [2, 1]);
///
///     let mut jobs = session.writer::<Queue<u64>>("jobs").await?;
///     jobs.push(&7).await?;
///     jobs.push(&8).await?;
///     let mut waiting = session.reader::<Queue<u64>>("jobs").await?;
///     assert_eq!(waiting.peek().await?, Some(7));
///     assert_eq!(waiting.values().await?, [7, 8]);
///     Ok::<(), structures::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reader<S: Shape> {
    name: String,
    reader: StructureReader,
    tally: Rc<Tally>,
    /// Bytes of inner nodes that are cached.
    cache_size: u64,
    /// The snapshot that is read, if any.
    _open: Option<Rc<OpenSnapshot>>,
    shape: PhantomData<S>,
}

impl<S: Shape> Reader<S> {
    /// `cache_size`: bytes that `reader` caches.
    pub(super) fn new(
        name: &str,
        (reader, cache_size): (StructureReader, u64),
        tally: &Rc<Tally>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            reader,
            tally: tally.clone(),
            cache_size,
            _open: None,
            shape: PhantomData,
        }
    }

    /// The same reader, which reads this snapshot.
    pub(super) fn of(self, snapshot: &Rc<OpenSnapshot>) -> Self {
        Self {
            _open: Some(snapshot.clone()),
            ..self
        }
    }

    /// The number of entries or values, as it was at a moment of the call. The structure counts them: the call costs
    /// one READ, however many there are.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]: the structure was dropped. [`Error::Gone`]: connect anew. [`Error::Damaged`].
    pub async fn len(&mut self) -> Result<u64, Error> {
        let length = self.reader.end_of(Structure::length).await;
        self.answered(length)
    }

    /// Whether the structure has no entry or value, at the cost of [`Reader::len`].
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::len`].
    pub async fn is_empty(&mut self) -> Result<bool, Error> {
        Ok(self.len().await? == 0)
    }

    /// The number of the structure, as it was found last: one that is made empty gets another.
    pub(super) fn number(&self) -> u32 {
        self.reader.row().number
    }

    /// The name of the structure.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The end of a walk that the structure's kind has.
    pub(super) async fn read_with<T: Traversal>(
        &mut self,
        walk: impl Fn(&Structure) -> Option<T>,
    ) -> Result<T::End, Error> {
        let walk = |structure: &Structure| walk(structure).expect("its row says its kind");
        let end = self.reader.end_of(walk).await;
        self.answered(end)
    }

    /// The result of a read of the structure, which is counted.
    fn answered<T>(&self, found: Result<T, FrontEndError>) -> Result<T, Error> {
        self.tally.note_answer();
        found.map_err(|error| Error::of_read(&self.name, error))
    }
}

impl<S: Keyed> Reader<S> {
    /// The value of `key`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]: the structure was dropped. [`Error::Gone`]: connect anew. [`Error::Damaged`],
    /// [`Error::Decode`].
    pub async fn get(&mut self, key: &S::Key) -> Result<Option<S::Value>, Error> {
        let key = key.encoded();
        let read = |bytes: &[u8]| decoded::<S>(&self.name, bytes);
        let found = self.reader.get(&key, read).await;
        self.answered(found)?.transpose()
    }

    /// The values of several keys, in the order of the keys. Each key had its value at some moment of the call. All
    /// keys are looked up together: over a network, each level of the structure costs one round trip, whatever the
    /// number of keys.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::get`].
    pub async fn get_many<'a>(
        &mut self,
        keys: impl IntoIterator<Item = &'a S::Key>,
    ) -> Result<Vec<Option<S::Value>>, Error>
    where
        S::Key: 'a,
    {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(|key| key.encoded()).collect();
        let found = self.reader.get_many(&keys).await;
        let found = self.answered(found)?.into_iter();
        let value = |bytes: Vec<u8>| decoded::<S>(&self.name, &bytes);
        found.map(|found| found.map(value).transpose()).collect()
    }

    /// Accepts answers that were true at most `limit` before the call. `get`, `get_many` and ranges then repeat answers
    /// of earlier calls of this reader, which costs no READ; other calls read the structure. By default a reader
    /// accepts only answers that are true at a moment of the call.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use stonecast::Durability;
    /// use stonecast::structures::{self, HashTable, Server};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let server = Server::builder(folder.path().join("pool"))
    ///     .durability(Durability::Process)
    ///     .capacity(32 << 20)
    ///     .serve()?;
    /// let connection = structures::connect(&server.address().to_string())?;
    /// connection.run(async |session| {
    ///     let mut prices = session.writer::<HashTable<String, u64>>("prices").await?;
    ///     prices.insert(&"pin".to_owned(), &3).await?;
    ///     let seen = session.reader::<HashTable<String, u64>>("prices").await?;
    ///     let mut seen = seen.max_staleness(Duration::from_secs(3600));
    ///     assert_eq!(seen.get(&"pin".to_owned()).await?, Some(3));
    ///     prices.insert(&"pin".to_owned(), &4).await?;
    ///     assert_eq!(seen.get(&"pin".to_owned()).await?, Some(3)); // as it was within the hour
    ///     Ok::<(), structures::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The rule is the same for every structure: an answer is kept as a whole, with the moment at which its call began,
    /// and never put together from parts of different moments. For one key, answers never go back. Answers for
    /// different keys, and the leaves of a range, may be of different moments, as they may without a limit. The clock
    /// is the monotonic one of this process; it may stand still while the machine is suspended. Answers are kept in as
    /// much memory as inner nodes.
    #[must_use]
    pub fn max_staleness(mut self, limit: Duration) -> Self {
        let age_max_ns = nanoseconds(limit);
        self.reader
            .accept_age(self.tally.clock(), age_max_ns, self.cache_size);
        self
    }

    /// All entries: by key where keys have an order, in no order in a hash table. Beside a writer, each node is as it
    /// was at a moment of the call, and a structure with versions as a whole.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::get`].
    pub async fn entries(&mut self) -> Result<Vec<Entry<S>>, Error> {
        let contents = self.reader.end_of(Structure::walk).await;
        let contents = self.answered(contents)?;
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
    /// The errors of [`Reader::get`].
    pub async fn peek(&mut self) -> Result<Option<S::Value>, Error> {
        let peek = |structure: &Structure| structure.peek().expect("a structure without keys");
        let found = self.reader.end_of(peek).await;
        let found = self.answered(found)?;
        found
            .map(|bytes| decoded::<S>(&self.name, &bytes))
            .transpose()
    }

    /// All values, in the order in which they come out, as they were at one moment.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::get`].
    pub async fn values(&mut self) -> Result<Vec<S::Value>, Error> {
        let contents = self.reader.end_of(Structure::walk).await;
        let contents = self.answered(contents)?;
        let values = contents.items.iter();
        values
            .map(|(_, value)| decoded::<S>(&self.name, value))
            .collect()
    }
}

impl<S: Ordered> Reader<S> {
    /// The entries with keys in `keys`, by key. Each leaf is read as it was at one moment. [`Range::rest`] lets another
    /// reader go on, so that a scan resumes after a restart of the back-end.
    pub fn range(&mut self, keys: impl RangeBounds<S::Key>) -> Range<'_, S> {
        self.resume(&Rest {
            start: encoded_bound(keys.start_bound()),
            end: encoded_bound(keys.end_bound()),
            is_reversed: false,
        })
    }

    /// The entries that a range of this or another reader has not given, in its direction.
    pub fn resume(&mut self, rest: &Rest) -> Range<'_, S> {
        let rest = rest.clone();
        Range {
            next: Some(rest.seek()),
            reader: self,
            rest,
            page: Page::default(),
            left: 0..0,
            given: None,
        }
    }

    /// The entry with the lowest key.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::get`].
    pub async fn first(&mut self) -> Result<Option<Entry<S>>, Error> {
        self.range(..).next().await
    }

    /// The entry with the highest key.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::get`].
    pub async fn last(&mut self) -> Result<Option<Entry<S>>, Error> {
        self.range(..).reversed().next().await
    }
}

/// The part of a range that is left, in encoded keys; see [`Range::rest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The lower bound.
    pub start: Bound<Vec<u8>>,
    /// The upper bound.
    pub end: Bound<Vec<u8>>,
    /// Whether entries come from the end to the start.
    pub is_reversed: bool,
}

impl Rest {
    /// The first leaf.
    fn seek(&self) -> Seek {
        match (self.is_reversed, &self.start, &self.end) {
            (false, Bound::Unbounded, _) => Seek::At(Vec::new()),
            (false, Bound::Included(key) | Bound::Excluded(key), _) => Seek::At(key.clone()),
            (true, _, Bound::Unbounded) => Seek::Below(None),
            // The leaf of the key itself; keys above it are left out.
            (true, _, Bound::Included(key)) => Seek::At(key.clone()),
            (true, _, Bound::Excluded(key)) => Seek::Below(Some(key.clone())),
        }
    }

    fn is_above_start(&self, key: &[u8]) -> bool {
        match &self.start {
            Bound::Unbounded => true,
            Bound::Included(start) => &**start <= key,
            Bound::Excluded(start) => &**start < key,
        }
    }

    fn is_below_end(&self, key: &[u8]) -> bool {
        match &self.end {
            Bound::Unbounded => true,
            Bound::Included(end) => key <= &**end,
            Bound::Excluded(end) => key < &**end,
        }
    }

    /// Leaves out a key that was given, and the keys before it.
    fn pass(&mut self, key: &[u8]) {
        let bound = Bound::Excluded(key.to_vec());
        match self.is_reversed {
            false => self.start = bound,
            true => self.end = bound,
        }
    }
}

/// The entries of a range of keys; see [`Reader::range`].
pub struct Range<'a, S: Ordered> {
    reader: &'a mut Reader<S>,
    /// The range without the entries that earlier leaves have given.
    rest: Rest,
    /// The next leaf; `None` behind the last one.
    next: Option<Seek>,
    page: Page,
    /// Indices of the items of the page that are left.
    left: ops::Range<usize>,
    /// The item of the page that was given last.
    given: Option<usize>,
}

impl<S: Ordered> Range<'_, S> {
    /// The same range from its end to its start.
    #[must_use]
    pub fn reversed(mut self) -> Self {
        self.rest = self.rest();
        self.rest.is_reversed = true;
        self.next = Some(self.rest.seek());
        (self.left, self.given) = (0..0, None);
        self
    }

    /// The part of the range that was not given, for [`Reader::resume`].
    pub fn rest(&self) -> Rest {
        let mut rest = self.rest.clone();
        if let Some(index) = self.given {
            rest.pass(self.page.item(index).0);
        }
        rest
    }

    /// The next entry of the leaf that was read last.
    pub(super) fn next_of_leaf(&mut self) -> Option<Result<Entry<S>, Error>> {
        let index = match self.rest.is_reversed {
            false => self.left.next(),
            true => self.left.next_back(),
        }?;
        self.given = Some(index);
        let (key, value) = self.page.item(index);
        Some(entry::<S>(&self.reader.name, key, value))
    }

    /// The next entry; `None` at the end. After an error the next call tries the same leaf again.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::get`].
    pub async fn next(&mut self) -> Result<Option<Entry<S>>, Error> {
        loop {
            if let Some(entry) = self.next_of_leaf() {
                return entry.map(Some);
            }
            let Some(seek) = &self.next else {
                return Ok(None);
            };
            let page = self.reader.reader.page(seek).await;
            let page = self.reader.answered(page)?;
            self.rest = self.rest();
            self.given = None;
            let rest = &self.rest;
            let is_above = |key: &[u8]| rest.is_above_start(key);
            let is_below = |key: &[u8]| rest.is_below_end(key);
            self.left = page.partition_point(|key| !is_above(key))..page.partition_point(is_below);
            // A leaf that lies behind the range ends it.
            let (low, high) = (&page.low, page.high.as_deref());
            self.next = match rest.is_reversed {
                false => high
                    .filter(|high| is_below(high))
                    .map(|high| Seek::At(high.to_vec())),
                true => (!low.is_empty() && is_above(low)).then(|| Seek::Below(Some(low.clone()))),
            };
            let before = std::mem::replace(&mut self.page, page);
            self.reader.reader.reuse(before);
        }
    }

    /// All entries that are left.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::get`].
    pub async fn collect(mut self) -> Result<Vec<Entry<S>>, Error> {
        let mut all = Vec::new();
        while let Some(entry) = self.next().await? {
            all.push(entry);
        }
        Ok(all)
    }
}

/// An entry of encoded key and value.
pub(super) fn entry<S: Keyed>(name: &str, key: &[u8], value: &[u8]) -> Result<Entry<S>, Error> {
    let decoded_key = S::Key::decoded(key).map_err(|_| Error::Decode {
        name: name.to_owned(),
        size: key.len(),
        what: S::words(),
        effect: crate::Effect::None,
    })?;
    Ok((decoded_key, decoded::<S>(name, value)?))
}
