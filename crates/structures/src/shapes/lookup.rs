//! Reads of a structure of any kind.

use super::btree::{self, Page, Seek};
use super::classic;
use super::contents::Contents;
use super::hash;
use super::length::Length;
use super::sequence::{Peek, QueueWalk, ReadCursor, StackWalk};
use super::structure::Structure;
use super::traversal::{Step, Traversal};

/// The look-up of one key in a structure with keys.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// In a hash table.
    HashTable(hash::Find),
    /// In a tree.
    BTree(btree::Find),
    /// In a binary search tree.
    BinaryTree(classic::FindValue<classic::ItemOfKey>),
    /// In a skip list.
    SkipList(classic::FindValue<classic::ItemOfListKey>),
}

/// The reading of some neighbouring keys of a range.
#[derive(Clone, Debug)]
pub enum PageOf {
    /// Of a tree: a leaf.
    BTree(btree::PageOf),
    /// Of a binary search tree: a key.
    BinaryTree(classic::OnePage<classic::Nearest>),
    /// Of a skip list: a key.
    SkipList(classic::OnePage<classic::Neighbour>),
}

/// A walk over all of a structure.
#[derive(Clone, Debug)]
pub enum Walk {
    /// Over a hash table.
    HashTable(hash::Walk),
    /// Over a tree.
    BTree(btree::Walk),
    /// Over a binary search tree.
    BinaryTree(classic::Walk),
    /// Over a skip list.
    SkipList(Box<classic::ListWalk>),
    /// Over a stack.
    Stack(StackWalk),
    /// Over a queue.
    Queue(QueueWalk),
    /// Over a cursor: tokens and numbers.
    Cursor(ReadCursor),
}

impl Structure {
    /// Whether the structure has keys.
    pub fn has_keys(&self) -> bool {
        match self {
            Self::HashTable(_)
            | Self::BTree(_)
            | Self::MvBTree(_)
            | Self::BinaryTree(_)
            | Self::SkipList(_) => true,
            Self::Stack(_) | Self::Queue(_) | Self::Cursor(_) => false,
        }
    }

    /// Looks an encoded key up; `None`: the structure has no keys.
    pub fn find(&self, key: &[u8]) -> Option<Lookup> {
        Some(match self {
            Self::HashTable(table) => Lookup::HashTable(table.find(key)),
            Self::BTree(tree) => Lookup::BTree(tree.find(key)),
            Self::MvBTree(version) => Lookup::BTree(version.tree().find(key)),
            Self::BinaryTree(tree) => Lookup::BinaryTree(tree.find(key)),
            Self::SkipList(list) => Lookup::SkipList(list.find(key)),
            Self::Stack(_) | Self::Queue(_) | Self::Cursor(_) => return None,
        })
    }

    /// The walk over the part of a hash table that begins with the hash `from`; `None`: it is no hash table.
    pub fn part(&self, from: u64) -> Option<hash::PartWalk> {
        match self {
            Self::HashTable(table) => Some(table.part(from)),
            _ => None,
        }
    }

    /// Reads some neighbouring keys of a range; `None`: the structure has no order of keys.
    pub fn page(&self, seek: Seek) -> Option<PageOf> {
        match self {
            Self::BTree(tree) => Some(PageOf::BTree(tree.page(seek))),
            Self::MvBTree(version) => Some(PageOf::BTree(version.tree().page(seek))),
            Self::BinaryTree(tree) => Some(PageOf::BinaryTree(tree.page(seek))),
            Self::SkipList(list) => Some(PageOf::SkipList(list.page(seek))),
            Self::HashTable(_) | Self::Stack(_) | Self::Queue(_) | Self::Cursor(_) => None,
        }
    }

    /// Reads the value that comes next; `None`: the structure has keys.
    pub fn peek(&self) -> Option<Peek> {
        match self {
            Self::Stack(stack) => Some(stack.peek()),
            Self::Queue(queue) => Some(queue.peek()),
            Self::HashTable(_)
            | Self::BTree(_)
            | Self::MvBTree(_)
            | Self::BinaryTree(_)
            | Self::SkipList(_)
            | Self::Cursor(_) => None,
        }
    }

    /// Reads the number of items.
    pub fn length(&self) -> Length {
        match self {
            Self::HashTable(table) => table.length(),
            Self::BTree(tree) => tree.length(),
            Self::MvBTree(version) => version.tree().length(),
            Self::BinaryTree(tree) => tree.length(),
            Self::SkipList(list) => list.length(),
            Self::Stack(stack) => stack.length(),
            Self::Queue(queue) => queue.length(),
            Self::Cursor(cursor) => Length::of_cursor(cursor.read()),
        }
    }

    /// Reads the whole structure, which should not change during the walk.
    pub fn walk(&self) -> Walk {
        match self {
            Self::HashTable(table) => Walk::HashTable(table.walk()),
            Self::BTree(tree) => Walk::BTree(tree.walk()),
            Self::MvBTree(version) => Walk::BTree(version.tree().walk()),
            Self::BinaryTree(tree) => Walk::BinaryTree(classic::Walk::new(*tree)),
            Self::SkipList(list) => Walk::SkipList(Box::new(classic::ListWalk::new(*list))),
            Self::Stack(stack) => Walk::Stack(stack.walk()),
            Self::Queue(queue) => Walk::Queue(queue.walk()),
            Self::Cursor(cursor) => Walk::Cursor(cursor.read()),
        }
    }
}

impl Traversal for Lookup {
    type End = Option<Vec<u8>>;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Self::End> {
        match self {
            Self::HashTable(find) => find.step(bytes).map(hash::Found::into_value),
            Self::BTree(find) => find.step(bytes),
            Self::BinaryTree(find) => find.step(bytes),
            Self::SkipList(find) => find.step(bytes),
        }
    }
}

impl Traversal for PageOf {
    type End = Page;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Page> {
        match self {
            Self::BTree(page) => page.step(bytes),
            Self::BinaryTree(page) => page.step(bytes),
            Self::SkipList(page) => page.step(bytes),
        }
    }
}

impl Traversal for Walk {
    type End = Contents;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Contents> {
        match self {
            Self::HashTable(walk) => walk.step(bytes),
            Self::BTree(walk) => walk.step(bytes),
            Self::BinaryTree(walk) => walk.step(bytes),
            Self::SkipList(walk) => walk.step(bytes),
            Self::Stack(walk) => walk.step(bytes),
            Self::Queue(walk) => walk.step(bytes),
            Self::Cursor(read) => read.contents(bytes).unwrap_or_else(Step::Stale),
        }
    }
}
