"""Checkpoints on disk: written whole or not at all, found again newest first, pruned when old.

A checkpoint is a folder `step-00000100` of safetensors files and a `state.json` that names the size and sha256 of every
other file, and of its own content. It is written under another name, brought to the disk, and renamed: whatever a kill
leaves is either the folder or no folder. Nothing in it is a pickle, and nothing depends on how many processes wrote it.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim import Optimizer

from spanlab.atomic_io import rename, sha256_of, to_disk, write_json
from spanlab.config import from_mapping, to_mapping
from spanlab.corpus.randomness import sample_keys
from spanlab.encoder.pretrained import tensor_files
from spanlab.errors import InputError
from spanlab.training.distributed import ProcessContext, gather_objects, like, tensors_of, whole
from spanlab.training.ema import ExponentialMovingAverage
from spanlab.training.spec import Carrier

FORMAT_VERSION = 1
STATE = "state.json"
Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run has come, beside its tensors."""

    step: int = 0
    """Steps done."""
    seconds: float = 0.0
    """Time spent training, over all its sessions."""
    best: float | None = None
    """The best score so far."""
    best_step: int = 0
    worse: int = 0
    """Evaluations since the best one."""
    recent_loss: float | None = None
    """A running mean, against which spikes are seen."""
    loss_scale: float | None = None
    """Of fp16."""
    evaluated: int = 0
    """The step of the last evaluation."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything that a run goes on from."""

    progress: Progress
    weights: Tensors
    optimiser: Tensors
    average: Tensors = field(default_factory=dict)
    """The moving average of the weights, where there is one."""
    processes: Tensors = field(default_factory=dict)
    """`RANK.name`: what each process has of its own, such as the state of its random generator."""


_PARTS = ("weights", "optimiser", "average", "processes")


class Checkpoints:
    """The checkpoints of a run, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged: dict[int, str] = {}
        """The steps that were passed over by `newest`, each with the reason."""

    def steps(self) -> list[int]:
        """The steps there are checkpoints of, ascending."""
        return sorted(int(path.name.removeprefix("step-")) for path in self.folder.glob("step-[0-9]*"))

    def path(self, step: int) -> Path:
        """Where the checkpoint of a step is."""
        return self.folder / f"step-{step:08d}"

    def write(self, snapshot: Snapshot, *, keep: int) -> Path:
        """Put a snapshot on the disk, then remove all but the newest `keep`; damaged ones do not count."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._remove_partial()
        place = self.path(snapshot.progress.step)
        partial = place.with_name(f".{place.name}.partial")
        partial.mkdir()
        try:
            _write_files(partial, snapshot)
            if place.exists():  # damaged, or the run would have gone on from it
                shutil.rmtree(place)
            rename(partial, place)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        self.damaged.pop(snapshot.progress.step, None)
        self._prune(keep)
        return place

    def newest(self) -> Snapshot | None:
        """The newest checkpoint that is whole; damaged ones are named in `damaged` and passed over."""
        for step in reversed(self.steps()):
            try:
                return read_checkpoint(self.path(step))
            except InputError as error:
                self.damaged[step] = str(error)
        return None

    def _prune(self, keep: int) -> None:
        whole = [step for step in self.steps() if step not in self.damaged]
        for step in (*self.damaged, *whole[:-keep]):
            shutil.rmtree(self.path(step), ignore_errors=True)
        self.damaged.clear()

    def _remove_partial(self) -> None:
        for left_over in self.folder.glob(".step-*.partial"):
            shutil.rmtree(left_over)


def _write_files(folder: Path, snapshot: Snapshot) -> None:
    records = {}
    for part in _PARTS:
        tensors: Tensors = getattr(snapshot, part)
        if tensors:
            path = folder / f"{part}.safetensors"
            tensor_files.write_file(path, {name: tensor.contiguous() for name, tensor in tensors.items()})
            records[path.name] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    state = {"format_version": FORMAT_VERSION, "progress": to_mapping(snapshot.progress), "files": records}
    write_json(folder / STATE, {**state, "sha256": _digest(state)})
    to_disk(folder)


