"""Errors and what they mean for the data."""

import socket
from pathlib import Path
from typing import List, Union

import pytest

import stonecast
from stonecast import Effect, errors


def test_a_text_that_is_no_address_is_refused() -> None:
    with pytest.raises(errors.AddressError, match="shm:PATH") as refused:
        stonecast.connect("redis://localhost")
    assert isinstance(refused.value, ValueError)
    assert refused.value.effect is Effect.NONE
    with pytest.raises(errors.AddressError, match="needs a path"):
        stonecast.connect("shm:")


def test_a_place_without_a_server_is_named() -> None:
    with pytest.raises(errors.UnreachableError, match="Is `stonecast serve` running there") as refused:
        stonecast.connect("shm:/nowhere/socket")
    assert isinstance(refused.value, ConnectionError)
    assert "/nowhere/socket" in str(refused.value)


def test_a_listener_that_is_no_server_of_this_version_is_an_error_in_time(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        with pytest.raises(stonecast.Error) as refused:
            stonecast.connect(f"shm:{path}", connect_timeout=0.2)
    assert refused.value.effect is Effect.NONE


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="no option \"timeout\""):
        stonecast.connect("shm:/nowhere/socket", timeout=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="-1"):
        stonecast.connect("shm:/nowhere/socket", connect_timeout=-1)
    with pytest.raises(ValueError, match="power"):
        stonecast.connect("shm:/nowhere/socket", expect_durability="always")


def test_a_pool_that_promises_less_than_expected_is_refused(
    server: stonecast.Server,
) -> None:
    with pytest.raises(errors.DurabilityError, match="--durability power"):
        stonecast.connect(server.url, expect_durability="power")
    with stonecast.connect(server.url, expect_durability="process") as client:
        assert client.stat().power is False


def test_a_pool_keeps_the_settings_that_it_was_made_with(tmp_path: Path) -> None:
    pool = tmp_path / "pool"
    stonecast.Server(pool, durability="process", capacity=16 << 20).close()
    with pytest.raises(errors.PoolError, match="capacity"):
        stonecast.Server(pool, capacity=32 << 20)


def test_a_write_whose_outcome_is_unknown_is_repeated_with_its_token_and_happens_once(
    server: stonecast.Server,
) -> None:
    # A limit that no server can meet stands for a network that loses the answer.
    with stonecast.connect(server.url, operation_timeout=0) as hasty:
        with pytest.raises(errors.TimedOutError, match="outcome is unknown") as late:
            hasty.put("balance", "100", retryable=True)
    assert late.value.effect is Effect.UNKNOWN
    token = late.value.token
    assert token is not None and token.may_be_done
    with stonecast.connect(server.url) as client:
        first = client.put("balance", "100", token=token)
        client.put("balance", "90")
        assert client.put("balance", "100", token=token) == first
        assert client["balance"] == b"90"


def test_a_write_without_a_name_has_no_token(server: stonecast.Server) -> None:
    with stonecast.connect(server.url, operation_timeout=0) as hasty:
        with pytest.raises(TimeoutError) as late:
            hasty["a"] = "1"
    assert isinstance(late.value, stonecast.Error)
    assert late.value.effect is Effect.UNKNOWN and late.value.token is None


# Needs the client to end a connection that is over.
def test_a_client_connects_again_after_its_server_was_restarted(tmp_path: Path) -> None:
    def serve() -> stonecast.Server:
        return stonecast.Server(tmp_path / "pool", durability="process", capacity=16 << 20)

    server = serve()
    client = stonecast.connect(server.url, operation_timeout=5)
    client["a"] = "1"
    server.close()
    with pytest.raises(stonecast.Error):
        client["a"] = "2"
    with serve():
        client["a"] = "3"
        assert client["a"] == b"3"
        client.close()


def test_what_became_of_each_pair_is_told() -> None:
    outcomes: List[Union[int, stonecast.Error]] = [7, errors.InvalidError("too long", Effect.NONE)]
    error = errors.MultiPutError(outcomes)
    assert error.outcomes == outcomes
    assert error.effect is Effect.UNKNOWN, "one pair was stored"
    assert "1 of 2 pairs were stored; the first error: too long" in str(error)
    nothing = errors.MultiPutError([errors.InvalidError("too long", Effect.NONE)])
    assert nothing.effect is Effect.NONE


def test_a_pair_that_is_not_stored_raises_with_the_outcome_of_every_pair(
    client: stonecast.Client,
) -> None:
    with pytest.raises(errors.MultiPutError) as raised:
        client.multi_put([("a", "1"), (b"k" * 2000, "2"), ("c", "3")])
    first, refused, last = raised.value.outcomes
    assert isinstance(first, int) and isinstance(last, int)
    assert isinstance(refused, errors.InvalidError)
    assert client["a"] == b"1" and client["c"] == b"3"


# Needs `before_retry`.
def test_an_attempt_that_is_not_sent_says_nothing_about_an_earlier_one(
    tmp_path: Path,
) -> None:
    server = stonecast.Server(tmp_path / "pool", durability="process", capacity=16 << 20)
    client = stonecast.connect(server.url, operation_timeout=0)
    with pytest.raises(errors.TimedOutError) as late:
        client.put("a", "1", retryable=True)
    token = late.value.token
    server.close()
    for _ in range(2):
        with pytest.raises(stonecast.Error) as failed:
            client.put("a", "1", token=token)
        assert failed.value.effect is Effect.UNKNOWN
        assert failed.value.token is not None
    client.close()
    with pytest.raises(errors.ClosedError) as closed:
        client.put("a", "1", token=token)
    assert closed.value.effect is Effect.UNKNOWN and closed.value.token is not None
    with pytest.raises(errors.ClosedError) as closed:
        client.put("a", "1")
    assert closed.value.effect is Effect.NONE
