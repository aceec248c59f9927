"""The blocking client."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import stonecast
from stonecast.errors import ClosedError, InvalidError


def test_a_value_that_was_put_is_read_with_its_version(client: stonecast.Client) -> None:
    version = client.put("greeting", "hello")
    entry = client.get_entry(b"greeting")
    assert entry is not None
    assert (entry.value, entry.version) == (b"hello", version)
    assert client.get("greeting") == b"hello"
    assert client.get("missing") is None
    assert client.get("missing", b"none") == b"none"
    assert client.get_entry("missing") is None


def test_keys_and_values_are_bytes_or_text_of_every_kind(client: stonecast.Client) -> None:
    client.put(bytearray(b"a"), memoryview(b"xyz")[::2])
    assert client.get(memoryview(b"a")) == b"xz"
    client.put("schlüssel", b"")
    assert client.get("schlüssel".encode()) == b""
    with pytest.raises(TypeError, match="bytes or str, not int"):
        client.put("a", 5)  # type: ignore[arg-type]


def test_a_conditional_write_happens_under_its_condition_alone(
    client: stonecast.Client,
) -> None:
    first = client.put_if("balance", "100", absent=True)
    assert first and first.done
    late = client.put_if("balance", "90", absent=True)
    assert not late
    assert late.version == first.version, "it tells the version that is in the way"
    assert first.version is not None
    assert not client.delete_if("balance", version=first.version + 1)
    assert client.put_if("balance", "90", version=first.version)
    assert client.get("balance") == b"90"
    assert not client.put_if("other", "1", version=1)
    with pytest.raises(ValueError, match="one condition"):
        client.put_if("balance", "80")
    with pytest.raises(ValueError, match="one condition"):
        client.put_if("balance", "80", version=1, absent=True)


def test_a_delete_tells_whether_the_key_was_there(client: stonecast.Client) -> None:
    version = client.put("a", "1")
    assert client.delete("a")
    assert not client.delete("a")
    version = client.put("a", "2")
    assert client.delete_if("a", version=version)
    assert client.get("a") is None


def test_many_keys_are_read_and_stored_with_one_call(client: stonecast.Client) -> None:
    versions = client.multi_put([("a", "1"), (b"b", b"2")])
    assert client.multi_put({"c": "3"}) > versions[-1:]
    found = client.multi_get(["c", "missing", b"a"])
    assert [entry and entry.value for entry in found] == [b"3", None, b"1"]
    assert client.multi_get([]) == [] and client.multi_put([]) == []


def test_one_text_in_place_of_several_keys_is_refused(client: stonecast.Client) -> None:
    client.multi_put({"a": "1", "b": "2"})
    for one in ("ab", b"ab"):
        with pytest.raises(TypeError):
            client.multi_get(one)  # type: ignore[arg-type]


def test_a_scan_finds_every_key_with_its_prefix(client: stonecast.Client) -> None:
    client.multi_put({f"user/{number}": str(number) for number in range(300)})
    client.put("other", "x")
    found = {record.key: record.value for record in client.scan("user/")}
    assert len(found) == 300
    assert found[b"user/7"] == b"7"
    assert client.stat().keys == 301


def test_the_largest_value_comes_back_whole(client: stonecast.Client) -> None:
    value = os.urandom(stonecast.VALUE_SIZE_MAX)
    key = b"k" * stonecast.KEY_SIZE_MAX
    client.put(key, value)
    assert client.get(key) == value
    client.put("small", "s")
    assert client.get("small") == b"s", "the memory of the large value is not returned"


def test_an_invalid_key_is_refused_before_anything_is_sent(client: stonecast.Client) -> None:
    for key in (b"", b"k" * (stonecast.KEY_SIZE_MAX + 1)):
        with pytest.raises(InvalidError, match="keys have 1 to 1024 bytes") as refused:
            client.put(key, "v")
        assert refused.value.effect is stonecast.Effect.NONE
        with pytest.raises(InvalidError):
            client.get(key)
    with pytest.raises(InvalidError, match="values have at most"):
        client.put("k", bytes(stonecast.VALUE_SIZE_MAX + 1))


def test_any_thread_may_use_a_client(client: stonecast.Client) -> None:
    def count(thread: int) -> int:
        for number in range(50):
            client.put(f"{thread}/{number}", str(number))
        return sum(int(client[f"{thread}/{number}"]) for number in range(50))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(count, range(4))) == [1225] * 4
    assert client.stat().keys == 200


def test_threads_that_change_one_key_lose_no_change(client: stonecast.Client) -> None:
    client.put("counter", "0")

    def add(_: int) -> None:
        while True:
            entry = client.get_entry("counter")
            assert entry is not None
            value = str(int(entry.value) + 1)
            if client.put_if("counter", value, version=entry.version):
                return

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(100)))
    assert client["counter"] == b"100"


def test_a_closed_client_refuses_every_thread(client: stonecast.Client) -> None:
    opened, is_closed = threading.Event(), threading.Event()
    raised = []

    def use() -> None:
        client.put("a", "1")
        opened.set()
        is_closed.wait()
        try:
            client.get("a")
        except ClosedError as error:
            raised.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    opened.wait()
    client.close()
    client.close()
    is_closed.set()
    thread.join()
    assert len(raised) == 1 and client.closed
    with pytest.raises(ClosedError, match="closed"):
        client.put("a", "2")


def test_the_connection_of_a_thread_ends_with_the_thread(client: stonecast.Client) -> None:
    for _ in range(5):
        thread = threading.Thread(target=lambda: client.get("a"))
        thread.start()
        thread.join()
    assert client.stat().clients <= 2


def test_an_iteration_belongs_to_its_thread(client: stonecast.Client) -> None:
    client.put("a", "1")
    entries = client.entries()
    with ThreadPoolExecutor(1) as threads:
        with pytest.raises(stonecast.errors.UsageError, match="thread"):
            threads.submit(next, entries).result()
    assert next(entries).key == b"a"


# Needs the hook that forgets the connections of the parent.
@pytest.mark.filterwarnings("ignore:This process")
def test_a_process_that_was_forked_has_a_connection_of_its_own(
    client: stonecast.Client,
) -> None:
    client.put("parent", "1")
    child = os.fork()
    if child == 0:
        # Nothing of pytest may run here.
        status = 1
        try:
            if client.get("parent") == b"1" and client.put("child", "2"):
                status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert client.get("child") == b"2"
    client.put("parent", "3")
    assert client.get("parent") == b"3", "the connection of the parent goes on"
