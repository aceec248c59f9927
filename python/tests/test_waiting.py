"""Calls that wait for a server that does not answer."""

import signal
import threading
import time
from pathlib import Path
from typing import List

import pytest

import stonecast
from process import serving
from stonecast import Effect, errors


# Needs the cause of the interruption.
def test_ctrl_c_ends_the_wait_of_a_write_and_tells_that_its_outcome_is_unknown(
    tmp_path: Path,
) -> None:
    with serving(tmp_path / "pool") as server:
        client = stonecast.connect(server.url)
        client["a"] = "1"
        server.stop()
        # A shell starts background jobs with this signal ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT)).start()
        try:
            with pytest.raises(KeyboardInterrupt) as interrupted:
                client["a"] = "2"
        finally:
            signal.signal(signal.SIGINT, before)
        cause = interrupted.value.__cause__
        assert isinstance(cause, errors.InterruptedWriteError)
        assert cause.effect is Effect.UNKNOWN
        server.go_on()
        client["b"] = "3"
        assert client["a"] == b"2", "the write took its course"


def test_a_handler_of_a_signal_may_not_use_the_client_that_it_interrupts(
    tmp_path: Path,
) -> None:
    refused: List[errors.UsageError] = []

    def handle(*_: object) -> None:
        try:
            client.get("a")
        except errors.UsageError as error:
            refused.append(error)
        server.go_on()

    with serving(tmp_path / "pool") as server:
        client = stonecast.connect(server.url)
        server.stop()
        before = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            client["a"] = "1"
        finally:
            signal.signal(signal.SIGALRM, before)
        assert len(refused) == 1
        assert client["a"] == b"1"


def test_other_threads_run_while_a_write_waits(tmp_path: Path) -> None:
    with serving(tmp_path / "pool") as server:
        client = stonecast.connect(server.url)
        client["a"] = "1"
        assert client["a"] == b"1", "now the client knows the index"
        server.stop()
        writer = threading.Thread(target=lambda: client.put("b", "2"))
        writer.start()
        time.sleep(0.05)
        assert client["a"] == b"1", "a GET needs no server"
        assert writer.is_alive()
        server.go_on()
        writer.join()


def test_a_server_that_is_killed_ends_the_calls_that_wait_for_it(tmp_path: Path) -> None:
    with serving(tmp_path / "pool") as server:
        client = stonecast.connect(server.url)
        client["a"] = "1"
        server.stop()
        threading.Timer(0.2, server.kill).start()
        with pytest.raises(errors.DisconnectedError) as lost:
            client.put("a", "2", retryable=True)
        assert lost.value.effect is Effect.UNKNOWN
        token = lost.value.token
        assert token is not None
    with serving(tmp_path / "pool"):
        assert client.put("a", "2", token=token) > 0
        assert client["a"] == b"2"
