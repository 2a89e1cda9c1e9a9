"""What commands print: results to stdout as tables or JSON, progress and notes to stderr."""

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from spanlab.inference.writers import to_json

if TYPE_CHECKING:
    from spanlab.workflows.run import RunResult


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


def conclude(result: "RunResult", *, as_json: bool) -> None:
    """Print the result of a run, in the main process only."""
    if os.environ.get("RANK", "0") != "0":
        return
    if as_json:
        print_json(result.to_dict())
        return
    rows = [("outcome", result.outcome), ("steps", f"{result.steps:,}"), ("model", str(result.model))]
    print_table([*rows, *((f"last {name}", f"{value:.4g}") for name, value in result.scores.items())])
    note(f"report: {result.folder / 'report.html'}")
    if result.outcome == "time limit":
        note("time limit reached; continue with the same command and --resume")
