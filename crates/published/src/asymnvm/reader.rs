//! A reader: Algorithm 3 where the structure changes in place, the root word where it has versions, and neither in a
//! skip list.

use stonecast_base::Span;
use stonecast_structures::shapes::{ReadRoots, Structure, StructureKind};

use super::lock::SnRule;
use super::session::AsymSession;
use super::view::{Source, View};
use super::writer::{DOMAIN, KEY, STRUCTURE};
use crate::PublishedError;

/// The attempts of a reader before it gives up.
const TRIES_MAX: u32 = 10_000;

/// The protection of a reader from the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadRule {
    /// The sequence number is the same before and after (Algorithm 3).
    Locked,
    /// The nodes that the root word names do not change.
    Versioned,
    /// The order of the writer's changes alone. Nodes are checked, as the traversals do.
    Free,
}

impl ReadRule {
    fn of(kind: StructureKind) -> Self {
        match kind {
            StructureKind::SkipList => Self::Free,
            _ if kind.is_versioned() => Self::Versioned,
            _ => Self::Locked,
        }
    }
}

/// A reader of an instance.
pub struct AsymReader {
    view: View,
    structure: Structure,
    rule: ReadRule,
    root: u64,
    /// The number of repeated attempts.
    pub retries: u64,
    /// Reads that have ended.
    pub reads: u64,
}

impl AsymReader {
    /// A reader of a structure of this kind. Structures with versions and skip lists are read without a lock.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn open(session: AsymSession, kind: StructureKind) -> Result<Self, PublishedError> {
        let mut view = View::new(session, Source::Remote, None);
        let (structure, root) = find(&mut view).await?;
        Ok(Self {
            view,
            structure,
            rule: ReadRule::of(kind),
            root,
            retries: 0,
            reads: 0,
        })
    }

    /// The value of an encoded key.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, PublishedError> {
        for _ in 0..TRIES_MAX {
            let found = match self.rule {
                ReadRule::Locked => self.get_locked(key).await?,
                ReadRule::Versioned => self.get_in_version(key).await?,
                ReadRule::Free => self.find(key).await?,
            };
            if let Some(found) = found {
                self.reads += 1;
                return Ok(found);
            }
            self.retries += 1;
        }
        Err(PublishedError::Unknown)
    }

    async fn get_locked(&mut self, key: &[u8]) -> Result<Option<Option<Vec<u8>>>, PublishedError> {
        let Some(number) = self.view.session.reader_lock(SnRule::Even).await? else {
            return Ok(None);
        };
        let found = self.find(key).await?;
        let is_same = self.view.session.reader_unlock(number).await?;
        Ok(found.filter(|_| is_same))
    }

    async fn get_in_version(
        &mut self,
        key: &[u8],
    ) -> Result<Option<Option<Vec<u8>>>, PublishedError> {
        let word = self.view.territory.root;
        let read = self.view.session.read(&[word]).await?;
        let root = u64::from_le_bytes(*read[0].first_chunk().expect("a word"));
        if root != self.root {
            (self.structure, self.root) = find(&mut self.view).await?;
        }
        self.find(key).await
    }

    /// The value of a key; `None`: a node has changed under the reader.
    async fn find(&mut self, key: &[u8]) -> Result<Option<Option<Vec<u8>>>, PublishedError> {
        let Some(walk) = self.structure.find(key) else {
            return Ok(Some(None));
        };
        Ok(self.view.drive(walk).await?.ok())
    }
}

/// The structure as it is at this moment, and the root word.
async fn find(view: &mut View) -> Result<(Structure, u64), PublishedError> {
    let word: Span = view.territory.root;
    for _ in 0..TRIES_MAX {
        let roots = view.drive(ReadRoots::new(KEY, DOMAIN, word)).await?;
        let Ok(roots) = roots else {
            continue;
        };
        let structure = roots.structure(STRUCTURE);
        let structure = structure.ok_or(PublishedError::Protocol("nothing is loaded"))?;
        return Ok((structure, roots.word().1));
    }
    Err(PublishedError::Unknown)
}
