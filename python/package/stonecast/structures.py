"""Durable data structures in the memory of a back-end: one writer, any number of readers in any process.

>>> from stonecast import structures
>>> session = structures.connect("shm:./stonecast-data/structures")  # doctest: +SKIP
>>> orders = session.writer("orders", structures.BTree[int, str])  # doctest: +SKIP
>>> orders[7] = "two pins"  # durable and visible  # doctest: +SKIP
>>> seen = session.reader("orders", structures.BTree[int, str])  # doctest: +SKIP
>>> list(seen.range(5, 9))  # doctest: +SKIP
[(7, 'two pins')]

The type of a structure is part of it, and programs in Rust know it by the same names:

====================  =====================================
``int``               ``i64``
:data:`U64`           ``u64``
``str``               ``String``, as a key up to 94 bytes
``bytes``             ``Vec<u8>``, as a key up to 94 bytes
``Tuple[A, B]``       ``(A, B)``, for keys
====================  =====================================

A session, its writers and its readers belong to the thread that opened the session.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import (
    Annotated,
    Any,
    Generic,
    Iterable,
    Iterator,
    List,
    Optional,
    Tuple,
    Type,
    TypeVar,
    get_args,
    get_origin,
    overload,
)

from . import _native
from .errors import HeldError

__all__ = [
    "U64",
    "BTree",
    "HashTable",
    "KeyedReader",
    "KeyedWriter",
    "MvBTree",
    "OrderedReader",
    "Queue",
    "SequenceReader",
    "SequenceWriter",
    "Server",
    "Session",
    "Snapshot",
    "Stack",
    "connect",
]

K = TypeVar("K")
V = TypeVar("V")

U64 = Annotated[int, "u64"]
"""Numbers from 0 to 2**64 - 1: the ``u64`` of programs in Rust."""


class BTree(Generic[K, V]):
    """The type of a B+tree: entries in the order of their keys."""


class HashTable(Generic[K, V]):
    """The type of a hash table: entries in no order."""


class MvBTree(Generic[K, V]):
    """The type of a multi-version B+tree: everything that one call reads is of one version, and snapshots show it."""


class Queue(Generic[V]):
    """The type of a queue: the value that was put in first comes out first."""


class Stack(Generic[V]):
    """The type of a stack: the value that was put in last comes out first."""


_KINDS = {
    BTree: "b-tree",
    HashTable: "hash-table",
    MvBTree: "mv-b-tree",
    Queue: "queue",
    Stack: "stack",
}
_SCALARS = {int: "i64", str: "text", bytes: "bytes"}


def connect(url: str) -> Session:
    """Connects to the back-end at ``url``, which ``stonecast serve --structures DIR`` or :class:`Server` runs."""
    return Session(_native.Session(url))


class Session:
    """A connection to a back-end."""

    def __init__(self, native: _native.Session) -> None:
        self._native = native

    @overload
    def writer(
        self, name: str, shape: Type[BTree[K, V]], *, within: float = 0
    ) -> KeyedWriter[K, V]: ...
    @overload
    def writer(
        self, name: str, shape: Type[HashTable[K, V]], *, within: float = 0
    ) -> KeyedWriter[K, V]: ...
    @overload
    def writer(
        self, name: str, shape: Type[MvBTree[K, V]], *, within: float = 0
    ) -> KeyedWriter[K, V]: ...
    @overload
    def writer(
        self, name: str, shape: Type[Queue[V]], *, within: float = 0
    ) -> SequenceWriter[V]: ...
    @overload
    def writer(
        self, name: str, shape: Type[Stack[V]], *, within: float = 0
    ) -> SequenceWriter[V]: ...
    def writer(self, name: str, shape: Any, *, within: float = 0) -> Any:
        """Becomes the writer of the structure ``name``, which is made if it does not exist.

        A name with a slash names the lock domain, too: ``shop/orders`` and ``shop/stock`` have one writer. Waits for ``within`` seconds while another front-end
        writes the lock domain, and then raises :class:`~stonecast.errors.HeldError`.
        """
        types = _types(shape)
        end = time.monotonic() + within
        while True:
            try:
                native = self._native.writer(name, *types)
                break
            except HeldError:
                if time.monotonic() >= end:
                    raise
                time.sleep(0.001)
        is_keyed = bool(types[1])
        return KeyedWriter(native) if is_keyed else SequenceWriter(native)

    @overload
    def reader(self, name: str, shape: Type[BTree[K, V]]) -> OrderedReader[K, V]: ...
    @overload
    def reader(self, name: str, shape: Type[HashTable[K, V]]) -> KeyedReader[K, V]: ...
    @overload
    def reader(self, name: str, shape: Type[MvBTree[K, V]]) -> OrderedReader[K, V]: ...
    @overload
    def reader(self, name: str, shape: Type[Queue[V]]) -> SequenceReader[V]: ...
    @overload
    def reader(self, name: str, shape: Type[Stack[V]]) -> SequenceReader[V]: ...
    def reader(self, name: str, shape: Any) -> Any:
        """A reader of the structure ``name``, which uses no processor of the back-end."""
        types = _types(shape)
        native = self._native.reader(name, *types)
        if not types[1]:
            return SequenceReader(native)
        return KeyedReader(native) if types[0] == "hash-table" else OrderedReader(native)

    def snapshot(self, domain: str) -> Snapshot:
        """The multi-version structures of a lock domain as they are at this moment."""
        return Snapshot(self._native.snapshot(domain))

    def list(self) -> List[Tuple[str, str]]:
        """The names of all structures, each with its kind in words."""
        return self._native.list()

    def close(self) -> None:
        """Ends the session. Its writers and readers keep the connection until they are closed."""
        self._native.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()


class Snapshot:
    """The multi-version structures of a lock domain as they were at one moment.

    It keeps nothing: reads fail with :class:`~stonecast.errors.TooOldError` once the memory of its versions is used again.
    """

    def __init__(self, native: _native.Snapshot) -> None:
        self._native = native

    def reader(self, structure: str, shape: Type[MvBTree[K, V]]) -> OrderedReader[K, V]:
        """A reader of a structure of the lock domain, by its own name: ``accounts``, and not ``bank/accounts``."""
        return OrderedReader(self._native.reader(structure, *_types(shape)))


class _Writer:
    """The calls of writers of all kinds."""

    def __init__(self, native: _native.Writer) -> None:
        self._native = native

    def publish(self) -> None:
        """Makes everything staged durable, and visible to all readers."""
        self._native.publish()

    def flush(self) -> None:
        """Makes everything staged durable."""
        self._native.flush()

    def renew(self) -> None:
        """Tells the back-end that this writer lives. A writer that is silent for longer than its lease loses its tenure."""
        self._native.renew()

    def clear(self) -> None:
        """Makes the structure empty."""
        self._native.clear()

    def rename(self, structure: str) -> None:
        """Gives the structure another name in its lock domain."""
        self._native.rename(structure)

    def destroy(self) -> None:
        """Ends the structure, and gives the tenure back."""
        self._native.destroy()

    def release(self) -> None:
        """Gives the tenure back. Another front-end may write the structure."""
        self._native.release()

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.release()


class KeyedWriter(_Writer, Generic[K, V]):
    """The writer of a structure with keys. Every update except :meth:`stage` is durable and visible when the call returns."""

    def insert(self, key: K, value: V) -> bool:
        """Gives ``key`` a value. Returns whether ``key`` had one before."""
        return self._native.insert(key, value)

    def insert_if_absent(self, key: K, value: V) -> bool:
        """Gives ``key`` a value if it has none. Returns whether ``key`` had one."""
        return self._native.insert_if_absent(key, value)

    def update(self, key: K, value: V) -> bool:
        """Gives ``key`` another value if it has one. Returns whether ``key`` had one."""
        return self._native.update(key, value)

    def compare_and_update(self, key: K, expected: V, new: V) -> bool:
        """Gives ``key`` the value ``new`` if it has the value ``expected``. Returns whether ``key`` had ``expected``."""
        return self._native.compare_and_update(key, expected, new)

    def remove(self, key: K) -> bool:
        """Removes ``key``. Returns whether ``key`` had a value."""
        return self._native.remove(key)

    def stage(self, key: K, value: V) -> None:
        """Gives ``key`` a value, durable after :meth:`flush` and visible after :meth:`publish`."""
        self._native.stage(key, value)

    def get(self, key: K) -> Optional[V]:
        """The value of ``key`` with everything staged, which is made durable first."""
        value: Optional[V] = self._native.get(key)
        return value

    def __setitem__(self, key: K, value: V) -> None:
        self._native.insert(key, value)

    def __delitem__(self, key: K) -> None:
        if not self._native.remove(key):
            raise KeyError(key)

    def __enter__(self) -> KeyedWriter[K, V]:
        return self


class SequenceWriter(_Writer, Generic[V]):
    """The writer of a queue or stack."""

    def push(self, value: V) -> None:
        """Puts a value in."""
        self._native.push(value)

    def pop(self) -> Optional[V]:
        """Takes the value that comes next; ``None``: there is none. It is gone for everybody when the call returns."""
        value: Optional[V] = self._native.pop()
        return value

    def __enter__(self) -> SequenceWriter[V]:
        return self


class KeyedReader(Generic[K, V]):
    """A reader of a structure with keys."""

    def __init__(self, native: _native.Reader) -> None:
        self._native = native

    def get(self, key: K) -> Optional[V]:
        """The value of ``key``; ``None``: it has none."""
        value: Optional[V] = self._native.get(key)
        return value

    def get_many(self, keys: Iterable[K]) -> List[Optional[V]]:
        """The values of several keys, looked up together."""
        return self._native.get_many(keys)

    def entries(self) -> List[Tuple[K, V]]:
        """All entries, as they were at one moment."""
        return self._native.entries()

    def close(self) -> None:
        """Ends the reader."""
        self._native.close()

    def __getitem__(self, key: K) -> V:
        value: Optional[V] = self._native.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: K) -> bool:
        return self._native.get(key) is not None


class OrderedReader(KeyedReader[K, V]):
    """A reader of a structure whose keys have an order."""

    def range(
        self, first: Optional[K] = None, end: Optional[K] = None
    ) -> Iterator[Tuple[K, V]]:
        """The entries from ``first`` to before ``end``, by key. Entries are read a few hundred at a time."""
        return self._pages(self._native.range(first, end, False))

    def reversed(
        self, first: Optional[K] = None, end: Optional[K] = None
    ) -> Iterator[Tuple[K, V]]:
        """The same entries from the end to the start."""
        return self._pages(self._native.range(first, end, True))

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self.range())

    def __reversed__(self) -> Iterator[K]:
        return (key for key, _ in self.reversed())

    def _pages(self, page: _native.Page) -> Iterator[Tuple[K, V]]:
        while True:
            entries, page = self._native.page(page)
            if not entries:
                return
            yield from entries


class SequenceReader(Generic[V]):
    """A reader of a queue or stack."""

    def __init__(self, native: _native.Reader) -> None:
        self._native = native

    def peek(self) -> Optional[V]:
        """The value that comes next; ``None``: there is none."""
        value: Optional[V] = self._native.peek()
        return value

    def values(self) -> List[V]:
        """All values, in the order in which they come out, as they were at one moment."""
        return self._native.values()

    def close(self) -> None:
        """Ends the reader."""
        self._native.close()


class Server(_native.StructureServer):
    """A back-end of the pool in the folder ``data``, in a thread of its own, until it is closed."""

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()


def _types(shape: Any) -> Tuple[str, List[str], str]:
    """The kind of a structure, and the names of the types of its keys and values."""
    kind = _KINDS.get(get_origin(shape) or shape)
    arguments = get_args(shape)
    if kind is None or not arguments:
        raise TypeError(
            f"a structure has a type such as BTree[int, str] or Queue[bytes], not {shape!r}"
        )
    *key, value = arguments
    if key and get_origin(key[0]) is tuple:
        key = list(get_args(key[0]))
        if len(key) != 2:
            raise TypeError("a key is one value, or a pair")
    return kind, [_scalar(part) for part in key], _scalar(value)


def _scalar(kind: Any) -> str:
    if kind is U64:
        return "u64"
    name = _SCALARS.get(kind) if isinstance(kind, type) else None
    if name is None:
        raise TypeError(
            f"keys and values are int, structures.U64, str or bytes, not {kind!r}"
        )
    return name
