"""The folder of a quickstart: what it was begun with, what is done, and how long that took.

`quickstart.json` is written at the beginning and after every step. A step is done when its folder stands, and a folder
takes its name only once it is whole, so a quickstart that was killed at any moment goes on with the step it was in.
"""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spanlab.atomic_io import locked, put_folder, sha256_of, to_disk, write_json
from spanlab.errors import InputError
from spanlab.quickstart.events import QuickstartEvents
from spanlab.quickstart.plan import QuickstartSettings, everything
from spanlab.report.number_format import duration

JOURNAL = "quickstart.json"
FORMAT_VERSION = 1
_LOCK = ".lock"


class QuickstartFolder:
    """The folder, the settings it is worked in with, and the time that went by."""

    def __init__(self, settings: QuickstartSettings, watcher: QuickstartEvents) -> None:
        self.settings, self.watcher = settings, watcher
        self.folder = settings.out
        self._seconds: dict[str, float] = {}

    @contextmanager
    def opened(self, *, overwrite: bool = False) -> Iterator[None]:
        """Begin in an empty folder or go on in one that was begun the same way; no second process may."""
        begun = self._check(overwrite=overwrite)
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / _LOCK, "another process is working in this folder"):
            if begun and overwrite:
                self._clear()
            elif begun:
                self._seconds = self._read_seconds()
            self._write()
            yield

    @property
    def spent(self) -> float:
        """Seconds of all steps so far, in this session and earlier ones."""
        return sum(self._seconds.values())

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Count the time inside for a step, also where it ends with Ctrl-C."""
        before, began = self._seconds.get(step, 0.0), time.monotonic()
        try:
            yield
        finally:
            self._seconds[step] = before + time.monotonic() - began
            self._write()

    @contextmanager
    def new_folder(self, name: str) -> Iterator[Path]:
        """A folder to write into, which stands under its name when it is whole."""
        unfinished = self.folder / f".{name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        yield unfinished
        to_disk(unfinished)
        put_folder(unfinished, self.folder / name)

    def _check(self, *, overwrite: bool) -> bool:
        """Whether a quickstart was begun here; refused is whatever else is in the way."""
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError("a file is in the way", path=self.folder, fix="choose another --out")
        if not (self.folder / JOURNAL).is_file():
            if self.folder.exists() and any(path.name != _LOCK for path in self.folder.iterdir()):
                cause = "the folder is not empty and holds no quickstart"
                raise InputError(cause, path=self.folder, fix="choose another --out")
            return False
        if not overwrite:
            self._check_same()
        return True

    def _check_same(self) -> None:
        before = self._read()["settings"]
        for name, value in _described(self.settings).items():
            if before.get(name) != value:
                was = "other text" if name == "text" else f"{name} {_told(before.get(name))}, not {_told(value)}"
                fix = "give what it was begun with, choose another --out, or replace it with --overwrite"
                raise InputError(f"the quickstart here was begun with {was}", path=self.folder, fix=fix)

    def _read(self) -> dict[str, Any]:
        path = self.folder / JOURNAL
        try:
            journal = json.loads(path.read_text(encoding="utf-8"))
            if journal["format_version"] == FORMAT_VERSION and isinstance(journal["settings"], dict):
                assert isinstance(journal, dict)
                return journal
        except (ValueError, KeyError, TypeError):
            pass
        raise InputError("not the journal of a quickstart", path=path, fix="begin anew with --overwrite")

    def _read_seconds(self) -> dict[str, float]:
        return {str(step): float(seconds) for step, seconds in self._read().get("seconds", {}).items()}

    def _write(self) -> None:
        journal = {"format_version": FORMAT_VERSION, "settings": _described(self.settings), "seconds": self._seconds}
        write_json(self.folder / JOURNAL, journal)

    def _clear(self) -> None:
        """Remove what a quickstart writes, and nothing else; the journal last, so that it stays one all the while."""
        for name in (*everything(), JOURNAL):
            path = self.folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _described(settings: QuickstartSettings) -> dict[str, Any]:
    """The settings that decide what comes out; of text files, what they hold."""
    described = {name: value for name, value in vars(settings).items() if name not in {"out", "text"}}
    return {**described, "text": [sha256_of(Path(name))[:16] for name in settings.text]}


def _told(value: Any) -> str:  # noqa: ANN401 (a setting as JSON has it)
    return duration(value) if isinstance(value, float) else str(value)
