"""A study is checked and laid out before anything is trained: a `Study` becomes its cells.

All files are read, every recipe builds its model and a batch, budgets become steps, and a test set that was trained on
is refused. What depends on the machine (measured steps, the number of threads) is decided once and kept in the study's
folder, so that a study that is continued has the same cells.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from spanlab.atomic_io import has_output, write_json
from spanlab.compare.budget import Budget, tokens_per_step
from spanlab.compare.cells import FinetuningCell, PretrainingCell, finetuning_cell, identity, pretraining_cell
from spanlab.compare.config import Study, StudyRecipe, StudyTask, left_out_variants, parse_budget, resolve_recipes
from spanlab.config import Source, from_mapping, merge, nested, to_mapping
from spanlab.errors import InputError
from spanlab.finetuning.config import resolve_config
from spanlab.machine import available_cores
from spanlab.pretraining.build import build_data, build_training_spec
from spanlab.strict_parsing import read_json
from spanlab.tasks.base import AnyTask
from spanlab.tasks.examples import Examples, check_known_labels, fit_task, read_labelled
from spanlab.tasks.table import find_task
from spanlab.training.threads import restore_threads
from spanlab.workflows.budget import shorten
from spanlab.workflows.pretrain import PretrainingJob, open_corpora

PLAN = "plan.json"
LOCK = ".lock"
LARGEST_OVERLAP = 0.1
"""The share of test examples that may be in training files, too: short sentences are the same now and then."""


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What is decided when a study starts, and kept: the content of `plan.json`."""

    threads: int
    steps: dict[str, int]
    """By the identity of a recipe and its budget."""
    tokens: dict[str, float]
    """Mean tokens of a step, likewise."""


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """The cells of a study; those of a recipe and seed are next to one another."""

    out: Path
    study: Study
    recipes: tuple[StudyRecipe, ...]
    seeds: tuple[int, ...]
    tasks: Mapping[str, StudyTask]
    pretraining: tuple[PretrainingCell, ...]
    finetuning: tuple[FinetuningCell, ...]
    tokens: Mapping[str, float]
    """Tokens that each recipe is trained on, by its name."""
    threads: int
    remarks: tuple[str, ...] = ()

    def of(self, cell: PretrainingCell) -> list[FinetuningCell]:
        """The cells that start from a pre-trained model."""
        return [other for other in self.finetuning if (other.recipe, other.seed) == (cell.recipe, cell.seed)]


def plan_study(study: Study, out: Path) -> StudyPlan:
    """Check everything and lay out the cells; of the folder only `plan.json` is written."""
    recipes, seeds = resolve_recipes(study), study.seed_list
    if not study.tasks:
        raise InputError(
            "no task given", fix="use --task NAME=TRAIN:DEV:TEST, such as ner=train.conll:dev.conll:test.conll"
        )
    settings = {name: merge(nested(study.finetuning), nested(task.settings)) for name, task in study.tasks.items()}
    remarks = [remark for name, task in study.tasks.items() for remark in check_task(name, task, settings[name])]
    remarks += [f"'{name}' is left out; it needs {wanted}" for name, wanted in left_out_variants(study).items()]
    budget = parse_budget(study)
    has_output(out, PLAN, "study", ignored=lambda path: path.name == LOCK)
    decided = _decide(out, study, recipes, budget)
    pretraining = [
        pretraining_cell(
            out,
            recipe,
            seed,
            steps=None if budget is None else decided.steps[_key(recipe, study)],
            threads=decided.threads,
        )
        for seed in seeds
        for recipe in recipes
    ]
    finetuning = [
        finetuning_cell(out, cell, name, task, settings[name])
        for cell in pretraining
        for name, task in study.tasks.items()
    ]
    return StudyPlan(
        out=out,
        study=study,
        recipes=tuple(recipes),
        seeds=seeds,
        tasks=study.tasks,
        pretraining=tuple(pretraining),
        finetuning=tuple(finetuning),
        tokens={
            recipe.name: decided.steps[_key(recipe, study)] * decided.tokens[_key(recipe, study)] for recipe in recipes
        },
        threads=decided.threads,
        remarks=tuple(remarks),
    )


