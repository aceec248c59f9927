//! The types of structures, keys and values.

use std::borrow::Cow;
use std::marker::PhantomData;

use stonecast_base::hash::xxh3_64;
use stonecast_structures::Key as Codec;
use stonecast_structures::shapes::{Description, KEY_SIZE_MAX, StructureKind};

/// Bytes of the longest encoded text.
const TEXT_SIZE_MAX: usize = 96;
/// Bytes of a typical value of variable size.
const TEXT_SIZE: usize = 64;

/// A type whose values are keys: numbers, texts, bytes, and tuples of up to three of them. Encoded keys compare as the
/// keys do.
///
/// An encoded text has two bytes more than the text, and one more for each zero byte. It has at most 96 bytes.
pub trait Key: Codec {
    /// Bytes of the longest encoded key.
    const SIZE_MAX: usize;

    /// Appends the name of the type, by which a structure knows its keys.
    fn schema(into: &mut String);
}

macro_rules! numbers {
    ($($number:ident)+) => {
        $(
            impl Key for $number {
                const SIZE_MAX: usize = size_of::<$number>();

                fn schema(into: &mut String) {
                    into.push_str(stringify!($number));
                }
            }

            impl Value for $number {
                const SIZE: usize = size_of::<$number>();

                fn schema(into: &mut String) {
                    into.push_str(stringify!($number));
                }

                fn encode(&self) -> Cow<'_, [u8]> {
                    Cow::Owned(self.to_le_bytes().to_vec())
                }

                fn decode(bytes: &[u8]) -> Option<Self> {
                    Some(Self::from_le_bytes(bytes.try_into().ok()?))
                }
            }
        )+
    };
}

impl Key for String {
    const SIZE_MAX: usize = TEXT_SIZE_MAX;

    fn schema(into: &mut String) {
        into.push_str("text");
    }
}

impl Key for Vec<u8> {
    const SIZE_MAX: usize = TEXT_SIZE_MAX;

    fn schema(into: &mut String) {
        into.push_str("bytes");
    }
}

const fn at_most_longest(size: usize) -> usize {
    match size > KEY_SIZE_MAX {
        true => KEY_SIZE_MAX,
        false => size,
    }
}

impl<A: Key, B: Key> Key for (A, B) {
    const SIZE_MAX: usize = at_most_longest(A::SIZE_MAX + B::SIZE_MAX);

    fn schema(into: &mut String) {
        into.push('(');
        A::schema(into);
        into.push(' ');
        B::schema(into);
        into.push(')');
    }
}

impl<A: Key, B: Key, C: Key> Key for (A, B, C) {
    const SIZE_MAX: usize = at_most_longest(A::SIZE_MAX + B::SIZE_MAX + C::SIZE_MAX);

    fn schema(into: &mut String) {
        into.push('(');
        A::schema(into);
        into.push(' ');
        B::schema(into);
        into.push(' ');
        C::schema(into);
        into.push(')');
    }
}

/// A type whose values structures hold: numbers, texts, bytes up to 1 MiB, and types of a fixed size by
/// [`fixed_value`](crate::fixed_value).
pub trait Value: Sized {
    /// Bytes of a typical value.
    const SIZE: usize;

    /// Appends the name of the type, by which a structure knows its values.
    fn schema(into: &mut String);

    /// The bytes of the value.
    fn encode(&self) -> Cow<'_, [u8]>;

    /// The value that the bytes encode; `None`: the bytes encode no value of this type.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

numbers! { u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 }

impl Value for Vec<u8> {
    const SIZE: usize = TEXT_SIZE;

    fn schema(into: &mut String) {
        into.push_str("bytes");
    }

    fn encode(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
}

impl Value for String {
    const SIZE: usize = TEXT_SIZE;

    fn schema(into: &mut String) {
        into.push_str("text");
    }

    fn encode(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.as_bytes())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::from_utf8(bytes.to_vec()).ok()
    }
}

/// Lets structures hold values of types of a fixed size, whose bytes are their memory:
/// [`IntoBytes`](zerocopy::IntoBytes), [`FromBytes`](zerocopy::FromBytes) and [`Immutable`](zerocopy::Immutable) of
/// `zerocopy`. A structure knows them by name and size, and by words about the layout, if there are any: give other
/// words to a layout that changes, since a program with other fields of the same size would read wrong values.
///
/// ```
/// use zerocopy::{FromBytes, Immutable, IntoBytes, little_endian::U64};
///
/// #[derive(Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
/// #[repr(C)]
/// struct Order {
///     article: U64,
///     count: U64,
/// }
/// stonecast::fixed_value!(Order);
///
/// #[derive(Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
/// #[repr(C)]
/// struct Parcel {
///     grams: U64,
///     order: U64,
/// }
/// stonecast::fixed_value!(Parcel as "grams, order");
/// ```
#[macro_export]
macro_rules! fixed_value {
    ($($name:ident $(as $layout:literal)?),+ $(,)?) => {
        $(impl $crate::structures::Value for $name {
            const SIZE: usize = ::core::mem::size_of::<$name>();

            fn schema(into: &mut ::std::string::String) {
                into.push_str(::core::concat!("fixed ", ::core::stringify!($name), " "));
                into.push_str(&<Self as $crate::structures::Value>::SIZE.to_string());
                $(into.push_str(::core::concat!(" as ", $layout));)?
            }

            fn encode(&self) -> ::std::borrow::Cow<'_, [u8]> {
                ::std::borrow::Cow::Borrowed($crate::structures::zerocopy::IntoBytes::as_bytes(self))
            }

            fn decode(bytes: &[u8]) -> ::core::option::Option<Self> {
                $crate::structures::zerocopy::FromBytes::read_from_bytes(bytes).ok()
            }
        })+
    };
}

