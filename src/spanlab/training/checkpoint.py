"""Checkpoints: the state of a run, written atomically, verified on reading, pruned when old.

A checkpoint is a folder `step-00000100` of safetensors files and a `state.json` with the size and sha256 of every file
and of its own content. It is written under a temporary name, synced to disk and renamed, so a kill leaves either the
complete folder or none. It contains no pickles, and does not depend on the number of processes that wrote it.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim import Optimizer

from spanlab.atomic_io import fsync_folder, rename, sha256_of, write_json
from spanlab.config import AtLeast, Source, from_mapping, to_mapping
from spanlab.corpus.randomness import sample_keys
from spanlab.encoder.pretrained import tensor_files
from spanlab.encoder.pretrained.checked_weights import check_finite
from spanlab.errors import InputError
from spanlab.strict_parsing import read_json
from spanlab.training.distributed import ProcessContext, gather_objects
from spanlab.training.ema import ExponentialMovingAverage
from spanlab.training.sharding import full_tensor, named_tensors, shard_like
from spanlab.training.spec import RecurrentModel

FORMAT_VERSION = 1
STATE = "state.json"
_NAME = re.compile(r"step-([0-9]{8,})")
Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The scalar state of a run."""

    step: Annotated[int, AtLeast(0)] = 0
    """Steps done."""
    seconds: float = 0.0
    """Training time, over all sessions."""
    best: float | None = None
    """The best score on held-out data so far."""
    best_step: int = 0
    worse: int = 0
    """Evaluations since the best one."""
    recent_loss: float | None = None
    """Running mean of the loss, for the detection of spikes."""
    loss_scale: float | None = None
    """The scale of the fp16 gradient scaler."""
    evaluated: int = 0
    """The step of the last evaluation."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything that a run is resumed from."""

    progress: Progress
    weights: Tensors
    optimiser: Tensors
    average: Tensors = field(default_factory=dict)
    """The moving average of the weights, with `training.ema`."""
    processes: Tensors = field(default_factory=dict)
    """`RANK.name`: the state of each process, such as that of its random generator."""


@dataclass(frozen=True, kw_only=True)
class _FileRecord:
    """What a file of the checkpoint must be like."""

    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class _State:
    """The content of `state.json`, without its format and its own sha256."""

    progress: Progress
    files: dict[str, _FileRecord]


_PARTS = ("weights", "optimiser", "average", "processes")
_RECURRENT = "carried."
"""Prefix of recurrent state among the state of a process."""


