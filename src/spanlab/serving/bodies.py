"""Bodies of requests to rows and texts: strict JSON, known keys, and errors that name the place.

What enters is bytes; what leaves is a list of rows, in which an input that cannot be used is its refusal. The way back
is `json_response`.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Response

from spanlab.errors import InputError, clip_repr, did_you_mean
from spanlab.serving.refusals import RefusalError
from spanlab.serving.served_model import ServedModel, optional_fields
from spanlab.strict_parsing import parse_json
from spanlab.tasks.base import AnyTask
from spanlab.tasks.formats.row import Row

MOST_INPUTS = 100_000
"""In one request: what is kept of each is many times as large as an empty text in the body."""
SINGLE = "input"
"""The place of an input that came alone; those of a list are `input 0`, `input 1`, …"""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The inputs of a request, in order."""

    rows: Sequence[Row | RefusalError]
    ids: Sequence[str]
    """Of each input: its own, or its index."""
    is_list: bool


def parse_body(body: bytes) -> Any:  # noqa: ANN401 (anything JSON holds)
    """The JSON value of a body."""
    try:
        return parse_json(body, fix="send one JSON value")
    except InputError as error:
        where = None if error.line is None else f"line {error.line}, column {error.column or 1}"
        raise RefusalError(422, "invalid_body", str(error.cause), where=where) from None


def parse_object(body: bytes, known: Collection[str], required: Collection[str] = ()) -> dict[str, Any]:
    """A body that is one object of known keys."""
    value = parse_body(body)
    if not isinstance(value, dict):
        raise RefusalError(422, "invalid_body", f"the body is {_kind(value)}; it must be an object", where="body")
    check_keys(value, known, "body")
    for key in required:
        if value.get(key) is None:
            raise RefusalError(422, "invalid_input", f"the field '{key}' is missing", where=key)
    return value


def check_keys(values: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Refuse a key that is not known."""
    for key in values:
        if key not in known:
            message = f"unknown field {clip_repr(key)}{did_you_mean(key, known)}; there are {', '.join(known)}"
            raise RefusalError(422, "invalid_input", message, where=where)


def read_texts(value: Any, where: str) -> tuple[list[str], bool]:  # noqa: ANN401
    """A text or a list of texts, and whether it was a list."""
    if isinstance(value, str):
        return [value], False
    if isinstance(value, list) and len(value) > MOST_INPUTS:
        message = f"a list of {len(value):,} texts; send at most {MOST_INPUTS:,} in one request"
        raise RefusalError(422, "invalid_input", message, where=where)
    if not isinstance(value, list):
        message = f"'{where}' is {clip_repr(value)}; it must be a text or a list of texts"
        raise RefusalError(422, "invalid_input", message, where=where)
    for index, text in enumerate(value):
        if not isinstance(text, str):
            place = f"{where}[{index}]"
            raise RefusalError(422, "invalid_input", f"'{place}' is {clip_repr(text)}; it must be a text", where=place)
    return value, True


def read_flag(values: Mapping[str, Any], key: str, *, default: bool) -> bool:
    """A value that is true or false."""
    value = values.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise RefusalError(422, "invalid_input", f"'{key}' is {clip_repr(value)}; it must be true or false", where=key)
    return value


def check_dimensions(values: Mapping[str, Any], model: ServedModel) -> None:
    """Refuse a `dimensions` that is not the width of the model's vectors."""
    given, width = values.get("dimensions"), model.predictor.model.shape.width
    if given is not None and given != width:
        message = f"'dimensions' is {clip_repr(given)}; the vectors of '{model.name}' have {width}"
        raise RefusalError(422, "invalid_input", message, where="dimensions")


def json_response(value: object) -> Response:
    """An answer with a value as JSON."""
    return Response(json.dumps(value), media_type="application/json")


def read_inputs(body: bytes, task: AnyTask) -> Inputs:
    """The inputs of a task: one or a list, each an object or, where the task takes one text, a text."""
    value = parse_body(body)
    is_list = isinstance(value, list)
    if is_list and len(value) > MOST_INPUTS:
        message = f"a list of {len(value):,} inputs; send at most {MOST_INPUTS:,} in one request"
        raise RefusalError(422, "invalid_input", message, where="body")
    rows, ids = [], []
    for index, item in enumerate(value if is_list else [value]):
        where = f"input {index}" if is_list else SINGLE
        row: Row | RefusalError
        try:
            row = _read_row(item, task, where)
        except RefusalError as refusal:
            if not is_list:
                raise
            row = refusal
        rows.append(row)
        given = item.get("id") if isinstance(item, Mapping) else None
        ids.append(str(index) if not isinstance(given, str | int) or isinstance(given, bool) else str(given))
    return Inputs(rows=rows, ids=ids, is_list=is_list)


def _read_row(item: Any, task: AnyTask, where: str) -> Row:  # noqa: ANN401
    required = task.shape.required
    if isinstance(item, str) and len(required) == 1:
        return Row(values={required[0]: item}, path=where)
    if not isinstance(item, dict):
        shape = "{" + ", ".join(f'"{name}": …' for name in required) + "}"
        message = f"an input is {_kind(item)}; '{task.name}' takes objects such as {shape}"
        raise RefusalError(422, "invalid_input", message, where=where)
    check_keys(item, (*required, *optional_fields(task)), where)
    given = item.get("id")
    if given is not None and (isinstance(given, bool) or not isinstance(given, str | int)):
        message = f"'id' is {clip_repr(given)}; it must be text or a whole number"
        raise RefusalError(422, "invalid_input", message, where=where)
    return Row(values=item, path=where)


def _kind(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    names = {list: "a list", dict: "an object", str: "a text", int: "a number", float: "a number"}
    return names[type(value)]
