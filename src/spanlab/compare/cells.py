"""The cells of a study: one pre-training for each recipe and seed, one fine-tuning for each of these and each task.

A cell is a run of the product in a folder of its own, named after its recipe, seed and task and a hash of all that
decides its result: settings, corpora, files. So a finished cell is never computed twice, even where recipes, seeds or
tasks are added to a study later; a cell that was interrupted continues from its checkpoint; one that failed leaves a
file that says why, and is tried again when the study is run again.

    pretraining/NAME-seed0-HASH/         a run folder
    finetuning/NAME-seed0-TASK-HASH/     a run folder, and outcomes.json, what the test scores are computed from
    failed/NAME-….json                   the errors of cells that failed
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from spanlab.atomic_io import sha256_of, write_json
from spanlab.compare.config import StudyRecipe, StudyTask
from spanlab.compare.energy import measured_joules
from spanlab.compare.outcomes import run_test
from spanlab.config import to_mapping
from spanlab.errors import RunError
from spanlab.finetuning.config import resolve_config
from spanlab.finetuning.defaults import unset_settings
from spanlab.training.run_folder import CONFIG, RunFolder
from spanlab.training.threads import restore_threads
from spanlab.workflows import finetune, pretrain
from spanlab.workflows.budget import shorten
from spanlab.workflows.finetune import FinetuningJob
from spanlab.workflows.pretrain import PretrainingJob, open_corpora
from spanlab.workflows.run import OnRecord, OnStart, RunResult

PRETRAINING, FINETUNING, FAILED = "pretraining", "finetuning", "failed"
OUTCOMES, ENERGY = "outcomes.json", "energy.json"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._=+-]+")
_LONGEST_NAME = 60


@dataclass(frozen=True, kw_only=True)
class PretrainingCell:
    """One pre-training: a recipe and a seed."""

    recipe: str
    """The name of the recipe in the study."""
    seed: int
    job: PretrainingJob

    @property
    def folder(self) -> Path:
        """Its run folder."""
        return Path(self.job.out)

    @property
    def finished(self) -> bool:
        """Whether the run is at its end."""
        return RunFolder(self.folder).read_status().finished

    def run(self, on_start: OnStart | None = None, on_record: OnRecord | None = None) -> None:
        """Start the run, or continue it where it stopped."""
        begun = (self.folder / CONFIG).is_file()
        job = replace(self.job, resume=begun, overwrite=not begun)
        with measured_joules(self.folder / ENERGY, whole=not begun):
            _check_finished(pretrain.run_job(job, on_start=on_start, on_record=on_record))


@dataclass(frozen=True, kw_only=True)
class FinetuningCell:
    """One fine-tuning and the test of its model: a recipe, a seed and a task."""

    recipe: str
    seed: int
    task: str
    """The name of the task in the study."""
    files: StudyTask
    settings: Mapping[str, Any]
    pretrained: Path
    folder: Path

    @property
    def finished(self) -> bool:
        """Whether the model is trained and tested."""
        return (self.folder / OUTCOMES).is_file()

    def run(self, on_start: OnStart | None = None, on_record: OnRecord | None = None) -> None:
        """Fine-tune and test the model, or continue where that stopped."""
        begun = (self.folder / CONFIG).is_file()
        if not RunFolder(self.folder).read_status().finished:
            job = finetune.resumed_job(str(self.folder), {}) if begun else self._new_job()
            with measured_joules(self.folder / ENERGY, whole=not begun):
                _check_finished(finetune.run_job(job, on_start=on_start, on_record=on_record))
        config = resolve_config(self.files.task, self.settings)
        with restore_threads():
            if config.training.threads:
                torch.set_num_threads(config.training.threads)
            outcomes = run_test(str(self.folder), self.files.test, config)
        write_json(self.folder / OUTCOMES, outcomes.to_dict())

    def _new_job(self) -> FinetuningJob:
        return FinetuningJob(
            task=self.files.task,
            model=str(self.pretrained),
            train=self.files.train,
            dev=self.files.dev,
            config=resolve_config(self.files.task, self.settings),
            unset=unset_settings(self.settings),
            out=str(self.folder),
            overwrite=True,
        )


Cell = PretrainingCell | FinetuningCell


def failure_file(out: Path, cell: Cell) -> Path:
    """The file that says why a cell failed."""
    return out / FAILED / f"{cell.folder.name}.json"


def pretraining_cell(out: Path, recipe: StudyRecipe, seed: int, *, steps: int | None, threads: int) -> PretrainingCell:
    """The cell of a recipe and a seed; `steps` None: those of the recipe."""
    training = recipe.recipe.training if steps is None else shorten(recipe.recipe.training, steps)
    settings = replace(recipe.recipe, seed=seed, training=replace(training, threads=threads))
    name = f"{_file_name(recipe.name)}-seed{seed}-{identity(recipe.data, to_mapping(settings))}"
    job = PretrainingJob(recipe=settings, data=recipe.data, out=str(out / PRETRAINING / name))
    return PretrainingCell(recipe=recipe.name, seed=seed, job=job)


def finetuning_cell(
    out: Path, pretraining: PretrainingCell, name: str, files: StudyTask, settings: Mapping[str, Any]
) -> FinetuningCell:
    """The cell of a pre-trained model and a task; `settings` are those of all cells of the task."""
    training = {**(settings.get("training") or {}), "threads": pretraining.job.recipe.training.threads}
    settings = {**settings, "seed": pretraining.seed, "training": training}
    config = to_mapping(resolve_config(files.task, settings))
    paths = [files.train, files.dev, files.test]
    parts = {
        "pretraining": pretraining.folder.name,
        "task": files.task,
        "files": [None if path is None else sha256_of(Path(path)) for path in paths],
        "config": _without_threads(config),
        "open": vars(unset_settings(settings)),
    }
    folder = f"{_file_name(pretraining.recipe)}-seed{pretraining.seed}-{_file_name(name)}-{_hash(parts)}"
    return FinetuningCell(
        recipe=pretraining.recipe,
        seed=pretraining.seed,
        task=name,
        files=files,
        settings=settings,
        pretrained=pretraining.folder,
        folder=out / FINETUNING / folder,
    )


def identity(data: tuple[str, ...], recipe: Mapping[str, Any]) -> str:
    """A hash of a recipe and the content of its corpora, wherever they are; threads change the last bits only."""
    corpora = open_corpora(data)
    manifests = [(item.weight, sha256_of(item.corpus.folder / "manifest.json")) for item in corpora]
    return _hash({"recipe": _without_threads(recipe), "corpora": manifests})


def _without_threads(config: Mapping[str, Any]) -> dict[str, Any]:
    training = {key: value for key, value in config["training"].items() if key != "threads"}
    return {**config, "training": training}


def _hash(parts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:10]


def _file_name(name: str) -> str:
    return _NOT_IN_NAMES.sub("-", name)[:_LONGEST_NAME].strip("-.") or "recipe"


def _check_finished(result: RunResult) -> None:
    if result.outcome not in {"finished", "patience"}:
        raise RunError(f"the run ended before its last step: {result.outcome}")
