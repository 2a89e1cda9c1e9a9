"""What commands print: results to stdout as tables or JSON, progress and notes to stderr."""

import math
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from spanlab.cli.streams import ClosedOutputError
from spanlab.inference.writers import to_json

if TYPE_CHECKING:
    from spanlab.workflows.run import RunResult


def print_json(result: Mapping[str, Any]) -> None:
    """One JSON object on stdout, for scripts; a number that is not finite, such as a perplexity, is null."""
    typer.echo(to_json(_without_infinity(result)))


def _without_infinity(value: Any) -> Any:  # noqa: ANN401 (anything a report holds)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _without_infinity(item) for key, item in value.items()}
    return [_without_infinity(item) for item in value] if isinstance(value, list | tuple) else value


def print_table(rows: Iterable[tuple[str, str]], *, title: str | None = None) -> None:
    """Two columns, name and value, on stdout."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # As `Text`, since brackets in a name or a value, such as a path or an extra, are not markup.
    heading = None if title is None else Text(title, style="bold")
    table = Table(show_header=False, box=None, title=heading, title_justify="left", pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    Console(highlight=False, soft_wrap=not Console().is_terminal).print(table)


def print_columns(head: Sequence[str], rows: Iterable[Sequence[str]], *, title: str) -> None:
    """A table with a header, on stdout."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=Text(title, style="bold"), title_justify="left")
    for index, name in enumerate(head):
        table.add_column(Text(name), justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(highlight=False)
    console.print(table, soft_wrap=not console.is_terminal)


def note(message: str) -> None:
    """A line for the person at the terminal, on stderr."""
    typer.echo(message, err=True)


def note_download(size: int, folder: Path) -> None:
    """Say that a corpus is being copied from its URL."""
    note(f"downloading {size / 1e6:,.1f} MB to {folder}")


def conclude(result: "RunResult", command: str, *, as_json: bool) -> None:
    """Print the result of a run, in the main process only; `command` resumes it."""
    if os.environ.get("RANK", "0") != "0":
        return
    rows = [("outcome", result.outcome), ("steps", f"{result.steps:,}"), ("model", str(result.model))]
    rows += [(f"last {name}", f"{value:.4g}") for name, value in result.scores.items()]
    with suppress(ClosedOutputError):  # the run is finished and in its folder, whoever listens
        print_json(result.to_dict()) if as_json else print_table(rows)
    if as_json:
        return
    for remark in result.remarks:
        note(remark)
    note(f"report: {result.folder / 'report.html'}")
    if result.outcome == "time limit":
        note(f"time limit reached; {_way_on(command, str(result.folder))}")


@contextmanager
def resumable(command: str, out: str) -> Iterator[None]:
    """Context of a run in which Ctrl-C and SIGTERM say how to go on; `command` such as `spanlab pretrain`."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if os.environ.get("RANK", "0") == "0":
            note(_way_on(command, out))
        raise


def _way_on(command: str, out: str) -> str:
    from spanlab.training.status import read_status

    folder = Path(out)
    if not (folder / "config.yaml").is_file():
        return "stopped before the run began; run the command again"
    if read_status(folder / "status.json").finished:
        return f"the run is finished; its model is in {folder / 'model'}"
    if os.environ.get("WORLD_SIZE", "1") != "1":
        return "continue with the same command and --resume"
    return f"continue with: {command} --resume --out {shlex.quote(out)}"
