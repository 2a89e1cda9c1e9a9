"""What a tracker is, and what it is told of a run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from spanlab.training.records import Record

_IDENTITIES = "trackers.json"


class Tracker(Protocol):
    """A consumer of records."""

    def log(self, record: Record) -> None:
        """Pass on one record's numbers."""

    def close(self) -> None:
        """Send what is still held back and end."""


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """A run as its trackers know it."""

    folder: Path
    name: str
    config: Mapping[str, Any]

    def identity(self, tracker: str) -> str | None:
        """Under what id the tracker knows this run, if it was tracked before: a resumed run goes on there."""
        return self._identities().get(tracker)

    def remember(self, tracker: str, identity: str) -> None:
        """Keep the id in `trackers.json` of the run folder."""
        identities = {**self._identities(), tracker: identity}
        path = self.folder / _IDENTITIES
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(identities, indent=2) + "\n", encoding="utf-8")
        unfinished.replace(path)

    def flat_config(self) -> dict[str, Any]:
        """The config with dotted keys, as `key=value` overrides write them."""
        return dict(_flatten(self.config, ""))

    def _identities(self) -> dict[str, str]:
        try:
            identities = json.loads((self.folder / _IDENTITIES).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # a run that was never tracked, or a file that is not worth a failure
            return {}
        return identities if isinstance(identities, dict) else {}


def numbers(record: Record) -> dict[str, float]:
    """The record's numbers by `split/name`, the way trackers make panels of them."""
    return {f"{record.split}/{name}": float(value) for name, value in record.metrics.items()}


def _flatten(mapping: Mapping[str, Any], prefix: str) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for key, value in mapping.items():
        inside = isinstance(value, Mapping) and value
        flat += _flatten(value, f"{prefix}{key}.") if inside else [(f"{prefix}{key}", value)]
    return flat
