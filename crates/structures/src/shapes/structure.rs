//! A structure of any kind, as a writer changes it and as the back-end executes operations on it.

use stonecast_base::Span;

use super::btree::BTree;
use super::contents::Contents;
use super::hash::HashTable;
use super::traversal::{Answer, Stale, drive};
use crate::space::{SpaceFault, Workspace};
use crate::wire::Operation;

/// A structure of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// A hash table.
    HashTable(HashTable),
    /// A B+tree.
    BTree(BTree),
}

/// The reason why an operation is not executed. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteFault {
    /// The structure is damaged: a writer reads memory that nobody else changes.
    #[error(transparent)]
    Damaged(#[from] Stale),
    /// There is no room, or a pointer names no block.
    #[error(transparent)]
    Space(#[from] SpaceFault),
    /// Structures of this kind know no such operation.
    #[error("structures of this kind know no {verb:?}")]
    Verb {
        /// The verb.
        verb: crate::wire::Verb,
    },
}

/// Reads a place of the pool; `None`: the place does not belong to the domain.
type Read<'a> = &'a mut dyn FnMut(Span) -> Option<Vec<u8>>;

impl Structure {
    /// Executes an operation on the structure as it is with everything staged, and adds its changes to the open transaction. `lsn` is the number that
    /// [`Workspace::draft`] takes.
    ///
    /// # Errors
    /// [`ExecuteFault`]: nothing was changed.
    pub fn execute(
        &self,
        operation: &Operation<'_>,
        (workspace, lsn): (&mut Workspace, u64),
        read: Read<'_>,
    ) -> Result<Answer, ExecuteFault> {
        let Operation {
            verb, key, value, ..
        } = *operation;
        let view = |span| {
            let mut bytes = read(span)?;
            workspace.patch(span, &mut bytes);
            Some(bytes)
        };
        if !verb.has_key() {
            return Err(ExecuteFault::Verb { verb });
        }
        let (answer, draft) = match self {
            Self::HashTable(table) => {
                let plan = drive(table.change(verb, key, value), view)?;
                let mut draft = workspace.draft(lsn);
                (plan.apply(&mut draft)?, draft)
            }
            Self::BTree(tree) => {
                let plan = drive(tree.change(verb, key, value), view)?;
                let mut draft = workspace.draft(lsn);
                (plan.apply(&mut draft)?, draft)
            }
        };
        draft.commit();
        Ok(answer)
    }

    /// Reads everything of the structure.
    ///
    /// # Errors
    /// [`Stale`]: the structure changes, or is damaged.
    pub fn contents(&self, read: Read<'_>) -> Result<Contents, Stale> {
        match self {
            Self::HashTable(table) => drive(table.walk(), read),
            Self::BTree(tree) => drive(tree.walk(), read),
        }
    }
}
