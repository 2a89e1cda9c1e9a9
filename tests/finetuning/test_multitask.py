"""The list of tasks: every wrong entry is refused with its line."""

from pathlib import Path

import pytest

from spanlab.errors import ConfigError
from spanlab.finetuning.multitask import read_task_list

GOOD = """- name: topics
  task: classification
  train: a.jsonl
- name: names
  task: ner
  train: a.jsonl
  dev: a.jsonl
  weight: 2
  settings:
    head: span
    data: {length: 64}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a.jsonl").write_text("{}\n")
    (tmp_path / "tasks.yaml").write_text(GOOD)
    return tmp_path / "tasks.yaml"


def test_entries_and_their_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (entry for entry, _ in read_task_list(path))
    assert (first.name, first.weight, first.dev) == ("topics", 1.0, None)
    assert second.settings == {"head": "span", "data": {"length": 64}}
    assert Path(second.train) == path.parent / "a.jsonl"
    elsewhere = path.parent / "lists"
    elsewhere.mkdir()
    (elsewhere / "tasks.yaml").write_text(GOOD)
    monkeypatch.chdir(path.parent)
    assert read_task_list(elsewhere / "tasks.yaml")[0][0].train == "a.jsonl"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("task: ner", "task: nre", "tasks.yaml:5: unknown task 'nre' (did you mean 'ner'?)"),
        ("name: names", "name: topics", "tasks.yaml:4: the name 'topics' is taken by another task"),
        ("  dev: a.jsonl", "  dev: b.jsonl", "tasks.yaml:7: no such file: b.jsonl"),
        ("  weight: 2", "  wieght: 2", "tasks.yaml:8: unknown key 'wieght' (did you mean 'weight'?)"),
        ("  weight: 2", "  weight: 0", "tasks.yaml:8: 'weight' is 0.0; it must be above 0"),
        ("  weight: 2", "  weight: much", "tasks.yaml:8: 'weight' is 'much'"),
        ("    head: span", "    training: {lr: 1}", "tasks.yaml:10: 'training' is a setting of the whole run"),
        ("- name: topics\n  task: classification\n", "- name: topics\n", "tasks.yaml:1: key 'task' is missing"),
        ("name: topics", "name: all", "tasks.yaml:1: a task cannot be called 'all'"),
        ("name: topics", "name: a.b", "use letters, digits, - and _"),
        ("name: topics", "name: values", "a task cannot be called 'values'"),
        ("- name: topics", "- [1]\n- name: topics", "tasks.yaml:1: expected 'key: value' lines, not [1]"),
        ("    data: {length: 64}", "    data: {length: 64", "tasks.yaml"),
    ],
)
def test_wrong_entries_are_named_by_line(path: Path, old: str, new: str, words: str) -> None:
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        read_task_list(path)
    assert words in str(caught.value)


def test_a_list_is_a_list(path: Path) -> None:
    for content, words in (("", "expected a list"), ("name: a\n", "expected a list"), ("[]\n", "has no task")):
        path.write_text(content)
        with pytest.raises(ConfigError, match=words):
            read_task_list(path)
    with pytest.raises(ConfigError, match="no such file"):
        read_task_list(path.with_name("none.yaml"))
