"""What commands print: results to stdout as tables or JSON, progress and notes to stderr."""

from collections.abc import Iterable, Mapping
from typing import Any

import typer

from spanlab.inference.writers import to_json


def print_json(result: Mapping[str, Any]) -> None:
    """One JSON object on stdout, for scripts."""
    typer.echo(to_json(result))


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
