"""JSON and YAML from files that nobody vouches for: limits on depth, size and numbers, and errors with their place.

Text or a path enters; plain values leave, of which the following holds, so that no reader has to think of it:

    depth       at most 100 levels of lists and objects
    size        its objects take at most 512 MB, or twice the memory of the text
    integers    fit 64 bits; in files of settings 40 digits, since tokenizers have a maximum length of 10^30
    floats      finite: neither NaN nor Infinity nor 1e999 (unless asked to read them as null)
    text        can be encoded: no half of a surrogate pair (unless asked to keep them)
    keys        unique within their object
    aliases     of YAML expand to at most 20,000 values, and never contain themselves

Everything else is an `InputError` with path, line and column. All JSON and YAML of the package is read here.
"""

import json
import math
import os
import re
from collections import Counter
from pathlib import Path
from stat import S_ISREG
from typing import Any, Literal, NoReturn, cast, get_args

import yaml
from typing_extensions import override

from spanlab.errors import ConfigError, InputError, clip_repr

Surrogates = Literal["refuse", "keep"]
Integers = Literal["64 bits", "40 digits"]
NonFinite = Literal["refuse", "null"]

MAX_DEPTH = 100
MAX_JSON_BYTES = 256 << 20
_SMALL, _MAX_MEMORY = 1 << 20, 512 << 20
_MAX_YAML_CHARACTERS = 200_000  # recipes have a few thousand; PyYAML reads as many as this in a second
_MAX_YAML_VALUES = 20_000
_MAX_DIGITS, _MAX_LONG_DIGITS = 19, 40
_INT64 = 1 << 63
_LONG_NUMBER = re.compile(r"[0-9]{18}")
"""A text without such a run of digits has no integer that is too large."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class _RefusedError(ValueError):
    """What a hook of the JSON decoder refuses; `excerpt` is how the file spells it."""

    def __init__(self, cause: str, excerpt: str) -> None:
        super().__init__(cause)
        self.excerpt = excerpt


def read_json(
    path: str | Path, *, error: type[InputError] = InputError, fix: str | None = None, max_bytes: int = MAX_JSON_BYTES
) -> Any:  # noqa: ANN401 (anything JSON holds)
    """The content of a JSON file; `error` and `fix` are those of its errors. A missing file is a FileNotFoundError."""
    try:
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            size = status.st_size if S_ISREG(status.st_mode) else max_bytes  # a device has no size
            data = file.read(min(size, max_bytes) + 1)
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise error(problem.strerror or str(problem), path=path) from None
    if len(data) > max_bytes:
        raise error(f"the file is larger than {max_bytes >> 20} MB, which no such file is", path=path, fix=fix)
    return parse_json(data, path=path, error=error, fix=fix, integers="40 digits")


def parse_json(
    text: str | bytes,
    *,
    path: str | Path | None = None,
    line: int | None = None,
    error: type[InputError] = InputError,
    fix: str | None = None,
    surrogates: Surrogates = "refuse",
    integers: Integers = "64 bits",
    non_finite: NonFinite = "refuse",
) -> Any:  # noqa: ANN401
    """The value of a JSON text. `line` is that of a text which is one line of a file, and the text's own otherwise."""
    if isinstance(text, bytes):
        text = _decode(text, path, line, error, fix)
    if len(text) > _SMALL and _memory(text) > max(_MAX_MEMORY, 2 * len(text)):
        raise error("too many lists, objects and values for one JSON text", path=path, line=line, fix=fix)
    try:
        value = (_DECODERS if _LONG_NUMBER.search(text) else _QUICK_DECODERS)[integers, non_finite].decode(text)
    except (ValueError, RecursionError) as problem:
        cause, position = _explain(problem, text)
        row, column = _place(text, position, line)
        raise error(cause, path=path, line=row, column=column, fix=fix) from None
    fault = _find_fault(text, value, surrogates)
    if fault is not None:
        raise error(fault, path=path, line=line, fix=fix)
    return value