class Checkpoints:
    """The folder with the checkpoints of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged: dict[int, str] = {}
        """The steps that `newest` skipped, with the reason."""

    def steps(self) -> list[int]:
        """The steps of all checkpoints, ascending; other files and folders, such as copies, are left alone."""
        names = [path.name for path in self.folder.glob("step-*")]
        steps = [int(match[1]) for match in map(_NAME.fullmatch, names) if match is not None]
        return sorted(step for step in steps if self.path(step).name in names)

    def path(self, step: int) -> Path:
        """The folder of the checkpoint of a step."""
        return self.folder / f"step-{step:08d}"

    def write(self, snapshot: Snapshot, *, keep: int) -> Path:
        """Write a snapshot, then remove all but the newest `keep` checkpoints; damaged ones are removed, too."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for partial in self.folder.glob(".step-*.partial"):  # of a write that was killed
            shutil.rmtree(partial)
        path = self.path(snapshot.progress.step)
        partial = path.with_name(f".{path.name}.partial")
        partial.mkdir()
        try:
            _write_files(partial, snapshot)
            if path.exists():  # damaged, or the run would have been resumed from it
                shutil.rmtree(path)
            rename(partial, path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        self.damaged.pop(snapshot.progress.step, None)
        self._prune(keep)
        return path

    def newest(self) -> Snapshot | None:
        """The newest intact checkpoint; damaged ones are skipped and listed in `damaged`."""
        for step in reversed(self.steps()):
            try:
                return read_checkpoint(self.path(step))
            except InputError as error:
                self.damaged[step] = str(error)
        return None

    def _prune(self, keep: int) -> None:
        intact = [step for step in self.steps() if step not in self.damaged]
        for step in (*self.damaged, *intact[:-keep]):
            shutil.rmtree(self.path(step), ignore_errors=True)
        self.damaged.clear()


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
    fsync_folder(folder)


def _digest(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def read_checkpoint(folder: Path) -> Snapshot:
    """Read a checkpoint and verify the sha256 of every file."""
    state = _read_state(folder)
    parts: dict[str, Tensors] = {}
    for name, record in state.files.items():
        path = folder / name
        if not path.is_file():
            raise InputError("a file of the checkpoint is missing", path=path)
        if path.stat().st_size != record.bytes or sha256_of(path) != record.sha256:
            raise InputError("a file of the checkpoint is damaged", path=path)
        try:
            parts[path.stem] = load_file(path)
        except SafetensorError as error:
            raise InputError(f"a file of the checkpoint is damaged ({error})", path=path) from None
    for part in ("weights", "optimiser"):
        parts.setdefault(part, {})
    for part in ("weights", "average"):
        for name, tensor in parts.get(part, {}).items():
            check_finite(name, tensor, folder)
    return Snapshot(progress=state.progress, **parts)


def _read_state(folder: Path) -> _State:
    path = folder / STATE
    try:
        state = read_json(path)
        digest, version = state.pop("sha256"), state["format_version"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError("the checkpoint is damaged", path=path) from None
    if digest != _digest(state):
        raise InputError("the checkpoint is damaged", path=path)
    if version != FORMAT_VERSION:
        cause = f"the checkpoint has format {version}; this version of SpanLab reads {FORMAT_VERSION}"
        raise InputError(cause, path=path, fix="resume with the version of SpanLab that wrote it")
    content = {key: value for key, value in state.items() if key != "format_version"}
    read = from_mapping(_State, content, Source(path=str(path)))
    if not set(read.files) <= {f"{part}.safetensors" for part in _PARTS}:
        raise InputError("the checkpoint lists files that do not belong to it", path=path)
    return read


@dataclass(frozen=True, kw_only=True)
class TrainingState:
    """The objects of a run whose state is saved."""

    model: nn.Module
    """Not wrapped: parameter names are those of the files."""
    optimiser: Optimizer
    average: ExponentialMovingAverage | None
    process: ProcessContext
    seed: int


def take_snapshot(state: TrainingState, progress: Progress) -> Snapshot:
    """A copy of the state of a run on the CPU. Collective: call on all processes."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in state.model.named_parameters()}
    optimiser = {
        f"{key}.{names[parameter]}": full_tensor(value)
        for parameter, parameter_state in state.optimiser.state.items()
        for key, value in parameter_state.items()
    }
    local = {"random": torch.get_rng_state()}
    if isinstance(state.model, RecurrentModel):
        recurrent = state.model.recurrent_state()
        local |= {f"{_RECURRENT}{name}": tensor.cpu() for name, tensor in recurrent.items()}
    if state.process.device.type == "cuda":
        local["cuda_random"] = torch.cuda.get_rng_state(state.process.device)
    gathered = gather_objects(local, state.process)
    return Snapshot(
        progress=progress,
        weights={name: full_tensor(tensor) for name, tensor in named_tensors(state.model).items()},
        optimiser=optimiser,
        average={} if state.average is None else {name: full_tensor(t) for name, t in state.average.state().items()},
        processes={
            f"{rank}.{name}": tensor for rank, tensors in enumerate(gathered) for name, tensor in tensors.items()
        },
    )


def restore_snapshot(state: TrainingState, snapshot: Snapshot) -> None:
    """Restore the state of a run from a snapshot, in place."""
    tensors = named_tensors(state.model)
    _check_shapes(snapshot.weights, tensors)
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(shard_like(snapshot.weights[name], tensor))
    _restore_optimiser(state, snapshot.optimiser)
    if state.average is not None:
        parameters = dict(state.model.named_parameters())
        _check_shapes(snapshot.average, state.average.state())
        average = {name: shard_like(tensor, parameters[name]) for name, tensor in snapshot.average.items()}
        state.average.load(average)
    _restore_processes(state, snapshot)


def seed_process(process: ProcessContext, seed: int, step: int = 0) -> None:
    """Seed the random generator of this process (for dropout) by its rank and the step it starts at."""
    key = sample_keys(seed=seed, purpose="process", epoch=step, index=process.rank)
    torch.manual_seed(int(key[0] >> 1))


def _check_shapes(saved: Tensors, expected: Tensors) -> None:
    for name, tensor in expected.items():
        if name not in saved or saved[name].shape != tensor.shape:
            raise _misfit(f"{name} {'is missing' if name not in saved else 'has another shape'}")


def _misfit(problem: str) -> InputError:
    fix = "resume with the model and objectives the run was started with"
    return InputError(f"the checkpoint does not fit the model: {problem}", fix=fix)


def _restore_optimiser(state: TrainingState, saved: Tensors) -> None:
    """`saved`: tensors by `KEY.PARAMETER`, such as `exp_avg.encoder.embeddings.word.weight`."""
    keys = {name.partition(".")[0] for name in saved}
    for name, parameter in state.model.named_parameters():
        values = {key: saved[f"{key}.{name}"] for key in keys if f"{key}.{name}" in saved}
        if values:
            missing = sorted(keys - values.keys())
            if missing:
                raise _misfit(f"the optimiser has no '{missing[0]}' for {name}")
            # A step count is a scalar whatever the shape of the parameter, and is never sharded.
            wrong = [key for key, value in values.items() if value.dim() and value.shape != parameter.shape]
            if wrong:
                raise _misfit(f"{wrong[0]}.{name} of the optimiser has another shape")
            state.optimiser.state[parameter] = {
                key: shard_like(value, parameter)
                if value.shape == parameter.shape
                else value.to(parameter.device, copy=True)
                for key, value in values.items()
            }


def _restore_processes(state: TrainingState, snapshot: Snapshot) -> None:
    """Random generators of this rank, if the snapshot has it; recurrent state of all ranks, whose number may differ."""
    process = state.process
    seed_process(process, state.seed, snapshot.progress.step)
    if f"{process.rank}.random" in snapshot.processes:
        try:
            torch.set_rng_state(snapshot.processes[f"{process.rank}.random"])
        except (TypeError, RuntimeError):
            raise _misfit("the state of the random generator is not one") from None
    if process.device.type == "cuda" and f"{process.rank}.cuda_random" in snapshot.processes:
        torch.cuda.set_rng_state(snapshot.processes[f"{process.rank}.cuda_random"], process.device)
    if isinstance(state.model, RecurrentModel):
        without_rank = ((name.partition(".")[2], tensor) for name, tensor in snapshot.processes.items())
        state.model.load_recurrent_state(
            {name.removeprefix(_RECURRENT): tensor for name, tensor in without_rank if name.startswith(_RECURRENT)}
        )
