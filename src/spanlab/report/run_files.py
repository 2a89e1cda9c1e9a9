"""What a run folder holds, read for people to look at: a run that is going on, was killed or is done.

Nothing is needed beside `config.yaml` or `metrics.jsonl`; what is not there is empty. `status.json` is
{state, step, steps, seconds, best: {score, step}, message}, `environment.json` a flat mapping, and `fillings.json`
{before, after}, each a list of what `FillResult.to_dict` gives.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from spanlab.config import Source, from_mapping
from spanlab.errors import InputError
from spanlab.inference.fill_result import FillResult

Mappings = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """The files of a run, in memory."""

    folder: Path
    config_text: str = ""
    config: Mappings = field(default_factory=dict)
    records: tuple[Mappings, ...] = ()
    """Of `metrics.jsonl`, in their order."""
    environment: Mappings = field(default_factory=dict)
    fillings: Mapping[str, tuple[FillResult, ...]] = field(default_factory=dict)
    """`before` and `after` training."""
    status: Mappings = field(default_factory=dict)


def read_run(folder: str | Path) -> RunFiles:
    """Read a run folder."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError("no such run folder", path=folder)
    if not any((folder / name).is_file() for name in ("config.yaml", "metrics.jsonl")):
        cause = "no run: neither config.yaml nor metrics.jsonl is in this folder"
        raise InputError(cause, path=folder, fix="give the --out of a training command")
    config_text = _read(folder / "config.yaml")
    return RunFiles(
        folder=folder,
        config_text=config_text,
        config=_read_config(folder / "config.yaml", config_text),
        records=_read_records(folder / "metrics.jsonl"),
        environment=_read_mapping(folder / "environment.json"),
        fillings=_read_fillings(folder / "fillings.json"),
        status=_read_mapping(folder / "status.json"),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text (byte {error.start})", path=path) from None


def _read_config(path: Path, text: str) -> Mappings:
    try:
        config = yaml.safe_load(text) or {}
    except yaml.YAMLError:
        config = None
    if not isinstance(config, dict):
        raise InputError("not a run's config", path=path, fix="put back the file that the run wrote")
    return config


def _read_records(path: Path) -> tuple[Mappings, ...]:
    """Every line; the last may be cut off, because the run is writing it or was killed while it did."""
    records: list[Mappings] = []
    lines = _read(path).splitlines()
    for number, line in enumerate(lines, start=1):
        record = _parse(line)
        if record is not None and isinstance(record.get("step"), int) and isinstance(record.get("split"), str):
            records.append(record)
        elif line.strip() and number < len(lines):
            raise InputError("not a record of a run", path=path, line=number, fix="remove the line")
    return tuple(records)


def _read_mapping(path: Path) -> Mappings:
    text = _read(path)
    mapping = _parse(text)
    if mapping is None and text.strip():
        raise InputError("not a JSON object", path=path, fix="remove the file")
    return mapping or {}


def _read_fillings(path: Path) -> Mapping[str, tuple[FillResult, ...]]:
    source = Source(path=str(path))
    return {
        time: tuple(from_mapping(FillResult, one, source) for one in results)
        for time, results in _read_mapping(path).items()
    }


def _parse(text: str) -> dict[str, Any] | None:
    """A JSON object, or None for anything else."""
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError:
        return None
    return parsed if isinstance(parsed, dict) else None
