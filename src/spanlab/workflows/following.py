"""A run followed to its end: its records into `metrics.jsonl`, to the trackers and the caller, and into `report.html`."""

import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spanlab.machine import describe_environment
from spanlab.report.run_page import Section, run_page
from spanlab.training.loop import Outcome, Training
from spanlab.training.metrics_file import MetricsFile
from spanlab.training.records import Record
from spanlab.training.run_folder import ENVIRONMENT, REPORT
from spanlab.training.trackers import open_trackers
from spanlab.whole_files import readable_disk_errors, write_atomically, write_json
from spanlab.workflows.fillings import SampleFillings

FIX_FULL_DISK = "make room and go on with --resume; the last checkpoint is whole"


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What came of a run."""

    folder: Path
    outcome: Outcome
    steps: int
    """Steps done."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Of the last evaluation of this session."""

    @property
    def model(self) -> Path:
        """The folder of the model: the best on held-out data, without any the newest."""
        return self.folder / "model"


def follow(
    training: Training[Any],
    config: Mapping[str, Any],
    notes: tuple[str, ...] = (),
    *,
    fillings: SampleFillings | None = None,
    sections: Callable[[], tuple[Section, ...]] = tuple,
    on_record: Callable[[Record], None] | None = None,
) -> RunResult:
    """Train to the end; Ctrl-C ends as it does everywhere, once the state is saved."""
    run, first = training.run, training.place.first
    scores: Mapping[str, float] = {}
    with ExitStack() as stack:
        stack.enter_context(readable_disk_errors(run.path, FIX_FULL_DISK))
        consumers: list[Callable[[Record], None]] = []
        if first:
            metrics = stack.enter_context(MetricsFile(run.metrics))
            metrics.rewind(training.progress.step)
            trackers = open_trackers(training.config.track, run.path, run.path.name, config)
            for tracker in trackers:
                stack.callback(tracker.close)
            consumers = [metrics.append, *(tracker.log for tracker in trackers)]
            write_json(run.path / ENVIRONMENT, describe_environment(processes=training.place.size, notes=notes))
            if fillings is not None:
                fillings.note(run.path, "before")
            if on_record is not None:
                consumers.append(on_record)
        try:
            for record in training.records():
                scores = record.metrics if record.split == "dev" else scores
                for consume in consumers:
                    consume(record)
        finally:
            if first:
                if fillings is not None:
                    fillings.note(run.path, "after")
                write_report(run.path, sections())
    if training.outcome == "interrupted":
        raise KeyboardInterrupt
    if training.outcome == "terminated":
        raise SystemExit(128 + signal.SIGTERM)
    return RunResult(folder=run.path, outcome=training.outcome, steps=training.progress.step, scores=scores)


def write_report(folder: Path, sections: tuple[Section, ...] = ()) -> None:
    """The page of a run, as far as it has come."""
    write_atomically(folder / REPORT, run_page(folder, sections).encode())
