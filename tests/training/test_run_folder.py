"""The folder of a run: never overwritten by accident, its model there whole or not at all."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from spanlab.atomic_io import repair_folder
from spanlab.errors import InputError
from spanlab.training import run_folder
from spanlab.training.run_folder import RunFolder
from tests.breaking import Fuse, Killed

CONFIG = {"size": "tiny", "training": {"lr": 0.1, "keep": 2, "accumulate": 1}, "corpora": ["a"], "init": None}


def refusal(run: RunFolder, *, resume: bool = False, overwrite: bool = False) -> str:
    with pytest.raises(InputError) as error:
        run.check(resume=resume, overwrite=overwrite)
    return str(error.value).removeprefix(f"{run.path}: ")


def test_what_may_be_written_to(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "deep" / "run")
    run.check(resume=False, overwrite=False)
    assert not run.path.exists()
    assert refusal(run, resume=True) == "no run to resume; check --out, or omit --resume"
    run.begin(CONFIG)
    assert refusal(run) == "the folder contains a run; use --resume or --overwrite"
    run.check(resume=True, overwrite=False)
    run.check(resume=False, overwrite=True)
    assert run.read_config() == CONFIG


def test_a_foreign_folder_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    refused = "the folder is not empty and is not a run; choose another --out"
    assert refusal(RunFolder(tmp_path), overwrite=True) == refused
    assert refusal(RunFolder(tmp_path / "thesis.tex")) == "exists and is not a folder; choose another --out"


def test_a_run_that_was_refused_before_it_began_leaves_the_folder_free(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    with run.lock():
        (tmp_path / "config.yaml.partial").write_text("half of i")
    run.check(resume=False, overwrite=False)


def test_a_new_run_finds_nothing_of_the_old_one_but_its_config_until_the_last(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.begin(CONFIG)
    for name in ("metrics.jsonl", "status.json", "report.html", "fillings.json", "trackers.json"):
        (tmp_path / name).write_text("old")
    for name in ("checkpoints", "model", "fault-step-3"):
        (tmp_path / name).mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "rmtree", Fuse(1, Killed, halfway=False).guard(shutil.rmtree))
        with pytest.raises(Killed):
            run.begin({**CONFIG, "size": "mini"})
    assert run.read_config() == CONFIG
    run.check(resume=False, overwrite=True)
    run.begin({**CONFIG, "size": "mini"})
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_only_one_process_works_on_a_run(tmp_path: Path) -> None:
    taken = pytest.raises(InputError, match="another process is using this run")
    with RunFolder(tmp_path).lock(), taken, RunFolder(tmp_path).lock():
        pass
    with RunFolder(tmp_path).lock():
        pass


def test_other_settings_are_named(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.begin(CONFIG)
    moved = {**CONFIG, "corpora": ["elsewhere/a"], "training": {"lr": 0.1, "keep": 5, "accumulate": 4}}
    run.check_same(moved)
    with pytest.raises(InputError, match=r"config.yaml: the run was started with training.lr=0.1, not 0.2; resume wi"):
        run.check_same({**CONFIG, "training": {"lr": 0.2, "keep": 2, "accumulate": 1}})
    with pytest.raises(InputError, match="the run was started with init=None, not bert"):
        run.check_same({**CONFIG, "init": "bert"})


def test_a_run_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("format_version: 7\nsize: tiny\n")
    with pytest.raises(InputError, match="the run has format 7; this version of SpanLab reads 1"):
        RunFolder(tmp_path).check_same(CONFIG)


@pytest.mark.parametrize("halfway", [False, True], ids=["before", "after"])
def test_a_model_is_replaced_whole_or_not_at_all(tmp_path: Path, halfway: bool) -> None:
    def write(text: str):  # noqa: ANN202
        def export(folder: Path) -> None:
            for name in ("a", "b"):
                (folder / name).write_text(text)

        return export

    def content(run: RunFolder) -> set[str]:
        return {(run.model / name).read_text() for name in ("a", "b")}

    operations = 0
    while True:
        run = RunFolder(tmp_path / str(operations))
        run.begin(CONFIG)
        run.put_model(write("old"))
        fuse = Fuse(operations, lambda: OSError(errno.ENOSPC, "full"), halfway=halfway)
        with pytest.MonkeyPatch.context() as patch:
            for name in ("mkdir", "chmod", "rename", "replace", "rmdir", "unlink", "fsync"):
                patch.setattr(os, name, fuse.guard(getattr(os, name)))
            try:
                run.put_model(write("new"))
            except OSError:
                assert fuse.broken
        repair_folder(run.model)
        assert content(run) in ({"old"}, {"new"})
        run.put_model(write("newer"))
        assert content(run) == {"newer"}
        assert sorted(path.name for path in run.path.iterdir()) == ["config.yaml", "model"]
        if not fuse.broken:
            break
        operations += 1
    assert operations > 5


def test_a_folder_with_a_lock_alone_is_empty(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    with run.lock():
        pass
    run.check(resume=False, overwrite=False)
    (run.path / "notes.txt").touch()
    with pytest.raises(InputError, match="the folder is not empty and is not a run"):
        run.check(resume=False, overwrite=False)


def test_an_overwriting_that_is_killed_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder(tmp_path / "run")
    run.begin({"seed": 1})
    run.metrics.touch()

    def die(path: Path, data: bytes) -> None:
        raise SystemExit(path, data)

    monkeypatch.setattr(run_folder, "write_atomically", die)
    with pytest.raises(SystemExit):
        run.begin({"seed": 2})
    assert not run.metrics.exists()
    run.check(resume=False, overwrite=True)
    monkeypatch.undo()
    run.begin({"seed": 2})
    assert run.read_config() == {"seed": 2}
