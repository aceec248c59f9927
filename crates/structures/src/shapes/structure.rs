//! A structure of any kind, as a writer changes it and as the back-end executes operations on it.

use stonecast_base::Span;

use super::btree::BTree;
use super::contents::Contents;
use super::hash::HashTable;
use super::item::{KEY_SIZE_MAX, VALUE_SIZE_MAX};
use super::roots::CreateFault;
use super::sequence::{Queue, Stack};
use super::travel::Travel;
use super::traversal::{Answer, Stale, drive};
use crate::space::{Draft, SpaceFault, Workspace};
use crate::wire::{Operation, Verb};

/// A structure of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// A hash table.
    HashTable(HashTable),
    /// A B+tree.
    BTree(BTree),
    /// A stack.
    Stack(Stack),
    /// A queue.
    Queue(Queue),
}

/// The reason why an operation is not executed. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteFault {
    /// The structure is damaged: a writer reads memory that nobody else changes.
    #[error(transparent)]
    Damaged(#[from] Stale),
    /// There is no room, or a pointer names no block.
    #[error(transparent)]
    Space(#[from] SpaceFault),
    /// The structure is not created.
    #[error(transparent)]
    Create(#[from] CreateFault),
    /// The domain has no such structure.
    #[error("the domain has no structure {number}")]
    Structure {
        /// Its number.
        number: u32,
    },
    /// Key or value are longer than those of the structure may be.
    #[error(
        "a key of {key_size} bytes and a value of {value_size}, expected at most {key_size_max} and {VALUE_SIZE_MAX}"
    )]
    Size {
        /// Bytes of the encoded key.
        key_size: usize,
        /// Bytes of the value.
        value_size: usize,
        /// Bytes of the longest key of the structure.
        key_size_max: usize,
    },
    /// Structures of this kind know no such operation.
    #[error("structures of this kind know no {verb:?}")]
    Verb {
        /// The verb.
        verb: Verb,
    },
}

/// Reads a place of the pool; `None`: the place does not belong to the domain.
pub(crate) type Read<'a> = &'a mut dyn FnMut(Span) -> Option<Vec<u8>>;

impl Structure {
    /// Executes an operation on the structure as it is with everything staged. The draft holds its changes; `lsn` is the number that
    /// [`Workspace::draft`] takes.
    ///
    /// # Errors
    /// [`ExecuteFault`]: nothing was changed.
    pub fn execute<'a>(
        &self,
        operation: &Operation<'_>,
        (workspace, lsn): (&'a mut Workspace, u64),
        read: Read<'_>,
    ) -> Result<(Answer, Draft<'a>), ExecuteFault> {
        let travel = self.travel(operation)?;
        let plan = drive(travel, |span| workspace.view(span, read))?;
        let mut draft = workspace.draft(lsn);
        Ok((plan.apply(&mut draft)?, draft))
    }

    /// The walk before an operation.
    ///
    /// # Errors
    /// [`ExecuteFault::Verb`] or [`ExecuteFault::Size`]: the structure has no such operation.
    pub fn travel(&self, operation: &Operation<'_>) -> Result<Travel, ExecuteFault> {
        self.check(operation)?;
        let Operation {
            verb, key, value, ..
        } = *operation;
        let is_push = verb == Verb::Push;
        Ok(match self {
            Self::HashTable(table) => Travel::HashTable(Box::new(table.change(verb, key, value))),
            Self::BTree(tree) => Travel::BTree(tree.change(verb, key, value)),
            Self::Stack(stack) if is_push => Travel::Stack(stack.push(value)),
            Self::Stack(stack) => Travel::Stack(stack.pop()),
            Self::Queue(queue) if is_push => Travel::Queue(queue.push(value)),
            Self::Queue(queue) => Travel::Queue(queue.pop()),
        })
    }

    /// Refuses an operation that is none for this structure. The bytes of a left over operation are its writer's.
    fn check(&self, operation: &Operation<'_>) -> Result<(), ExecuteFault> {
        let Operation {
            verb, key, value, ..
        } = *operation;
        let key_size_max = match self {
            Self::HashTable(_) => KEY_SIZE_MAX,
            Self::BTree(tree) => tree.geometry().key_size_max(),
            Self::Stack(_) | Self::Queue(_) => 0,
        };
        let is_known = match self {
            Self::HashTable(_) | Self::BTree(_) => verb.is_for_keys(),
            Self::Stack(_) | Self::Queue(_) => matches!(verb, Verb::Push | Verb::Pop),
        };
        if !is_known {
            return Err(ExecuteFault::Verb { verb });
        }
        if key.len() > key_size_max || value.len() > VALUE_SIZE_MAX {
            return Err(ExecuteFault::Size {
                key_size: key.len(),
                value_size: value.len(),
                key_size_max,
            });
        }
        Ok(())
    }

    /// Reads everything of the structure.
    ///
    /// # Errors
    /// [`Stale`]: the structure changes, or is damaged.
    pub fn contents(&self, read: Read<'_>) -> Result<Contents, Stale> {
        match self {
            Self::HashTable(table) => drive(table.walk(), read),
            Self::BTree(tree) => drive(tree.walk(), read),
            Self::Stack(stack) => drive(stack.walk(), read),
            Self::Queue(queue) => drive(queue.walk(), read),
        }
    }
}
