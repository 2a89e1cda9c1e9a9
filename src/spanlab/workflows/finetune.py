"""Fine-tuning from labelled files to a run folder: `spanlab finetune` and `spanlab.finetune`.

The same function runs in one process and in each process that torchrun starts.
"""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from spanlab.atomic_io import readable_disk_errors, sha256_of, write_atomically, write_json
from spanlab.config import Source, merge, to_mapping
from spanlab.errors import ConfigError, RunError
from spanlab.finetuning.config import MULTITASK, RunConfig, resolve_run_config, saved_run_config
from spanlab.finetuning.defaults import NOTHING_UNSET, Unset, unset_settings
from spanlab.finetuning.multitask import read_task_list
from spanlab.finetuning.run import FinetuningRun, choose_config
from spanlab.finetuning.task_data import TaskData, TaskEntry
from spanlab.report.run_page import Section, task_sections
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.formats.aligned import files_of
from spanlab.tasks.formats.records import write_records
from spanlab.training.distributed import current_process, process_group
from spanlab.training.loop import Training
from spanlab.training.records import Record
from spanlab.training.run_folder import CONFIG, EXAMPLES, METRICS, STATUS, RunFolder, absolute_path
from spanlab.training.threads import choose_threads, restore_threads
from spanlab.workflows.provenance import Provenance, labelled_inputs, model_inputs, without_folders
from spanlab.workflows.run import OnRecord, OnStart, RunResult, run_training, write_report

SPLIT = "split.json"
"""The lines of training files that a run holds out as dev."""
ABOUT = ("task", "model", "train", "dev", "add_as", "tasks", "file_fingerprints")
"""Keys of a run's config beside its settings."""
SWEEP = "sweep"
"""The folder with the runs of a sweep."""


@dataclass(frozen=True, kw_only=True)
class FinetuningJob:
    """The arguments of a fine-tuning run."""

    task: str
    """A task, or `multitask`."""
    model: str
    """A model folder, a run folder, a name in `spanlab models` or a Hugging Face id."""
    train: str
    """The labelled file; for `multitask` the YAML list of tasks."""
    dev: str | None = None
    add_as: str | None = None
    """Add the task to those of the model under this name; None: a model with this task only."""
    config: RunConfig
    unset: Unset = NOTHING_UNSET
    """The training settings that are chosen by the model and the number of examples; none of a run to be resumed."""
    out: str
    resume: bool = False
    overwrite: bool = False

    def prepare(self) -> FinetuningRun:
        """Read and check the files and load the model; the run's config has no open settings."""
        return FinetuningRun(
            self.task,
            self.config,
            model=self.model,
            train=self.train,
            dev=self.dev,
            add_as=self.add_as,
            unset=self.unset,
        )

    def chosen_config(self) -> RunConfig:
        """The config that the run would have, without encoding its examples."""
        if self.unset == NOTHING_UNSET:
            return self.config
        return choose_config(
            self.task,
            self.config,
            self.unset,
            model=self.model,
            train=self.train,
            dev=self.dev,
            added=self.add_as is not None,
        )

    def entries(self) -> list[TaskEntry]:
        """The tasks of a multitask list; empty for any other run."""
        return [entry for entry, _ in read_task_list(self.train)] if self.task == MULTITASK else []


