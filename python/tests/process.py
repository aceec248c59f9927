"""A server in a process of its own, which a test can stop and kill."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Iterator, Optional

PROGRAM = """
import sys, stonecast
server = stonecast.Server(sys.argv[1], durability="process", capacity=16 << 20)
print(server.url, flush=True)
sys.stdin.read()
"""


class Process:
    def __init__(self, pool: Path) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(pool)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.child.stdout is not None
        self.url = self.child.stdout.readline().strip()

    def stop(self) -> None:
        """Lets the server neither answer nor end, like a machine that hangs."""
        self.child.send_signal(signal.SIGSTOP)
        # The signal returns before the last thread of the server has stopped.
        os.waitpid(self.child.pid, os.WUNTRACED)

    def go_on(self) -> None:
        self.child.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()


@contextlib.contextmanager
def serving(pool: Path) -> Iterator[Process]:
    process: Optional[Process] = None
    try:
        process = Process(pool)
        yield process
    finally:
        if process is not None:
            process.kill()
            for stream in (process.child.stdin, process.child.stdout):
                if stream is not None:
                    stream.close()
