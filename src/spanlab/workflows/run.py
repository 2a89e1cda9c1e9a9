"""Runs a training loop to its end: records go to `metrics.jsonl`, trackers and the caller, and into `report.html`."""

import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Literal

from torch import nn

from spanlab.atomic_io import readable_disk_errors, write_atomically
from spanlab.machine import describe_environment
from spanlab.report.run_page import Section, run_page
from spanlab.tasks.result import html_table
from spanlab.training.loop import Outcome, Training
from spanlab.training.records import MetricsFile, Record
from spanlab.training.run_folder import REPORT
from spanlab.training.trackers import open_trackers
from spanlab.workflows.provenance import Provenance, write_provenance

Moment = Literal["before", "after"]
OnStart = Callable[[Training[Any], tuple[str, ...]], None]
"""Called before the first step with the training and its notes."""
OnRecord = Callable[[Record], None]
OnBeginAndEnd = Callable[[nn.Module, Path, Moment], None]
FIX_FULL_DISK = "free some space and continue with --resume; the last checkpoint is intact"


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The outcome of a run."""

    folder: Path
    outcome: Outcome
    steps: int
    """Steps done."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Scores of the last evaluation of this session."""
    remarks: tuple[str, ...] = ()
    """Remarks for the user, such as a model that is no better than guessing."""

    @property
    def model(self) -> Path:
        """The folder of the model: the best on held-out data; without held-out data, the newest."""
        return self.folder / "model"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "folder": str(self.folder),
            "model": str(self.model),
            "outcome": self.outcome,
            "steps": self.steps,
            "scores": dict(self.scores),
            "remarks": list(self.remarks),
        }

    def _repr_html_(self) -> str:
        """What a notebook shows: what became of the run, its scores on dev, and remarks."""
        facts = {"outcome": self.outcome, "steps": self.steps, **self.scores, "model": self.model}
        remarks = "".join(f"<li>{escape(remark)}</li>" for remark in self.remarks)
        return html_table(("run", str(self.folder)), facts.items()) + (f"<ul>{remarks}</ul>" if remarks else "")


def run_training(
    training: Training[Any],
    config: Mapping[str, Any],
    notes: tuple[str, ...] = (),
    *,
    on_begin_and_end: OnBeginAndEnd | None = None,
    sections: Callable[[], tuple[Section, ...]] = tuple,
    remarks: Callable[[Mapping[str, float]], tuple[str, ...]] = lambda scores: (),
    on_record: Callable[[Record], None] | None = None,
    provenance: Provenance | None = None,
) -> RunResult:
    """Train to the end; Ctrl-C raises KeyboardInterrupt once a checkpoint is written, or the run is finished.

    Args:
        training: the run, new or resumed.
        config: the config of the run folder.
        notes: notes for the user about the start of the run.
        on_begin_and_end: called with the model, the folder and "before" or "after" when the run begins and ends.
        sections: called at the end; additional sections of the report.
        remarks: called if the run is finished, with the scores of the last evaluation; remarks for the user.
        on_record: called with every record, on the main process.
        provenance: what went into the run; with its results it is put into the model folder of a finished run.
    """
    run = training.run
    scores: Mapping[str, float] = {}
    with readable_disk_errors(run.path, FIX_FULL_DISK), ExitStack() as stack:
        consumers = _consumers(training, config, notes, stack) if training.process.is_main else []
        if on_record is not None and training.process.is_main:
            consumers.append(on_record)
        _call_hook(on_begin_and_end, training, "before")
        try:
            for record in training.records():
                scores = record.metrics if record.split == "dev" else scores
                for consume in consumers:
                    consume(record)
            _call_hook(on_begin_and_end, training, "after")
        except (Exception, KeyboardInterrupt) as error:
            if training.process.is_main:
                training.fail(error)
                with suppress(OSError):  # the disk may be full; the first error is the one to report
                    write_report(run.path, sections())
            raise
        if training.process.is_main:
            if provenance is not None and training.outcome in {"finished", "patience"}:
                write_provenance(training, provenance)
            write_report(run.path, sections())
    if training.outcome == "terminated":  # perhaps by a signal that another process received
        raise SystemExit(128 + signal.SIGTERM)
    training.interrupts.pass_on()
    return RunResult(
        folder=run.path,
        outcome=training.outcome,
        steps=training.progress.step,
        scores=scores,
        remarks=remarks(scores) if training.outcome in {"finished", "patience"} else (),
    )


def _consumers(
    training: Training[Any], config: Mapping[str, Any], notes: tuple[str, ...], stack: ExitStack
) -> list[Callable[[Record], None]]:
    """The consumers of records on the main process, metrics file and trackers; closed with the stack."""
    run = training.run
    run.write_environment(describe_environment(processes=training.process.world_size, notes=list(notes)))
    metrics = MetricsFile(run.metrics)
    stack.callback(metrics.close)
    metrics.rewind(training.progress.step, training.progress.evaluated)
    trackers = open_trackers(training.config.track, run.path, run.path.name, config)
    for tracker in trackers:
        stack.callback(tracker.close)
    return [metrics.log, *(tracker.log for tracker in trackers)]


def _call_hook(hook: OnBeginAndEnd | None, training: Training[Any], moment: Moment) -> None:
    if hook is None:
        return
    model = training.unsharded_model()  # on all processes, since it gathers the shards
    if model is not None:
        hook(model, training.run.path, moment)


def write_report(folder: Path, sections: tuple[Section, ...] = ()) -> None:
    """Write the report of a run, finished or not."""
    write_atomically(folder / REPORT, run_page(folder, sections).encode())
