"""Fine-tuning from labelled files to a run folder: `spanlab finetune` and `spanlab.finetune`.

The same function runs in one process and in each process that torchrun starts.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from spanlab.atomic_io import sha256_of, write_atomically, write_json
from spanlab.config import to_mapping
from spanlab.errors import ConfigError
from spanlab.finetuning.config import MULTITASK, RunConfig, resolve_run_config
from spanlab.finetuning.multitask import read_task_list
from spanlab.finetuning.run import FinetuningRun
from spanlab.finetuning.task_data import TaskEntry
from spanlab.report.run_page import Section, task_sections
from spanlab.strict_parsing import read_json
from spanlab.training.distributed import current_process, process_group
from spanlab.training.loop import Training
from spanlab.training.records import Record
from spanlab.training.run_folder import METRICS, STATUS, RunFolder
from spanlab.training.threads import choose_threads, restore_threads
from spanlab.workflows.run import OnRecord, OnStart, RunResult, run_training, write_report

LEARNING_RATES = (5e-6, 1e-5, 2e-5, 3e-5, 5e-5)
"""The grid that SpanBERT's paper searched."""


@dataclass(frozen=True, kw_only=True)
class FinetuningJob:
    """The arguments of a fine-tuning run."""

    task: str
    """A task, or `multitask`."""
    model: str
    """A model folder, a run folder or a Hugging Face id."""
    train: str
    """The labelled file; for `multitask` the YAML list of tasks."""
    dev: str | None = None
    add_as: str | None = None
    """Add the task to those of the model under this name; None: a model with this task only."""
    config: RunConfig
    out: str
    resume: bool = False
    overwrite: bool = False

    def prepare(self) -> FinetuningRun:
        """Read and check the files and load the model."""
        return FinetuningRun(
            self.task, self.config, model=self.model, train=self.train, dev=self.dev, add_as=self.add_as
        )

    def entries(self) -> list[TaskEntry]:
        """The tasks of a multitask list; empty for any other run."""
        return [entry for entry, _ in read_task_list(self.train)] if self.task == MULTITASK else []


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
        task: classification, similarity, …; multitask for a list of tasks.
        model: a model folder, a run folder or a Hugging Face id.
        train: the labelled file; for multitask the YAML list of tasks.
        out: the run folder; `spanlab.load` takes it, or its `model/`.
        dev: the labelled file that the best model is chosen by.
        resume: continue the run in `out`.
        overwrite: replace the run in `out`.
        add: add the task to those of the model, whose outputs do not change.
        name: name of an added task; by default that of the task.
        on_record: called with every record of the run.
        overrides: keys and sections, such as `label_smoothing=0.1, training={"epochs": 3}`.
    """
    if name is not None and not add:
        raise ConfigError("'name' is for added tasks", fix="use add=True as well, or leave 'name' out")
    job = FinetuningJob(
        task=task,
        model=str(model),
        train=str(train),
        dev=None if dev is None else str(dev),
        add_as=(name or task) if add else None,
        config=resolve_run_config(task, overrides),
        out=str(out),
        resume=resume,
        overwrite=overwrite,
    )
    return run_job(job, on_record=on_record)


def run_job(job: FinetuningJob, *, on_start: OnStart | None = None, on_record: OnRecord | None = None) -> RunResult:
    """Run the job in this process, which may be one of several; callbacks are called on the main process."""
    with process_group(), restore_threads():
        settings = job.config.training
        process = current_process(settings.device, settings.precision)
        folder = RunFolder(job.out)
        if process.is_main:
            folder.check(resume=job.resume, overwrite=job.overwrite)
        run = job.prepare()
        config = describe(job)
        if job.resume:
            folder.check_same(config)
        threads, thread_notes = choose_threads(settings.threads, folder, process, resume=job.resume)
        with folder.lock() if process.is_main else nullcontext():
            if process.is_main and not job.resume:
                folder.begin(config)
            process.barrier()
            settings = replace(run.training, threads=threads)
            training = Training(run.spec, settings, folder, process, seed=job.config.seed)
            notes = (*run.notes(), *thread_notes, *(training.resume() if job.resume else ()))
            if on_start is not None and process.is_main:
                on_start(training, notes)
            return run_training(training, config, notes, sections=lambda: _report_sections(run), on_record=on_record)


def _report_sections(run: FinetuningRun) -> tuple[Section, ...]:
    """Scores and mistakes of each task, with its name if there are several."""
    several = len(run.tasks) > 1
    return tuple(
        replace(section, title=f"{data.name}: {section.title}") if several else section
        for data in run.tasks
        for section in task_sections(data.scores, data.mistakes())
    )


def describe(job: FinetuningJob) -> dict[str, Any]:
    """The resolved config for the run folder, which is compared when the run is resumed."""
    entries = job.entries()
    files = [job.train, job.dev, *(path for entry in entries for path in (entry.train, entry.dev))]
    return {
        **{key: getattr(job, key) for key in ("task", "model", "train", "dev", "add_as")},
        **({"tasks": [to_mapping(entry) for entry in entries]} if entries else {}),
        **to_mapping(job.config),
        "file_fingerprints": [sha256_of(Path(path))[:16] for path in files if path is not None],
    }


@dataclass(frozen=True, kw_only=True)
class RateOutcome:
    """One learning rate of a sweep and its best score on dev."""

    lr: float
    score: float
    folder: Path


def sweep(
    job: FinetuningJob,
    *,
    rates: Sequence[float] = LEARNING_RATES,
    on_record: Callable[[float, Record], None] | None = None,
) -> list[RateOutcome]:
    """One run per learning rate under `out/sweep`; model and metrics of the best become those of `out`."""
    if job.dev is None and all(entry.dev is None for entry in job.entries()):
        raise ConfigError("a sweep needs dev scores to choose by", fix="give --dev")
    if job.resume:
        raise ConfigError("a sweep cannot be resumed", fix="start over with --overwrite")
    run = RunFolder(job.out)
    run.check(resume=False, overwrite=job.overwrite)
    run.begin(describe(job))
    outcomes = []
    for lr in rates:
        folder = run.path / "sweep" / f"lr-{lr:g}"
        log = None if on_record is None else partial(on_record, lr)
        run_job(replace(_with_rate(job, lr), out=str(folder), overwrite=True), on_record=log)
        status = read_json(folder / STATUS)
        outcomes.append(RateOutcome(lr=lr, score=float(status["best"]["score"]), folder=folder))
    best = max(outcomes, key=lambda outcome: outcome.score)
    run.begin(describe(_with_rate(job, best.lr)))
    run.put_model(partial(_copy_folder, best.folder / "model"))
    for name in (METRICS, STATUS):
        write_atomically(run.path / name, (best.folder / name).read_bytes())
    table = [{"lr": outcome.lr, "score": outcome.score} for outcome in outcomes]
    write_json(run.path / "sweep.json", {"best": best.lr, "rates": table})
    write_report(run.path)
    return outcomes


def _with_rate(job: FinetuningJob, lr: float) -> FinetuningJob:
    return replace(job, config=replace(job.config, training=replace(job.config.training, lr=lr)))


def _copy_folder(source: Path, target: Path) -> None:
    shutil.copytree(source, target, dirs_exist_ok=True)
