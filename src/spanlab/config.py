"""Strict configuration: YAML and `key=value` overrides into frozen dataclasses, and back.

What enters is a nested mapping (from a file, from overrides, from Python); what leaves is an instance of a frozen
dataclass whose every field was checked against its annotation. An unknown key is an error that suggests the nearest
known one; a value of the wrong type is an error that shows the value. Errors from a file name its line.

Supported annotations: `bool`, `int`, `float`, `str`, `Literal[…]`, `X | None`, `tuple[X, ...]`, `tuple[X, Y]`,
`dict[str, X]`, and other dataclasses of this kind. Bounds stand with the field, also inside the others:

    length: Annotated[int, AtLeast(8)] = 512
    dropout: Annotated[float, AtLeast(0), Below(1)] = 0.1
    stride: Annotated[int, AtLeast(1)] | None = None

A dataclass that derives from `Bounded` checks its bounds when it is constructed, in Python or from a file. A number
without an upper bound of its own is at most 2^31 - 1. The type of a seed is `Seed`.
"""

import dataclasses
import math
import operator
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from spanlab.errors import ConfigError, clip_repr, did_you_mean, nearest
from spanlab.strict_parsing import parse_yaml

Config = TypeVar("Config")
KeyPath = tuple[str, ...]
_LARGEST = 2**31 - 1
"""The bound of numbers that have no bound of their own."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """The file of a mapping and the lines of its keys, for errors."""

    path: str | None = None
    lines: Mapping[KeyPath, int] = dataclasses.field(default_factory=dict)
    root: type | None = None
    """The dataclass that is being read, for suggestions."""

    def error(self, key: KeyPath, cause: str, fix: str | None = None) -> ConfigError:
        """The error for `key`, with the line of the nearest enclosing key that the file holds."""
        line = next((self.lines[key[:n]] for n in range(len(key), -1, -1) if key[:n] in self.lines), None)
        return ConfigError(cause, path=self.path, line=line, fix=fix)

    def within(self, section: str) -> "Source":
        """The source of a section, with keys relative to it."""
        inner = {key[1:]: line for key, line in self.lines.items() if key[:1] == (section,)}
        return Source(path=self.path, lines=inner)


@dataclasses.dataclass(frozen=True)
class Bound:
    """A limit on the numbers of a field; its text completes "it must be"."""

    limit: float
    words: ClassVar[str]
    compare: ClassVar[Callable[[float, float], bool]]

    def holds(self, value: float) -> bool:
        """Whether a number is within the limit; nan never is."""
        return type(self).compare(value, self.limit)

    def __str__(self) -> str:
        return f"{self.words} {self.limit:{',' if self.limit >= 1e6 else 'g'}}"


class AtLeast(Bound):
    """`limit` or more."""

    words, compare = "at least", operator.ge


class Above(Bound):
    """More than `limit`."""

    words, compare = "above", operator.gt


class AtMost(Bound):
    """`limit` or less."""

    words, compare = "at most", operator.le


class Below(Bound):
    """Less than `limit`."""

    words, compare = "below", operator.lt


Seed = Annotated[int, AtLeast(0), AtMost(2**63 - 1)]
"""What the generators of torch and NumPy both take."""


class Bounded:
    """Base of dataclasses whose numbers have bounds, which are checked on construction.

    A `__post_init__` of a subclass, for what involves several fields, calls this one first.
    """

    def __post_init__(self) -> None:
        for name, hint in _hints(type(self)).items():
            _check_bounds(hint, getattr(self, name), (name,), Source())
            if not _has_upper_bound(hint):
                _check_size(getattr(self, name), name)


def read_yaml(path: str | Path) -> tuple[dict[str, Any], Source]:
    """The mapping in a YAML file and the lines of its keys."""
    mapping, node = _parse_yaml(path)
    if mapping is None:
        return {}, Source(path=str(path))
    if not isinstance(mapping, dict):
        raise ConfigError("expected 'key: value' lines", path=path, line=1)
    return mapping, Source(path=str(path), lines=_key_lines(node, ()))


def read_yaml_list(path: str | Path) -> list[tuple[dict[str, Any], Source]]:
    """The mappings of a YAML list, each with the lines of its keys; the key `()` has its first line."""
    items, node = _parse_yaml(path)
    if not isinstance(items, list) or not isinstance(node, yaml.SequenceNode):
        raise ConfigError("expected a list: items that begin with '- '", path=path, line=1)
    mappings = []
    for item, item_node in zip(items, node.value, strict=True):
        line = item_node.start_mark.line + 1
        if not isinstance(item, dict):
            raise ConfigError(f"expected 'key: value' lines, not {clip_repr(item)}", path=path, line=line)
        mappings.append((item, Source(path=str(path), lines={(): line, **_key_lines(item_node, ())})))
    return mappings


def _parse_yaml(path: str | Path) -> tuple[Any, yaml.Node | None]:
    """The content of a file, and its nodes, which know their lines."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError("no such file", path=path) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 text (byte {error.start})", path=path) from None
    except OSError as error:
        raise ConfigError(error.strerror or str(error), path=path) from None
    return parse_yaml(text, path=path)


