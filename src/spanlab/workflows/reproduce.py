"""Train a model again as its folder says, on the same files, and compare the score.

A model folder with `reproduce.json` enters, and where its data is; a plan leaves once every file has the recorded
sha256, and a comparison of scores once the run is finished. The run is that of `spanlab finetune` or `spanlab
pretrain`: a stopped one is resumed, a finished one is compared at once.
"""

import glob
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from spanlab.atomic_io import sha256_of, write_atomically
from spanlab.config import Source, from_mapping
from spanlab.corpus.manifest import MANIFEST
from spanlab.corpus.verify import find_damage
from spanlab.encoder.pretrained import locate_model
from spanlab.errors import InputError
from spanlab.finetuning.config import MULTITASK, saved_run_config
from spanlab.finetuning.task_data import TaskEntry
from spanlab.machine import available_cores
from spanlab.models import NAMES, list_models
from spanlab.pretraining.recipe import Recipe
from spanlab.training.config import TrainingConfig
from spanlab.training.run_folder import CONFIG, RunFolder
from spanlab.version import __version__
from spanlab.workflows import finetune, pretrain
from spanlab.workflows.provenance import PROVENANCE, InputFile, Provenance, read_provenance, weight_files
from spanlab.workflows.run import OnRecord, OnStart

Job = finetune.FinetuningJob | pretrain.PretrainingJob
_HASH = 12
"""Digits of a sha256 in messages."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run to be made again, its files found and compared."""

    job: Job
    provenance: Provenance
    finished: bool = False
    """Whether the run in the output folder is at its end already."""

    @property
    def command(self) -> str:
        """The command that the run amounts to; its settings are those of the record."""
        job = self.job
        if isinstance(job, pretrain.PretrainingJob):
            data = " ".join(f"--data {shlex.quote(corpus)}" for corpus in job.data)
            init = "" if job.init is None else f" --init {shlex.quote(job.init)}"
            return f"spanlab pretrain {job.recipe.system} {data}{init} --out {shlex.quote(job.out)}"
        dev = "" if job.dev is None else f" --dev {shlex.quote(job.dev)}"
        files = f"--model {shlex.quote(job.model)} --train {shlex.quote(job.train)}{dev}"
        add = "" if job.add_as is None else f" --add name={job.add_as}"
        return f"spanlab finetune {job.task} {files} --out {shlex.quote(job.out)}{add}"

    def notes(self) -> list[str]:
        """What will run, how long it took, and what is not as it was."""
        record = self.provenance
        then = record.environment
        threads, processes = record.parallelism("threads"), record.parallelism("processes")
        seed = record.config.get("seed", 0)
        notes = [
            f"this runs: {self.command} (on the {_count(record.inputs)}, with all recorded settings, seed {seed})",
            f"it took {_duration(record.seconds)} with {threads} {'thread' if threads == 1 else 'threads'} on "
            f"{then.get('system', 'another machine')}, {record.device}, {record.precision}",
        ]
        now = {"spanlab": __version__, "torch": version("torch")}
        notes += [
            f"{name} was {then[name]} and is {current}: the last decimals may differ"
            for name, current in now.items()
            if then.get(name) not in {None, current}
        ]
        if processes > 1:
            notes.append(f"it ran in {processes} processes: torchrun --nproc-per-node {processes} -m spanlab reproduce")
        if threads > available_cores():
            notes.append(f"it had {threads} threads, here are {available_cores()} cores: the last decimals may differ")
        return notes


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The score of a model and that of the run that was to reproduce it."""

    metric: str
    original: float
    reproduced: float
    tolerance: float
    folder: str
    seconds: float
    original_seconds: float
    scores: dict[str, tuple[float | None, float | None]]
    """Every score: original and reproduced."""

    @property
    def difference(self) -> float:
        """Reproduced minus original."""
        return self.reproduced - self.original

    @property
    def same(self) -> bool:
        """Whether the difference is within the tolerance."""
        return abs(self.difference) <= self.tolerance

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "metric": self.metric,
            "original": self.original,
            "reproduced": self.reproduced,
            "difference": self.difference,
            "tolerance": self.tolerance,
            "same": self.same,
            "folder": self.folder,
            "seconds": self.seconds,
            "original_seconds": self.original_seconds,
            "scores": {name: list(pair) for name, pair in self.scores.items()},
        }


def plan_reproduction(model: str, *, data: Path | None = None, out: str) -> Plan:
    """Find the files that a model was trained on and compare them with the record; nothing is trained or written.

    Args:
        model: a model folder, a run folder, a packaged model or a Hugging Face id.
        data: a folder that has the files, at any depth; None: where the run found them, or the current directory.
        out: the run folder; an unfinished reproduction there is resumed.
    """
    folder = locate_model(model)
    if model in NAMES and not (folder / PROVENANCE).is_file():
        made_by = next(bundled.made_by for bundled in list_models() if bundled.name == model)
        raise InputError(f"'{model}' is not the model of one run", fix=f"it is made by: {made_by}")
    record = read_provenance(folder)
    if record.score is None or not math.isfinite(record.score):
        raise InputError(
            "the run that trained this model had no score", path=folder / PROVENANCE, fix="none can be had"
        )
    files = _Finder(record, folder, data)
    run = RunFolder(out)
    resume = (run.path / CONFIG).is_file()
    run.check(resume=resume, overwrite=False)
    job = _finetuning_job(record, files, out) if record.command == "finetune" else _pretraining_job(record, files, out)
    return Plan(job=replace(job, resume=resume), provenance=record, finished=resume and run.read_status().finished)


def reproduce(
    plan: Plan, *, tolerance: float, on_start: OnStart | None = None, on_record: OnRecord | None = None
) -> Comparison:
    """Run the plan, or finish it, and compare the scores."""
    job, record, run = plan.job, plan.provenance, RunFolder(plan.job.out)
    if plan.finished and isinstance(job, finetune.FinetuningJob):
        run.check_same(finetune.describe(job))
    elif plan.finished and isinstance(job, pretrain.PretrainingJob):
        run.check_same(pretrain.describe(job, pretrain.open_corpora(job.data)))
    elif isinstance(job, finetune.FinetuningJob):
        finetune.run_job(job, on_start=on_start, on_record=on_record)
    else:
        pretrain.run_job(job, on_start=on_start, on_record=on_record)
    again = read_provenance(run.model)
    if (again.command, again.inputs) != (record.command, record.inputs):
        raise InputError("the run there was made of other files", path=run.path, fix="choose another --out")
    if record.score is None or again.score is None or again.metric != record.metric:
        cause = f"the run there has {again.metric} {again.score}, not a score of {record.metric}"
        raise InputError(cause, path=run.path, fix="choose another --out")
    names = [*record.scores, *(name for name in again.scores if name not in record.scores)]
    return Comparison(
        metric=record.metric,
        original=record.score,
        reproduced=again.score,
        tolerance=tolerance,
        folder=job.out,
        seconds=again.seconds,
        original_seconds=record.seconds,
        scores={name: (record.scores.get(name), again.scores.get(name)) for name in names},
    )


def _finetuning_job(record: Provenance, files: "_Finder", out: str) -> finetune.FinetuningJob:
    config = {key: value for key, value in record.config.items() if key not in finetune.ABOUT}
    task = _recorded(record, "task")
    settings = saved_run_config(task, config, Source(path=PROVENANCE))
    settings = replace(settings, training=_same_arithmetic(settings.training, record))
    # A record without training data gives "", which is refused as a file that is not there.
    train = _write_task_list(record, files, out) if task == MULTITASK else files.labelled("train") or ""
    return finetune.FinetuningJob(
        task=task,
        model=files.model(_recorded(record, "model")),
        train=train,
        dev=files.labelled("dev"),
        add_as=None if record.config.get("add_as") is None else _recorded(record, "add_as"),
        config=settings,
        out=out,
    )


def _write_task_list(record: Provenance, files: "_Finder", out: str) -> str:
    """The list of tasks with the files where they are now, beside the run; its path."""
    entries = []
    for mapping in record.config.get("tasks") or ():
        entry = from_mapping(TaskEntry, mapping, Source(path=PROVENANCE))
        found = {role: files.labelled(f"{entry.name}/{role}") for role in ("train", "dev")}
        entries.append({**mapping, **{role: path for role, path in found.items() if path is not None}})
    path = Path(f"{out}-tasks.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, yaml.safe_dump(entries, sort_keys=False, allow_unicode=True).encode())
    return str(path)


def _pretraining_job(record: Provenance, files: "_Finder", out: str) -> pretrain.PretrainingJob:
    about, settings = pretrain.split_config(record.config)
    recipe = from_mapping(Recipe, settings, Source(path=PROVENANCE))
    if recipe.data.spans is not None:
        recipe = replace(recipe, data=replace(recipe.data, spans=files.labelled("spans")))
    weights = about.get("corpus_weights")
    if not isinstance(weights, list) or len(weights) != len(files.corpora):
        raise InputError("the record has no weight for each corpus", path=PROVENANCE, fix="restore the file")
    return pretrain.PretrainingJob(
        recipe=replace(recipe, training=_same_arithmetic(recipe.training, record)),
        data=tuple(f"{files.corpus(file)}:{weight}" for file, weight in zip(files.corpora, weights, strict=True)),
        out=out,
        init=None if about.get("init") is None else files.model(_recorded(record, "init")),
    )


def _recorded(record: Provenance, key: str) -> str:
    """A text of the recorded config."""
    value = record.config.get(key)
    if not isinstance(value, str):
        raise InputError(f"the record does not say the {key} of the run", path=PROVENANCE, fix="restore the file")
    return value


def _same_arithmetic(training: TrainingConfig, record: Provenance) -> TrainingConfig:
    """The training settings with the threads and the precision of the run, where this machine has them."""
    threads = record.parallelism("threads")
    known = record.device == "cpu" and record.precision != "fp16"
    return replace(
        training,
        threads=threads if threads <= available_cores() else training.threads,
        precision=record.precision if known else training.precision,
    )


class _Finder:
    """Finds the files of a record, and compares them with it."""

    def __init__(self, record: Provenance, folder: Path, data: Path | None) -> None:
        """`folder`: the model's; a run it is part of knows where the files were. `data`: where to look instead."""
        if data is not None and not data.is_dir():
            raise InputError("no such folder", path=data, fix="give the folder of the data with --data DIR")
        self._data, self._record = data, record
        self._run = RunFolder(folder.parent) if (folder.parent / CONFIG).is_file() else None

    @property
    def corpora(self) -> list[InputFile]:
        """The corpora of the record."""
        return [file for file in self._record.inputs if file.role == "corpus"]

    def labelled(self, role: str) -> str | None:
        """Where the file, or the aligned pair, of a role is; None if the run had none."""
        wanted = [file for file in self._record.inputs if file.role == role]
        return ",".join(str(self._find(file)) for file in wanted) or None

    def corpus(self, wanted: InputFile) -> Path:
        """Where a corpus is, all of its files as its manifest says."""
        folder = self._find(wanted)
        damage = find_damage(folder)
        if damage:
            raise InputError(f"{damage[0].file} is damaged: {damage[0].cause}", path=folder, fix="prepare it again")
        return folder

    def model(self, name: str) -> str:
        """Where the initial model is: a folder that the run or `--data` knows, or what the name stands for."""
        folders = [str(place) for place in self._places(name) if place.is_dir()] or [name]
        problems = []
        for folder in folders:
            try:
                self._check_model(folder)
            except InputError as error:
                problems.append(error)
            else:
                return folder
        raise problems[0]

    def _check_model(self, folder: str) -> None:
        """Raise at another model than the one that the training started from."""
        files = {file.name: file.sha256 for file in weight_files(locate_model(folder))}
        for file in self._record.inputs:
            if file.role == "model" and files.get(file.name) != file.sha256:
                has = f"{file.name} has sha256 {files.get(file.name, 'none')[:_HASH]}, not {file.sha256[:_HASH]}"
                cause = f"not the model that the training started from: {has}"
                raise InputError(cause, path=folder, fix="give a folder that has the original with --data DIR")

    def _find(self, wanted: InputFile) -> Path:
        """The file, or the folder of a corpus, of this name with this hash."""
        other: tuple[Path, str] | None = None
        for place in self._places(wanted.name):
            path = place / MANIFEST if wanted.role == "corpus" else place
            digest = sha256_of(path) if path.is_file() else None
            if digest == wanted.sha256:
                return place
            other = other or (None if digest is None else (place, digest))
        if other is not None:
            hashes = f"sha256 {other[1][:_HASH]}, not {wanted.sha256[:_HASH]}"
            cause = f"not the {wanted.role} data that the model was trained on: {hashes}"
            raise InputError(cause, path=other[0], fix="give the folder of the original with --data DIR")
        cause = f"{wanted.name}, the {wanted.role} data that the model was trained on, is not here"
        raise InputError(cause, path=self._data, fix="give the folder that it is in with --data DIR")

    def _places(self, name: str) -> Iterator[Path]:
        """Where a file or folder of a name may be: below `--data`, else where the run had it, else here."""
        if not name or Path(name).name != name:  # a hub id, or nothing that a run records
            return
        if self._data is not None:
            if self._data.resolve().name == name:
                yield self._data
            yield from sorted(self._data.rglob(glob.escape(name)))
            return
        config = self._run.read_config() if self._run is not None else {}
        for text in _texts([config.get(key) for key in ("train", "dev", "tasks", "corpora", "data", "model", "init")]):
            yield from (Path(part) for part in text.split(",") if Path(part).name == name)
        yield Path(name)


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401 (what a config holds)
    """All texts in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _count(inputs: Sequence[InputFile]) -> str:
    return f"{len(inputs)} {'file' if len(inputs) == 1 else 'files'} it was made of"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
