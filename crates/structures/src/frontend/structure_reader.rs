//! A reader of one structure, which may be renamed, made empty or dropped meanwhile, or of one version of it.

use std::rc::Rc;

use stonecast_base::Span;

use super::error::FrontEndError;
use super::in_call::{InCall, Table};
use super::reader::{Reader, TRIES_MAX};
use crate::shapes::btree::{Page, Seek};
use crate::shapes::{Named, Rooted, Roots, Stale, Structure, Traversal};

/// A reader of one structure of a domain. An answer counts only if the table of structures is still the one in which the structure was found; otherwise the
/// structure is found again: by its number, or by its name if it was made empty.
pub struct StructureReader {
    reader: Reader,
    row: Named,
    structure: Structure,
    /// The root word with which the structure was found.
    word: (Span, u64),
    in_call: InCall,
    /// The table that is read, whatever the current one is.
    snapshot: Option<Rc<Roots>>,
}

impl StructureReader {
    /// A reader of the structure that has the name in the table that is current at this moment.
    ///
    /// # Errors
    /// [`FrontEndError::NoStructure`]; otherwise as [`Reader::end_of`].
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
        })
    }

    /// A reader of the structure with this name as it was when the table `roots` was read. The structure has to be a multi-version one: the nodes of others change.
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
        })
    }

    /// The row of the structure, as it was found.
    pub fn row(&self) -> &Named {
        &self.row
    }

    /// Reads that have ended in the call.
    pub fn answers_in_call(&self) -> u64 {
        self.in_call.answers
    }

    /// Looks an encoded key up, and returns the result of `read` on its value; `None`: the key has none. Where the device reads in the call, a look-up in a tree ends in the call, too.
    ///
    /// # Errors
    /// As [`StructureReader::end_of`].
    ///
    /// # Panics
    /// If the structure has no keys.
    pub async fn get<T>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, FrontEndError> {
        let (table, in_call) = (self.table(), &mut self.in_call);
        if let Some(found) = in_call.find(&self.reader, &self.structure, (table, key)) {
            let found = found.map(read);
            self.reader.back_end.port().take_turn().await;
            return Ok(found);
        }
        let find = |structure: &Structure| structure.find(key).expect("a structure with keys");
        let found = Box::pin(self.end_of(find)).await?;
        Ok(found.map(|value| read(&value)))
    }

    /// Some neighbouring keys of a range. Where the device reads in the call, the reading of a leaf ends in the call, too.
    ///
    /// # Errors
    /// As [`StructureReader::end_of`].
    ///
    /// # Panics
    /// If the structure has no order of keys.
    pub async fn page(&mut self, seek: &Seek) -> Result<Page, FrontEndError> {
        let (table, in_call) = (self.table(), &mut self.in_call);
        if let Some(page) = in_call.page(&self.reader, &self.structure, (table, seek)) {
            self.reader.back_end.port().take_turn().await;
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
    /// [`FrontEndError::NoStructure`]: it was dropped. [`FrontEndError::TooOld`]: nodes of the snapshot are used again. Otherwise as [`Reader::end_of`].
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
        // A structure that was made empty has another number, and a new one of this name may be of another type.
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
