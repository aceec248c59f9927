//! Writers and readers of every kind behind traits, in encoded keys and values.

use stonecast::structures::{
    BlockingReader, BlockingSession, BlockingSnapshot, BlockingWriter, Error, Keyed, Ordered, Rest,
    Sequence, Shape,
};

use super::shapes::{self, Encoded, opening};
use super::types::{Kind, Types};

type Bytes = Vec<u8>;

/// Writers of all kinds.
pub trait Write {
    fn publish(&mut self) -> Result<(), Error>;
    fn flush(&mut self) -> Result<(), Error>;
    fn renew(&mut self) -> Result<(), Error>;
    fn clear(&mut self) -> Result<(), Error>;
    fn rename(&mut self, name: &str) -> Result<(), Error>;
    fn destroy(self: Box<Self>) -> Result<(), Error>;
    fn release(self: Box<Self>) -> Result<(), Error>;
}

pub trait WriteKeyed: Write {
    fn insert(&mut self, key: &Encoded, value: &Bytes) -> Result<bool, Error>;
    fn insert_if_absent(&mut self, key: &Encoded, value: &Bytes) -> Result<bool, Error>;
    fn update(&mut self, key: &Encoded, value: &Bytes) -> Result<bool, Error>;
    fn compare_and_update(
        &mut self,
        key: &Encoded,
        old: &Bytes,
        new: &Bytes,
    ) -> Result<bool, Error>;
    fn remove(&mut self, key: &Encoded) -> Result<bool, Error>;
    fn get(&mut self, key: &Encoded) -> Result<Option<Bytes>, Error>;
    fn stage(&mut self, key: &Encoded, value: &Bytes) -> Result<(), Error>;
}

pub trait WriteSequence: Write {
    fn push(&mut self, value: &Bytes) -> Result<(), Error>;
    fn pop(&mut self) -> Result<Option<Bytes>, Error>;
}

pub trait ReadKeyed {
    fn get(&mut self, key: &Encoded) -> Result<Option<Bytes>, Error>;
    fn get_many(&mut self, keys: &[Encoded]) -> Result<Vec<Option<Bytes>>, Error>;
    fn entries(&mut self) -> Result<Vec<(Encoded, Bytes)>, Error>;
}

pub trait ReadOrdered: ReadKeyed {
    /// The next `count` entries of a range, and the part of it that is left.
    fn some_of(
        &mut self,
        rest: &Rest,
        count: usize,
    ) -> Result<(Vec<(Encoded, Bytes)>, Rest), Error>;
}

pub trait ReadSequence {
    fn peek(&mut self) -> Result<Option<Bytes>, Error>;
    fn values(&mut self) -> Result<Vec<Bytes>, Error>;
}

/// A writer of any kind.
pub enum AnyWriter {
    Keyed(Box<dyn WriteKeyed>),
    Sequence(Box<dyn WriteSequence>),
}

/// A reader of any kind.
pub enum AnyReader {
    Ordered(Box<dyn ReadOrdered>),
    Unordered(Box<dyn ReadKeyed>),
    Sequence(Box<dyn ReadSequence>),
}

impl<S: Shape> Write for BlockingWriter<S> {
    fn publish(&mut self) -> Result<(), Error> {
        self.publish()
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.flush()
    }

    fn renew(&mut self) -> Result<(), Error> {
        self.renew()
    }

    fn clear(&mut self) -> Result<(), Error> {
        self.clear()
    }

    fn rename(&mut self, name: &str) -> Result<(), Error> {
        self.rename(name)
    }

    fn destroy(self: Box<Self>) -> Result<(), Error> {
        (*self).destroy()
    }

    fn release(self: Box<Self>) -> Result<(), Error> {
        (*self).release()
    }
}

impl<S: Keyed<Key = Encoded, Value = Bytes>> WriteKeyed for BlockingWriter<S> {
    fn insert(&mut self, key: &Encoded, value: &Bytes) -> Result<bool, Error> {
        self.insert(key, value)
    }

    fn insert_if_absent(&mut self, key: &Encoded, value: &Bytes) -> Result<bool, Error> {
        self.insert_if_absent(key, value)
    }

    fn update(&mut self, key: &Encoded, value: &Bytes) -> Result<bool, Error> {
        self.update(key, value)
    }

    fn compare_and_update(
        &mut self,
        key: &Encoded,
        old: &Bytes,
        new: &Bytes,
    ) -> Result<bool, Error> {
        self.compare_and_update(key, old, new)
    }

