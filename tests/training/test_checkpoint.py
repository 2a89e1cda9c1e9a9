"""Checkpoints: there whole or not at all, whatever breaks; the newest whole one is found."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from spanlab.encoder.pretrained import tensor_files
from spanlab.errors import InputError
from spanlab.training import checkpoint
from spanlab.training.checkpoint import Checkpoints, Progress, Snapshot, read_checkpoint
from tests.breaking import Fuse, Killed


def snapshot(step: int) -> Snapshot:
    generator = torch.Generator().manual_seed(step)
    return Snapshot(
        progress=Progress(step=step, seconds=1 / 3, best=0.1 + 0.2, best_step=step, recent_loss=1e-17),
        weights={"a.weight": torch.randn(5, 3, generator=generator), "b": torch.arange(2, dtype=torch.float64)},
        optimiser={
            "exp_avg.a.weight": torch.randn(5, 3, generator=generator),
            "step.a.weight": torch.tensor(torch.inf),
        },
        processes={"0.random": torch.get_rng_state()},
    )


def same(one: Snapshot | None, other: Snapshot) -> bool:
    if one is None or one.progress != other.progress:
        return False
    parts = ("weights", "optimiser", "average", "processes")
    pairs = [(getattr(one, part), getattr(other, part)) for part in parts]
    return all(ours.keys() == theirs.keys() and all(ours[k].equal(theirs[k]) for k in ours) for ours, theirs in pairs)


def two_checkpoints(folder: Path) -> tuple[Checkpoints, Snapshot, Snapshot]:
    checkpoints, one, two = Checkpoints(folder), snapshot(10), snapshot(20)
    checkpoints.write(one, keep=2)
    checkpoints.write(two, keep=2)
    return checkpoints, one, two


def test_a_snapshot_comes_back_to_the_bit(tmp_path: Path) -> None:
    checkpoints, _, two = two_checkpoints(tmp_path / "checkpoints")
    assert same(checkpoints.newest(), two)
    assert not checkpoints.damaged


def test_weights_that_are_not_finite_are_skipped(tmp_path: Path) -> None:
    checkpoints, _, two = two_checkpoints(tmp_path)
    for part in ("weights", "average"):
        diverged = {"a.weight": torch.full((5, 3), torch.nan)}
        checkpoints.write(replace(two, **{part: diverged}, progress=Progress(step=30)), keep=3)
        assert same(checkpoints.newest(), two)
        assert "'a.weight' is not finite" in checkpoints.damaged[30]


def test_old_ones_are_pruned(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (5, 10, 100, 99_999_999, 100_000_000):
        checkpoints.write(snapshot(step), keep=2)
    assert checkpoints.steps() == [99_999_999, 100_000_000]


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x11
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


FILES = ("weights.safetensors", "optimiser.safetensors", "processes.safetensors", "state.json")
DAMAGES: dict[str, Callable[[Path], None]] = {
    "truncated": truncate,
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b"") and None,
}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_named_and_skipped_back_from(tmp_path: Path, file: str, damage: str) -> None:
    checkpoints, one, _ = two_checkpoints(tmp_path)
    broken = checkpoints.path(20) / file
    DAMAGES[damage](broken)
    assert same(checkpoints.newest(), one)
    assert list(checkpoints.damaged) == [20]
    assert str(broken) in checkpoints.damaged[20]
    assert "damaged" in checkpoints.damaged[20] or "missing" in checkpoints.damaged[20]


@pytest.mark.parametrize("file", FILES)
def test_one_flipped_byte_anywhere_is_seen(tmp_path: Path, file: str) -> None:
    checkpoints, _, two = two_checkpoints(tmp_path)
    path = checkpoints.path(20) / file
    content = path.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 150)):
        flip(path, place)
        try:
            read = read_checkpoint(checkpoints.path(20))
        except InputError:
            pass
        else:  # white space between the words of a JSON file may be other white space
            assert same(read, two)
            assert file == "state.json"
            assert content[place : place + 1].isspace()
        path.write_bytes(content)


@pytest.mark.parametrize(
    "content", ["[]", "3", '{"format_version": 1}', '{"format_version": 1, "files": {}, "sha256": "0"}', "{", "\xff"]
)
def test_a_state_that_is_none(tmp_path: Path, content: str) -> None:
    checkpoints, one, _ = two_checkpoints(tmp_path)
    (checkpoints.path(20) / "state.json").write_text(content, encoding="latin-1")
    assert same(checkpoints.newest(), one)


def test_a_checkpoint_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    from spanlab.training.checkpoint import _digest

    checkpoints, one, _ = two_checkpoints(tmp_path)
    path = checkpoints.path(20) / "state.json"
    state = json.loads(path.read_text())
    state.pop("sha256")
    state["files"]["../../secret.safetensors"] = {"bytes": 0, "sha256": ""}
    path.write_text(json.dumps({**state, "sha256": _digest(state)}))
    assert same(checkpoints.newest(), one)
    assert "lists files that do not belong to it" in checkpoints.damaged[20]


WRONG_STATES: dict[str, Callable[[dict[str, Any]], object]] = {
    "progress": lambda state: state.update(progress=5),
    "step": lambda state: state["progress"].update(step="ten"),
    "negative step": lambda state: state["progress"].update(step=-1),
    "unknown key": lambda state: state["progress"].update(speed=1),
    "no progress": lambda state: state.pop("progress"),
    "files": lambda state: state.update(files=["weights.safetensors"]),
    "record": lambda state: state["files"].update({"weights.safetensors": "x"}),
    "size": lambda state: state["files"]["weights.safetensors"].update(bytes="many"),
    "format": lambda state: state.update(format_version=[1]),
    "other key": lambda state: state.update(more={}),
}


@pytest.mark.parametrize("name", WRONG_STATES)
def test_a_state_of_wrong_types_is_damage(tmp_path: Path, name: str) -> None:
    """Even if its digest is right."""
    from spanlab.training.checkpoint import _digest

    checkpoints, one, _ = two_checkpoints(tmp_path)
    path = checkpoints.path(20) / "state.json"
    state = json.loads(path.read_text())
    state.pop("sha256")
    WRONG_STATES[name](state)
    path.write_text(json.dumps({**state, "sha256": _digest(state)}))
    assert same(checkpoints.newest(), one)
    assert str(path) in checkpoints.damaged[20]


def test_copies_of_checkpoints_are_left_alone(tmp_path: Path) -> None:
    checkpoints, _, two = two_checkpoints(tmp_path)
    names = (
        "step-00000020.bak",
        "step-00000020 (copy)",
        "step-20",
        "step-99999999x",
        "step-\u0664\u0664\u0664\u0664\u0664\u0664\u0664\u0664",
    )
    for name in names:
        shutil.copytree(checkpoints.path(20), tmp_path / name)
    assert checkpoints.steps() == [10, 20]
    assert same(checkpoints.newest(), two)
    checkpoints.write(snapshot(30), keep=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, "step-00000030"])


def test_damaged_ones_push_out_no_whole_one(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (10, 20, 30):
        checkpoints.write(snapshot(step), keep=3)
    for step in (20, 30):
        truncate(checkpoints.path(step) / "weights.safetensors")
    assert same(checkpoints.newest(), snapshot(10))
    assert checkpoints.damaged.keys() == {20, 30}
    checkpoints.write(snapshot(15), keep=2)
    assert checkpoints.steps() == [10, 15]
    checkpoints.write(snapshot(20), keep=2)
    assert checkpoints.steps() == [15, 20]
    assert checkpoints.newest() is not None
    assert not checkpoints.damaged


def test_what_a_kill_left_is_ignored_and_removed(tmp_path: Path) -> None:
    checkpoints, _, two = two_checkpoints(tmp_path)
    left = tmp_path / ".step-00000030.partial"
    shutil.copytree(checkpoints.path(20), left)
    assert same(checkpoints.newest(), two)
    checkpoints.write(snapshot(25), keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000020", "step-00000025"]


def test_none_is_there(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "nowhere").newest() is None


def install(fuse: Fuse, patch: pytest.MonkeyPatch) -> None:
    """Everything by which a save changes the disk."""
    patch.setattr(os, "fsync", fuse.guard(os.fsync))
    patch.setattr(os, "mkdir", fuse.guard(os.mkdir))
    patch.setattr(os, "rmdir", fuse.guard(os.rmdir))
    patch.setattr(os, "unlink", fuse.guard(os.unlink))
    patch.setattr(os, "replace", fuse.guard(os.replace))
    patch.setattr(os, "rename", fuse.guard(os.rename))
    patch.setattr(tensor_files, "save_file", fuse.guard(tensor_files.save_file))


@pytest.mark.parametrize("halfway", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", ["kill", "full disk"])
def test_a_save_broken_at_any_operation_destroys_nothing(tmp_path: Path, kind: str, halfway: bool) -> None:
    def error() -> BaseException:
        return Killed() if kind == "kill" else OSError(errno.ENOSPC, "No space left on device")

    operations = 0
    while True:
        folder = tmp_path / str(operations)
        checkpoints, _, two = two_checkpoints(folder)
        fuse, three = Fuse(operations, error, halfway=halfway), snapshot(30)
        with pytest.MonkeyPatch.context() as patch:
            install(fuse, patch)
            with suppress(Killed, OSError):
                checkpoints.write(three, keep=1)
        found = Checkpoints(folder)
        newest = found.newest()
        assert same(newest, two) or same(newest, three)
        assert not found.damaged
        found.write(snapshot(40), keep=1)
        assert found.steps() == [40]
        assert [path.name for path in folder.iterdir()] == ["step-00000040"]
        if not fuse.broken:
            break
        operations += 1
    assert operations > 15


def test_an_optimiser_without_one_of_its_tensors_is_refused() -> None:
    model = torch.nn.Linear(2, 2)
    optimiser = torch.optim.AdamW(model.parameters())
    state = SimpleNamespace(model=model, optimiser=optimiser)
    saved = {f"{key}.{name}": torch.zeros_like(weight) for name, weight in model.named_parameters() for key in "ab"}
    checkpoint._restore_optimiser(state, saved)  # type: ignore[arg-type]
    del saved["a.bias"]
    with pytest.raises(InputError, match="the optimiser has no 'a' for bias"):
        checkpoint._restore_optimiser(state, saved)  # type: ignore[arg-type]
