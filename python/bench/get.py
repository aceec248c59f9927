"""GET of one Python thread: Stonecast over shared memory, and redis-py with hiredis on a Unix socket, in one run.

    python bench/get.py [--keys N] [--value-size N] [--rounds N] [--seconds N]

Needs the package (a release build), the packages of ``bench/requirements.txt`` and the program redis-server. The peers take turns, so that both see the same
machine; the ratio is the median over the rounds. The processor time of the thread says what a call costs where others want the processor, too.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, List, NamedTuple

import redis
import redis.connection

import stonecast

SERVE = """
import sys, stonecast
server = stonecast.Server(sys.argv[1], durability="process", capacity=1 << 30)
print(server.url, flush=True)
sys.stdin.read()
"""


class Rate(NamedTuple):
    """GETs in a second, and nanoseconds of this thread's processor time for each. The loop costs both peers the same."""

    gets: float
    nanoseconds: float


def rate(get: Callable[[bytes], Any], keys: List[bytes], seconds: float) -> Rate:
    done, begin, used = 0, time.perf_counter(), time.thread_time_ns()
    while time.perf_counter() - begin < seconds:
        for key in keys:
            get(key)
        done += len(keys)
    elapsed, used = time.perf_counter() - begin, time.thread_time_ns() - used
    return Rate(done / elapsed, used / done)


def start_redis(folder: Path) -> "subprocess.Popen[bytes]":
    socket = folder / "redis.sock"
    arguments = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(["redis-server", *arguments], stdout=subprocess.DEVNULL)
    end = time.monotonic() + 10
    while not socket.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return process


def start_stonecast(folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", SERVE, str(folder / "pool")]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def measure(options: argparse.Namespace, ours: stonecast.Client, theirs: Any) -> None:
    keys = [b"user%012d" % number for number in range(options.keys)]
    value = b"v" * options.value_size
    for begin in range(0, len(keys), 1000):
        some = dict.fromkeys(keys[begin : begin + 1000], value)
        ours.multi_put(some)
        theirs.mset(some)
    random.Random(17).shuffle(keys)
    assert all(ours.get(key) == value == theirs.get(key) for key in keys[:100])
    some_keys = keys[:1000]
    rates = []
    for number in range(options.rounds):
        pair = rate(ours.get, keys, options.seconds), rate(theirs.get, some_keys, options.seconds)
        rates.append(pair)
        print(f"round {number}: " + described(*pair))
    print("median: " + described(*(median(list(peer)) for peer in zip(*rates))))
    ratio = statistics.median(ours.gets / theirs.gets for ours, theirs in rates)
    print(f"GET from Python: {ratio:.1f} times redis-py with hiredis")


def median(rates: List[Rate]) -> Rate:
    gets, nanoseconds = zip(*rates)
    return Rate(statistics.median(gets), statistics.median(nanoseconds))


def described(ours: Rate, theirs: Rate) -> str:
    return (
        f"stonecast {ours.gets:,.0f}/s, {ours.nanoseconds:,.0f} ns of processor time; "
        f"redis-py {theirs.gets:,.0f}/s, {theirs.nanoseconds:,.0f} ns; ratio {ours.gets / theirs.gets:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--value-size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    if "hiredis" not in str(redis.connection.DefaultParser).lower():
        sys.exit("redis-py does not use hiredis: pip install hiredis")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer, server = start_redis(folder), start_stonecast(folder)
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            theirs = redis.Redis(unix_socket_path=str(folder / "redis.sock"))
            with stonecast.connect(url) as ours:
                measure(options, ours, theirs)
        finally:
            peer.terminate()
            server.terminate()
            peer.wait()
            server.wait()


if __name__ == "__main__":
    main()
