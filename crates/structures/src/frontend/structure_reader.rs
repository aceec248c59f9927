//! A reader of one structure, or of one version of a structure. The structure may be renamed, made empty or dropped in
//! the meantime.

use std::rc::Rc;

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::Runtime;

use super::error::FrontEndError;
use super::in_call::{InCall, Table};
use super::reader::{Reader, TRIES_MAX};
use super::recent::Recent;
use crate::shapes::btree::{Page, Seek};
use crate::shapes::{Many, Named, Rooted, Roots, Stale, Structure, Traversal};

/// A reader of one structure of a domain. An answer counts only if the table of structures is still the one in which
/// the structure was found; otherwise the structure is found again: by its number, or by its name if it was made empty.
pub struct StructureReader {
    reader: Reader,
    row: Named,
    structure: Structure,
    /// The root word with which the structure was found.
    word: (Span, u64),
    in_call: InCall,
    /// The table that is read, even if it is no longer the current one.
    snapshot: Option<Rc<Roots>>,
    /// Answers that may be given again, if the reader accepts old ones.
    recent: Option<Recent>,
}

impl StructureReader {
    /// A reader of the structure that has the name in the table that is current at this moment.
    ///
    /// # Errors
    /// [`FrontEndError::NoStructure`]; otherwise the errors of [`Reader::end_of`].
    pub async fn open(mut reader: Reader, name: &str) -> Result<Self, FrontEndError> {
        let roots = reader.roots().await?;
        let row = roots.named(name).ok_or(FrontEndError::NoStructure)?.clone();
        let structure = structure_of(&roots, &row)?;
        Ok(Self {
            structure,
            word: roots.word(),
            in_call: InCall::of(&mut reader, &structure),
            reader,
            row,
            snapshot: None,
            recent: None,
        })
    }

    /// A reader of the structure with this name as it was when the table `roots` was read. The structure has to be a
    /// multi-version structure: the nodes of other structures change.
    ///
    /// # Errors
    /// [`FrontEndError::NoStructure`].
    pub fn of_snapshot(
        mut reader: Reader,
        roots: &Rc<Roots>,
        name: &str,
    ) -> Result<Self, FrontEndError> {
        let row = roots.named(name).ok_or(FrontEndError::NoStructure)?.clone();
        let structure = structure_of(roots, &row)?;
        Ok(Self {
            word: roots.word(),
            in_call: InCall::of(&mut reader, &structure),
            structure,
            reader,
            row,
            snapshot: Some(roots.clone()),
            recent: None,
        })
    }

    /// Accepts answers that were true at most `age_max_ns` before the call, by the clock of the runtime: answers of
    /// earlier calls are given again, and cost no READ. Keeps answers and pages of about `size` bytes. This holds for
    /// [`StructureReader::get`], [`StructureReader::get_many`] and [`StructureReader::page`]; other calls look at the
    /// structure.
    pub fn accept_age(&mut self, clock: &Rc<dyn Runtime>, age_max_ns: Nanoseconds, size: u64) {
        // Answers that were kept under another limit would let later answers go back.
        self.recent = Some(Recent::new(clock.clone(), age_max_ns, size));
    }

    /// The row of the structure, as the reader found it.
    pub fn row(&self) -> &Named {
        &self.row
    }

    /// Reads that have ended in the call.
    pub fn answers_in_call(&self) -> u64 {
        self.in_call.answers
    }

    /// Looks an encoded key up, and returns the result of `read` on its value; `None`: the key has none. Where the
    /// device reads in the call, a look-up ends in the call, too.
    ///
    /// # Errors
    /// The errors of [`StructureReader::end_of`].
    ///
    /// # Panics
    /// If the structure has no keys.
    pub async fn get<T>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, FrontEndError> {
        let began = match &mut self.recent {
            None => None,
            Some(recent) => {
                let now = recent.begin();
                if let Some(found) = recent.answer(now, key) {
                    return Ok(found.map(read));
                }
                Some(now)
            }
        };
        let (table, in_call) = (self.table(), &mut self.in_call);
        if let Some(found) = in_call.find(&self.reader, &self.structure, (table, key)) {
            if let (Some(recent), Some(began)) = (&mut self.recent, began) {
                recent.keep_answer(began, key, found.map(<[u8]>::to_vec));
            }
            let found = found.map(read);
            self.reader.back_end.port().take_turn().await;
            self.reader.back_end.vouch().await?;
            return Ok(found);
        }
        let find = |structure: &Structure| structure.find(key).expect("a structure with keys");
        let found = Box::pin(self.end_of(find)).await?;
        let result = found.as_deref().map(read);
        if let (Some(recent), Some(began)) = (&mut self.recent, began) {
            recent.keep_answer(began, key, found);
        }
        Ok(result)
    }

