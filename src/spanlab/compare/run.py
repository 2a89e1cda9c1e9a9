"""Runs the cells of a study, here one after another or side by side on a Ray cluster, and writes its results.

A cell that fails is recorded and the others go on. After an interruption of any kind the same command continues: what
is finished stays as it is, what was under way goes on from its checkpoint, and the results are the same.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from spanlab.atomic_io import locked, write_json
from spanlab.compare.cells import Cell, FinetuningCell, PretrainingCell, failure_file
from spanlab.compare.config import Study
from spanlab.compare.plan import LOCK, StudyPlan, plan_study
from spanlab.compare.report import write_results
from spanlab.compare.results import StudyResults, collect_results
from spanlab.errors import RunError, SpanlabError
from spanlab.ray_cluster import ray_cluster
from spanlab.workflows.run import OnRecord, OnStart

Engine = Literal["local", "ray"]


def _say_nothing(line: str) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class StudyEvents:
    """What is called while a study runs; with Ray, only `say`."""

    say: Callable[[str], None] = _say_nothing
    """A line about a cell that begins, is finished or failed."""
    on_start: OnStart | None = None
    on_record: OnRecord | None = None
    on_end: Callable[[], None] = lambda: None
    """After each run."""


def run_study(
    study: Study, out: str | Path, *, engine: Engine = "local", events: StudyEvents | None = None
) -> StudyResults:
    """Run or continue a study in the folder `out`."""
    events = events or StudyEvents()
    plan = plan_study(study, Path(out))
    with locked(plan.out / LOCK, "another process is running this study"):
        for remark in plan.remarks:
            events.say(remark)
        if engine == "ray":
            _run_on_ray(plan, events)
        else:
            for cell in plan.pretraining:
                run_chain(cell, plan.of(cell), plan.out, events)
        results = collect_results(plan)
        write_results(plan, results)
    return results


def run_chain(cell: PretrainingCell, successors: Sequence[FinetuningCell], out: Path, events: StudyEvents) -> None:
    """Run a pre-training, and the fine-tunings of its model."""
    unfinished = [successor for successor in successors if not successor.finished]
    if not unfinished or not _run_cell(cell, out, events):
        return
    for successor in unfinished:
        _run_cell(successor, out, events)


def _run_cell(cell: Cell, out: Path, events: StudyEvents) -> bool:
    """Whether the cell is finished, now or before; otherwise its error is recorded."""
    record = failure_file(out, cell)
    if not cell.finished:
        events.say(f"{describe_cell(cell)} …")
        try:
            cell.run(events.on_start, events.on_record)
        except Exception as error:
            message = _one_line(error, out)
            record.parent.mkdir(parents=True, exist_ok=True)
            write_json(record, {"error": message})
            events.say(f"{describe_cell(cell)} failed: {message}")
            return False
        finally:
            events.on_end()
    record.unlink(missing_ok=True)
    return True


def describe_cell(cell: Cell) -> str:
    """`subword, seed 0, pre-training`."""
    return f"{cell.recipe}, seed {cell.seed}, {cell.task if isinstance(cell, FinetuningCell) else 'pre-training'}"


def _one_line(error: Exception, out: Path) -> str:
    """The error without the study's folder, which says nothing about the study."""
    text = str(error) if isinstance(error, SpanlabError | RunError) else f"{type(error).__name__}: {error}"
    text = text.replace(f"{out.resolve()}{os.sep}", "").replace(f"{out}{os.sep}", "")
    return " ".join(text.split())


def _run_on_ray(plan: StudyPlan, events: StudyEvents) -> None:
    """One Ray task for each recipe and seed; the folder must be on storage that all machines share."""
    with ray_cluster(None) as ray:
        remote = ray.remote(num_cpus=max(1, plan.threads), max_retries=2)(_run_remotely)
        handles: dict[Any, PretrainingCell] = {
            remote.remote(cell, plan.of(cell), plan.out, str(Path.cwd())): cell for cell in plan.pretraining
        }
        waiting = list(handles)
        while waiting:
            done, waiting = ray.wait(waiting)
            for handle in done:
                cell = handles[handle]
                try:
                    ray.get(handle)
                except ray.exceptions.RayError as error:  # the worker died; the same command goes on
                    raise RunError(f"{describe_cell(cell)}: the worker was lost ({type(error).__name__})") from None
                events.say(f"recipe {cell.recipe}, seed {cell.seed}: done")


def _run_remotely(cell: PretrainingCell, successors: Sequence[FinetuningCell], out: Path, directory: str) -> None:
    os.chdir(directory)
    run_chain(cell, successors, out, StudyEvents())