/// A kind of structure, with the types of its keys and values.
///
/// ```
/// use stonecast::structures::{MvBTree, Queue, Shape};
///
/// /// Whether a snapshot answers look-ups of keys.
/// fn answers_look_ups_of_one_version<S: Shape>() -> bool {
///     S::KIND.has_keys() && S::KIND.is_versioned()
/// }
///
/// assert!(answers_look_ups_of_one_version::<MvBTree<u64, String>>());
/// assert!(!answers_look_ups_of_one_version::<Queue<String>>());
/// ```
pub trait Shape {
    /// The type of the values.
    type Value: Value;
    /// The kind.
    const KIND: StructureKind;
    /// Bytes of the longest encoded key; 0: no keys.
    const KEY_SIZE_MAX: usize;

    /// The types of keys and values, in words.
    fn schema() -> String;

    /// The description of a structure of this type.
    fn description() -> Description {
        Description {
            kind: Self::KIND,
            key_size_max: Self::KEY_SIZE_MAX as u16,
            value_size: Self::Value::SIZE as u32,
            schema: xxh3_64(0, Self::schema().as_bytes()),
        }
    }

    /// The type in words.
    fn words() -> String {
        let kind = kind_in_words(Self::KIND);
        format!("{kind} of {}", Self::schema())
    }
}

/// A structure with keys.
pub trait Keyed: Shape {
    /// The type of the keys.
    type Key: Key;
}

/// A structure whose keys have an order.
pub trait Ordered: Keyed {}

/// A structure whose versions a [`Snapshot`](super::Snapshot) reads.
pub trait Versioned: Keyed {}

/// A key with its value, of a structure of type `S`.
pub type Entry<S> = (<S as Keyed>::Key, <S as Shape>::Value);

/// A structure that values are put into and taken from, one after the other.
pub trait Sequence: Shape {}

/// A kind of structure, in words.
pub(crate) fn kind_in_words(kind: StructureKind) -> &'static str {
    match kind {
        StructureKind::Stack => "a stack",
        StructureKind::Queue => "a queue",
        StructureKind::HashTable => "a hash table",
        StructureKind::BTree => "a B+tree",
        StructureKind::MvBTree => "a multi-version B+tree",
        StructureKind::SkipList => "a skip list",
        StructureKind::Bst => "a binary search tree",
        StructureKind::MvBst => "a multi-version binary search tree",
        StructureKind::Cursor => "a cursor",
    }
}

macro_rules! keyed {
    ($($(#[doc = $what:literal])+ $name:ident,)+) => {
        $(
            $(#[doc = $what])+
            pub struct $name<K, V>(PhantomData<(K, V)>);

            impl<K: Key, V: Value> Shape for $name<K, V> {
                type Value = V;
                const KIND: StructureKind = StructureKind::$name;
                const KEY_SIZE_MAX: usize = K::SIZE_MAX;

                fn schema() -> String {
                    let mut schema = String::new();
                    K::schema(&mut schema);
                    schema.push_str(" to ");
                    V::schema(&mut schema);
                    schema
                }
            }

            impl<K: Key, V: Value> Keyed for $name<K, V> {
                type Key = K;
            }
        )+
    };
}

keyed! {
    /// A B+tree: entries in the order of their keys. One READ finds the value of a key if the inner nodes are cached.
    BTree,
    /// A hash table: entries in no order. Two READs find the value of a key if the directory is cached.
    HashTable,
    /// A multi-version B+tree: a B+tree whose nodes never change. Everything that one call reads is of one version.
    MvBTree,
    /// A skip list: entries in the order of their keys. A look-up reads the way along the list, about 25 towers for a
    /// million keys. The structure serves comparisons; a program should use a B+tree.
    SkipList,
    /// A binary search tree: entries in the order of their keys. A look-up reads the way from the root, about 30 nodes
    /// for a million keys. The structure serves comparisons; a program should use a B+tree.
    Bst,
    /// A multi-version binary search tree: nodes never change. Everything that one call reads is of one version. The
    /// structure serves comparisons.
    MvBst,
}

impl<K: Key, V: Value> Ordered for BTree<K, V> {}
impl<K: Key, V: Value> Ordered for MvBTree<K, V> {}
impl<K: Key, V: Value> Ordered for SkipList<K, V> {}
impl<K: Key, V: Value> Ordered for Bst<K, V> {}
impl<K: Key, V: Value> Ordered for MvBst<K, V> {}

impl<K: Key, V: Value> Versioned for MvBTree<K, V> {}
impl<K: Key, V: Value> Versioned for MvBst<K, V> {}

/// The place of a [`Consumer`](super::Consumer) in a queue with values of type `V`, and the jobs that are taken and not
/// done.
pub struct Cursor<V>(PhantomData<V>);

impl<V: Value> Shape for Cursor<V> {
    type Value = V;
    const KIND: StructureKind = StructureKind::Cursor;
    const KEY_SIZE_MAX: usize = 0;

    fn schema() -> String {
        let mut schema = String::new();
        V::schema(&mut schema);
        schema
    }
}

macro_rules! sequences {
    ($($(#[doc = $what:literal])+ $name:ident,)+) => {
        $(
            $(#[doc = $what])+
            pub struct $name<V>(PhantomData<V>);

            impl<V: Value> Shape for $name<V> {
                type Value = V;
                const KIND: StructureKind = StructureKind::$name;
                const KEY_SIZE_MAX: usize = 0;

                fn schema() -> String {
                    let mut schema = String::new();
                    V::schema(&mut schema);
                    schema
                }
            }

            impl<V: Value> Sequence for $name<V> {}
        )+
    };
}

sequences! {
    /// A stack: the value that was put in last comes out first.
    Stack,
    /// A queue: the value that was put in first comes out first.
    Queue,
}
