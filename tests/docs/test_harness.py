"""What runs the pages can fail: it finds all code, and what is wrong on a page does not pass."""

from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of
from tests.docs.shell import commands_of, parse_command, run_command

PAGE = """# A page

    spanlab doctor   # indented
    make test

    this is a quotation

<!-- not run: needs a cluster -->
```bash
spanlab prepare texts \\
    --tokenizer tokenizer --out corpus
```

Text between.

```python
print(1)
```
"""


def test_code_is_found_with_its_place_and_its_reason(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    indented, fenced, snippet = blocks_of(page)
    assert (indented.line, list(commands_of(indented))) == (3, ["spanlab doctor   # indented", "make test"])
    assert (fenced.reason, fenced.line) == ("needs a cluster", 10)
    assert list(commands_of(fenced)) == ["spanlab prepare texts --tokenizer tokenizer --out corpus"]
    assert (snippet.language, snippet.text, snippet.reason) == ("python", "print(1)\n", None)


@pytest.mark.parametrize(
    "wrong",
    [
        "spanlab fill nowhere '[MASK]'",
        "spanlab inspect model",
        "make nothing",
        "pip install 'spanlab[nothing]'",
        "python examples/nothing.py",
        "python -m benchmarks.nothing",
        "test -e nothing",
    ],
)
def test_a_command_that_fails_is_told(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError):
        run_command(wrong, tmp_path)


@pytest.mark.parametrize(
    "wrong", ["spanlab pretrain spanbert masking.rato=0.2", "spanlab pretrain nothing --data corpus"]
)
def test_settings_of_a_command_that_is_not_run_are_checked(wrong: str) -> None:
    from spanlab.errors import SpanlabError

    with pytest.raises(SpanlabError):
        parse_command(wrong)
