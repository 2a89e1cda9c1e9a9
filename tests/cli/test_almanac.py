"""`spanlab almanac`: what it writes, what it draws, what it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spanlab.cli.almanac import app
from spanlab.errors import InputError
from spanlab.samples import load


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(
    ("task", "files"),
    [
        ("classification", ["jsonl", "tsv"]),
        ("similarity", ["jsonl", "tsv"]),
        ("ner", ["conll", "jsonl"]),
        ("qa", ["json", "jsonl"]),
        ("coref", ["conll", "jsonl"]),
        ("relation", ["jsonl", "txt"]),
        ("summarisation", ["jsonl", "summary.jsonl"]),
        ("generation", ["jsonl"]),
    ],
)
def test_every_task_is_exported_in_every_format(tmp_path: Path, task: str, files: list[str]) -> None:
    shown = run("export", task, "--out", tmp_path / "new" / "folder")
    written = sorted(path.name for path in (tmp_path / "new" / "folder").iterdir())
    assert written == sorted(f"{split}.{extension}" for split in ("train", "dev", "test") for extension in files)
    assert all(name in shown for name in written)


def test_options_narrow_the_export_down(tmp_path: Path) -> None:
    outcome = run(
        "export", "qa", "--out", tmp_path, "--split", "test", "--language", "zh", "--format", "squad", "--json"
    )
    wanted = sum(len(p.questions) for p in load() if (p.split, p.language) == ("test", "zh"))
    assert json.loads(outcome) == {"task": "qa", "files": {str(tmp_path / "test.json"): wanted}}
    run("export", "classification", "--label", "sentiment", "--out", tmp_path / "opinions", "--split", "train")
    first = (tmp_path / "opinions" / "train.jsonl").read_text(encoding="utf-8").split("\n")[0]
    assert json.loads(first)["label"] in {"positive", "negative", "mixed"}


def test_a_full_folder_is_refused_unless_told(tmp_path: Path) -> None:
    run("export", "ner", "--out", tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match="not empty; choose another folder, or use --overwrite"):
        run("export", "qa", "--out", tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    run("export", "qa", "--out", tmp_path, "--overwrite")
    assert "question" in (tmp_path / "train.jsonl").read_text(encoding="utf-8")


def test_show_draws_one_passage_and_lists_all() -> None:
    shown = run("show", "en-science-01")
    for part in ("Marie Curie", "PER 1", "──born_in──▶", "July 1898", "no answer (tempting: 1911)"):
        assert part in shown
    listed = run("show")
    assert all(passage.id in listed for passage in load())


def test_show_writes_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("show", "zh-nature-01", "--html", page).strip() == str(page)
    assert "青海湖" in page.read_text(encoding="utf-8")
    with pytest.raises(InputError, match="file exists"):
        run("show", "--html", page)
    run("show", "--html", page, "--overwrite")
    assert all(f'id="{passage.id}"' in page.read_text(encoding="utf-8") for passage in load())


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (("show", "en-sciense-01"), r"no passage 'en-sciense-01' in the almanac \(did you mean 'en-science-01'\?\)"),
        (("show", "zzz"), "no passage 'zzz' in the almanac; see all with 'spanlab almanac show'"),
        (("export", "nre", "--out", "never"), r"unknown task 'nre' \(did you mean 'ner'\?\)"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(arguments: tuple[str, ...], cause: str) -> None:
    with pytest.raises(InputError, match=cause):
        run(*arguments)
    assert not Path("never").exists()


def test_the_module_imports_nothing_heavy() -> None:
    code = "import sys, spanlab.cli.almanac; print([n for n in ('torch', 'numpy', 'tokenizers') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