def _digest(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def read_checkpoint(folder: Path) -> Snapshot:
    """A checkpoint, every file checked against its digest."""
    state = _read_state(folder)
    parts: dict[str, Tensors] = {}
    for name, record in state["files"].items():
        path = folder / name
        if not path.is_file():
            raise InputError("a file of the checkpoint is missing", path=path)
        if path.stat().st_size != record["bytes"] or sha256_of(path) != record["sha256"]:
            raise InputError("a file of the checkpoint is damaged", path=path)
        try:
            parts[path.stem] = load_file(path)
        except SafetensorError as error:
            raise InputError(f"a file of the checkpoint is damaged ({error})", path=path) from None
    return Snapshot(progress=from_mapping(Progress, state["progress"]), **parts)


def _read_state(folder: Path) -> dict[str, Any]:
    path = folder / STATE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        digest, version = state.pop("sha256"), state["format_version"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError("the checkpoint is damaged", path=path) from None
    if digest != _digest(state):
        raise InputError("the checkpoint is damaged", path=path)
    if not set(state["files"]) <= {f"{part}.safetensors" for part in _PARTS}:
        raise InputError("the checkpoint names files that are none of its own", path=path)
    if version != FORMAT_VERSION:
        cause = f"the checkpoint is of format {version}, and this SpanLab reads {FORMAT_VERSION}"
        raise InputError(cause, path=path, fix="resume it with the SpanLab that wrote it")
    assert isinstance(state, dict)
    return state


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of a run that change as it goes."""

    model: nn.Module
    """Not wrapped: its names are those of the files."""
    optimiser: Optimizer
    average: ExponentialMovingAverage | None
    process: ProcessContext
    seed: int


def take_snapshot(parts: Parts, progress: Progress) -> Snapshot:
    """Everything a run goes on from; all processes must ask for it together."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in parts.model.named_parameters()}
    moments = {
        f"{kind}.{names[parameter]}": whole(value)
        for parameter, state in parts.optimiser.state.items()
        for kind, value in state.items()
    }
    own = {"random": torch.get_rng_state(), **_carried(parts.model)}
    if parts.process.device.type == "cuda":
        own["cuda_random"] = torch.cuda.get_rng_state(parts.process.device)
    everyone = gather_objects(own, parts.process)
    return Snapshot(
        progress=progress,
        weights={name: whole(tensor) for name, tensor in tensors_of(parts.model).items()},
        optimiser=moments,
        average={} if parts.average is None else {name: whole(t) for name, t in parts.average.state().items()},
        processes={f"{rank}.{name}": tensor for rank, theirs in enumerate(everyone) for name, tensor in theirs.items()},
    )


def restore_snapshot(parts: Parts, snapshot: Snapshot) -> None:
    """Put everything back as it was when the snapshot was taken."""
    tensors = tensors_of(parts.model)
    _check_names(snapshot.weights, tensors)
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(like(snapshot.weights[name], tensor))
    _restore_optimiser(parts, snapshot.optimiser)
    if parts.average is not None:
        patterns = dict(parts.model.named_parameters())
        parts.average.load({name: like(tensor, patterns[name]) for name, tensor in snapshot.average.items()})
    seed_process(parts.process, parts.seed, snapshot.progress.step)
    own = _of_process(snapshot.processes, parts.process.rank)
    if own:
        torch.set_rng_state(own["random"])
        if parts.process.device.type == "cuda" and "cuda_random" in own:
            torch.cuda.set_rng_state(own["cuda_random"], parts.process.device)
    if isinstance(parts.model, Carrier):
        parts.model.load_recurrent_state(_of_all_processes(snapshot.processes))


def seed_process(process: ProcessContext, seed: int, step: int = 0) -> None:
    """Begin this process's random numbers (dropout): its own, and the same whenever it begins at this step."""
    key = sample_keys(seed=seed, purpose="process", epoch=step, index=process.rank)
    torch.manual_seed(int(key[0] >> 1))


def _check_names(found: Tensors, wanted: Tensors) -> None:
    for name, tensor in wanted.items():
        if name not in found or found[name].shape != tensor.shape:
            fix = "resume a run with the model and objectives it was begun with"
            raise InputError(f"the checkpoint does not fit the model: {name}", fix=fix)


def _restore_optimiser(parts: Parts, moments: Tensors) -> None:
    kinds = {name.partition(".")[0] for name in moments}
    for name, parameter in parts.model.named_parameters():
        found = {kind: moments[f"{kind}.{name}"] for kind in kinds if f"{kind}.{name}" in moments}
        if found:
            # A count of steps is one number, whatever the shape of the weights and however they are sharded.
            parts.optimiser.state[parameter] = {
                kind: like(value, parameter)
                if value.shape == parameter.shape
                else value.to(parameter.device, copy=True)
                for kind, value in found.items()
            }


def _carried(model: nn.Module) -> dict[str, Tensor]:
    carried = model.recurrent_state() if isinstance(model, Carrier) else {}
    return {f"carried.{name}": tensor.cpu() for name, tensor in carried.items()}


def _of_all_processes(processes: Tensors) -> dict[str, Tensor]:
    """What was carried by each process: together, so that other processes than before can go on with it."""
    named = ((name.partition(".")[2], tensor) for name, tensor in processes.items())
    return {name.removeprefix("carried."): tensor for name, tensor in named if name.startswith("carried.")}


def _of_process(processes: Tensors, rank: int) -> dict[str, Tensor]:
    lead = f"{rank}."
    return {name.removeprefix(lead): tensor for name, tensor in processes.items() if name.startswith(lead)}
