"""Fine-tuning from labelled files to a run folder: what `spanlab finetune` and `spanlab.finetune` do.

The same function runs in one process and in each process that torchrun starts.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spanlab.atomic_io import sha256_of, write_json
from spanlab.config import to_mapping
from spanlab.errors import ConfigError
from spanlab.finetuning.preparing import RunConfig, Tuning, has_dev, listed_tasks, prepare, resolve
from spanlab.finetuning.run import Sources
from spanlab.report.run_page import Section
from spanlab.report.task_sections import task_sections
from spanlab.training.distributed import current_process, process_group
from spanlab.training.loop import Training
from spanlab.training.records import Record
from spanlab.training.run_folder import METRICS, STATUS, RunFolder
from spanlab.training.threads import choose_threads, threads_put_back
from spanlab.workflows.run import RunResult, run_training, write_report

OnStart = Callable[[Training[Any], tuple[str, ...]], None]
OnRecord = Callable[[Record], None]
LEARNING_RATES = (5e-6, 1e-5, 2e-5, 3e-5, 5e-5)
"""The grid that SpanBERT's paper searched."""


@dataclass(frozen=True, kw_only=True)
class FinetuningJob:
    """Everything a fine-tuning run is asked for."""

    sources: Sources
    config: RunConfig
    out: str
    resume: bool = False
    overwrite: bool = False


def finetune(
    task: str,
    *,
    model: str | Path,
    train: str | Path,
    out: str | Path,
    dev: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    add: bool = False,
    name: str | None = None,
    on_record: OnRecord | None = None,
    **overrides: Any,  # noqa: ANN401 (keys and sections of the task's config)
) -> RunResult:
    """Fine-tune a model for a task, as `spanlab finetune` does; prints nothing.

    Args:
        task: classification, similarity, …; multitask for several.
        model: a model folder, a run folder or a Hugging Face id.
        train: the labelled file; for multitask the YAML list of tasks.
        out: the run folder; its `model/` is what `spanlab.load` takes.
        dev: another labelled file, by which the best model is chosen.
        resume: go on with the run in `out`.
        overwrite: replace the run in `out`.
        add: put the task beside those that the model has, whose outputs stay as they are.
        name: what an added task is called; by default as the task is.
        on_record: called with every record of the run.
        overrides: keys and sections, such as `label_smoothing=0.1, training={"epochs": 3}`.
    """
    if name is not None and not add:
        raise ConfigError("'name' is for a task that is added", fix="give add=True, too")
    sources = Sources(
        task=task,
        model=str(model),
        train=str(train),
        dev=None if dev is None else str(dev),
        add_as=(name or task) if add else None,
    )
    config = resolve(task, overrides)
    job = FinetuningJob(sources=sources, config=config, out=str(out), resume=resume, overwrite=overwrite)
    return run_job(job, on_record=on_record)


def run_job(job: FinetuningJob, *, on_start: OnStart | None = None, on_record: OnRecord | None = None) -> RunResult:
    """Do the work of one process of the run; the callbacks are called in the first of them."""
    with process_group(), threads_put_back():
        training_config = job.config.training
        process = current_process(training_config.device, training_config.precision)
        run = RunFolder(job.out)
        if process.is_main:
            run.check(resume=job.resume, overwrite=job.overwrite)
        tuning = prepare(job.sources, job.config)
        config = describe(job)
        if job.resume:
            run.check_same(config)
        threads, about_threads = choose_threads(training_config.threads, run, process, resume=job.resume)
        with run.lock() if process.is_main else nullcontext():
            if process.is_main and not job.resume:
                run.begin(config)
            process.barrier()
            settings = replace(tuning.training, threads=threads)
            training = Training(tuning.work, settings, run, process, seed=job.config.seed)
            notes = (*tuning.notes(), *about_threads, *(training.resume() if job.resume else ()))
            if on_start is not None and process.is_main:
                on_start(training, notes)
            return run_training(
                training,
                config,
                notes,
                sections=lambda: _sections(tuning),
                on_record=on_record,
            )


def _sections(tuning: Tuning) -> tuple[Section, ...]:
    """What the report shows of each task, named where there are several."""
    several = len(tuning.lessons) > 1
    return tuple(
        replace(section, title=f"{lesson.name}: {section.title}") if several else section
        for lesson in tuning.lessons
        for section in task_sections(lesson.scores, lesson.mistakes())
    )


def describe(job: FinetuningJob) -> dict[str, Any]:
    """The resolved config, as it is kept in the run folder and compared when the run is resumed."""
    sources, entries = job.sources, listed_tasks(job.sources)
    pairs = [(sources.train, sources.dev), *((entry.train, entry.dev) for entry in entries)]
    files = [path for pair in pairs for path in pair if path is not None]
    return {
        **to_mapping(sources),
        **({"tasks": [to_mapping(entry) for entry in entries]} if entries else {}),
        **to_mapping(job.config),
        "file_fingerprints": [sha256_of(Path(path))[:16] for path in files],
    }


@dataclass(frozen=True, kw_only=True)
class RateOutcome:
    """One learning rate of a sweep and the best score it reached on dev."""

    lr: float
    score: float
    folder: Path


def sweep(
    job: FinetuningJob,
    *,
    rates: Sequence[float] = LEARNING_RATES,
    on_record: Callable[[float, Record], None] | None = None,
) -> list[RateOutcome]:
    """A run for each learning rate under `out/sweep`; the best one's model and metrics become those of `out`."""
    if not has_dev(job.sources):
        raise ConfigError("a sweep chooses by the score on dev", fix="give --dev")
    if job.resume:
        raise ConfigError("a sweep cannot be resumed", fix="begin anew with --overwrite")
    run = RunFolder(job.out)
    run.check(resume=False, overwrite=job.overwrite)
    run.begin(describe(job))
    outcomes = [_try_rate(job, run.path / "sweep", lr, on_record) for lr in rates]
    best = max(outcomes, key=lambda outcome: outcome.score)
    run.begin(describe(_with_rate(job, best.lr)))
    run.put_model(lambda new: _copy_folder(best.folder / "model", new))
    for name in (METRICS, STATUS):
        shutil.copyfile(best.folder / name, run.path / name)
    table = [{"lr": outcome.lr, "score": outcome.score} for outcome in outcomes]
    write_json(run.path / "sweep.json", {"best": best.lr, "rates": table})
    write_report(run.path)
    return outcomes


def _try_rate(
    job: FinetuningJob, folder: Path, lr: float, on_record: Callable[[float, Record], None] | None
) -> RateOutcome:
    place = folder / f"lr-{lr:g}"
    here = replace(_with_rate(job, lr), out=str(place), overwrite=True)
    run_job(here, on_record=None if on_record is None else lambda record: on_record(lr, record))
    return RateOutcome(lr=lr, score=best_score(place), folder=place)


def _with_rate(job: FinetuningJob, lr: float) -> FinetuningJob:
    return replace(job, config=replace(job.config, training=replace(job.config.training, lr=lr)))


def _copy_folder(source: Path, folder: Path) -> None:
    shutil.copytree(source, folder, dirs_exist_ok=True)


def best_score(run: Path) -> float:
    """The best score on dev that a run has reached."""
    status: Mapping[str, Any] = json.loads((run / STATUS).read_text(encoding="utf-8"))
    return float(status["best"]["score"])