    fn remove(&mut self, key: &Encoded) -> Result<bool, Error> {
        self.remove(key)
    }

    fn get(&mut self, key: &Encoded) -> Result<Option<Bytes>, Error> {
        self.get(key)
    }

    fn stage(&mut self, key: &Encoded, value: &Bytes) -> Result<(), Error> {
        self.stage(key, value)
    }
}

impl<S: Sequence<Value = Bytes>> WriteSequence for BlockingWriter<S> {
    fn push(&mut self, value: &Bytes) -> Result<(), Error> {
        self.push(value)
    }

    fn pop(&mut self) -> Result<Option<Bytes>, Error> {
        self.pop()
    }
}

impl<S: Keyed<Key = Encoded, Value = Bytes>> ReadKeyed for BlockingReader<S> {
    fn get(&mut self, key: &Encoded) -> Result<Option<Bytes>, Error> {
        self.get(key)
    }

    fn get_many(&mut self, keys: &[Encoded]) -> Result<Vec<Option<Bytes>>, Error> {
        self.get_many(keys)
    }

    fn entries(&mut self) -> Result<Vec<(Encoded, Bytes)>, Error> {
        self.entries()
    }
}

impl<S: Ordered<Key = Encoded, Value = Bytes>> ReadOrdered for BlockingReader<S> {
    fn some_of(
        &mut self,
        rest: &Rest,
        count: usize,
    ) -> Result<(Vec<(Encoded, Bytes)>, Rest), Error> {
        let mut range = self.resume(rest);
        let entries = range.by_ref().take(count).collect::<Result<_, _>>()?;
        Ok((entries, range.rest()))
    }
}

impl<S: Sequence<Value = Bytes>> ReadSequence for BlockingReader<S> {
    fn peek(&mut self) -> Result<Option<Bytes>, Error> {
        self.peek()
    }

    fn values(&mut self) -> Result<Vec<Bytes>, Error> {
        self.values()
    }
}

impl AnyWriter {
    pub fn open(session: &BlockingSession, name: &str, types: Types) -> Result<Self, Error> {
        opening(types, || {
            Ok(match types.kind {
                Kind::BTree => Self::Keyed(Box::new(session.writer::<shapes::BTree>(name)?)),
                Kind::HashTable => {
                    Self::Keyed(Box::new(session.writer::<shapes::HashTable>(name)?))
                }
                Kind::MvBTree => Self::Keyed(Box::new(session.writer::<shapes::MvBTree>(name)?)),
                Kind::Queue => Self::Sequence(Box::new(session.writer::<shapes::Queue>(name)?)),
                Kind::Stack => Self::Sequence(Box::new(session.writer::<shapes::Stack>(name)?)),
            })
        })
    }

    pub fn as_mut(&mut self) -> &mut dyn Write {
        match self {
            Self::Keyed(writer) => &mut **writer,
            Self::Sequence(writer) => &mut **writer,
        }
    }

    pub fn into_writer(self) -> Box<dyn Write> {
        match self {
            Self::Keyed(writer) => writer,
            Self::Sequence(writer) => writer,
        }
    }
}

impl AnyReader {
    pub fn open(session: &BlockingSession, name: &str, types: Types) -> Result<Self, Error> {
        opening(types, || {
            Ok(match types.kind {
                Kind::BTree => Self::Ordered(Box::new(session.reader::<shapes::BTree>(name)?)),
                Kind::HashTable => {
                    Self::Unordered(Box::new(session.reader::<shapes::HashTable>(name)?))
                }
                Kind::MvBTree => Self::Ordered(Box::new(session.reader::<shapes::MvBTree>(name)?)),
                Kind::Queue => Self::Sequence(Box::new(session.reader::<shapes::Queue>(name)?)),
                Kind::Stack => Self::Sequence(Box::new(session.reader::<shapes::Stack>(name)?)),
            })
        })
    }

    /// A reader of a multi-version structure as it was when the snapshot was taken.
    pub fn then(snapshot: &BlockingSnapshot, structure: &str, types: Types) -> Result<Self, Error> {
        let reader = opening(types, || snapshot.reader::<shapes::MvBTree>(structure))?;
        Ok(Self::Ordered(Box::new(reader)))
    }

    /// The reader of a structure with keys, or nothing.
    pub fn keyed(&mut self) -> Option<&mut dyn ReadKeyed> {
        match self {
            Self::Ordered(reader) => Some(&mut **reader),
            Self::Unordered(reader) => Some(&mut **reader),
            Self::Sequence(_) => None,
        }
    }
}