    /// Looks encoded keys up together, and returns their values in the order of the keys. Each key had its value at
    /// some moment of the call.
    ///
    /// # Errors
    /// The errors of [`StructureReader::end_of`].
    ///
    /// # Panics
    /// If the structure has no keys.
    pub async fn get_many(
        &mut self,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<u8>>>, FrontEndError> {
        let mut values: Vec<Option<Option<Vec<u8>>>> = vec![None; keys.len()];
        let began = self.recent.as_ref().map(Recent::begin);
        if let (Some(recent), Some(began)) = (&mut self.recent, began) {
            for (key, value) in keys.iter().zip(&mut values) {
                let found = recent.answer(began, key);
                *value = found.map(|found| found.map(<[u8]>::to_vec));
            }
        }
        let missing = |values: &[Option<_>]| -> Vec<usize> {
            (0..keys.len())
                .filter(|index| values[*index].is_none())
                .collect()
        };
        let asked = missing(&values);
        if !asked.is_empty() {
            let find = |structure: &Structure, index: &usize| {
                structure
                    .find(&keys[*index])
                    .expect("a structure with keys")
            };
            let all =
                |structure: &Structure| Many::new(asked.iter().map(|index| find(structure, index)));
            let found = self.end_of(all).await?;
            for (index, found) in asked.iter().zip(found) {
                // The structure changed at the places of the other keys during the call.
                values[*index] = found.ok();
            }
        }
        if let (Some(recent), Some(began)) = (&mut self.recent, began) {
            for index in &asked {
                if let Some(found) = &values[*index] {
                    recent.keep_answer(began, &keys[*index], found.clone());
                }
            }
        }
        for index in missing(&values) {
            values[index] = Some(self.get(&keys[index], <[u8]>::to_vec).await?);
        }
        Ok(values.into_iter().flatten().collect())
    }

    /// Some neighbouring keys of a range. Where the device reads in the call, the reading of a leaf ends in the call,
    /// too.
    ///
    /// # Errors
    /// The errors of [`StructureReader::end_of`].
    ///
    /// # Panics
    /// If the structure has no order of keys.
    pub async fn page(&mut self, seek: &Seek) -> Result<Page, FrontEndError> {
        let began = match &mut self.recent {
            None => None,
            Some(recent) => {
                let now = recent.begin();
                if let Some(page) = recent.page(now, seek) {
                    return Ok(page);
                }
                Some(now)
            }
        };
        let page = self.page_now(seek).await?;
        if let (Some(recent), Some(began)) = (&mut self.recent, began) {
            recent.keep_page(began, seek, &page);
        }
        Ok(page)
    }

    /// Takes a page that is no longer needed: its memory serves the next one.
    pub fn reuse(&mut self, page: Page) {
        self.in_call.reuse(page);
    }

    async fn page_now(&mut self, seek: &Seek) -> Result<Page, FrontEndError> {
        let (table, in_call) = (self.table(), &mut self.in_call);
        if let Some(page) = in_call.page(&self.reader, &self.structure, (table, seek)) {
            self.reader.back_end.port().take_turn().await;
            self.reader.back_end.vouch().await?;
            return Ok(page);
        }
        let page = |structure: &Structure| structure.page(seek.clone()).expect("an order of keys");
        Box::pin(self.end_of(page)).await
    }

    fn table(&self) -> Table {
        match self.snapshot {
            Some(_) => Table::OfSnapshot,
            None => Table::Current(self.word.0, self.word.1),
        }
    }

    /// Drives a traversal of the structure until it ends.
    ///
    /// # Errors
    /// [`FrontEndError::NoStructure`]: the structure was dropped. [`FrontEndError::TooOld`]: nodes of the snapshot are
    /// used again. Otherwise the errors of [`Reader::end_of`].
    pub async fn end_of<T: Traversal>(
        &mut self,
        make: impl Fn(&Structure) -> T,
    ) -> Result<T::End, FrontEndError> {
        if let Some(roots) = &self.snapshot {
            return self.reader.end_in(roots, self.row.number, make).await;
        }
        let mut tries = 0;
        loop {
            let rooted = Rooted::new(make(&self.structure), self.word);
            match self.reader.end_once(rooted, tries == 0).await? {
                Ok(end) => return Ok(end),
                Err(stale) if tries == TRIES_MAX => return Err(FrontEndError::Stale(stale)),
                Err(stale) => self.begin_again(stale).await?,
            }
            tries += 1;
        }
    }

    /// Finds the structure again.
    async fn begin_again(&mut self, stale: Stale) -> Result<(), FrontEndError> {
        self.reader.note_stale(stale).await?;
        let roots = self.reader.roots().await?;
        let mut rows = roots.rows().iter();
        let same = rows.find(|row| row.number == self.row.number);
        // A structure that was made empty has another number, and a new structure of this name may be of another type.
        let row = same.or_else(|| {
            let named = roots.named(&self.row.name);
            named.filter(|row| row.description == self.row.description)
        });
        let row = row.ok_or(FrontEndError::NoStructure)?.clone();
        let structure = structure_of(&roots, &row)?;
        if row.number != self.row.number {
            self.in_call.clear();
        }
        self.structure = structure;
        self.word = roots.word();
        self.row = row;
        Ok(())
    }
}

fn structure_of(roots: &Roots, row: &Named) -> Result<Structure, FrontEndError> {
    let structure = roots.structure(row.number);
    structure.ok_or(FrontEndError::NoStructure)
}
