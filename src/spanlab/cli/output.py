"""How commands speak: results to stdout as tables or JSON, progress and notes to stderr."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import typer

DIGITS = 6
"""Significant digits of numbers in JSON: further ones depend on the CPU, on threads and on what else is in a batch."""


def to_json(value: object) -> str:
    """One line of JSON."""
    return json.dumps(_rounded(value), ensure_ascii=False)


def print_json(result: Mapping[str, Any]) -> None:
    """One JSON object on stdout, for scripts."""
    typer.echo(to_json(result))


def _rounded(value: object) -> object:
    """The same with every number that is not whole in its significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_rounded(item) for item in value]
    return value


def print_table(rows: Iterable[tuple[str, str]], *, title: str | None = None) -> None:
    """Two columns, name and value, on stdout."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, title=title, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    Console(highlight=False, soft_wrap=not Console().is_terminal).print(table)


def note(message: str) -> None:
    """A line for the person at the terminal, on stderr."""
    typer.echo(message, err=True)
