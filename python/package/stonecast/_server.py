"""Servers inside the program."""

from __future__ import annotations

from types import TracebackType
from typing import Optional, Type

from . import _native


class Server(_native.Server):
    """A server of the pool in the folder ``data``, in a thread of its own, until it is closed.

    A pool that does not exist is made. ``durability`` is ``"power"`` (the default of a new pool) or ``"process"``, ``capacity`` and ``segment_size`` are bytes.
    ``listen`` is an address, ``shm:DATA/socket`` by default.
    """

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<stonecast.Server at {self.url}>"
