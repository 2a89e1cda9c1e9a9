"""`GET /v1/runs` and `GET /v1/runs/NAME/metrics`: the training runs below one folder, while they go on or afterwards.

A run is a folder with a `metrics.jsonl`, at most two levels down. Its name is its path from the folder; names are
looked up among those found, never made into paths, so nothing else can be read. Links that lead out of the folder are
left out.

Metrics are read in portions: `after=LINE` gives the records after that many. A run that was resumed from an earlier
step has its file rewritten. So an answer has a `mark` of its last record; who sends it back with the next request gets
the records after it, or all from the first line if the record is no longer there (`start` says which).
"""

import json
import os
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from spanlab.errors import InputError, SpanlabError, clip_repr
from spanlab.inference.writers import to_json
from spanlab.serving.refusals import RefusalError, invalid
from spanlab.serving.schemas import operation
from spanlab.serving.state import Serving
from spanlab.training.records import read_metrics
from spanlab.training.status import RunStatus, read_status

METRICS = "metrics.jsonl"
_PORTION = 5000
"""Records of one answer; there may be more."""
_MOST_RUNS = 500
_LIST = operation("The training runs of the folder that the server was started with", None, {"type": "object"}, None)
_METRICS = operation("The metrics of a run, from a line on", None, {"type": "object"}, None)


def runs_router(serving: Serving) -> APIRouter:
    """Both routes; without a folder of runs there are none."""
    router = APIRouter()
    folder = serving.settings.runs

    async def runs() -> Response:
        return await _json(serving, lambda: {"runs": [] if folder is None else list_runs(folder)})

    async def metrics(name: str, request: Request) -> Response:
        after = _line(request.query_params.get("after", "0"))
        mark = request.query_params.get("mark")
        return await _json(serving, lambda: read_portion(folder, name, after, mark))

    router.add_api_route("/v1/runs", runs, methods=["GET"], openapi_extra=_LIST)
    router.add_api_route("/v1/runs/{name:path}/metrics", metrics, methods=["GET"], openapi_extra=_METRICS)
    return router


async def _json(serving: Serving, read: Any) -> Response:  # noqa: ANN401 (a function without arguments)
    content = await serving.in_pool(lambda: to_json(read()))
    return Response(content, media_type="application/json")


def list_runs(folder: Path) -> list[dict[str, Any]]:
    """Name, state and progress of every run; the one that changed last comes first."""
    found = sorted(_find_runs(folder).items(), key=lambda item: -_changed(item[1]))
    return [_describe(name, path) for name, path in found[:_MOST_RUNS]]


def _changed(run: Path) -> float:
    try:
        return (run / METRICS).stat().st_mtime
    except OSError:  # deleted meanwhile
        return 0.0


def _describe(name: str, path: Path) -> dict[str, Any]:
    try:
        status = read_status(path / "status.json")
    except (InputError, OSError):
        status = RunStatus()
    return {"name": name, "state": status.state, "step": status.step, "steps": status.steps, "seconds": status.seconds}


def _find_runs(folder: Path) -> dict[str, Path]:
    """The folders of runs by name."""
    root = folder.resolve()
    return {path.relative_to(root).as_posix(): path for path in _walk(root, root, 2)}


def _walk(root: Path, folder: Path, levels: int) -> Iterator[Path]:
    try:
        entries = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    except OSError:
        return
    for name in entries:
        path = folder / name
        if not path.resolve().is_relative_to(root):
            continue
        if (path / METRICS).is_file() and (path / METRICS).resolve().is_relative_to(root):
            yield path
        elif levels > 1:
            yield from _walk(root, path, levels - 1)


def read_portion(folder: Path | None, name: str, after: int, mark: str | None = None) -> dict[str, Any]:
    """The `records` of a run from line `start` on, the `lines` known with them, and whether there are `more`."""
    runs = {} if folder is None else _find_runs(folder)
    if name not in runs:
        raise RefusalError(404, "unknown_route", f"no run {clip_repr(name)}", where="path")
    path = runs[name] / METRICS
    try:
        records = read_metrics(path)
    except (SpanlabError, OSError) as error:
        raise invalid(error if isinstance(error, SpanlabError) else InputError(str(error)), "path") from None
    is_rewritten = mark is not None and mark != _mark(records[:after][after - 1 :])
    start = 0 if is_rewritten else min(len(records), after)
    portion = records[start : start + _PORTION]
    lines = start + len(portion)
    return {
        **_describe(name, runs[name]),
        "start": start,
        "lines": lines,
        "more": lines < len(records),
        "mark": _mark(records[:lines][lines - 1 :]),
        "records": portion,
    }


def _mark(last: Sequence[dict[str, Any]]) -> str:
    """What tells a record from another in its place; of no record "0"."""
    return sha256(json.dumps(last[0], sort_keys=True).encode()).hexdigest()[:16] if last else "0"


def _line(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        message = f"'after' is {clip_repr(value)}; it must be a number of lines"
        raise RefusalError(422, "invalid_input", message, where="after")
    return int(value)
