"""The client for asyncio."""

import asyncio
from pathlib import Path
from typing import Any, Coroutine, TypeVar

import pytest

import stonecast
import stonecast.aio
from process import serving
from stonecast import Effect, errors

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 30))


def test_the_calls_are_those_of_the_blocking_client(server: stonecast.Server) -> None:
    async def use() -> None:
        async with await stonecast.aio.connect(server.url) as client:
            version = await client.put("a", "1")
            assert await client.get("a") == b"1"
            assert await client.get("missing") is None
            entry = await client.get_entry(b"a")
            assert entry is not None and entry.version == version
            assert await client.put_if("a", "2", version=version)
            late = await client.put_if("a", "3", absent=True)
            assert not late and late.version is not None
            assert await client.delete_if("a", version=late.version)
            assert not await client.delete("a")
            assert len(await client.multi_put({"x": "1", "y": "2"})) == 2
            found = await client.multi_get(["y", "missing", "x"])
            assert [entry and entry.value for entry in found] == [b"2", None, b"1"]
            assert [record.key async for record in client.scan("x")] == [b"x"]
            assert (await client.stat()).keys == 2
            with pytest.raises(errors.InvalidError) as refused:
                await client.put("", "1")
            assert refused.value.effect is Effect.NONE
        with pytest.raises(errors.ClosedError):
            await client.get("a")

    run(use())


def test_a_thousand_operations_are_in_flight_together(server: stonecast.Server) -> None:
    async def use() -> None:
        async with await stonecast.aio.connect(server.url) as client:
            numbers = range(1000)
            await asyncio.gather(*(client.put(f"{n}", f"{n}") for n in numbers))
            found = await asyncio.gather(*(client.get(f"{n}") for n in numbers))
            assert found == [f"{n}".encode() for n in numbers]

    run(use())


def test_the_loop_goes_on_while_an_operation_waits(tmp_path: Path) -> None:
    async def use() -> None:
        with serving(tmp_path / "pool") as server:
            client = await stonecast.aio.connect(server.url)
            server.stop()
            put = asyncio.ensure_future(client.put("a", "1"))
            for _ in range(10):
                await asyncio.sleep(0.005)
            assert not put.done()
            server.go_on()
            assert await put > 0
            await client.aclose()

    run(use())


def test_a_write_whose_task_is_cancelled_tells_its_outcome_later(tmp_path: Path) -> None:
    async def use() -> None:
        with serving(tmp_path / "pool") as server:
            client = await stonecast.aio.connect(server.url)
            server.stop()
            raised = []

            async def write() -> None:
                try:
                    await client.put("a", "1")
                except asyncio.CancelledError as error:
                    raised.append(error)
                    raise

            task = asyncio.ensure_future(write())
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            error = raised[0]
            assert isinstance(error, stonecast.aio.WriteCancelled)
            assert error.effect is Effect.UNKNOWN and not error.outcome.done()
            server.go_on()
            version = await error.outcome
            entry = await client.get_entry("a")
            assert entry is not None and entry.version == version
            await client.aclose()

    run(use())


def test_a_client_that_is_closed_waits_for_the_writes_of_cancelled_tasks(
    tmp_path: Path,
) -> None:
    async def use() -> None:
        with serving(tmp_path / "pool") as server:
            client = await stonecast.aio.connect(server.url)
            server.stop()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.put("a", "1"), 0.05)
            asyncio.get_running_loop().call_later(0.1, server.go_on)
            await client.aclose()
            with stonecast.connect(server.url) as other:
                assert other["a"] == b"1"

    run(use())


# Needs the bridge to leave futures alone that are done.
def test_a_read_whose_task_is_cancelled_disturbs_no_other(server: stonecast.Server) -> None:
    async def use() -> None:
        async with await stonecast.aio.connect(server.url) as client:
            await client.put("a", "1")
            tasks = [asyncio.ensure_future(client.get("a")) for _ in range(100)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            assert found[1::2] == [b"1"] * 50
            assert await client.get("a") == b"1"

    run(use())


def test_a_client_belongs_to_its_loop(server: stonecast.Server) -> None:
    client = run(stonecast.aio.connect(server.url))
    with pytest.raises(errors.UsageError, match="loop"):
        run(client.get("a"))


def test_a_token_repeats_a_write_over_another_connection(server: stonecast.Server) -> None:
    async def use() -> None:
        hasty = await stonecast.aio.connect(server.url, operation_timeout=0)
        with pytest.raises(errors.TimedOutError) as late:
            await hasty.put("a", "1", retryable=True)
        assert late.value.effect is Effect.UNKNOWN and late.value.token is not None
        async with await stonecast.aio.connect(server.url) as client:
            first = await client.put("a", "1", token=late.value.token)
            assert await client.put("a", "1", token=late.value.token) == first
        await hasty.aclose()

    run(use())


def test_no_connection_is_made_to_a_place_without_a_server() -> None:
    with pytest.raises(errors.UnreachableError):
        run(stonecast.aio.connect("shm:/nowhere/socket"))
