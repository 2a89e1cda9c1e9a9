"""`spanlab quickstart`: the whole job on what is installed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spanlab.cli.output import note, print_json
from spanlab.cli.progress import ShownRun

if TYPE_CHECKING:
    from spanlab.training.loop import Training
    from spanlab.training.records import Record
    from spanlab.workflows.quickstart.findings import Findings


def quickstart(
    out: Annotated[Path, typer.Option("--out", help="The folder to work in.")] = Path("quickstart"),
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="A plain text file to pre-train on, instead of Python's reference; may be repeated."),
    ] = None,
    more_text: Annotated[list[str] | None, typer.Argument(metavar="[FILES]…", help="More files for --text.")] = None,
    budget: Annotated[str, typer.Option("--budget", help="About how long it may take: 90s, 6m, 1.5h.")] = "6m",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Begin anew in the folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Train a tokenizer, pre-train a SpanBERT, fine-tune it with and without, and compare: all on this machine.

    Needs no network. Interrupted and started again, it goes on where it was.

    Examples:
      spanlab quickstart
      spanlab quickstart --text novels/*.txt --budget 30m --out novels
    """
    from spanlab.workflows.quickstart.run import run_quickstart
    from spanlab.workflows.quickstart.settings import QuickstartSettings, parse_budget

    files = (*(text or ()), *(more_text or ()))
    settings = QuickstartSettings(out=out, text=files, budget=parse_budget(budget))
    display = _Display()
    try:
        findings = run_quickstart(settings, display, overwrite=overwrite)
    except (KeyboardInterrupt, SystemExit):
        note("the same command goes on where it was")
        raise
    finally:
        display.run_ends()
    if as_json:
        print_json(findings.to_dict())
    else:
        _print(out, findings)


class _Display:
    """Shows a quickstart on stderr: a line a step, a bar (or lines now and then) a run."""

    def __init__(self) -> None:
        self._run: ShownRun | None = None

    def part(self, number: int, of: int, title: str) -> None:
        self.say(f"[{number}/{of}] {title}", style="bold")

    def say(self, line: str, style: str = "") -> None:
        from rich.console import Console

        console = Console(stderr=True, highlight=False)
        console.print(line, style=style, markup=False, soft_wrap=True)

    def progress(self, words: str, done: int, total: int | None) -> None:
        """Not shown"""

    def run_begins(self, training: "Training[Any]", notes: tuple[str, ...]) -> None:
        self._run = ShownRun()
        self._run.start(training, notes)

    def record(self, record: "Record") -> None:
        assert self._run is not None, "a run tells of itself once it has begun"
        self._run.log(record)

    def run_ends(self) -> None:
        if self._run is not None:
            self._run.close()
            self._run = None


def _print(out: Path, findings: "Findings") -> None:
    """The table, a few predictions and the next commands."""
    typer.echo(str(findings.rows))
