"""Threads of a resumed run: those it was begun with, or a word about the last bits."""

import json
from pathlib import Path

import pytest
import torch

from spanlab.training import threads
from spanlab.training.distributed import ProcessContext
from spanlab.training.run_folder import ENVIRONMENT, RunFolder
from spanlab.training.threads import choose_threads, restore_threads

HERE = ProcessContext(device=torch.device("cpu"), precision="fp32")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run that was begun with three threads, on a machine of four cores of which torch takes one."""
    monkeypatch.setattr(threads, "available_cores", lambda: 4)
    folder = RunFolder(tmp_path)
    folder.write_environment({"threads": 3, "processes": 1})
    return folder


def test_a_resumed_run_keeps_its_threads(run: RunFolder) -> None:
    assert choose_threads(0, run, HERE, resume=True) == (3, ())
    assert choose_threads(3, run, HERE, resume=True) == (3, ())
    assert choose_threads(0, run, HERE, resume=False) == (0, ())


def test_the_threads_of_the_first_session_count(run: RunFolder) -> None:
    run.write_environment({"threads": 2, "processes": 5})
    assert choose_threads(0, run, HERE, resume=True) == (3, ())


def test_other_threads_are_told_of(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    told = "the run was started with training.threads=3, now {}: the last bits may differ"
    assert choose_threads(2, run, HERE, resume=True) == (2, (told.format(2),))
    monkeypatch.setattr(threads, "available_cores", lambda: 2)
    found, (note,) = choose_threads(0, run, HERE, resume=True)
    assert found == 1
    assert note == told.format(1) + "; use training.threads=3 to avoid this, slower on 2 cores"
    assert choose_threads(3, run, HERE, resume=True) == (3, ())


def test_where_threads_do_not_decide_they_are_left_to_the_user(run: RunFolder) -> None:
    two_processes = ProcessContext(device=torch.device("cpu"), precision="fp32", world_size=2)
    assert choose_threads(0, run, two_processes, resume=True) == (0, ())
    assert choose_threads(0, run, ProcessContext(device=torch.device("meta"), precision="fp32"), resume=True) == (0, ())


@pytest.mark.parametrize("told", [None, "", "[]", '{"threads": 2}'])
def test_a_run_that_has_not_told_its_threads(told: str | None, tmp_path: Path) -> None:
    if told is not None:
        (tmp_path / ENVIRONMENT).write_text(told)
    assert RunFolder(tmp_path).initial_parallelism() is None
    assert choose_threads(0, RunFolder(tmp_path), HERE, resume=True) == (0, ())


def test_a_run_of_an_earlier_version_has_told_those_of_its_last_session(tmp_path: Path) -> None:
    (tmp_path / ENVIRONMENT).write_text(json.dumps({"threads": 7, "processes": 2}))
    begun = RunFolder(tmp_path).initial_parallelism()
    assert begun is not None
    assert (begun.threads, begun.processes) == (7, 2)


def test_threads_are_put_back_whatever_happens() -> None:
    @restore_threads()
    def fail() -> None:
        torch.set_num_threads(2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert torch.get_num_threads() == 1


def test_a_quota_limits_the_threads_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "available_cores", lambda: 2)
    torch.set_num_threads(3)
    assert choose_threads(0, RunFolder(tmp_path), HERE, resume=False) == (2, ())
    assert choose_threads(5, RunFolder(tmp_path), HERE, resume=False) == (5, ())
