"""A durable key-value store in remote memory, whose clients read it directly.

>>> import stonecast
>>> client = stonecast.connect("shm:./stonecast-data/socket")  # doctest: +SKIP
>>> client.put("greeting", "hello")  # doctest: +SKIP
1
>>> client["greeting"]  # doctest: +SKIP
b'hello'

An error tells what it means for the data: ``error.effect``. :mod:`stonecast.aio` has a client for asyncio, :mod:`stonecast.structures` durable data structures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._client import Client, Octets
from ._native import (
    BATCH_KEYS_MAX,
    BATCH_SIZE_MAX,
    KEY_SIZE_MAX,
    VALUE_SIZE_MAX,
    Applied,
    Batch,
    Entry,
    Record,
    Stat,
    Token,
    Written,
)
from ._server import Server
from .errors import Effect, Error

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Options

__all__ = [
    "BATCH_KEYS_MAX",
    "BATCH_SIZE_MAX",
    "KEY_SIZE_MAX",
    "VALUE_SIZE_MAX",
    "Applied",
    "Batch",
    "Client",
    "Effect",
    "Entry",
    "Error",
    "Octets",
    "Record",
    "Server",
    "Stat",
    "Token",
    "Written",
    "connect",
]


def connect(url: str, **options: Unpack[Options]) -> Client:
    """Connects to the server at ``url``, ``shm:PATH`` or ``verbs:HOST:PORT``, or to the cluster ``cluster:URL``.

    Options, each left to the library if it is not given:

    - ``connect_timeout``: seconds in which a server must accept the connection (10)
    - ``operation_timeout``: seconds of an operation, or ``None`` for no limit (60). The outcome of a write that exceeds it is unknown.
    - ``expect_durability``: ``"power"`` refuses a pool that survives only the end of processes
    - ``spin``: seconds for which a call polls for its answer before its thread sleeps (50e-6)
    - ``keys``, ``rdma_device``, ``gid_index``: the key file and the device for ``verbs:`` addresses
    - ``publishing``, ``remembered_places``: as the library's ``Connector`` has them
    """
    return Client(url, **options)
