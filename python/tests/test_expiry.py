"""Keys that expire."""

import asyncio
import time
from datetime import datetime, timedelta, timezone
from typing import Callable

import pytest

import stonecast
import stonecast.aio
from stonecast import Batch


def until(holds: Callable[[], bool]) -> None:
    """Waits until ``holds`` is true. A server that never lets a key expire lets the test run into its limit."""
    while not holds():
        time.sleep(0.02)


def test_a_key_expires_after_a_time_and_a_plain_put_lets_it_stay(client: stonecast.Client) -> None:
    client.put("session", "ada", expires_in=0.2)
    client.put("other", "bob", expires_in=timedelta(milliseconds=200))
    client.put("long", "eve", expires_in=3600)
    entry = client.get_entry("session")
    assert entry is None or entry.expires_at is not None
    until(lambda: "session" not in client and "other" not in client)
    assert client.get("session") is None and client.get_entry("session") is None
    kept = client.get_entry("long")
    assert kept is not None and kept.expires_at is not None
    client.put("long", "eve")
    kept = client.get_entry("long")
    assert kept is not None and kept.expires_at is None
    client["mapped"] = "stays"
    mapped = client.get_entry("mapped")
    assert mapped is not None and mapped.expires_at is None


def test_keys_expire_together_at_a_moment(client: stonecast.Client) -> None:
    client.put("first", "1", expires_in=3600)
    first = client.get_entry("first")
    assert first is not None and first.expires_at is not None
    moment = datetime.fromtimestamp(first.expires_at, timezone.utc)
    client.put("second", "2", expires_at=moment)
    assert client.put_if("third", "3", absent=True, expires_at=first.expires_at)
    batch = Batch().put("fourth", "4", expires_at=moment).put("fifth", "5")
    assert client.apply(batch)
    found = client.multi_get(["second", "third", "fourth"])
    assert [entry and entry.expires_at for entry in found] == [first.expires_at] * 3
    fifth = client.get_entry("fifth")
    assert fifth is not None and fifth.expires_at is None
    past = first.expires_at - 7200
    assert client.apply(Batch().put("fifth", "6", expires_at=past))
    assert "fifth" not in client


def test_a_conditional_put_names_an_expiry(client: stonecast.Client) -> None:
    version = client.put("lock", "free")
    assert client.put_if("lock", "held", version=version, expires_in=0.2)
    # A client may take a key for absent a moment before the server does.
    hour = timedelta(hours=1)
    until(lambda: client.put_if("lock", "held", absent=True, expires_in=hour).done)
    assert client.get("lock") == b"held"


def test_an_expiry_is_one_time_or_one_moment(client: stonecast.Client) -> None:
    with pytest.raises(ValueError, match="expires_in or expires_at"):
        client.put("a", "1", expires_in=1, expires_at=2)
    with pytest.raises(ValueError, match="expires_in of -1 seconds"):
        client.put("a", "1", expires_in=-1)
    with pytest.raises(ValueError, match="after the begin of 1970"):
        client.put("a", "1", expires_at=-5.0)
    with pytest.raises(TypeError, match="seconds or a timedelta"):
        client.put("a", "1", expires_in="soon")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="seconds or a datetime"):
        Batch().put("a", "1", expires_at="soon")  # type: ignore[arg-type]
    assert "a" not in client


def test_keys_of_asyncio_expire(server: stonecast.Server) -> None:
    async def story() -> None:
        async with await stonecast.aio.connect(server.url) as client:
            await client.put("session", "ada", expires_in=0.2)
            assert await client.put_if("long", "1", absent=True, expires_in=timedelta(hours=1))
            long = await client.get_entry("long")
            assert long is not None and long.expires_at is not None
            assert await client.apply(Batch().put("with it", "2", expires_at=long.expires_at))
            beside = await client.get_entry("with it")
            assert beside is not None and beside.expires_at == long.expires_at
            while await client.get("session") is not None:
                await asyncio.sleep(0.02)

    asyncio.run(story())