def _key_lines(node: yaml.Node | None, prefix: KeyPath) -> dict[KeyPath, int]:
    lines: dict[KeyPath, int] = {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            path = (*prefix, str(key.value))
            lines[path] = key.start_mark.line + 1
            lines.update(_key_lines(value, path))
    return lines


def parse_overrides(overrides: Sequence[str]) -> dict[str, Any]:
    """`["training.lr=1e-4", "size=mini"]` as a nested mapping; values are parsed as YAML."""
    values: dict[str, Any] = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not all(key.split(".")):
            raise ConfigError(
                f"{clip_repr(override)} is not an override", fix="write key=value, such as training.lr=1e-4"
            )
        try:
            values[key], _ = parse_yaml(text)
        except ConfigError as error:
            cause = f"cannot read the value of {clip_repr(override)}: {error.cause}"
            raise ConfigError(cause, fix="write a number, true, false, null or text, quoted as in YAML") from None
    return nested(values)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """`{"training.lr": 1e-4, "size": "mini"}` as a nested mapping; sections may be given as mappings, too."""
    mapping: dict[str, Any] = {}
    for key, value in values.items():
        *parents, leaf = key.split(".")
        section = mapping
        for parent in parents:
            section = section.setdefault(parent, {})
            if not isinstance(section, dict):
                raise ConfigError(f"'{key}' is set both as a value and as a section")
        section[leaf] = merge(section.get(leaf) or {}, value) if isinstance(value, Mapping) else value
    return mapping


def merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`base` updated with `change`, section by section."""
    for section in (base, change):
        if not isinstance(section, Mapping):
            raise ConfigError(f"expected a section of keys and values, not {clip_repr(section)}")
    merged = dict(base)
    for key, value in change.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def from_mapping(cls: type[Config], mapping: Mapping[str, Any], source: Source | None = None) -> Config:
    """An instance of the frozen dataclass `cls` from a nested mapping, every key and value checked."""
    source = dataclasses.replace(source or Source(), root=cls)
    if not isinstance(mapping, Mapping):
        raise source.error((), f"expected keys and values, not {clip_repr(mapping)}")
    return _build(cls, mapping, (), source)


def find_problems(cls: type, mapping: Mapping[str, Any], source: Source | None = None) -> list[ConfigError]:
    """Every problem of a mapping in the order of its keys, of which `from_mapping` raises the first.

    What involves several keys is looked at where each of them is right.
    """
    return list(_problems(cls, mapping, (), dataclasses.replace(source or Source(), root=cls)))


def _problems(cls: type, mapping: Mapping[str, Any], prefix: KeyPath, source: Source) -> Iterator[ConfigError]:
    hints, right = _hints(cls), True
    for key, value in mapping.items():
        section = section_class(hints[key]) if key in hints else None
        if section is not None and isinstance(value, Mapping):
            problems = list(_problems(section, value, (*prefix, str(key)), source))
        else:
            problems = []
            try:
                _read_key(cls, hints, key, value, prefix, source)
            except ConfigError as error:
                problems = [error]
        right = right and not problems
        yield from problems
    if right:
        try:
            _build(cls, mapping, prefix, source)
        except ConfigError as error:
            yield error


_ALSO_CALLED = {
    "batch": "batch_size",
    "bf16": "precision",
    "dtype": "precision",
    "eval_steps": "eval_every",
    "fp16": "precision",
    "grad_clip": "clip",
    "gradient_accumulation_steps": "accumulate",
    "hidden_dropout_prob": "dropout",
    "hidden_size": "width",
    "learning_rate": "lr",
    "lr_scheduler_type": "schedule",
    "max_grad_norm": "clip",
    "max_len": "length",
    "max_length": "length",
    "max_seq_length": "length",
    "max_steps": "steps",
    "mlm_probability": "ratio",
    "num_attention_heads": "heads",
    "num_epochs": "epochs",
    "num_hidden_layers": "layers",
    "num_layers": "layers",
    "num_train_epochs": "epochs",
    "optim": "optimiser",
    "per_device_train_batch_size": "batch_size",
    "save_steps": "save_every",
    "scheduler": "schedule",
    "train_batch_size": "batch_size",
    "warmup_ratio": "warmup",
    "warmup_steps": "warmup",
}
"""Names of settings in other programs, and the last part of our keys."""


def suggest_key(key: str, root: type) -> str | None:
    """The key of a config that a wrong one probably means; None if none is near.

    First the same name in another section (`lr` for `training.lr`) and the names of other programs, then a name that
    differs by a typing error, in the same section before others.
    """
    *section, name = key.replace("-", "_").split(".")
    keys = list(all_keys(root))
    siblings = [known for known in keys if known.split(".")[:-1] == section]
    for wanted in (name, _ALSO_CALLED.get(name.lower())):
        exact = [known for known in (*siblings, *keys) if known.rpartition(".")[2] == wanted]
        if exact:
            return exact[0]
    for candidates in (siblings, keys):
        by_name = {known.rpartition(".")[2]: known for known in reversed(candidates)}
        near = nearest(name, by_name)
        if near is not None:
            return by_name[near]
    return None


def all_keys(cls: type) -> Iterator[str]:
    """Every key of a config in the order of its fields, sections before their keys: `training`, `training.lr`, …

    A field that changes single keys of another config, as a mapping, names it in its metadata: `{"keys_of": Config}`.
    """
    hints = _hints(cls)
    for field in dataclasses.fields(cls):
        yield field.name
        inner = field.metadata.get("keys_of") or section_class(hints[field.name])
        if inner is not None:
            yield from (f"{field.name}.{key}" for key in all_keys(inner))


def section_class(hint: Any) -> type | None:  # noqa: ANN401 (an annotation)
    """The dataclass of a field that holds a section; None for plain values."""
    choices = get_args(hint) if get_origin(hint) in {Union, types.UnionType, Annotated} else (hint,)
    return next((choice for choice in choices if isinstance(choice, type) and dataclasses.is_dataclass(choice)), None)


def to_mapping(config: Any) -> dict[str, Any]:  # noqa: ANN401 (any dataclass)
    """The nested mapping of plain values that `from_mapping` reads back."""

    def plain(value: Any) -> Any:  # noqa: ANN401
        if dataclasses.is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, tuple | list):
            return [plain(item) for item in value]
        return value

    mapping = plain(config)
    assert isinstance(mapping, dict)
    return mapping


def _build(cls: type[Config], mapping: Mapping[str, Any], prefix: KeyPath, source: Source) -> Config:
    hints = _hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    values = {key: _read_key(cls, hints, key, value, prefix, source) for key, value in mapping.items()}
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise source.error((*prefix, name), f"key '{'.'.join((*prefix, name))}' is missing")
    try:
        return cls(**values)
    except ConfigError as error:  # a check of the dataclass itself: add the file and line
        raise source.error(prefix, error.cause, error.fix) if error.path is None else error from None


def _read_key(
    cls: type,
    hints: Mapping[str, Any],
    key: str,
    value: Any,  # noqa: ANN401
    prefix: KeyPath,
    source: Source,
) -> Any:  # noqa: ANN401
    """The value of one key of a section, checked."""
    path = (*prefix, str(key))
    if key not in hints:
        suggestion = suggest_key(".".join(path), source.root or cls)
        hint = f" (did you mean '{suggestion}'?)" if suggestion else ""
        raise source.error(path, f"unknown key '{'.'.join(path)}'{hint}")
    converted = _coerce(hints[key], value, path, source)
    _check_bounds(hints[key], converted, path, source)
    return converted


def _coerce(hint: Any, value: Any, path: KeyPath, source: Source) -> Any:  # noqa: ANN401
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        return _coerce_union(arguments, value, path, source)
    if origin is Literal:
        if value in arguments and not (isinstance(value, bool) and True not in arguments and False not in arguments):
            return value
        choices = ", ".join(str(choice) for choice in arguments)
        hint_text = did_you_mean(clip_repr(value).strip("'"), [str(choice) for choice in arguments])
        raise source.error(path, f"'{'.'.join(path)}' is {clip_repr(value)}{hint_text}; it must be one of {choices}")
    if origin is tuple and isinstance(value, list | tuple):
        return _coerce_tuple(arguments, value, path, source)
    if origin is dict and isinstance(value, Mapping):
        return {str(key): _coerce(arguments[1], item, (*path, str(key)), source) for key, item in value.items()}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return _build(hint, value, path, source)
    return _coerce_scalar(hint, value, path, source)


def _coerce_union(arguments: tuple[Any, ...], value: Any, path: KeyPath, source: Source) -> Any:  # noqa: ANN401
    if value is None and type(None) in arguments:
        return None
    candidates = [argument for argument in arguments if argument is not type(None)]
    for candidate in candidates[:-1]:
        try:
            return _coerce(candidate, value, path, source)
        except ConfigError:
            continue
    return _coerce(candidates[-1], value, path, source)


def _coerce_tuple(arguments: tuple[Any, ...], value: Sequence[Any], path: KeyPath, source: Source) -> tuple[Any, ...]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_coerce(arguments[0], item, path, source) for item in value)
    if len(arguments) != len(value):
        raise source.error(path, f"'{'.'.join(path)}' has {len(value)} items; it must have {len(arguments)}")
    return tuple(_coerce(argument, item, path, source) for argument, item in zip(arguments, value, strict=True))


def _coerce_scalar(hint: Any, value: Any, path: KeyPath, source: Source) -> Any:  # noqa: ANN401
    if hint is Any or (isinstance(hint, type) and type(value) is hint and hint is not float):
        return value
    number = _float(value) if hint is float else None
    if number is not None:
        if not math.isfinite(number):
            raise source.error(path, f"'{'.'.join(path)}' is {clip_repr(value)}; it must be finite")
        return number
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    wanted = names.get(hint, getattr(hint, "__name__", str(hint)) if get_origin(hint) is None else "a list or section")
    raise source.error(path, f"'{'.'.join(path)}' is {clip_repr(value)}; it must be {wanted}")


def _float(value: Any) -> float | None:  # noqa: ANN401
    """A number, or a text that is one, since YAML reads 1e-4 as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError:
        return math.inf


def _has_upper_bound(hint: Any) -> bool:  # noqa: ANN401
    return isinstance(hint, AtMost | Below) or any(
        _has_upper_bound(inner) for inner in (*get_args(hint), *getattr(hint, "__metadata__", ()))
    )


def _check_size(value: Any, name: str) -> None:  # noqa: ANN401
    """Raise at a number that no setting has, which would overflow somewhere in a library."""
    if isinstance(value, int | float) and not abs(value) <= _LARGEST:
        raise ConfigError(f"'{name}' is {clip_repr(value)}; it must be at most {_LARGEST:,}")
    if isinstance(value, tuple):
        for item in value:
            _check_size(item, name)


def _hints(cls: type) -> dict[str, Any]:
    """The annotations of the fields of a dataclass, with their bounds."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _check_bounds(hint: Any, value: Any, path: KeyPath, source: Source, *, null: bool = False) -> None:  # noqa: ANN401
    """Raise where a number, or one inside a tuple or dict, is out of its bounds; `null`: None is allowed, too."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        bounds = [bound for bound in arguments[1:] if isinstance(bound, Bound)]
        if isinstance(value, int | float) and not all(bound.holds(value) for bound in bounds):
            wanted = " and ".join(map(str, bounds)) + (", or null" if null else "")
            raise source.error(path, f"'{'.'.join(path)}' is {clip_repr(value)}; it must be {wanted}")
        _check_bounds(arguments[0], value, path, source)
    elif origin in {Union, types.UnionType}:
        for argument in arguments:
            _check_bounds(argument, value, path, source, null=type(None) in arguments)
    elif origin is tuple and isinstance(value, Sequence):
        items = arguments[:1] * len(value) if arguments[1:] == (Ellipsis,) else arguments
        for argument, item in zip(items, value, strict=False):
            _check_bounds(argument, item, path, source)
    elif origin is dict and isinstance(value, Mapping):
        for key, item in value.items():
            _check_bounds(arguments[1], item, (*path, str(key)), source)
