//! The locks as published: Algorithm 2, a spin lock with a lock-ahead log, and Algorithm 3, retries by the sequence
//! number.

use stonecast_base::Span;

use super::layout::Word;
use super::session::AsymSession;
use crate::PublishedError;

/// The condition for which a reader waits before it reads (Algorithm 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SnRule {
    /// An odd sequence number, as the text has it: the back-end is changing the structure.
    AsPrinted,
    /// An even sequence number.
    Even,
}

/// The READs of a reader that go out with one doorbell (Algorithm 3: look, read, look again). A queue pair executes
/// them in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockedRead {
    /// Each READ alone: three round trips.
    Apart,
    /// The data and the second look together: two round trips.
    LookBehind,
    /// All READs together: one round trip.
    Together,
}

/// Looks at the sequence number before a reader gives up.
const LOOKS_MAX: u32 = 64;

impl AsymSession {
    /// Takes the write lock: a record of the lock-ahead log, then CAS until the lock was free.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn write_lock(&mut self, owner: u64) -> Result<(), PublishedError> {
        self.lock_ahead(owner).await?;
        while !self.try_lock(owner).await? {}
        Ok(())
    }

    /// Writes the record of the lock-ahead log.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn lock_ahead(&mut self, owner: u64) -> Result<(), PublishedError> {
        let (layout, instance) = (self.layout, self.instance);
        let records = self.word(Word::LockRecords).await?;
        let place = layout.lock_record(instance, records);
        let count = layout.word(instance, Word::LockRecords);
        let writes = [
            (place, owner.to_le_bytes().to_vec()),
            (count, (records + 1).to_le_bytes().to_vec()),
        ];
        self.post(&writes).await?;
        self.settle(0).await
    }

    /// One CAS of the lock; whether it was free.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn try_lock(&mut self, owner: u64) -> Result<bool, PublishedError> {
        let place = self.layout.word(self.instance, Word::Lock);
        Ok(self.compare_and_swap(place, 0, owner).await? == 0)
    }

    /// The position at which the owner of the lock appends (LPN).
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn fetch_tail(&mut self) -> Result<u64, PublishedError> {
        let tail = self.word(Word::Tail).await?;
        self.set_tail(tail);
        Ok(tail)
    }

    /// Releases the write lock: a record, and a WRITE of 0, whoever holds it. (The text has a READ, which releases
    /// nothing.)
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn write_unlock(&mut self) -> Result<(), PublishedError> {
        self.lock_ahead(0).await?;
        let place = self.layout.word(self.instance, Word::Lock);
        self.post(&[(place, vec![0; 8])]).await?;
        self.settle(0).await
    }

    /// The sequence number with which a reader begins; `None`: the rule was not met for many looks.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn reader_lock(&mut self, rule: SnRule) -> Result<Option<u64>, PublishedError> {
        for _ in 0..LOOKS_MAX {
            let number = self.word(Word::Sequence).await?;
            let is_odd = number % 2 == 1;
            if is_odd == (rule == SnRule::AsPrinted) {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Whether the sequence number is still that with which the reader began.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn reader_unlock(&mut self, began_with: u64) -> Result<bool, PublishedError> {
        Ok(self.word(Word::Sequence).await? == began_with)
    }

    /// Reads places between two looks at the sequence number. `None`: the try has failed, since the back-end was or is
    /// changing the structure.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn read_locked(
        &mut self,
        places: &[Span],
        reads: LockedRead,
    ) -> Result<Option<Vec<Vec<u8>>>, PublishedError> {
        let look = Span::new(self.layout.word(self.instance, Word::Sequence), 8);
        let number = |bytes: Option<Vec<u8>>| {
            let bytes = bytes.expect("each place was read");
            u64::from_le_bytes(*bytes.first_chunk().expect("a word has 8 bytes"))
        };
        let before = match reads {
            LockedRead::Together => None,
            LockedRead::Apart | LockedRead::LookBehind => {
                match self.reader_lock(SnRule::Even).await? {
                    None => return Ok(None),
                    before => before,
                }
            }
        };
        let mut read = match reads {
            LockedRead::Apart => {
                let mut found = self.read(places).await?;
                found.extend(self.read(&[look]).await?);
                found
            }
            LockedRead::LookBehind => self.read(&[places, &[look]].concat()).await?,
            LockedRead::Together => self.read(&[&[look], places, &[look]].concat()).await?,
        };
        let after = number(read.pop());
        let before = match before {
            Some(before) => before,
            None => number(Some(read.remove(0))),
        };
        Ok((before == after && before % 2 == 0).then_some(read))
    }

    pub(super) async fn word(&mut self, word: Word) -> Result<u64, PublishedError> {
        let place = Span::new(self.layout.word(self.instance, word), 8);
        let bytes = self.read(&[place]).await?;
        let word = bytes[0].first_chunk().expect("a word has 8 bytes");
        Ok(u64::from_le_bytes(*word))
    }
}
