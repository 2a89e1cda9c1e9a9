"""A fine-tuning run in its folder: begun, resumed, or repeated over a grid of learning rates."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spanlab.configuration import to_mapping
from spanlab.errors import ConfigError
from spanlab.tasks.finetuning import FineTuning, Sources, resolve_config
from spanlab.tasks.settings import TaskConfig
from spanlab.training.loop import Outcome, Training
from spanlab.training.place import find_place
from spanlab.training.records import Record
from spanlab.training.run_folder import RunFolder
from spanlab.whole_files import write_json

LEARNING_RATES = (5e-6, 1e-5, 2e-5, 3e-5, 5e-5)
"""The grid that SpanBERT's paper searched."""


class FineTuningRun:
    """One run and its folder."""

    def __init__(
        self, sources: Sources, config: TaskConfig, out: str | Path, *, resume: bool = False, overwrite: bool = False
    ) -> None:
        """Reads and checks everything before the folder is touched."""
        self.folder = RunFolder(out)
        self.folder.check(resume=resume, overwrite=overwrite)
        self.resume, self.config = resume, config
        self.described = {**to_mapping(sources), **to_mapping(config)}
        if resume:
            self.folder.check_same(self.described)
        self.tuning = FineTuning(sources, config)
        self.outcome: Outcome = "running"

    def records(self) -> Iterator[Record]:
        """Train; what is told goes into `metrics.jsonl` as well."""
        training = self.config.training
        place = find_place(training.device, training.precision)
        with self.folder.lock():
            if not self.resume and place.first:
                self.folder.begin(self.described)
            loop = Training(self.tuning.work, training, self.folder, place, seed=self.config.seed)
            if self.resume:
                loop.resume()
                _forget_after(self.folder.metrics, loop.progress.step)
            with self.folder.metrics.open("a", encoding="utf-8") as file:
                for record in loop.records():
                    if place.first:
                        file.write(json.dumps(record.to_dict(), ensure_ascii=False) + "\n")
                        file.flush()
                    yield record
            self.outcome = loop.outcome

    @property
    def best(self) -> float | None:
        """The best score on dev."""
        status = json.loads((self.folder.path / "status.json").read_text(encoding="utf-8"))
        return None if status["best"] is None else float(status["best"]["score"])


def _forget_after(path: Path, step: int) -> None:
    """Drop what was told of steps that are done again."""
    if path.is_file():
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(line for line in lines if json.loads(line)["step"] <= step), encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    """One learning rate of a sweep and the best score it reached on dev."""

    lr: float
    score: float
    folder: Path


def sweep(
    sources: Sources,
    config: TaskConfig,
    out: str | Path,
    *,
    overwrite: bool = False,
    rates: Sequence[float] = LEARNING_RATES,
    on_record: Callable[[float, Record], None] | None = None,
) -> list[SweepOutcome]:
    """A run for each learning rate under `out/sweep`; the best one's model becomes `out/model`."""
    if sources.dev is None:
        raise ConfigError("a sweep chooses by the score on dev", fix="give --dev")
    folder = RunFolder(out)
    folder.check(resume=False, overwrite=overwrite)
    outcomes = []
    for lr in rates:
        here = replace(config, training=replace(config.training, lr=lr))
        run = FineTuningRun(sources, here, folder.path / "sweep" / f"lr-{lr:g}", overwrite=True)
        for record in run.records():
            if on_record is not None:
                on_record(lr, record)
        assert run.best is not None
        outcomes.append(SweepOutcome(lr=lr, score=run.best, folder=run.folder.path))
    best = max(outcomes, key=lambda outcome: outcome.score)
    chosen = replace(config, training=replace(config.training, lr=best.lr))
    folder.begin({**to_mapping(sources), **to_mapping(chosen)})
    folder.put_model(lambda new: _copy(best.folder / "model", new))
    shutil.copyfile(best.folder / "metrics.jsonl", folder.metrics)
    table = [{"lr": outcome.lr, "score": outcome.score} for outcome in outcomes]
    write_json(folder.path / "sweep.json", {"primary": run.tuning.task.primary, "rates": table, "best": best.lr})
    return outcomes


def _copy(source: Path, folder: Path) -> None:
    shutil.copytree(source, folder, dirs_exist_ok=True)


def finetune(
    task: str,
    *,
    model: str | Path,
    train: str | Path,
    out: str | Path,
    dev: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    on_record: Callable[[Record], None] | None = None,
    **overrides: Any,  # noqa: ANN401 (keys of the task's config)
) -> Path:
    """Fine-tune a model and return its folder.

    Args:
        task: classification, similarity, …
        model: a model folder, a run folder or a Hugging Face id.
        train: the labelled file.
        out: the folder of the run.
        dev: another labelled file, by which the best model is chosen.
        resume: go on with the run in `out`.
        overwrite: replace the run in `out`.
        on_record: told of every step and evaluation.
        overrides: keys of the config, such as `training={"epochs": 3}`, or `**{"training.epochs": 3}`.
    """
    sources = Sources(task=task, model=str(model), train=str(train), dev=None if dev is None else str(dev))
    run = FineTuningRun(sources, resolve_config(task, nested(overrides)), out, resume=resume, overwrite=overwrite)
    for record in run.records():
        if on_record is not None:
            on_record(record)
    return run.folder.model


def nested(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Overrides with dotted keys as sections."""
    mapping: dict[str, Any] = {}
    for key, value in overrides.items():
        *parents, leaf = key.split(".")
        place = mapping
        for parent in parents:
            place = place.setdefault(parent, {})
        place[leaf] = value
    return mapping
