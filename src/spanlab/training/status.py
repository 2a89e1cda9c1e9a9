"""`status.json` of a run: how far it is, and how it ended. Every key and type is checked when it is read."""

from dataclasses import dataclass
from pathlib import Path

from spanlab.config import Source, from_mapping
from spanlab.errors import InputError
from spanlab.strict_parsing import read_json


@dataclass(frozen=True, kw_only=True)
class BestModel:
    """The best model so far, by its score on held-out data."""

    score: float
    step: int


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """The content of `status.json`."""

    state: str = "unknown"
    """`running`, `failed`, or how the run ended."""
    step: int = 0
    steps: int | None = None
    seconds: float | None = None
    best: BestModel | None = None
    message: str | None = None
    """Why the run failed."""

    @property
    def finished(self) -> bool:
        """Whether the run is at its end; otherwise it can be resumed."""
        return self.state in {"finished", "patience"}


def read_status(path: Path) -> RunStatus:
    """The status that a run has written; without a file, an unknown one."""
    try:
        status = read_json(path, fix="delete the file")
    except FileNotFoundError:
        return RunStatus()
    if not isinstance(status, dict):
        raise InputError("not a JSON object", path=path, fix="delete the file")
    return from_mapping(RunStatus, status, Source(path=str(path)))
