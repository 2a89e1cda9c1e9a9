"""Every command and Python snippet of the README and the documentation runs, page by page, in the page's order."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import spanlab
from spanlab.config import merge, nested
from spanlab.workflows.run import RunResult
from tests.docs.blocks import PAGES, ROOT, SHELL, Block, blocks_of, original_of
from tests.docs.shell import SHORT_PRETRAINING, SHORT_TRAINING, clear_way, commands_of, parse_command, run_command
from tests.docs.stand_ins import furnish, make_stock

BLOCKS = {page: [block for block in blocks_of(page) if block.language in ("python", *SHELL)] for page in PAGES}
ORIGINALS = {page: blocks for page, blocks in BLOCKS.items() if original_of(page) is None}
"""A translation has the code of its English page, which `test_translations` sees to."""
WITH_CODE = [page for page, blocks in ORIGINALS.items() if blocks]
NOT_RUN = [block for blocks in ORIGINALS.values() for block in blocks if block.reason]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stock(tmp_path_factory.mktemp("stock"))


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_pages_are_found_with_their_code() -> None:
    assert ROOT / "README.md" in WITH_CODE
    assert {block.language for blocks in BLOCKS.values() for block in blocks} >= {"python", "bash"}


# Stand-ins are folders with the names of models in the box.
@pytest.mark.filterwarnings("ignore:.* is a folder here:spanlab.errors.LoadWarning")
@pytest.mark.parametrize("page", WITH_CODE, ids=_name)
def test_code_of_a_page_runs(page: Path, stock: Path, workspace: Path) -> None:
    blocks = [block for block in BLOCKS[page] if not block.reason]
    furnish(workspace, stock, "\n".join(block.text for block in blocks))
    names: dict[str, object] = {"__name__": "snippet"}
    for block in blocks:
        if block.language == "python":
            for name in re.findall(r'\bout="([^"]+)"', block.text):
                clear_way(workspace / name)
            # Empty lines before it, so that a traceback names the line of the page.
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
        else:
            _run_shell(block, workspace)


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a snippet are made as short as those of a command, by the same settings."""
    pretrain, finetune = spanlab.pretrain, spanlab.finetune
    short = {name: yaml.safe_load(value) for name, value in (each.split("=") for each in SHORT_TRAINING)}
    shorter = {name: yaml.safe_load(value) for name, value in (each.split("=") for each in SHORT_PRETRAINING)}

    def short_pretrain(*names: Any, **settings: Any) -> RunResult:
        return pretrain(*names, **{**settings, **shorter, **short})

    def short_finetune(*names: Any, **settings: Any) -> RunResult:
        return finetune(*names, **merge(settings, nested(short)))

    monkeypatch.setattr(spanlab, "pretrain", short_pretrain)
    monkeypatch.setattr(spanlab, "finetune", short_finetune)


def _run_shell(block: Block, workspace: Path) -> None:
    for command in commands_of(block):
        try:
            run_command(command, workspace)
        except AssertionError as error:
            raise AssertionError(f"{block.place}: {error}") from None


@pytest.mark.parametrize("block", NOT_RUN, ids=lambda block: block.place)
def test_code_that_is_not_run_still_parses(block: Block) -> None:
    if block.language == "python":
        compile(block.text, str(block.page), "exec")
        return
    for command in commands_of(block):
        parse_command(command)
