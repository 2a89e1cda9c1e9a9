"""The results of a study: scores of every cell, differences to the baseline, and one sentence that sums them up.

What enters are the files of finished cells; what leaves depends on them alone, on no clock: the same cells give the
same `results.json` to the byte, in however many sessions they were computed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from spanlab.compare.cells import OUTCOMES, Cell, FinetuningCell, PretrainingCell, failure_file
from spanlab.compare.outcomes import Outcomes, read_outcomes
from spanlab.compare.plan import StudyPlan
from spanlab.metrics.confidence import Difference, compare_systems, holm
from spanlab.strict_parsing import read_json
from spanlab.tasks.result import html_table

FORMAT_VERSION = 1
_DIGITS = 6
_KEYS = {"mean": "difference", "win_chance": "p_better"}
"""Keys of a comparison in the file that say more there than the attribute's name."""


@dataclass(frozen=True, kw_only=True)
class TaskScores:
    """The scores of one system on one task."""

    metric: str
    by_seed: Mapping[int, float]
    """The primary metric; key 0 for a finished model."""

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return float(np.mean(list(self.by_seed.values())))

    @property
    def deviation(self) -> float | None:
        """The standard deviation over the seeds; None of a single one."""
        return float(np.std(list(self.by_seed.values()), ddof=1)) if len(self.by_seed) > 1 else None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A system and the baseline on one task; without a difference where too few cells of both are finished."""

    task: str
    system: str
    baseline: str
    difference: Difference | None = None
    p_holm: float | None = None
    """p, corrected for all comparisons of the study."""

    @property
    def same(self) -> bool:
        """Whether all runs of both have the same score, whatever the units."""
        return self.difference is not None and not self.difference.mean and not self.difference.standard_error

    @property
    def shown(self) -> bool:
        """Whether there is a difference that is hardly chance."""
        return self.p_holm is not None and self.p_holm < 0.05


@dataclass(frozen=True, kw_only=True)
class CellState:
    """How far one cell is."""

    recipe: str
    seed: int
    task: str | None
    """None: pre-training."""
    state: str
    """finished, failed or waiting."""
    error: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StudyResults:
    """What `results.json` holds."""

    systems: tuple[str, ...]
    """The names of the recipes, or models, the baseline first."""
    seeds: tuple[int, ...]
    tasks: Mapping[str, Mapping[str, Any]]
    """By name: the task, its metric, its examples and units."""
    trained: Mapping[str, Mapping[str, Any]]
    """By recipe: the steps and tokens of pre-training; empty for finished models."""
    scores: Mapping[str, Mapping[str, TaskScores]]
    """By task and system."""
    comparisons: tuple[Comparison, ...]
    cells: tuple[CellState, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def failed(self) -> list[CellState]:
        """The cells that failed."""
        return [cell for cell in self.cells if cell.state == "failed"]

    def to_dict(self) -> dict[str, Any]:
        """As `results.json` has it."""
        return {
            "format_version": FORMAT_VERSION,
            "systems": list(self.systems),
            "baseline": self.systems[0],
            "seeds": list(self.seeds),
            "tasks": {name: dict(task) for name, task in self.tasks.items()},
            "trained": {name: dict(facts) for name, facts in self.trained.items()},
            "scores": {
                task: {
                    name: {
                        "mean": _rounded(scores.mean),
                        "deviation": _rounded(scores.deviation),
                        "by_seed": {str(seed): _rounded(score) for seed, score in scores.by_seed.items()},
                    }
                    for name, scores in by_system.items()
                }
                for task, by_system in self.scores.items()
            },
            "comparisons": [_comparison(comparison) for comparison in self.comparisons],
            "cells": [_cell(cell) for cell in self.cells],
            "remarks": list(self.remarks),
        }

    def _repr_html_(self) -> str:
        """What a notebook shows: the sentence and the tables of the report."""
        from spanlab.compare.report import score_tables
        from spanlab.compare.sentence import sum_up

        tables = (html_table(table.head, table.rows) for table in score_tables(self))
        return f"<p>{escape(sum_up(self))}</p>{''.join(tables)}"


def _comparison(comparison: Comparison) -> dict[str, Any]:
    found = comparison.difference
    values = {} if found is None else {_KEYS.get(name, name): _rounded(value) for name, value in vars(found).items()}
    return {
        "task": comparison.task,
        "system": comparison.system,
        "baseline": comparison.baseline,
        **values,
        "p_holm": _rounded(comparison.p_holm),
    }


def _cell(cell: CellState) -> dict[str, Any]:
    metrics = {name: _rounded(value) for name, value in cell.metrics.items()}
    return {
        "recipe": cell.recipe,
        "seed": cell.seed,
        "task": cell.task,
        "state": cell.state,
        **({} if cell.error is None else {"error": cell.error}),
        **({"metrics": metrics} if metrics else {}),
    }


def _rounded(value: float | None) -> float | None:
    if value is None or isinstance(value, int):
        return value
    # Of a small p, digits and not decimals.
    return float(f"{value:.{_DIGITS}g}") if abs(value) < 1 else round(value, _DIGITS)


def collect_results(plan: StudyPlan) -> StudyResults:
    """The results of the cells that are finished."""
    outcomes: dict[tuple[str, str], dict[int, Outcomes]] = {}
    for cell in plan.finetuning:
        if cell.finished:
            by_seed = outcomes.setdefault((cell.task, cell.recipe), {})
            by_seed[cell.seed] = read_outcomes(cell.folder / OUTCOMES)
    names = tuple(recipe.name for recipe in plan.recipes)
    trained = {
        cell.recipe: {"steps": cell.job.recipe.training.steps, "tokens": round(plan.tokens[cell.recipe])}
        for cell in plan.pretraining
        if cell.seed == plan.seeds[0]
    }
    cells: list[Cell] = [*plan.pretraining, *plan.finetuning]
    states = [_state_of(plan.out, cell, plan) for cell in cells]
    return compare_outcomes(
        names,
        {name: task.task for name, task in plan.tasks.items()},
        outcomes,
        seeds=plan.seeds,
        trained=trained,
        cells=tuple(states),
        remarks=plan.remarks,
    )


def compare_outcomes(
    systems: Sequence[str],
    tasks: Mapping[str, str],
    outcomes: Mapping[tuple[str, str], Mapping[int, Outcomes]],
    *,
    seeds: tuple[int, ...],
    trained: Mapping[str, Mapping[str, Any]] | None = None,
    cells: tuple[CellState, ...] = (),
    remarks: tuple[str, ...] = (),
) -> StudyResults:
    """Compare every system with the first on every task.

    Args:
        systems: the baseline first.
        tasks: the kind of each task, by name.
        outcomes: by task and system, and by seed.
        seeds: of the study; one for finished models.
        trained: steps and tokens by system.
        cells: the state of every cell.
        remarks: for the report.
    """
    comparisons = [
        Comparison(
            task=task,
            system=system,
            baseline=systems[0],
            difference=_difference(
                outcomes.get((task, system), {}), outcomes.get((task, systems[0]), {}), fewest=min(2, len(seeds))
            ),
        )
        for task in tasks
        for system in systems[1:]
    ]
    return StudyResults(
        systems=tuple(systems),
        seeds=seeds,
        tasks={name: _facts(kind, name, systems, outcomes) for name, kind in tasks.items()},
        trained=trained or {},
        scores={
            task: {system: _scores(outcomes[task, system]) for system in systems if outcomes.get((task, system))}
            for task in tasks
        },
        comparisons=tuple(_corrected(comparisons)),
        cells=cells,
        remarks=remarks,
    )


def _difference(system: Mapping[int, Outcomes], baseline: Mapping[int, Outcomes], *, fewest: int) -> Difference | None:
    seeds = sorted(system.keys() & baseline.keys())
    if len(seeds) < fewest:
        return None
    return compare_systems([system[seed].counts for seed in seeds], [baseline[seed].counts for seed in seeds])


def _corrected(comparisons: list[Comparison]) -> list[Comparison]:
    """With the p values corrected for the number of comparisons in the study."""
    found = [comparison for comparison in comparisons if comparison.difference is not None]
    p_values = iter(holm([comparison.difference.p for comparison in found if comparison.difference is not None]))
    return [
        comparison
        if comparison.difference is None
        else Comparison(
            task=comparison.task,
            system=comparison.system,
            baseline=comparison.baseline,
            difference=comparison.difference,
            p_holm=next(p_values),
        )
        for comparison in comparisons
    ]


def _scores(by_seed: Mapping[int, Outcomes]) -> TaskScores:
    metric = next(iter(by_seed.values())).counts.metric
    return TaskScores(metric=metric, by_seed={seed: by_seed[seed].metrics[metric] for seed in sorted(by_seed)})


def _facts(
    kind: str, name: str, systems: Sequence[str], outcomes: Mapping[tuple[str, str], Mapping[int, Outcomes]]
) -> dict[str, Any]:
    """What is the same for all cells of a task, from the first that is finished."""
    done = [outcome for system in systems for outcome in outcomes.get((name, system), {}).values()]
    if not done:
        return {"task": kind}
    counts = done[0].counts
    return {"task": kind, "metric": counts.metric, "examples": done[0].count, "units": len(counts.counts_UC)}


def _state_of(out: Path, cell: Cell, plan: StudyPlan) -> CellState:
    task = cell.task if isinstance(cell, FinetuningCell) else None
    failure = failure_file(out, cell)
    state, error, metrics = "waiting", None, {}
    if cell.finished:
        state = "finished"
        if isinstance(cell, FinetuningCell):
            metrics = dict(read_outcomes(cell.folder / OUTCOMES).metrics)
    elif failure.is_file():
        state, error = "failed", str(read_json(failure).get("error"))
    elif isinstance(cell, FinetuningCell) and failure_file(out, _pretraining_of(cell, plan)).is_file():
        state, error = "failed", "its pre-training failed"
    return CellState(recipe=cell.recipe, seed=cell.seed, task=task, state=state, error=error, metrics=metrics)


def _pretraining_of(cell: FinetuningCell, plan: StudyPlan) -> PretrainingCell:
    return next(other for other in plan.pretraining if (other.recipe, other.seed) == (cell.recipe, cell.seed))
