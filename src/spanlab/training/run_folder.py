"""The folder of a run: its config, what it has told, its checkpoints and its model. Never overwritten by accident.

config.yaml       as resolved
metrics.jsonl     one record a line
checkpoints/      what --resume goes on from
model/            the best model on held-out data; without any, the newest
status.json       how far it has come
environment.json  what it runs on, and how many threads and processes it was begun with
report.html       all of it to look at
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from spanlab.atomic_io import locked, mend_folder, put_folder, write_atomically, write_json
from spanlab.config import read_yaml
from spanlab.errors import InputError
from spanlab.training.checkpoint import Checkpoints, Progress

FORMAT_VERSION = 1
CONFIG, METRICS, STATUS, ENVIRONMENT, REPORT = (
    "config.yaml",
    "metrics.jsonl",
    "status.json",
    "environment.json",
    "report.html",
)
LOCK = ".lock"
_MAY_DIFFER = {
    "": {"corpora", "train", "dev"},  # where they lie; what they hold is told by their fingerprints
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
"""What may be changed from one session of a run to the next: none of it changes what is learnt."""


@dataclass(frozen=True, kw_only=True)
class Parallelism:
    """What a run was begun on, as far as the last bits of its numbers depend on it."""

    threads: int
    """Of each process."""
    processes: int


class RunFolder:
    """One run's folder."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = Checkpoints(self.path / "checkpoints")
        self.model = self.path / "model"
        self.metrics = self.path / METRICS

    def check(self, *, resume: bool, overwrite: bool) -> None:
        """Refuse a folder that may not be written to, without touching it."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError("a file is in the way", path=self.path, fix="choose another --out")
        if resume and not (self.path / CONFIG).is_file():
            raise InputError("there is no run to resume", path=self.path, fix="check --out, or leave --resume out")
        if resume or not self._holds_anything():
            return
        if not (self.path / CONFIG).is_file():
            raise InputError("the folder is not empty and holds no run", path=self.path, fix="choose another --out")
        if not overwrite:
            fix = "go on with it by --resume, or replace it by --overwrite"
            raise InputError("the folder holds a run already", path=self.path, fix=fix)

    def begin(self, config: Mapping[str, Any]) -> None:
        """Make the folder for a new run, without what an earlier one left; it is a run's folder all the while."""
        self.path.mkdir(parents=True, exist_ok=True)
        for name in (METRICS, STATUS, ENVIRONMENT, REPORT, "fillings.json", "trackers.json"):
            (self.path / name).unlink(missing_ok=True)
        for folder in (self.checkpoints.folder, self.model, *self.path.glob("fault-step-*")):
            shutil.rmtree(folder, ignore_errors=True)
        described = {"format_version": FORMAT_VERSION, **config}
        text = yaml.safe_dump(described, sort_keys=False, allow_unicode=True)
        write_atomically(self.path / CONFIG, text.encode())

    def read_config(self) -> dict[str, Any]:
        """The resolved config of the run that is there."""
        mapping, _ = read_yaml(self.path / CONFIG)
        version = mapping.pop("format_version", None)
        if version != FORMAT_VERSION:
            cause = f"the run is of format {version}, and this SpanLab reads {FORMAT_VERSION}"
            raise InputError(cause, path=self.path / CONFIG, fix="resume it with the SpanLab that began it")
        return mapping

    def initial_parallelism(self) -> Parallelism | None:
        """What the run was begun on; None where it has not told yet."""
        try:
            told = json.loads((self.path / ENVIRONMENT).read_text(encoding="utf-8"))
            found = {name: told.get(f"begun_{name}", told[name]) for name in ("threads", "processes")}
            return Parallelism(threads=int(found["threads"]), processes=int(found["processes"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def write_environment(self, environment: Mapping[str, Any]) -> None:
        """What this session runs on, beside what the first one ran on."""
        begun = self.initial_parallelism() or Parallelism(
            threads=environment["threads"], processes=environment["processes"]
        )
        first = {"begun_threads": begun.threads, "begun_processes": begun.processes}
        write_json(self.path / ENVIRONMENT, {**environment, **first})

    def check_same(self, config: Mapping[str, Any]) -> None:
        """Refuse to go on with another config than the run was begun with."""
        difference = _difference(self.read_config(), config)
        if difference is not None:
            fix = "resume it with what it was begun with, or begin anew with --overwrite"
            raise InputError(f"the run was begun with {difference}", path=self.path / CONFIG, fix=fix)

    def lock(self) -> AbstractContextManager[None]:
        """Keep a second process from working on the same run."""
        self.path.mkdir(parents=True, exist_ok=True)
        return locked(self.path / LOCK, "another process is working on this run")

    def put_model(self, export: Callable[[Path], None]) -> None:
        """Have the model written, and put it in the place of the one before."""
        mend_folder(self.model)
        for left_over in self.path.glob(".model-*"):  # of an export that was killed
            shutil.rmtree(left_over)
        new = Path(tempfile.mkdtemp(prefix=".model-", dir=self.path))
        try:
            export(new)
            new.chmod(0o755)  # mkdtemp's own is for one user alone
            put_folder(new, self.model)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _holds_anything(self) -> bool:
        """Whether there is more than what a run leaves that was refused before it began."""
        found = self.path.iterdir() if self.path.exists() else ()
        return any(path.name != LOCK and path.suffix != ".partial" for path in found)

    def write_status(self, state: str, progress: Progress, steps: int) -> None:
        """How far the run has come, for whoever looks at the folder."""
        best = None if progress.best is None else {"score": progress.best, "step": progress.best_step}
        status = {"state": state, "step": progress.step, "steps": steps, "seconds": progress.seconds, "best": best}
        write_json(self.path / STATUS, status)


def _difference(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> str | None:
    """The first setting that differs and matters, in words."""
    harmless = _MAY_DIFFER.get(prefix.removesuffix("."), set())
    for key in [*before, *(key for key in now if key not in before)]:
        old, new = before.get(key), now.get(key)
        if old == new or key in harmless:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found = _difference(old, new, f"{prefix}{key}.")
            if found is not None:
                return found
        else:
            return f"{prefix}{key}={old}, not {new}"
    return None
