//! The types of keys and values, as values: programs in Python name them when they open a structure.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString, PyTuple};
use stonecast::structures::{BTree, HashTable, Key, MvBTree, Queue, Shape, Stack, Value};
use stonecast_structures::Key as Codec;
use stonecast_structures::shapes::Description;

use crate::octets::Octets;

/// A type of keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    I64,
    U64,
    Text,
    Bytes,
}

/// The kinds of structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    BTree,
    HashTable,
    MvBTree,
    Queue,
    Stack,
}

/// The type of a structure.
#[derive(Clone, Copy, Debug)]
pub struct Types {
    pub kind: Kind,
    /// One or two parts of a key; none for sequences.
    key: (Option<Scalar>, Option<Scalar>),
    value: Scalar,
}

/// Calls `$call` with the type of a scalar.
macro_rules! with_type {
    ($scalar:expr, $name:ident => $call:expr) => {
        match $scalar {
            Scalar::I64 => {
                type $name = i64;
                $call
            }
            Scalar::U64 => {
                type $name = u64;
                $call
            }
            Scalar::Text => {
                type $name = String;
                $call
            }
            Scalar::Bytes => {
                type $name = Vec<u8>;
                $call
            }
        }
    };
}

impl Scalar {
    fn named(name: &str) -> PyResult<Self> {
        match name {
            "i64" => Ok(Self::I64),
            "u64" => Ok(Self::U64),
            "text" => Ok(Self::Text),
            "bytes" => Ok(Self::Bytes),
            _ => Err(PyValueError::new_err(format!("there is no type {name:?}"))),
        }
    }

    fn encode_key(self, object: &Bound<'_, PyAny>, into: &mut Vec<u8>) -> PyResult<()> {
        match self {
            Self::I64 => Codec::encode(&object.extract::<i64>()?, into),
            Self::U64 => Codec::encode(&object.extract::<u64>()?, into),
            Self::Text => Codec::encode(&object.extract::<String>()?, into),
            Self::Bytes => Codec::encode(&object.extract::<Octets<'_>>()?.into_vec(), into),
        }
        Ok(())
    }

    /// Takes a key from the start of `bytes`.
    fn decode_key<'py>(self, py: Python<'py>, bytes: &mut &[u8]) -> Option<Bound<'py, PyAny>> {
        match self {
            Self::I64 => Codec::decode(bytes).map(|number: i64| int(py, number)),
            Self::U64 => Codec::decode(bytes).map(|number: u64| int(py, number)),
            Self::Text => {
                Codec::decode(bytes).map(|text: String| PyString::new(py, &text).into_any())
            }
            Self::Bytes => {
                Codec::decode(bytes).map(|key: Vec<u8>| PyBytes::new(py, &key).into_any())
            }
        }
    }

    fn encode_value(self, object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        Ok(match self {
            Self::I64 => Value::encode(&object.extract::<i64>()?).into_owned(),
            Self::U64 => Value::encode(&object.extract::<u64>()?).into_owned(),
            Self::Text => object.extract::<String>()?.into_bytes(),
            Self::Bytes => object.extract::<Octets<'_>>()?.into_vec(),
        })
    }

    fn decode_value<'py>(self, py: Python<'py>, bytes: &[u8]) -> Option<Bound<'py, PyAny>> {
        match self {
            Self::I64 => <i64 as Value>::decode(bytes).map(|number| int(py, number)),
            Self::U64 => <u64 as Value>::decode(bytes).map(|number| int(py, number)),
            Self::Text => {
                let text = <String as Value>::decode(bytes);
                text.map(|text| PyString::new(py, &text).into_any())
            }
            Self::Bytes => Some(PyBytes::new(py, bytes).into_any()),
        }
    }
}

impl Types {
    /// The type of a structure of this kind, with the parts of its keys, and its values.
    pub fn named(kind: &str, key: &[String], value: &str) -> PyResult<Self> {
        let kind = match kind {
            "b-tree" => Kind::BTree,
            "hash-table" => Kind::HashTable,
            "mv-b-tree" => Kind::MvBTree,
            "queue" => Kind::Queue,
            "stack" => Kind::Stack,
            _ => return Err(PyValueError::new_err(format!("there is no kind {kind:?}"))),
        };
        let part = |index: usize| key.get(index).map(|name| Scalar::named(name)).transpose();
        let (key, value) = ((part(0)?, part(1)?), Scalar::named(value)?);
        Ok(Self { kind, key, value })
    }

    /// The description that the library's own types give of a structure of this type, and the type in words.
    pub fn described(self) -> (Description, String) {
        let Self { kind, key, value } = self;
        with_type!(value, V => match key {
            (Some(first), None) => with_type!(first, K => keyed::<K, V>(kind)),
            (Some(first), Some(second)) => with_type!(first, A => with_type!(second, B => keyed::<(A, B), V>(kind))),
            (None, _) => match kind {
                Kind::Stack => of::<Stack<V>>(),
                _ => of::<Queue<V>>(),
            },
        })
    }

    /// The bytes of a key. Keys of two parts are pairs.
    pub fn encode_key(self, object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        let mut bytes = Vec::new();
        match self.key {
            (Some(first), Some(second)) => {
                let pair: (Bound<'_, PyAny>, Bound<'_, PyAny>) = object.extract()?;
                first.encode_key(&pair.0, &mut bytes)?;
                second.encode_key(&pair.1, &mut bytes)?;
            }
            (first, _) => first
                .unwrap_or(Scalar::Bytes)
                .encode_key(object, &mut bytes)?,
        }
        Ok(bytes)
    }

    pub fn decode_key<'py>(self, py: Python<'py>, mut bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let mut parts = Vec::new();
        for scalar in [self.key.0, self.key.1].into_iter().flatten() {
            let part = scalar.decode_key(py, &mut bytes);
            parts.push(part.ok_or_else(|| undecodable("key"))?);
        }
        match (parts.len(), parts.pop()) {
            (1, Some(part)) => Ok(part),
            (_, Some(last)) => {
                parts.push(last);
                Ok(PyTuple::new(py, parts)?.into_any())
            }
            (_, None) => Err(undecodable("key")),
        }
    }

    pub fn encode_value(self, object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        self.value.encode_value(object)
    }

    pub fn decode_value<'py>(self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let value = self.value.decode_value(py, bytes);
        value.ok_or_else(|| undecodable("value"))
    }
}

fn keyed<K: Key, V: Value>(kind: Kind) -> (Description, String) {
    match kind {
        Kind::HashTable => of::<HashTable<K, V>>(),
        Kind::MvBTree => of::<MvBTree<K, V>>(),
        _ => of::<BTree<K, V>>(),
    }
}

fn of<S: Shape>() -> (Description, String) {
    (S::description(), S::words())
}

fn int<'py, N>(py: Python<'py>, number: N) -> Bound<'py, PyAny>
where
    N: IntoPyObject<
            'py,
            Target = PyInt,
            Output = Bound<'py, PyInt>,
            Error = std::convert::Infallible,
        >,
{
    PyInt::new(py, number).into_any()
}

fn undecodable(what: &str) -> PyErr {
    PyValueError::new_err(format!(
        "the structure holds a {what} that is not of its type"
    ))
}
