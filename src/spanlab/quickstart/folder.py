"""The folder of a quickstart: its settings, what is done, and how long that took.

`quickstart.json` is written at the start and after every step. A step is done when its folder exists, and a folder is
renamed to its name once it is complete, so a quickstart that was killed at any moment continues with the same step.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spanlab.atomic_io import fsync_folder, has_output, locked, replace_folder, sha256_of, write_json
from spanlab.errors import InputError
from spanlab.quickstart.plan import QuickstartSettings, all_outputs
from spanlab.report.number_format import duration
from spanlab.strict_parsing import read_json

if TYPE_CHECKING:
    from spanlab.quickstart.results import Continuation, Reading
    from spanlab.training.loop import Training
    from spanlab.training.records import Record

JOURNAL = "quickstart.json"
FORMAT_VERSION = 2
_LOCK = ".lock"
_OF_VERSION_1 = ("tokenizer", "minilm-corpus", "questions", "untrained", "pretrained", "minilm")
"""What older quickstarts wrote beside what this one writes; the last three also begin the names of runs."""


class QuickstartEvents:
    """Receives the events of a quickstart, since the library itself prints nothing; this base class ignores them."""

    def part(self, number: int, total: int, title: str) -> None:
        """Part `number`, from 1, of `total` starts."""

    def say(self, line: str) -> None:
        """A line for the user."""

    def progress(self, description: str, done: int, total: int | None) -> None:
        """Progress of a step without training, in bytes."""

    def read(self, reading: "Reading") -> None:
        """What the reader found in a text."""

    def run_begins(self, training: "Training[Any]", notes: tuple[str, ...]) -> None:
        """A training run starts or is resumed."""

    def record(self, record: "Record") -> None:
        """A training step or an evaluation is done."""

    def run_ends(self) -> None:
        """The run is finished or was interrupted."""

    def continued(self, continuation: "Continuation") -> None:
        """What continued pre-training changed."""


class QuickstartFolder:
    """The folder with the settings and events of a quickstart, and the time spent."""

    def __init__(self, settings: QuickstartSettings, events: QuickstartEvents) -> None:
        self.settings, self.events = settings, events
        self.path = settings.out
        self._seconds: dict[str, float] = {}

    @contextmanager
    def opened(self, *, overwrite: bool = False) -> Iterator[None]:
        """Lock the folder, to start in an empty one or to continue in one with the same settings."""
        started = self._check(overwrite=overwrite)
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path / _LOCK, "another process is using this folder"):
            if started and overwrite:
                self._clear()
            elif started:
                saved = self._read().get("seconds", {})
                self._seconds = {str(step): float(seconds) for step, seconds in saved.items()}
            self._write()
            yield

    @property
    def spent(self) -> float:
        """Seconds of all steps so far, over all sessions."""
        return sum(self._seconds.values())

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the time inside to that of a step, also on Ctrl-C."""
        before, start = self._seconds.get(step, 0.0), time.monotonic()
        try:
            yield
        finally:
            self._seconds[step] = before + time.monotonic() - start
            self._write()

    @contextmanager
    def new_folder(self, name: str) -> Iterator[Path]:
        """A temporary folder to write into, renamed to `name` at the end."""
        unfinished = self.path / f".{name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        try:
            yield unfinished
            fsync_folder(unfinished)
            replace_folder(unfinished, self.path / name)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)  # after an error: a full disk needs the space

    def _check(self, *, overwrite: bool) -> bool:
        """Whether the folder contains a quickstart; raises if it contains anything else, or other settings."""
        started = has_output(self.path, JOURNAL, "quickstart", ignored=lambda path: path.name == _LOCK)
        if started and not overwrite:
            self._check_same()
        return started

    def _check_same(self) -> None:
        before = self._read()["settings"]
        for name, value in _comparable(self.settings).items():
            if before.get(name) != value:
                old = "other text" if name == "text" else f"{name} {_format(before.get(name))}, not {_format(value)}"
                fix = "use the same settings, another --out, or --overwrite"
                raise InputError(f"the quickstart was started with {old}", path=self.path, fix=fix)

    def _read(self) -> dict[str, Any]:
        path, cause = self.path / JOURNAL, "not the journal of a quickstart"
        try:
            journal = read_json(path)
            if journal["format_version"] == FORMAT_VERSION and isinstance(journal["settings"], dict):
                assert isinstance(journal, dict)
                return journal
            if journal["format_version"] != FORMAT_VERSION:
                cause = "written by another version of SpanLab, whose quickstart has other parts"
        except (ValueError, KeyError, TypeError):
            pass
        raise InputError(cause, path=path, fix="start over with --overwrite, or use another --out")

    def _write(self) -> None:
        journal = {"format_version": FORMAT_VERSION, "settings": _comparable(self.settings), "seconds": self._seconds}
        write_json(self.path / JOURNAL, journal)

    def _clear(self) -> None:
        """Remove what a quickstart writes, and nothing else; the journal last, which identifies the folder."""
        runs = [f"{name}-{task}" for name in _OF_VERSION_1[3:] for task in ("entities", "questions")]
        for name in (*all_outputs(), *_OF_VERSION_1, *runs, JOURNAL):
            path = self.path / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _comparable(settings: QuickstartSettings) -> dict[str, Any]:
    """The settings that determine the results; text files by their content."""
    comparable = {name: value for name, value in vars(settings).items() if name not in {"out", "text"}}
    return {**comparable, "text": [sha256_of(Path(name))[:16] for name in settings.text]}


def _format(value: Any) -> str:  # noqa: ANN401 (a setting as JSON has it)
    return duration(value) if isinstance(value, float) else str(value)
