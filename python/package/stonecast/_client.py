"""The blocking client."""

from __future__ import annotations

from typing import (
    Any,
    Iterable,
    Iterator,
    List,
    Mapping,
    MutableMapping,
    Optional,
    Tuple,
    Type,
    TypeVar,
    Union,
    ItemsView,
    KeysView,
    ValuesView,
    overload,
)
from types import TracebackType

from . import _native
from ._native import Entry, Record
from .errors import Error, MultiPutError

Octets = Union[bytes, bytearray, memoryview, str]
"""A key or a value. Text is stored as UTF-8; reads return bytes."""

T = TypeVar("T")
_ABSENT: Any = object()


class Client(_native.Client, MutableMapping[Any, bytes]):
    """A client whose calls wait for their answers. Any thread may use it: each thread has a connection of its own.

    It is also a mapping from keys to values. Each call of the mapping is one atomic operation of the store, but for ``update``, ``clear`` and iterations,
    which are as many operations as there are keys.
    """

    def scan(self, prefix: Octets = b"") -> Iterator[Record]:
        """All records whose keys begin with ``prefix``, in the order in which their versions were written.

        The scan is no snapshot: a key that is written or deleted meanwhile may or may not be found. It holds 24 bytes for each key, reads all keys, and belongs to
        the thread that began it.
        """
        start = prefix.encode() if isinstance(prefix, str) else bytes(prefix)
        return (record for record in self.entries() if record.key.startswith(start))

    def multi_put(
        self, pairs: Union[Mapping[Any, Octets], Iterable[Tuple[Octets, Octets]]]
    ) -> List[int]:
        """Stores all pairs, in flight together, and returns the version of each pair. Each pair is a separate put.

        Raises :class:`MultiPutError`, whose ``outcomes`` tell what became of each pair, if any of them was not stored.
        """
        return raise_partly(super().multi_put(pairs))

    def __iter__(self) -> Iterator[bytes]:
        return (record.key for record in self.entries())

    def keys(self) -> KeysView[bytes]:
        return KeysView(self)

    def items(self) -> ItemsView[bytes, bytes]:
        return _Items(self)

    def values(self) -> ValuesView[bytes]:
        return _Values(self)

    @overload
    def pop(self, key: Octets) -> bytes: ...
    @overload
    def pop(self, key: Octets, default: Union[bytes, T]) -> Union[bytes, T]: ...
    def pop(self, key: Octets, default: Any = _ABSENT) -> Any:
        """Removes ``key`` and returns the value that the key had at the moment of the removal."""
        while True:
            entry = self.get_entry(key)
            if entry is None:
                if default is _ABSENT:
                    raise KeyError(key)
                return default
            if self.delete_if(key, version=entry.version):
                return entry.value

    def popitem(self) -> Tuple[bytes, bytes]:
        for record in self.entries():
            if self.delete_if(record.key, version=record.version):
                return record.key, record.value
        raise KeyError("the store is empty")

    def setdefault(self, key: Octets, default: Octets = b"") -> bytes:
        """The value of ``key``, which becomes ``default`` if the key is absent."""
        while True:
            found = self.get(key)
            if found is not None:
                return found
            if self.put_if(key, default, absent=True):
                return default.encode() if isinstance(default, str) else bytes(default)

    def update(self, other: Any = (), /, **pairs: Octets) -> None:
        """Stores all pairs, as ``multi_put`` does."""
        if other:
            self.multi_put(other)
        if pairs:
            self.multi_put(pairs)

    def clear(self) -> None:
        """Deletes every key that is found, one by one."""
        for key in list(self):
            self.delete(key)

    def __bool__(self) -> bool:
        """Always true: an empty store does not make a client false."""
        return True

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<stonecast.Client of {self.url}{' (closed)' if self.closed else ''}>"


class _Items(ItemsView[bytes, bytes]):
    """Records as pairs, without a read for each record."""

    _mapping: Client

    def __iter__(self) -> Iterator[Tuple[bytes, bytes]]:
        return ((record.key, record.value) for record in self._mapping.entries())


class _Values(ValuesView[bytes]):
    _mapping: Client

    def __iter__(self) -> Iterator[bytes]:
        return (record.value for record in self._mapping.entries())


def raise_partly(outcomes: List[Union[int, Error]]) -> List[int]:
    """The versions of all pairs of a ``multi_put``; an exception if any of the pairs was not stored."""
    versions = [outcome for outcome in outcomes if isinstance(outcome, int)]
    if len(versions) < len(outcomes):
        raise MultiPutError(outcomes)
    return versions
