"""The types of the package: stubs that are true, and examples that a strict checker accepts."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SETTINGS = ["--config-file", str(HERE.parent / "pyproject.toml")]


def check(*arguments: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_say_what_the_native_half_has(tmp_path: Path) -> None:
    check("mypy.stubtest", "stonecast._native", "--mypy-config-file", SETTINGS[1], folder=tmp_path)


def test_tests_examples_and_benchmark_pass_a_strict_checker(tmp_path: Path) -> None:
    programs = [HERE, HERE.parent / "bench" / "get.py"]
    check("mypy", *SETTINGS, *map(str, programs), folder=tmp_path)
