"""The reference is readable in the repository, and says what the code says."""

import importlib.util
import re
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

from spanlab.config import all_keys
from spanlab.encoder import ElmoConfig
from spanlab.finetuning.config import MultitaskConfig
from spanlab.finetuning.task_data import TaskEntry
from spanlab.pretraining.recipe import Recipe
from spanlab.tasks.table import TASKS
from tests.docs.blocks import ROOT


def _writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_reference", ROOT / "docs" / "write_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WRITER = _writer()


@pytest.mark.parametrize("name", ["commands.md", "settings.md", "python.md"])
def test_the_page_is_what_the_code_gives(name: str) -> None:
    written = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert written == WRITER.PAGES[name](), "out of date: run python docs/write_reference.py"


def test_every_key_has_a_row() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([\w.]+)` \|", page, flags=re.MULTILINE))
    for config in (Recipe, MultitaskConfig, *(task.Config for task in TASKS.values())):
        keys = list(all_keys(config))
        leaves = {key for key in keys if not any(other.startswith(f"{key}.") for other in keys)}
        assert leaves <= listed, leaves - listed


def test_every_key_has_a_meaning_and_elmo_and_lists_of_tasks_have_theirs() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \|.*\| (.*) \|$", page, flags=re.MULTILINE)
    assert len(rows) > 300
    assert [key for key, meaning in rows if not meaning.strip()] == []
    listed = {key for key, _ in rows}
    assert {f"encoder.{field.name}" for field in fields(ElmoConfig)} <= listed
    assert {field.name for field in fields(TaskEntry)} <= listed


def test_no_page_is_made_by_the_build_alone() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", index)
    assert [link for link in links if not (ROOT / "docs" / link).is_file()] == []
    assert Path(ROOT / "docs" / "reference" / "commands.md").is_file()