def _decide(out: Path, study: Study, recipes: list[StudyRecipe], budget: Budget | None) -> Decided:
    """Threads, and the steps of each recipe: as the study has them, else measured now, all before any is trained."""
    before = _read_plan(out / PLAN)
    threads = study.threads or (before.threads if before else min(torch.get_num_threads(), available_cores()))
    steps = dict(before.steps) if before else {}
    tokens = dict(before.tokens) if before else {}
    for recipe in recipes:
        key = _key(recipe, study)
        if key not in steps:
            steps[key], tokens[key] = _measure(recipe, budget, threads)
    decided = Decided(threads=threads, steps=steps, tokens=tokens)
    if decided != before:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / PLAN, to_mapping(decided))
    return decided


def _read_plan(path: Path) -> Decided | None:
    if not path.is_file():
        return None
    return from_mapping(Decided, read_json(path, fix="use another --out"), Source(path=str(path)))


def _key(recipe: StudyRecipe, study: Study) -> str:
    budget = "" if study.budget is None else f" {study.budget}"
    return f"{identity(recipe.data, to_mapping(replace(recipe.recipe, seed=0)))}{budget}"


def _measure(recipe: StudyRecipe, budget: Budget | None, threads: int) -> tuple[int, float]:
    """The number of steps and the mean tokens of one; raises where the recipe cannot be trained on the corpus."""
    settings = replace(recipe.recipe, training=replace(recipe.recipe.training, threads=threads))
    job = PretrainingJob(recipe=settings, data=recipe.data, out="")
    try:
        if budget is None:
            spec, _ = build_training_spec(settings, open_corpora(recipe.data), None)
            steps = settings.training.total_steps(spec.data.steps_per_epoch)
        else:
            with restore_threads():
                torch.set_num_threads(threads)
                steps = budget.steps(job)
            settings = replace(settings, training=shorten(settings.training, steps))
    except InputError as error:
        if error.path is not None:
            raise
        raise InputError(f"recipe '{recipe.name}': {error.cause}", fix=error.fix) from None
    return steps, tokens_per_step(build_data(settings, open_corpora(recipe.data)), steps)


def check_task(name: str, task: StudyTask, settings: Mapping[str, Any]) -> list[str]:
    """Read the files of a task; raises where they cannot be used, returns remarks about them."""
    config = resolve_config(task.task, settings)
    if task.dev is not None and config.data.dev_share:
        raise InputError(
            f"task '{name}': data.dev_share is for a task without a dev file", fix="leave out one of the two"
        )
    task_class = find_task(task.task)
    train, test = (read_labelled(task_class, path, config.data) for path in (task.train, task.test))
    fitted = fit_task(task_class, config, train)
    check_known_labels(fitted, test)
    used = [train]
    if task.dev is not None:
        dev = read_labelled(task_class, task.dev, config.data)
        check_known_labels(fitted, dev)
        used.append(dev)
    return check_overlap(name, task_class, test, used)


def check_overlap(name: str, task: type[AnyTask], test: Examples, used: list[Examples]) -> list[str]:
    """Raise where a test set was used in training; a remark where single examples were."""
    remarks = []
    for examples in used:
        seen = set(_contents(task, examples))
        shared = sum(content in seen for content in _contents(task, test))
        if shared > LARGEST_OVERLAP * len(test):
            cause = f"{shared:,} of {len(test):,} test examples are in {examples.path}, which training uses"
            raise InputError(cause, path=test.path, fix="test on examples that training has not seen")
        if shared:
            remarks.append(f"{name}: {shared:,} of {len(test):,} test examples are in {Path(examples.path).name}, too")
    return remarks


def _contents(task: type[AnyTask], examples: Examples) -> list[bytes]:
    """A hash of the texts of each example, whatever its labels, its id and the format of its file."""
    texts = ("\0".join(task.shape.input_of(row.values)) for row in examples.rows)
    return [hashlib.sha256(" ".join(text.split()).encode("utf-8", "surrogatepass")).digest() for text in texts]
