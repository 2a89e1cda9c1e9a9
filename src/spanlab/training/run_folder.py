"""The folder of a run, which is never overwritten by accident.

config.yaml       the resolved config
metrics.jsonl     one record a line
checkpoints/      what --resume continues from
model/            the best model on held-out data; without held-out data, the newest
status.json       progress
environment.json  hardware and versions, and the number of threads and processes the run started with
report.html       all of it as a page
examples/         labelled examples that were given in Python
"""

import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from spanlab.atomic_io import has_output, locked, repair_folder, replace_folder, write_atomically, write_json
from spanlab.config import read_yaml
from spanlab.errors import InputError
from spanlab.strict_parsing import read_json
from spanlab.training.checkpoint import Checkpoints, Progress
from spanlab.training.status import RunStatus, read_status

FORMAT_VERSION = 1
CONFIG, METRICS, STATUS, ENVIRONMENT, REPORT = (
    "config.yaml",
    "metrics.jsonl",
    "status.json",
    "environment.json",
    "report.html",
)
LOCK = ".lock"
EXAMPLES = "examples"
"""The folder with examples that were given in Python, in place of files."""
_MAY_DIFFER = {
    "": {"corpora", "train", "dev"},  # paths; the content is compared by fingerprints
    "training": {
        "time_limit",
        "keep",
        "save_every",
        "eval_every",
        "threads",
        "device",
        "parallel",
        "accumulate",
        "track",
    },
}
"""Settings by section that may change when a run is resumed: none of them changes the result."""


@dataclass(frozen=True, kw_only=True)
class Parallelism:
    """Threads and processes of a run, which change its results in the last bits."""

    threads: int
    """In each process."""
    processes: int


class RunFolder:
    """The files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = Checkpoints(self.path / "checkpoints")
        self.model = self.path / "model"
        self.metrics = self.path / METRICS

    def check(self, *, resume: bool, overwrite: bool) -> None:
        """Raise if the folder must not be written to; changes nothing."""
        if resume:
            if not (self.path / CONFIG).is_file():
                raise InputError("no run to resume", path=self.path, fix="check --out, or omit --resume")
        elif has_output(self.path, CONFIG, "run", ignored=_left_by_rejected_run) and not overwrite:
            raise InputError("the folder contains a run", path=self.path, fix="use --resume or --overwrite")

    def begin(self, config: Mapping[str, Any]) -> None:
        """Create the folder of a new run and remove the files of an earlier one, its config last."""
        self.path.mkdir(parents=True, exist_ok=True)
        for name in (METRICS, STATUS, ENVIRONMENT, REPORT, "fillings.json", "trackers.json", "split.json"):
            (self.path / name).unlink(missing_ok=True)
        for folder in (self.checkpoints.folder, self.model, *self.path.glob("fault-step-*")):
            shutil.rmtree(folder, ignore_errors=True)
        described = {"format_version": FORMAT_VERSION, **config}
        text = yaml.safe_dump(described, sort_keys=False, allow_unicode=True)
        write_atomically(self.path / CONFIG, text.encode())

    def read_config(self) -> dict[str, Any]:
        """The resolved config of the run."""
        mapping, _ = read_yaml(self.path / CONFIG)
        version = mapping.pop("format_version", None)
        if version != FORMAT_VERSION:
            cause = f"the run has format {version}; this version of SpanLab reads {FORMAT_VERSION}"
            raise InputError(cause, path=self.path / CONFIG, fix="resume with the version of SpanLab that started it")
        return mapping

    def initial_parallelism(self) -> Parallelism | None:
        """Threads and processes of the first session; None if they are not known."""
        try:
            environment = read_json(self.path / ENVIRONMENT)
            initial = {name: environment.get(f"begun_{name}", environment[name]) for name in ("threads", "processes")}
            parallelism = Parallelism(threads=int(initial["threads"]), processes=int(initial["processes"]))
        except (OSError, ValueError, OverflowError, KeyError, TypeError, AttributeError):
            return None
        return parallelism if min(parallelism.threads, parallelism.processes) > 0 else None

    def write_environment(self, environment: Mapping[str, Any]) -> None:
        """Hardware and versions of this session, with the parallelism of the first."""
        initial = self.initial_parallelism()
        threads = environment["threads"] if initial is None else initial.threads
        processes = environment["processes"] if initial is None else initial.processes
        write_json(self.path / ENVIRONMENT, {**environment, "begun_threads": threads, "begun_processes": processes})

    def check_same(
        self, config: Mapping[str, Any], upgrade: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    ) -> None:
        """Raise if the config differs from the run's, read through `upgrade`, in a setting that changes the result."""
        before = upgrade(self.read_config())
        models = {key: absolute_path(before[key]) for key in ("model", "init") if before.get(key) is not None}
        difference = _difference({**before, **models}, config)
        if difference is not None:
            fix = "resume with the original settings, or start over with --overwrite"
            raise InputError(f"the run was started with {difference}", path=self.path / CONFIG, fix=fix)

    def lock(self) -> AbstractContextManager[None]:
        """Lock the run against other processes."""
        self.path.mkdir(parents=True, exist_ok=True)
        return locked(self.path / LOCK, "another process is using this run")

    def put_model(self, export: Callable[[Path], None]) -> None:
        """Export a model and atomically replace the previous one."""
        repair_folder(self.model)
        for partial in self.path.glob(".model-*"):  # of an export that was killed
            shutil.rmtree(partial)
        new = self.path / ".model-new"  # of this process alone, which holds the run's lock
        new.mkdir()
        try:
            export(new)
            replace_folder(new, self.model)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def write_status(self, state: str, progress: Progress, steps: int, message: str | None = None) -> None:
        """Write the progress of the run, with the reason why it failed."""
        best = None if progress.best is None else {"score": progress.best, "step": progress.best_step}
        status = {"state": state, "step": progress.step, "steps": steps, "seconds": progress.seconds, "best": best}
        write_json(self.path / STATUS, status if message is None else {**status, "message": message})

    def read_status(self) -> RunStatus:
        """The progress of the run, as last written."""
        return read_status(self.path / STATUS)


def absolute_path(name: str) -> str:
    """A file or folder by its absolute path, so that a run can be resumed in any working directory; else the name."""
    return str(Path(name).resolve()) if Path(name).exists() else name


def _left_by_rejected_run(path: Path) -> bool:
    """Whether a run that was rejected before its first step may have left this file."""
    return path.name in {LOCK, EXAMPLES} or path.suffix == ".partial"


def _difference(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> str | None:
    """The first setting that differs and changes the result, as text."""
    harmless = _MAY_DIFFER.get(prefix.removesuffix("."), set())
    for key in [*before, *(key for key in now if key not in before)]:
        old, new = before.get(key), now.get(key)
        if old == new or key in harmless:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            difference = _difference(old, new, f"{prefix}{key}.")
            if difference is not None:
                return difference
        else:
            return f"{prefix}{key}={old}, not {new}"
    return None
