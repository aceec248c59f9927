"""Data structures."""

import os
from typing import Tuple

import pytest

from concurrent.futures import ThreadPoolExecutor

from stonecast import Effect, errors, structures
from stonecast.structures import U64, BTree, HashTable, MvBTree, Queue, Stack


def test_a_b_tree_gives_ranges_in_both_directions(session: structures.Session) -> None:
    with session.writer("orders", BTree[int, str]) as orders:
        for number in range(-500, 500):
            orders.stage(number, f"order {number}")
        orders.publish()
        seen = session.reader("orders", BTree[int, str])
        assert seen.get(7) == "order 7" and seen[-7] == "order -7"
        assert seen.get(500) is None and 7 in seen and 500 not in seen
        assert [key for key, _ in seen.range(-2, 2)] == [-2, -1, 0, 1]
        assert [key for key, _ in seen.reversed(-2, 2)] == [1, 0, -1, -2]
        assert list(seen) == list(range(-500, 500))
        assert list(reversed(seen)) == list(range(499, -501, -1))
        assert next(seen.range(497)) == (497, "order 497")
        assert seen.get_many([1, 1000, 2]) == ["order 1", None, "order 2"]
        assert len(seen.entries()) == 1000
        with pytest.raises(KeyError):
            seen[500]


def test_keys_and_values_are_of_every_type(session: structures.Session) -> None:
    with session.writer("text", HashTable[str, bytes]) as text:
        assert not text.insert("ä\0", b"\0\xff")
        assert text.insert("ä\0", b"\1")
        assert session.reader("text", HashTable[str, bytes]).entries() == [("ä\0", b"\1")]
        with pytest.raises(TypeError):
            text.insert(5, b"x")  # type: ignore[arg-type]
    with session.writer("numbers", BTree[U64, U64]) as numbers:
        numbers[2**64 - 1] = 0
        assert numbers.get(2**64 - 1) == 0
        with pytest.raises(OverflowError):
            numbers[-1] = 1
    with session.writer("pairs", BTree[Tuple[str, int], int]) as pairs:
        pairs[("bo", 2)], pairs[("al", 9)], pairs[("bo", 1)] = 1, 2, -3
        seen = session.reader("pairs", BTree[Tuple[str, int], int])
        assert list(seen.range(("bo", 0))) == [(("bo", 1), -3), (("bo", 2), 1)]
    with pytest.raises(TypeError, match="not <class 'float'>"):
        session.writer("floats", BTree[float, int])
    with pytest.raises(TypeError, match="a structure has a type such as"):
        session.writer("untyped", BTree)


def test_an_update_tells_what_was_there(session: structures.Session) -> None:
    with session.writer("stock", HashTable[str, int]) as stock:
        assert not stock.update("nails", 1)
        assert not stock.insert_if_absent("nails", 7)
        assert stock.insert_if_absent("nails", 9)
        assert stock.compare_and_update("nails", 7, 6)
        assert not stock.compare_and_update("nails", 7, 5)
        assert stock.get("nails") == 6
        assert stock.remove("nails") and not stock.remove("nails")
        with pytest.raises(KeyError):
            del stock["nails"]


def test_a_queue_and_a_stack_give_their_values_in_order(session: structures.Session) -> None:
    with session.writer("jobs", Queue[str]) as jobs:
        jobs.push("first")
        jobs.push("second")
        seen = session.reader("jobs", Queue[str])
        assert seen.peek() == "first" and seen.values() == ["first", "second"]
        assert [jobs.pop(), jobs.pop(), jobs.pop()] == ["first", "second", None]
    with session.writer("undo", Stack[bytes]) as undo:
        undo.push(b"first")
        undo.push(b"second")
        assert session.reader("undo", Stack[bytes]).peek() == b"second"
        assert undo.pop() == b"second"


def test_a_snapshot_shows_the_moment_at_which_it_was_taken(session: structures.Session) -> None:
    with session.writer("bank/accounts", MvBTree[int, int]) as accounts:
        accounts[1], accounts[2] = 50, 50
        then = session.snapshot("bank").reader("accounts", MvBTree[int, int])
        accounts[1] = 20
        now = session.reader("bank/accounts", MvBTree[int, int])
        assert (then[1], now[1]) == (50, 20)
        assert list(then.range()) == [(1, 50), (2, 50)]


def test_a_structure_has_one_writer_at_a_time(
    back_end: structures.Server, session: structures.Session
) -> None:
    with structures.connect(back_end.url) as other:
        first = session.writer("orders", BTree[int, str])
        first[1] = "pins"
        holder = f"has a writer, process {os.getpid()} on .*one front-end writes"
        with pytest.raises(errors.HeldError, match=holder) as held:
            other.writer("orders", BTree[int, str])
        assert held.value.effect is Effect.NONE
        first.release()
        first.release()
        with other.writer("orders", BTree[int, str], within=5) as second:
            assert second.get(1) == "pins"
        with pytest.raises(errors.UsageError):
            first.insert(2, "glue")


def test_a_structure_of_another_type_or_name_is_refused(session: structures.Session) -> None:
    with session.writer("orders", BTree[int, str]) as orders:
        orders[1] = "pins"
        with pytest.raises(errors.OtherTypeError, match="orders"):
            session.reader("orders", BTree[str, str])
        with pytest.raises(errors.OtherTypeError, match="a hash table"):
            session.reader("orders", HashTable[int, str])
        with pytest.raises(errors.NotFoundError, match="missing"):
            session.reader("missing", BTree[int, str])
        with pytest.raises(errors.StructureNameError, match="64 bytes"):
            session.writer("x" * 100, BTree[int, str])
        with pytest.raises(errors.UsageError, match="snapshot"):
            session.snapshot("orders").reader("orders", BTree[int, str])  # type: ignore[arg-type]
    with session.writer("text", BTree[str, str]) as text:
        with pytest.raises(errors.TooLargeError, match="keys have at most"):
            text["k" * 200] = "too long"


def test_a_structure_is_renamed_made_empty_and_ended(session: structures.Session) -> None:
    words = session.writer("words/first", HashTable[str, int])
    words["one"] = 1
    words.rename("second")
    assert session.reader("words/second", HashTable[str, int])["one"] == 1
    words.clear()
    assert words.get("one") is None
    assert [name for name, _ in session.list()] == ["words/second"]
    words.destroy()
    assert session.list() == []


def test_a_session_belongs_to_the_thread_that_opened_it(session: structures.Session) -> None:
    orders = session.writer("orders", BTree[int, str])
    with ThreadPoolExecutor(1) as threads:
        for use in (
            lambda: orders.insert(1, "pins"),
            lambda: session.reader("orders", BTree[int, str]),
            orders.release,
        ):
            with pytest.raises(errors.UsageError, match="thread"):
                threads.submit(use).result()
    orders[1] = "pins"
    orders.release()


def test_a_back_end_that_is_gone_leaves_the_outcome_of_an_update_open(
    back_end: structures.Server, session: structures.Session
) -> None:
    orders = session.writer("orders", BTree[int, str])
    orders[1] = "pins"
    back_end.close()
    assert back_end.has_ended
    with pytest.raises((errors.GoneError, errors.TenureOverError)) as gone:
        orders[2] = "glue"
    assert gone.value.effect is Effect.UNKNOWN
