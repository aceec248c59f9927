//! A reader of one structure, which may be renamed, made empty or dropped meanwhile.

use stonecast_base::Span;

use super::error::FrontEndError;
use super::reader::{Reader, TRIES_MAX};
use crate::shapes::{Named, Rooted, Roots, Stale, Structure, Traversal};

/// A reader of one structure of a domain. An answer counts only if the table of structures is still the one in which the structure was found; otherwise the
/// structure is found again: by its number, or by its name if it was made empty.
pub struct StructureReader {
    reader: Reader,
    row: Named,
    structure: Structure,
    /// The root word with which the structure was found.
    word: (Span, u64),
}

impl StructureReader {
    /// A reader of the structure that has the name in the table that is current at this moment.
    ///
    /// # Errors
    /// [`FrontEndError::NoStructure`]; otherwise as [`Reader::end_of`].
    pub async fn open(mut reader: Reader, name: &str) -> Result<Self, FrontEndError> {
        let roots = reader.roots().await?;
        let row = roots.named(name).ok_or(FrontEndError::NoStructure)?.clone();
        Ok(Self {
            structure: structure_of(&roots, &row)?,
            word: roots.word(),
            reader,
            row,
        })
    }

    /// The row of the structure, as it was found.
    pub fn row(&self) -> &Named {
        &self.row
    }

    /// Drives a traversal of the structure until it ends.
    ///
    /// # Errors
    /// [`FrontEndError::NoStructure`]: it was dropped. Otherwise as [`Reader::end_of`].
    pub async fn end_of<T: Traversal>(
        &mut self,
        make: impl Fn(&Structure) -> T,
    ) -> Result<T::End, FrontEndError> {
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
        self.structure = structure_of(&roots, &row)?;
        self.word = roots.word();
        self.row = row;
        Ok(())
    }
}

fn structure_of(roots: &Roots, row: &Named) -> Result<Structure, FrontEndError> {
    let structure = roots.structure(row.number);
    structure.ok_or(FrontEndError::NoStructure)
}