def parse_json_at(text: str, position: int, *, path: str | Path | None = None, fix: str | None = None) -> Any:  # noqa: ANN401
    """The JSON value that begins at a position of a text, and the position after it."""
    try:
        value, end = _DECODERS["64 bits", "refuse"].raw_decode(text, position)
    except (ValueError, RecursionError) as problem:
        cause, fault_position = _explain(problem, text, position)
        row, column = _place(text, fault_position, None)
        raise InputError(cause, path=path, line=row, column=column, fix=fix) from None
    fault = _find_fault(text[position:end], value, "refuse")
    if fault is not None:
        raise InputError(fault, path=path, line=_place(text, position, None)[0], fix=fix)
    return value, end


def _memory(text: str) -> int:
    """Bytes of a text's values, at most: CPython takes 232 for an object, 64 for a list, 50 for any other value."""
    return 232 * text.count("{") + 64 * text.count("[") + 50 * text.count(",")


def _decode(data: bytes, path: str | Path | None, line: int | None, error: type[InputError], fix: str | None) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        row = data.count(b"\n", 0, problem.start) + 1 if line is None else line
        cause = f"not UTF-8 text (byte {problem.start})"
        raise error(cause, path=path, line=row, fix=fix or "convert it to UTF-8") from None


def _explain(problem: Exception, text: str, start: int = 0) -> tuple[str, int | None]:
    """The cause of an error of the decoder in plain words, and its position in the text if known."""
    if isinstance(problem, json.JSONDecodeError):
        if problem.pos >= len(text.rstrip()) or problem.msg.startswith("Unterminated"):
            return "not valid JSON: cut short", problem.pos
        return f"not valid JSON: {problem.msg}", problem.pos
    if isinstance(problem, _RefusedError):
        position = text.find(problem.excerpt, start)
        return str(problem), position if position >= 0 else None
    return f"nested more than {MAX_DEPTH} levels deep", None


def _place(text: str, position: int | None, line: int | None) -> tuple[int | None, int | None]:
    if position is None:
        return line, None
    row = line if line is not None else text.count("\n", 0, position) + 1
    return row, position - text.rfind("\n", 0, position)


def _find_fault(text: str, value: Any, surrogates: Surrogates) -> str | None:  # noqa: ANN401
    """What is wrong with a decoded value; the counts show that most texts need no further look."""
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        return f"nested more than {MAX_DEPTH} levels deep"
    if surrogates == "refuse" and ("\\ud" in text or "\\uD" in text):
        half = next((item for item in _texts(value) if _SURROGATE.search(item)), None)
        if half is not None:
            return f"{clip_repr(half)} holds half of a surrogate pair, which is not text"
    return None


def _depth(value: Any) -> int:  # noqa: ANN401
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def _texts(value: Any) -> list[str]:  # noqa: ANN401
    """All texts in a value, keys included."""
    pending, texts = [value], []
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, dict):
            texts += item
            pending += item.values()
        elif isinstance(item, list):
            pending += item
    return texts


def _int64(digits: str) -> int:
    if len(digits) >= _MAX_DIGITS and (len(digits) > _MAX_DIGITS + 1 or not -_INT64 <= int(digits) < _INT64):
        raise _too_large(digits)
    return int(digits)


def _long_integer(digits: str) -> int:
    if len(digits) > _MAX_LONG_DIGITS:
        raise _too_large(digits)
    return int(digits)


def _too_large(digits: str) -> _RefusedError:
    return _RefusedError(f"the number {clip_repr(digits)[1:-1]} ({len(digits):,} characters) is too large", digits)


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _too_large(digits)
    return number


def _constant(word: str) -> NoReturn:
    raise _RefusedError(f"{word} is not a number that JSON has", word)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        repeated = next(key for key, count in counts.items() if count > 1)
        raise _RefusedError(f"the key {clip_repr(repeated)} occurs twice in one object", json.dumps(repeated))
    return mapping


