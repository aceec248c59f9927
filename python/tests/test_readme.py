"""The examples of the pages run as they stand."""

import doctest
import re
from pathlib import Path

import pytest

PYTHON = Path(__file__).parent.parent
PAGES = [PYTHON / "README.md", PYTHON.parent / "docs" / "python.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_do_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    assert blocks, "a page without examples"
    examples = doctest.DocTestParser().get_doctest(
        "\n".join(blocks), {}, page.name, str(page), 0
    )
    assert examples.examples
    words: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(examples, out=words.append)
    assert runner.failures == 0, "".join(words)
