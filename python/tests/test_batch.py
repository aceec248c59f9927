"""Batches: several keys, all or nothing."""

import asyncio
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

import stonecast
import stonecast.aio
from process import serving
from stonecast import Batch, Effect, errors


def test_all_changes_of_a_batch_are_done_with_consecutive_versions(
    client: stonecast.Client,
) -> None:
    client.put("old", "1")
    batch = Batch().put("a", "1").delete("old").put(bytearray(b"b"), memoryview(b"2")).put("a", "3")
    assert len(batch) == 3 and batch.changed == [b"a", b"old", b"b"]
    applied = client.apply(batch)
    assert applied and applied.done and applied.contradicted is None
    first = applied.versions[0]
    assert applied.versions == range(first, first + 3)
    found = [client.get_entry(key) for key in ("a", "b")]
    assert [entry and (entry.value, entry.version) for entry in found] == [
        (b"3", first),
        (b"2", first + 2),
    ]
    assert "old" not in client


def test_nothing_is_done_if_one_expectation_does_not_hold(client: stonecast.Client) -> None:
    version = client.put("stock", "3")
    expected = [
        Batch().expect("stock", version=version + 1),
        Batch().expect("stock", absent=True),
        Batch().expect("stock", version=version).expect("order", present=True),
    ]
    for batch, key in zip(expected, (b"stock", b"stock", b"order")):
        refused = client.apply(batch.put("stock", "2").put("order", "one").delete("other"))
        assert not refused and refused.contradicted == key
        assert refused.versions == range(0)
    assert client.get("stock") == b"3" and "order" not in client
    together = Batch().expect("stock", present=True).expect("order", absent=True)
    assert client.apply(together).versions == range(0), "it looks, and changes nothing"
    assert client.apply(together.expect("stock", version=version).put("order", "one"))


def test_an_expectation_is_one_of_three(client: stonecast.Client) -> None:
    with pytest.raises(ValueError, match="one of version=N, absent=True and present=True"):
        Batch().expect("a")
    with pytest.raises(ValueError, match="one of"):
        Batch().expect("a", version=1, absent=True)
    with pytest.raises(TypeError, match="bytes or str, not int"):
        Batch().put("a", 5)  # type: ignore[arg-type]


def test_a_batch_that_is_too_large_is_refused_before_anything_is_sent(
    client: stonecast.Client,
) -> None:
    many = Batch()
    for number in range(stonecast.BATCH_KEYS_MAX + 1):
        many.put(f"{number}", "")
    large = Batch().put("a", bytes(stonecast.BATCH_SIZE_MAX)).put("b", "")
    for batch in (many, large, Batch().put("", "v")):
        with pytest.raises(errors.InvalidError) as refused:
            client.apply(batch)
        assert refused.value.effect is Effect.NONE
    assert len(client) == 0


def test_a_call_takes_the_batch_as_it_is_when_the_call_begins(tmp_path: Path) -> None:
    with serving(tmp_path / "pool") as server, stonecast.connect(server.url) as client:
        client.put("ready", "")
        batch = Batch().put("a", "1")
        with ThreadPoolExecutor(1) as threads:
            threads.submit(client.get, "ready").result()  # the thread's connection
            server.stop()
            applied = threads.submit(client.apply, batch)
            assert not wait([applied], timeout=0.1).done
            batch.put("b", "2")
            server.go_on()
            assert len(applied.result().versions) == 1
        assert "b" not in client and len(batch) == 2


def test_threads_move_amounts_between_keys_and_none_is_lost(client: stonecast.Client) -> None:
    accounts = ["x", "y", "z"]
    client.apply(Batch().put("x", "100").put("y", "100").put("z", "100"))

    def move(number: int) -> None:
        source, target = accounts[number % 3], accounts[(number + 1) % 3]
        while True:
            first, second = client.multi_get([source, target])
            assert first is not None and second is not None
            batch = Batch().expect(source, version=first.version).expect(target, version=second.version)
            batch.put(source, str(int(first.value) - 1)).put(target, str(int(second.value) + 1))
            if client.apply(batch):
                return

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(move, range(100)))
    amounts = [int(client[account]) for account in accounts]
    assert sorted(amounts) == [99, 100, 101]


def test_a_token_repeats_a_batch_and_it_happens_once(server: stonecast.Server) -> None:
    batch = Batch().expect("paid", absent=True).put("paid", "7").put("balance", "93")
    with stonecast.connect(server.url, operation_timeout=0) as hasty:
        with pytest.raises(errors.TimedOutError) as late:
            hasty.apply(batch, retryable=True)
    assert late.value.effect is Effect.UNKNOWN and late.value.token is not None
    with stonecast.connect(server.url) as client:
        first = client.apply(batch, token=late.value.token)
        assert first
        client.put("balance", "90")
        again = client.apply(batch, token=late.value.token)
        assert again.versions == first.versions
        assert client["balance"] == b"90"
        assert not client.apply(batch), "without the token it is a batch of its own"


def test_asyncio_applies_batches_in_flight_together(server: stonecast.Server) -> None:
    async def use() -> None:
        async with await stonecast.aio.connect(server.url) as client:
            batches = [Batch().put(f"{n}/a", "1").put(f"{n}/b", "2") for n in range(100)]
            done = await asyncio.gather(*(client.apply(batch) for batch in batches))
            assert sorted(version for applied in done for version in applied.versions) == list(
                range(done[0].versions[0], done[0].versions[0] + 200)
            )
            refused = await client.apply(Batch().expect("0/a", absent=True).delete("0/b"))
            assert not refused and refused.contradicted == b"0/a"
            assert await client.get("0/b") == b"2"
            with pytest.raises(errors.InvalidError):
                await client.apply(Batch().put("", "1"))
        hasty = await stonecast.aio.connect(server.url, operation_timeout=0)
        batch = Batch().put("c", "1").delete("0/a")
        with pytest.raises(errors.TimedOutError) as late:
            await hasty.apply(batch, retryable=True)
        await hasty.aclose()
        async with await stonecast.aio.connect(server.url) as client:
            first = await client.apply(batch, token=late.value.token)
            assert (await client.apply(batch, token=late.value.token)).versions == first.versions

    asyncio.run(asyncio.wait_for(use(), 30))