def _decoder(integers: Integers | None, non_finite: NonFinite) -> json.JSONDecoder:
    """With None, integers are those of json, which reads them several times as fast."""
    return json.JSONDecoder(
        parse_int=None if integers is None else _int64 if integers == "64 bits" else _long_integer,
        parse_float=_float,
        parse_constant=_constant if non_finite == "refuse" else lambda _: None,
        object_pairs_hook=_object,
    )


_DECODERS = {
    (integers, non_finite): _decoder(integers, non_finite)
    for integers in get_args(Integers)
    for non_finite in get_args(NonFinite)
}
_QUICK_DECODERS = {key: _decoder(None, key[1]) for key in _DECODERS}


class _Loader(yaml.SafeLoader):
    """Plain values of YAML, without dates: `2024-01-01` is text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (as in the base class)
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    @override
    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep=deep)
        except (ValueError, OverflowError, TypeError, KeyError, AttributeError, IndexError):
            kind = node.tag.rpartition(":")[2]
            raise _yaml_fault(node, f"{clip_repr(node.value)} is not of the type '{kind}'") from None
        if isinstance(value, int) and not -_INT64 <= value < _INT64:
            raise _yaml_fault(node, f"{clip_repr(value)} is too large") from None
        return value

    @override
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
            if name in keys:
                raise _yaml_fault(key, f"the key {clip_repr(key.value)} occurs twice")
            if name is not None:
                keys.add(name)
        return cast(dict[Any, Any], super().construct_mapping(node, deep=deep))


def _yaml_fault(node: yaml.Node, cause: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(None, None, cause, node.start_mark)


def parse_yaml(text: str, *, path: str | Path | None = None) -> tuple[Any, yaml.Node | None]:
    """The value of a YAML text, and its nodes, which know their lines."""
    if len(text) > _MAX_YAML_CHARACTERS:
        cause = f"{len(text):,} characters of YAML; settings have at most {_MAX_YAML_CHARACTERS:,}"
        raise ConfigError(cause, path=path)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        _check_nodes(node)
        return (None if node is None else loader.construct_document(node)), node
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        cause = f"not valid YAML: {problem.problem or problem.context}"
    except yaml.reader.ReaderError as problem:
        line, column = text.count("\n", 0, problem.position) + 1, None
        cause = f"not valid YAML: the character {clip_repr(text[problem.position : problem.position + 1])} is not text"
    except RecursionError:
        line, column, cause = None, None, f"nested more than {MAX_DEPTH} levels deep"
    except (ValueError, OverflowError, TypeError, AttributeError, yaml.YAMLError) as problem:
        # PyYAML's scanner lets some errors of Python through, such as that of "\UFFFFFFFF".
        line, column, cause = None, None, f"not valid YAML: {problem}"
    raise ConfigError(cause, path=path, line=line, column=column)


def _check_nodes(root: yaml.Node | None) -> None:
    """Raise where nodes are nested too deeply, as in a node that contains itself, or expand to too many values."""
    level, count, depth = [] if root is None else [root], 0, 0
    while level:
        count += len(level)
        if depth > MAX_DEPTH:
            raise _yaml_fault(level[0], f"nested more than {MAX_DEPTH} levels deep")
        if count > _MAX_YAML_VALUES:
            raise _yaml_fault(level[0], f"more than {_MAX_YAML_VALUES:,} values, with its aliases expanded")
        half = next((node for node in level if isinstance(node.value, str) and _SURROGATE.search(node.value)), None)
        if half is not None:
            raise _yaml_fault(half, f"{clip_repr(half.value)} holds half of a surrogate pair, which is not text")
        level, depth = _children(level), depth + 1


def _children(level: list[yaml.Node]) -> list[yaml.Node]:
    children: list[yaml.Node] = []
    for node in level:
        if isinstance(node, yaml.MappingNode):
            children += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            children += node.value
        if len(children) > _MAX_YAML_VALUES:
            break
    return children
