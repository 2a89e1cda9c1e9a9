"""What `spanlab predict` gives: results as lines for a reader, as JSON lines, or in CoNLL-2012's columns."""

import sys
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from spanlab.cli.output import note, to_json
from spanlab.errors import InputError

if TYPE_CHECKING:
    from spanlab.tasks.result import Result

Anything = TypeVar("Anything")


def prepare_output(output: Path | None, *, resume: bool, overwrite: bool) -> int:
    """How many results an output holds already; a last line that was cut off is taken away."""
    if output is None or not output.exists():
        return 0
    if not resume and not overwrite:
        raise InputError("is there already", path=output, fix="go on with --resume, or replace it with --overwrite")
    if overwrite:
        return 0
    data = output.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    output.write_bytes(whole)
    return whole.count(b"\n")


def tell(told: Iterator[dict[str, Any]], output: Path | None, done: int, *, as_json: bool) -> None:
    """Results into a file, or one by one on standard output."""
    if output is not None:
        _write(told, output, done)
        return
    for values in told:
        typer.echo(to_json(values) if as_json else _line(values))
        sys.stdout.flush()


def told(*, redact: bool, resolve: bool) -> Callable[["Result"], dict[str, Any]]:
    """What is given of a result."""
    if redact:
        return _redacted
    return _resolved if resolve else lambda result: result.to_dict()


def _resolved(result: "Result") -> dict[str, Any]:
    """The text with its pronouns replaced."""
    from spanlab.tasks.coref.data import CorefResult

    assert isinstance(result, CorefResult)
    return {"id": result.id, "windows": result.windows, "truncated": result.truncated, "text": result.resolved()}


def _redacted(result: "Result") -> dict[str, Any]:
    """The text without its entities, and nothing that would tell them."""
    from spanlab.tasks.ner.data import NerResult

    assert isinstance(result, NerResult)
    return {"id": result.id, "windows": result.windows, "truncated": result.truncated, "text": result.redacted()}


def _write(results: Iterator[dict[str, Any]], output: Path, done: int) -> None:
    written, begun = 0, _begin(results)
    with output.open("a" if done else "w", encoding="utf-8", newline="\n") as file:
        for values in begun:
            file.write(to_json(values) + "\n")
            written += 1
    note(f"{output}: {done + written} results")


def write_conll(results: Iterator["Result"], output: Path, *, resume: bool) -> None:
    """Documents in CoNLL-2012's columns."""
    from spanlab.tasks.coref.data import CorefResult

    if resume:
        raise InputError("--resume is for JSON lines", path=output, fix="name the output .jsonl")
    written, begun = 0, _begin(results)
    with output.open("w", encoding="utf-8", newline="\n") as file:
        for result in begun:
            assert isinstance(result, CorefResult)
            file.write(result.to_conll())
            written += 1
    note(f"{output}: {written} documents")


def _begin(results: Iterator[Anything]) -> Iterator[Anything]:
    """The same results, the first of them computed: what is wrong with the input shows before the output is touched."""
    return chain(list(islice(results, 1)), results)


def _line(values: dict[str, Any]) -> str:
    """A result for a reader: its id and what it says."""
    shown = {name: value for name, value in values.items() if name not in {"id", "windows", "scores", "nbest"}}
    if not values["truncated"]:
        shown.pop("truncated")
    return f"{values['id']}\t" + "\t".join(_shown(name, value) for name, value in shown.items())


def _shown(name: str, value: object) -> str:
    if isinstance(value, float):
        return f"{name}={value:.4f}"
    return f"{name}={value if isinstance(value, str) else to_json(value)}"