def finetune(
    task: str,
    *,
    model: str | Path,
    train: str | Path | Iterable[Any],
    out: str | Path,
    dev: str | Path | Iterable[Any] | None = None,
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
        model: a model folder, a run folder, a name in `spanlab models` or a Hugging Face id.
        train: the labelled file; for multitask the YAML list of tasks. Or the examples themselves: mappings as in a
            labelled file, a table, a Hugging Face dataset, documents of spaCy. The run folder keeps a copy.
        out: the run folder; `spanlab.load` takes it, or its `model/`.
        dev: the labelled file, or the examples, that the best model is chosen by.
        resume: continue the run in `out`.
        overwrite: replace the run in `out`.
        add: add the task to those of the model, whose outputs do not change.
        name: name of an added task; by default that of the task.
        on_record: called with every record of the run.
        overrides: keys and sections, such as `label_smoothing=0.1, training={"epochs": 3}`.
    """
    if name is not None and not add:
        raise ConfigError("'name' is for added tasks", fix="use add=True as well, or leave 'name' out")
    folder = RunFolder(out)
    folder.check(resume=resume, overwrite=overwrite)
    given = {"train": train} if dev is None else {"train": train, "dev": dev}
    files = {name: _as_file(examples, name, task, folder) for name, examples in given.items()}
    job = FinetuningJob(
        task=task,
        model=str(model),
        train=files["train"],
        dev=files.get("dev"),
        add_as=(name or task) if add else None,
        config=resolve_run_config(task, _with_values_of(folder, overrides) if resume else overrides),
        unset=NOTHING_UNSET if resume else unset_settings(overrides),
        out=str(out),
        resume=resume,
        overwrite=overwrite,
    )
    return run_job(job, on_record=on_record)


def _as_file(examples: str | Path | Iterable[Any], name: str, task: str, folder: RunFolder) -> str:
    """The file of examples; those given in Python are written to the run folder, so that the run can be repeated."""
    if isinstance(examples, str | Path):
        return str(examples)
    if task == MULTITASK:
        raise ConfigError("'train' of multitask is a YAML list of tasks and their files", fix="name the list")
    path = folder.path / EXAMPLES / f"{name}.jsonl"
    write_records(path, examples)
    return str(path)


def resumed_job(
    out: str,
    changes: Mapping[str, Any],
    source: Source | None = None,
    *,
    task: str | None = None,
    model: str | None = None,
    train: str | None = None,
    dev: str | None = None,
    add_as: str | None = None,
) -> FinetuningJob:
    """The job that the run in `out` was started with, to be resumed; what is given here replaces what the run has.

    With a task, `changes` are all settings of the command, else changes to those of the run. `run_job` refuses what
    would change the result.
    """
    run = RunFolder(out)
    run.check(resume=True, overwrite=False)
    if (run.path / SWEEP).is_dir():
        raise ConfigError("a sweep cannot be resumed", path=run.path, fix="start over with --overwrite")
    saved, settings = _split_config(run, run.read_config())
    if task is None:
        config = saved_run_config(saved["task"], merge(settings, changes), Source(path=str(run.path / CONFIG)))
    else:
        config = resolve_run_config(task, _with_values_of(run, changes), source)
    return FinetuningJob(
        task=task or saved["task"],
        model=model or saved["model"],
        train=train or saved["train"],
        dev=dev or saved.get("dev"),
        add_as=add_as or saved.get("add_as"),
        config=config,
        out=out,
        resume=True,
    )


def _with_values_of(run: RunFolder, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes, and of what they leave open the values that the run was started with."""
    run.check(resume=True, overwrite=False)
    _, settings = _split_config(run, run.read_config())
    training = settings.get("training")
    saved = training if isinstance(training, Mapping) else {}
    keys = ["lr", "lr_factors", "warmup", *(("steps", "epochs") if unset_settings(changes).epochs else ())]
    return merge({"training": {key: saved[key] for key in keys if key in saved}}, changes)


def _split_config(run: RunFolder, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a run is about (task, model, files), and its settings."""
    about = {key: value for key, value in config.items() if key in ABOUT}
    if not all(isinstance(about.get(key), str) for key in ("task", "model", "train")):
        raise ConfigError("not the config of a fine-tuning run", path=run.path / CONFIG, fix="check --out")
    return about, {key: value for key, value in config.items() if key not in ABOUT}


def _with_new_keys(run: RunFolder, config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a run, perhaps of an older version, with all keys of this one."""
    about, settings = _split_config(run, config)
    source = Source(path=str(run.path / CONFIG))
    return {**about, **to_mapping(saved_run_config(about["task"], settings, source))}


def run_job(job: FinetuningJob, *, on_start: OnStart | None = None, on_record: OnRecord | None = None) -> RunResult:
    """Run the job in this process, which may be one of several; callbacks are called on the main process."""
    with process_group(), restore_threads():
        settings = job.config.training
        process = current_process(settings.device, settings.precision)
        folder = RunFolder(job.out)
        if process.is_main:
            folder.check(resume=job.resume, overwrite=job.overwrite)
        if job.resume:
            folder.check_same(describe(job), partial(_with_new_keys, folder))
        run = job.prepare()
        config = describe(replace(job, config=run.config))
        threads, thread_notes = choose_threads(settings.threads, folder, process, resume=job.resume)
        with folder.lock() if process.is_main else nullcontext():
            settings = replace(run.training, threads=threads)
            training = Training(run.spec, settings, folder, process, seed=job.config.seed)
            if process.is_main and not job.resume:  # after everything is validated
                with readable_disk_errors(folder.path, "free some space and run the command again"):
                    folder.begin(config)
                    write_split(folder.path, run.tasks)
            process.barrier()
            provenance = _provenance(job, config) if process.is_main else None
            notes = (*run.notes(), *thread_notes, *(training.resume() if job.resume else ()))
            if on_start is not None and process.is_main:
                on_start(training, notes)
            return run_training(
                training,
                config,
                notes,
                sections=lambda: _report_sections(run),
                remarks=lambda scores: run.remarks(),
                on_record=on_record,
                provenance=provenance,
            )


def write_split(folder: Path, tasks: Sequence[TaskData]) -> None:
    """Write which lines of training files are held out as dev, if any."""
    lines = {data.name: [row.line for row in data.dev.rows] for data in tasks if data.dev and data.dev_is_split}
    if lines:
        write_json(folder / SPLIT, {"dev_lines": lines})


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
        "task": job.task,
        "model": absolute_path(job.model),
        "train": _absolute_files(job.train),
        "dev": None if job.dev is None else _absolute_files(job.dev),
        "add_as": job.add_as,
        **({"tasks": [to_mapping(entry) for entry in entries]} if entries else {}),
        **to_mapping(job.config),
        "file_fingerprints": [
            sha256_of(Path(name))[:16] for path in files if path is not None for name in files_of(path)
        ],
    }


def _provenance(job: FinetuningJob, config: Mapping[str, Any]) -> Provenance:
    """What goes into the run."""
    entries = job.entries()
    inputs = [*model_inputs(job.model), *labelled_inputs("dev", job.dev)]
    inputs += labelled_inputs("train", job.train) if not entries else []
    for entry in entries:
        inputs += labelled_inputs(f"{entry.name}/train", entry.train)
        inputs += labelled_inputs(f"{entry.name}/dev", entry.dev)
    named = without_folders(config, ("model", "train", "dev"))
    if entries:
        named["tasks"] = [without_folders(to_mapping(entry), ("train", "dev")) for entry in entries]
    return Provenance(command="finetune", config=named, inputs=tuple(inputs))


def _absolute_files(path: str) -> str:
    return ",".join(map(absolute_path, files_of(path)))


@dataclass(frozen=True, kw_only=True)
class RateOutcome:
    """One learning rate of a sweep and its best score on dev."""

    lr: float
    score: float
    folder: Path
    remarks: tuple[str, ...] = ()


def sweep(
    job: FinetuningJob,
    *,
    rates: Sequence[float] = (),
    on_record: Callable[[float, Record], None] | None = None,
) -> list[RateOutcome]:
    """One run per learning rate under `out/sweep`; model and metrics of the best become those of `out`.

    Without `rates`, they are the grid of SpanBERT's paper, moved to the width of the encoder.
    """
    has_dev = job.dev is not None or any(entry.dev is not None for entry in job.entries())
    if not has_dev and not (isinstance(job.config, TaskConfig) and job.config.data.dev_share):
        raise ConfigError("a sweep needs dev scores to choose by", fix="give --dev, or data.dev_share=0.1")
    if job.resume:
        raise ConfigError("a sweep cannot be resumed", fix="start over with --overwrite")
    run = RunFolder(job.out)
    run.check(resume=False, overwrite=job.overwrite)
    prepared = job.prepare()
    job = replace(job, config=prepared.config, unset=NOTHING_UNSET)
    run.begin(describe(job))
    outcomes = []
    for lr in rates or prepared.scale.sweep_rates():
        folder = run.path / SWEEP / f"lr-{lr:g}"
        log = None if on_record is None else partial(on_record, lr)
        result = run_job(replace(_with_rate(job, lr), out=str(folder), overwrite=True), on_record=log)
        best = RunFolder(folder).read_status().best
        if best is None:
            raise RunError(f"{folder}: no dev score is a number; leave out the learning rate {lr:g}")
        outcomes.append(RateOutcome(lr=lr, score=best.score, folder=folder, remarks=result.remarks))
    chosen = max(outcomes, key=lambda outcome: outcome.score)
    run.begin(describe(_with_rate(job, chosen.lr)))
    run.put_model(partial(_copy_folder, chosen.folder / "model"))
    for name in (METRICS, STATUS):
        write_atomically(run.path / name, (chosen.folder / name).read_bytes())
    table = [{"lr": outcome.lr, "score": outcome.score} for outcome in outcomes]
    write_json(run.path / "sweep.json", {"best": chosen.lr, "rates": table})
    write_report(run.path)
    return outcomes


def _with_rate(job: FinetuningJob, lr: float) -> FinetuningJob:
    return replace(job, config=replace(job.config, training=replace(job.config.training, lr=lr)))


def _copy_folder(source: Path, target: Path) -> None:
    shutil.copytree(source, target, dirs_exist_ok=True)
