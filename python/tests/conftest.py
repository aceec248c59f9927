"""Servers and clients for the tests."""

from pathlib import Path
from typing import Any, Iterator

import pytest

import stonecast
from stonecast import structures


@pytest.fixture
def server(tmp_path: Path) -> Iterator[stonecast.Server]:
    with stonecast.Server(
        tmp_path / "pool", durability="process", capacity=64 << 20
    ) as server:
        yield server


@pytest.fixture
def client(server: stonecast.Server) -> Iterator[stonecast.Client]:
    with stonecast.connect(server.url) as client:
        yield client


@pytest.fixture
def back_end(tmp_path: Path) -> Iterator[structures.Server]:
    with structures.Server(
        tmp_path / "structures", durability="process", capacity=32 << 20
    ) as server:
        yield server


@pytest.fixture
def session(back_end: structures.Server) -> Iterator[structures.Session]:
    with structures.connect(back_end.url) as session:
        yield session


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the closing line that `cargo xtask ci` counts."""

    def count(*outcomes: str) -> int:
        return sum(len(terminalreporter.getreports(outcome)) for outcome in outcomes)

    failed = count("failed", "error")
    verdict = "FAILED" if failed else "ok"
    terminalreporter.write_line("")
    terminalreporter.write_line(
        f"test result: {verdict}. {count('passed')} passed; {failed} failed"
    )
