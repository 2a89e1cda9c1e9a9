"""JSON lines: one object a line."""

import json
from collections.abc import Iterator
from typing import Any

from spanlab.errors import InputError
from spanlab.tasks.formats.lines import read_lines
from spanlab.tasks.formats.row import Row


def read_json_lines(path: str) -> Iterator[Row | InputError]:
    """The rows; blank lines are passed over, and a line that is no object comes as the error it is."""
    for number, line in read_lines(path):
        if isinstance(line, InputError):
            yield line
        elif line.strip():
            yield _row(path, number, line)


def _row(path: str, number: int, line: str) -> Row | InputError:
    try:
        values: Any = json.loads(line)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(line.rstrip()) or error.msg.startswith("Unterminated")
        cause = "the line is cut short" if cut else f"not valid JSON: {error.msg}"
        return InputError(cause, path=path, line=number, column=error.colno, fix="write one JSON object a line")
    except RecursionError:
        return InputError("nested too deeply", path=path, line=number, fix="write one flat JSON object a line")
    if not isinstance(values, dict):
        return InputError(f"holds {_kind(values)}, not an object", path=path, line=number, fix='write {"text": …}')
    return Row(values=values, path=path, line=number)


def _kind(value: object) -> str:
    names = {list: "a list", str: "text", int: "a number", float: "a number", bool: "true or false"}
    return names.get(type(value), "null")
