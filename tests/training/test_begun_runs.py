"""What a run leaves that was ended while it began."""

from pathlib import Path

import pytest

from spanlab.errors import InputError
from spanlab.training import run_folder
from spanlab.training.run_folder import RunFolder


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
