//! Values that the writer of a lock domain reads for a transaction.

use std::marker::PhantomData;

use stonecast_structures::Key as _;

use super::error::Error;
use super::member::{Member, MemberIdentity};
use super::types::{Keyed, Shape};
use super::update::decoded;

/// Keys of structures of one lock domain, which [`Domain::look`](super::Domain::look) reads at once.
#[derive(Clone, Debug, Default)]
pub struct Look {
    keys: Vec<(MemberIdentity, Vec<u8>)>,
}

/// A key of a [`Look`], by which [`Found`] tells its value.
pub struct Looked<S> {
    place: usize,
    shape: PhantomData<S>,
}

impl<S> Clone for Looked<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Looked<S> {}

impl<S> std::fmt::Debug for Looked<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Looked").field(&self.place).finish()
    }
}

/// The values of the keys of a [`Look`].
#[derive(Clone, Debug)]
pub struct Found {
    pub(super) name: String,
    pub(super) values: Vec<Option<Vec<u8>>>,
}

impl Look {
    /// Adds a key of a structure.
    pub fn at<S: Keyed>(&mut self, of: &Member<S>, key: &S::Key) -> Looked<S> {
        self.keys.push((of.identity().clone(), key.encoded()));
        Looked {
            place: self.keys.len() - 1,
            shape: PhantomData,
        }
    }

    /// The encoded keys, each with its structure.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&MemberIdentity, &[u8])> {
        self.keys.iter().map(|(of, key)| (of, &key[..]))
    }
}

impl Found {
    /// The value of a key; `None`: the key is absent.
    ///
    /// # Errors
    ///
    /// [`Error::Decode`]: another program has stored bytes that are no value of this type.
    ///
    /// # Panics
    ///
    /// The key belongs to another [`Look`], which has more keys.
    pub fn value<S: Shape>(&self, of: Looked<S>) -> Result<Option<S::Value>, Error> {
        let found = self.values[of.place].as_deref();
        found
            .map(|bytes| decoded::<S>(&self.name, bytes))
            .transpose()
    }
}
