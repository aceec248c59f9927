"""The client as a mapping."""

from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor

import pytest

import stonecast


def test_a_client_is_a_mapping(client: stonecast.Client) -> None:
    assert isinstance(client, MutableMapping)
    client["a"] = "1"
    client[b"b"] = b"2"
    assert client["a"] == b"1"
    assert "a" in client and b"b" in client and "c" not in client
    assert len(client) == 2 and sorted(client) == [b"a", b"b"]
    assert sorted(client.items()) == [(b"a", b"1"), (b"b", b"2")]
    assert sorted(client.values()) == [b"1", b"2"] and b"a" in client.keys()
    del client["a"]
    with pytest.raises(KeyError, match="a"):
        client["a"]
    with pytest.raises(KeyError):
        del client["a"]
    client.clear()
    assert len(client) == 0
    assert client, "a client is true even if its store is empty"


def test_update_stores_pairs_of_every_source(client: stonecast.Client) -> None:
    client.update({"a": "1"}, b="2")
    client.update([("c", b"3")])
    client.update()
    assert dict(client.items()) == {b"a": b"1", b"b": b"2", b"c": b"3"}


def test_pop_and_setdefault_are_atomic(client: stonecast.Client) -> None:
    client["job"] = "paint"
    with ThreadPoolExecutor(4) as threads:
        taken = list(threads.map(lambda _: client.pop("job", None), range(8)))
    assert sorted(taken, key=lambda job: job is None) == [b"paint"] + [None] * 7
    with pytest.raises(KeyError):
        client.pop("job")
    with ThreadPoolExecutor(4) as threads:
        first = set(threads.map(lambda n: client.setdefault("leader", str(n)), range(8)))
    assert first == {client["leader"]}
    assert client.popitem()[0] == b"leader"
    with pytest.raises(KeyError):
        client.popitem()
