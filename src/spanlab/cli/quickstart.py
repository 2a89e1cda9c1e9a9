"""`spanlab quickstart`: the whole job on what is installed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spanlab.cli.output import note, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from spanlab.quickstart.results import QuickstartResults


def quickstart(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILES]…", help="More files for --text.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The folder to work in.")] = Path("quickstart"),
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="Plain text to pre-train on, instead of Python's language reference."),
    ] = None,
    budget: Annotated[str, typer.Option("--budget", help="About how long it may take: 90s, 6m, 1.5h.")] = "6m",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Begin anew in the folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Make a tokenizer and a corpus, pre-train a SpanBERT, fine-tune with and without that, and compare.

    Needs no network. Interrupted and started again, it goes on where it was.

    Examples:
      spanlab quickstart
      spanlab quickstart --text novels/*.txt --budget 30m --out novels
    """
    from spanlab.quickstart.plan import QuickstartSettings, parse_budget

    if files and not text:
        raise typer.BadParameter(f"'{files[0]}' is given without --text")
    settings = QuickstartSettings(out=out, text=(*(text or ()), *(files or ())), budget=parse_budget(budget))
    note(f"about {budget} from here; stopped at any time, the same command goes on where it was")
    from spanlab.cli.quickstart_display import QuickstartDisplay
    from spanlab.quickstart.run import run_quickstart

    display = QuickstartDisplay()
    try:
        findings = run_quickstart(settings, display, overwrite=overwrite)
    except (KeyboardInterrupt, SystemExit):
        note("the same command goes on where it was")
        raise
    finally:
        display.close()
    if as_json:
        print_json(findings.to_dict())
    else:
        _print(out, findings)


def _print(out: Path, findings: "QuickstartResults") -> None:
    """The table, a few predictions, the next commands."""
    from rich.console import Console

    from spanlab.quickstart.next_commands import next_commands
    from spanlab.quickstart.page import remarks
    from spanlab.quickstart.plan import REPORT
    from spanlab.report.number_format import duration

    console = Console(highlight=False)
    _print_table(console, findings)
    for line in remarks(findings):
        console.print(line, markup=False)
    _print_samples(console, findings)
    console.print("\nNext, with what is there and with files of your own", style="bold")
    for one in next_commands(str(out), findings):
        console.print(f"  # {one.what}", style="dim", markup=False)
        console.print(f"  {one.command}", markup=False, soft_wrap=True)
    note(f"{duration(findings.seconds)} in all; look at {out / REPORT}")


def _print_table(console: "Console", findings: "QuickstartResults") -> None:
    from rich import box
    from rich.table import Table

    from spanlab.quickstart.page import header, rows

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(header()):
        table.add_column(name, justify="left" if number < 2 else "right")
    for row in rows(findings):
        table.add_row(*row)
    console.print(table)


def _print_samples(console: "Console", findings: "QuickstartResults") -> None:
    """The first unseen passage with the entities of the best model, and the answers of the best model."""
    from rich.text import Text

    from spanlab.quickstart.plan import TASKS

    entities, questions = (findings.best(task) for task in TASKS)
    console.print(f"\nUnseen text, entities by '{entities.title}'", style="bold", markup=False)
    sample = findings.entities[0]
    drawn, place = Text(), 0
    for span in sample.found[entities.beginning]:
        drawn.append(sample.text[place : span.start]).append(f"[{sample.text[span.start : span.end]}", "bold cyan")
        drawn.append(f" {span.label}]", "cyan")
        place = span.end
    console.print(drawn.append(sample.text[place:]))
    console.print(f"\nUnseen text, answers by '{questions.title}'", style="bold", markup=False)
    for one in findings.questions:
        console.print(f"  {one.question}  ", markup=False, end="")
        console.print(one.answer(one.found[questions.beginning]) or "(no answer)", style="cyan", markup=False, end="")
        console.print(f"  (right: {one.answer(one.gold) or 'no answer'})", style="dim", markup=False)
