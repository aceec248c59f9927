"""A client for asyncio.

>>> import asyncio, stonecast.aio
>>> async def main():
...     async with await stonecast.aio.connect("shm:./stonecast-data/socket") as client:
...         await client.put("greeting", "hello")
...         return await client.get("greeting")
>>> asyncio.run(main())  # doctest: +SKIP
b'hello'

A thread of its own drives the connection, and hands results to the loop through a file descriptor that the loop watches: neither thread waits for the other,
and one wake-up of the loop brings all results that are there. A client belongs to the loop in which it was connected. Operations of all tasks are in flight
together.

A task that is cancelled ends at once. A read is then forgotten. A write that was sent takes its course, and the exception says so: see
:class:`WriteCancelled`.
"""

from __future__ import annotations

import asyncio
import os
from datetime import datetime, timedelta
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Iterable,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from . import _native
from ._client import Octets, raise_partly
from ._native import Applied, Batch, Entry, Record, Stat, Token, Written
from .errors import ClosedError, Effect, UsageError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Options

__all__ = ["Client", "WriteCancelled", "connect"]

T = TypeVar("T")


class WriteCancelled(asyncio.CancelledError):
    """The task was cancelled in the middle of a write, whose outcome is unknown until ``outcome`` is done.

    ``await error.outcome`` gives what the write would have returned, or raises its error. ``asyncio.timeout`` and ``asyncio.wait_for`` have this exception as the
    cause of their ``TimeoutError`` from CPython 3.11 on. Before, only code inside the task sees it.
    """

    effect: Effect = Effect.UNKNOWN

    def __init__(self, outcome: asyncio.Future[Any]) -> None:
        super().__init__("the write takes its course; its outcome is unknown")
        self.outcome = outcome


async def connect(url: str, **options: Unpack[Options]) -> Client:
    """Connects to the server or cluster at ``url``. Options are those of :func:`stonecast.connect`."""
    loop = asyncio.get_running_loop()
    bridge = _native.Bridge(loop)
    loop.add_reader(bridge.fileno(), bridge.drain)
    try:
        return Client(loop, bridge, await bridge.connect(url, **options))
    except BaseException:
        loop.remove_reader(bridge.fileno())
        raise


class Client:
    """A client of the loop in which :func:`connect` made it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        bridge: _native.Bridge,
        native: _native.AsyncClient,
    ) -> None:
        self._loop = loop
        self._bridge = bridge
        self._native = native
        self._process = os.getpid()
        self._is_closed = False
        self._writes: Set[asyncio.Future[Any]] = set()

    async def get(self, key: Octets) -> Optional[bytes]:
        """The value of ``key``; ``None`` if the key is absent."""
        return await self._ready().get(key)

    async def get_entry(self, key: Octets) -> Optional[Entry]:
        """The value of ``key`` with its version; ``None`` if the key is absent."""
        return await self._ready().get_entry(key)

    async def put(
        self,
        key: Octets,
        value: Octets,
        *,
        expires_in: Union[None, float, timedelta] = None,
        expires_at: Union[None, float, datetime] = None,
        retryable: bool = False,
        token: Optional[Token] = None,
    ) -> int:
        """Stores ``value`` under ``key`` and returns its version. The value is durable and visible when the call returns.

        The key expires after ``expires_in``, or at ``expires_at``, by the server's time; see :meth:`stonecast.Client.put`.
        """
        sent = self._ready(token).put(
            key,
            value,
            expires_in=expires_in,
            expires_at=expires_at,
            retryable=retryable,
            token=token,
        )
        return await self._written(sent)

    async def put_if(
        self,
        key: Octets,
        value: Octets,
        *,
        version: Optional[int] = None,
        absent: bool = False,
        expires_in: Union[None, float, timedelta] = None,
        expires_at: Union[None, float, datetime] = None,
        retryable: bool = False,
        token: Optional[Token] = None,
    ) -> Written:
        """Stores ``value`` if the key has this version, or is absent, at the moment of the write."""
        sent = self._ready(token).put_if(
            key,
            value,
            version=version,
            absent=absent,
            expires_in=expires_in,
            expires_at=expires_at,
            retryable=retryable,
            token=token,
        )
        return await self._written(sent)

    async def delete(
        self, key: Octets, *, retryable: bool = False, token: Optional[Token] = None
    ) -> bool:
        """Removes ``key`` and returns whether the key was there."""
        return await self._written(
            self._ready(token).delete(key, retryable=retryable, token=token)
        )

    async def delete_if(
        self,
        key: Octets,
        *,
        version: int,
        retryable: bool = False,
        token: Optional[Token] = None,
    ) -> Written:
        """Removes ``key`` if it has this version at the moment of the write."""
        sent = self._ready(token).delete_if(
            key, version=version, retryable=retryable, token=token
        )
        return await self._written(sent)

    async def apply(
        self, batch: Batch, *, retryable: bool = False, token: Optional[Token] = None
    ) -> Applied:
        """Does all changes of ``batch``, durable as one, if all of its expectations hold, or nothing."""
        sent = self._ready(token).apply(batch, retryable=retryable, token=token)
        return await self._written(sent)

    async def multi_get(self, keys: Iterable[Octets]) -> List[Optional[Entry]]:
        """The values of ``keys``, in their order, all in flight together."""
        return await self._ready().multi_get(keys)

    async def multi_put(
        self, pairs: Union[Mapping[Any, Octets], Iterable[Tuple[Octets, Octets]]]
    ) -> List[int]:
        """Stores all pairs, in flight together; see :meth:`stonecast.Client.multi_put`."""
        return raise_partly(await self._written(self._ready().multi_put(pairs)))

    async def scan(self, prefix: Octets = b"") -> AsyncIterator[Record]:
        """All records whose keys begin with ``prefix``; see :meth:`stonecast.Client.scan`."""
        start = prefix.encode() if isinstance(prefix, str) else bytes(prefix)
        entries = await self._ready().entries()
        while True:
            batch = await self._ready().next_batch(entries)
            if not batch:
                return
            for record in batch:
                if record.key.startswith(start):
                    yield record

    async def stat(self) -> Stat:
        """The server's statistics."""
        return await self._ready().stat()

    async def settled(self) -> None:
        """Waits until every write has ended, including writes of cancelled tasks."""
        while self._writes:
            await asyncio.wait(set(self._writes))

    async def aclose(self) -> None:
        """Waits until every write has ended, and disconnects."""
        if self._is_closed:
            return
        await self.settled()
        self._is_closed = True
        self._native.close()
        self._loop.remove_reader(self._bridge.fileno())

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.aclose()

    def _ready(self, token: Optional[Token] = None) -> _native.AsyncClient:
        """The native client, if this call may use it. ``token`` names an earlier attempt, which may have taken effect."""
        effect = Effect.NONE if token is None else Effect.UNKNOWN
        if self._is_closed:
            raise ClosedError("the client is closed", effect, token)
        if asyncio.get_running_loop() is not self._loop:
            message = "a client belongs to the loop in which it was connected"
            raise UsageError(message, effect, token)
        if os.getpid() != self._process:
            message = "the client belongs to the process before the fork"
            raise UsageError(message, effect, token)
        return self._native

    async def _written(self, sent: asyncio.Future[T]) -> T:
        self._writes.add(sent)
        sent.add_done_callback(self._writes.discard)
        try:
            return await asyncio.shield(sent)
        except asyncio.CancelledError:
            raise WriteCancelled(sent) from None
