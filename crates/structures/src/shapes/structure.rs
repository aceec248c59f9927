//! A structure of any kind, as a writer changes it and as the back-end executes operations on it.

use stonecast_base::Span;

use super::btree::{BTree, MvBTree};
use super::classic::{self, BinaryTree, SkipList};
use super::contents::Contents;
use super::hash::HashTable;
use super::item::{KEY_SIZE_MAX, VALUE_SIZE_MAX};
use super::roots::CreateFault;
use super::sequence::{Cursor, Queue, Stack, TAKEN_MAX};
use super::travel::Travel;
use super::traversal::{Answer, Stale, drive};
use crate::space::{Draft, SpaceFault};
use crate::wire::{Comparison, Operation, Run, Verb};

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
    /// One version of a multi-version B+tree.
    MvBTree(MvBTree),
    /// A binary search tree, or one version of a multi-version one.
    BinaryTree(BinaryTree),
    /// A skip list.
    SkipList(SkipList),
    /// The place of a consumer in a queue.
    Cursor(Cursor),
}

/// The reason why an operation is not executed. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteFault {
    /// The structure is damaged: a writer reads memory that no other front-end changes.
    #[error(transparent)]
    Damaged(#[from] Stale),
    /// The domain has no room, or a pointer names no block.
    #[error(transparent)]
    Space(#[from] SpaceFault),
    /// The structure is not created.
    #[error(transparent)]
    Create(#[from] CreateFault),
    /// The domain has no such structure.
    #[error("the domain has no structure {number}")]
    Structure {
        /// The number that names no structure.
        number: u32,
    },
    /// The key or value is longer than the structure permits.
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
    /// The key or value of the operation does not fit the verb.
    #[error("key or value of a {verb:?} are none")]
    Value {
        /// The verb.
        verb: Verb,
    },
    /// Another operation had the token.
    #[error("the token {token:#x} was given to another operation")]
    Token {
        /// The token.
        token: u64,
    },
    /// The operation may have been done: the result for its token is no longer kept.
    #[error("the result of the operation with the token {token:#x} is not kept any more")]
    Forgotten {
        /// The token.
        token: u64,
    },
    /// An answer is longer than the table of results permits: a group removes too many long values.
    #[error("an answer of {size} bytes cannot be kept for the token of its operation")]
    Answer {
        /// Bytes of the answer.
        size: usize,
    },
    /// The consumer has taken the most items that it may take without ending one.
    #[error("{TAKEN_MAX} items are taken and not done")]
    Taken,
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
    /// The walk before an operation.
    ///
    /// # Errors
    /// [`ExecuteFault::Verb`] or [`ExecuteFault::Size`]: the structure has no such operation.
    pub fn travel(&self, operation: &Operation<'_>) -> Result<Travel, ExecuteFault> {
        self.check(operation)?;
        let Operation {
            verb, key, value, ..
        } = *operation;
        let pushed = (verb == Verb::Push).then(|| value.to_vec());
        Ok(match self {
            Self::HashTable(table) => Travel::HashTable(Box::new(table.change(verb, key, value))),
            Self::BTree(tree) if verb == Verb::Load => Travel::Load(Box::new(tree.load(value))),
            Self::MvBTree(version) if verb == Verb::Load => {
                Travel::Load(Box::new(version.tree().load(value)))
            }
            Self::BTree(tree) => Travel::BTree(Box::new(tree.change(verb, key, value))),
            Self::MvBTree(tree) => Travel::MvBTree(Box::new(tree.change(verb, key, value))),
            Self::BinaryTree(tree) => {
                Travel::BinaryTree(Box::new(classic::Change::new(*tree, verb, key, value)))
            }
            Self::SkipList(list) => {
                let change = classic::ListChange::new(*list, verb, key, value);
                Travel::SkipList(Box::new(change))
            }
            Self::Stack(stack) => Travel::Stack(stack.travel(pushed)),
            Self::Queue(queue) => Travel::Queue(queue.travel(pushed)),
            Self::Cursor(cursor) => {
                let travel = cursor.travel(verb, key);
                Travel::Cursor(travel.ok_or(ExecuteFault::Value { verb })?)
            }
        })
    }

    /// Executes an operation that needs only what its writer knows. `None`: nothing was changed, and the operation
    /// needs its walk.
    pub(crate) fn execute_at_hand(
        &self,
        draft: &mut Draft<'_>,
        operation: &Operation<'_>,
    ) -> Option<Answer> {
        let Operation {
            verb, key, value, ..
        } = *operation;
        match (self, verb) {
            (Self::BTree(tree), Verb::Insert) => tree.insert_at_hand(draft, (key, value)),
            _ => None,
        }
    }

    /// Refuses an operation that does not fit this structure. The writer of a leftover has chosen the bytes freely.
    fn check(&self, operation: &Operation<'_>) -> Result<(), ExecuteFault> {
        let Operation {
            verb, key, value, ..
        } = *operation;
        let key_size_max = match self {
            Self::HashTable(_) => KEY_SIZE_MAX,
            Self::BTree(tree) => tree.geometry().key_size_max(),
            Self::MvBTree(version) => version.tree().geometry().key_size_max(),
            Self::BinaryTree(tree) => tree.sizes().key_size_max(),
            Self::SkipList(list) => list.sizes().key_size_max(),
            Self::Stack(_) | Self::Queue(_) => 0,
            Self::Cursor(_) => 16,
        };
        let is_known = match self {
            Self::BTree(_) | Self::MvBTree(_) if verb == Verb::Load => true,
            _ if self.has_keys() => verb.is_for_keys(),
            Self::Stack(_) | Self::Queue(_) => matches!(verb, Verb::Push | Verb::Pop),
            _ => matches!(verb, Verb::Take | Verb::Done),
        };
        if !is_known {
            return Err(ExecuteFault::Verb { verb });
        }
        let none = ExecuteFault::Value { verb };
        let entries = match verb {
            Verb::CompareAndUpdate => {
                let comparison = Comparison::parse(value).ok_or(none)?;
                vec![(key, comparison.expected), (key, comparison.new)]
            }
            Verb::Load => Run::parse(value).ok_or(none)?,
            _ => vec![(key, value)],
        };
        let is_long = |(key, value): &(&[u8], &[u8])| {
            key.len() > key_size_max || value.len() > VALUE_SIZE_MAX
        };
        match entries.into_iter().find(is_long) {
            None => Ok(()),
            Some((key, value)) => Err(ExecuteFault::Size {
                key_size: key.len(),
                value_size: value.len(),
                key_size_max,
            }),
        }
    }

    /// Reads everything of the structure.
    ///
    /// # Errors
    /// [`Stale`]: the structure changes, or is damaged.
    pub fn contents(&self, read: Read<'_>) -> Result<Contents, Stale> {
        drive(self.walk(), read)
    }
}
