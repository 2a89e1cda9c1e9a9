"""`spanlab quickstart`: the complete workflow, from raw text to compared models, without network."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spanlab.cli.options import parse_budget
from spanlab.cli.output import note, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from spanlab.quickstart.results import QuickstartResults


def quickstart(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES", help="More files for --text, as a shell pattern gives them.", show_default=False
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Working folder.")] = Path("quickstart"),
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="Plain text to pre-train on, instead of Python's language reference."),
    ] = None,
    budget: Annotated[str, typer.Option("--budget", help="Approximate running time: 90s, 6m, 1.5h.")] = "6m",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start over in the folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Make a tokenizer and a corpus, pre-train a SpanBERT, fine-tune with and without pre-training, and compare.

    Needs no network. After an interruption, the same command continues where it stopped.

    Examples:
      spanlab quickstart
      spanlab quickstart --text novels/*.txt --budget 30m --out novels
    """
    from spanlab.quickstart.plan import QuickstartSettings

    if files and not text:
        raise typer.BadParameter(f"'{files[0]}' needs --text before it: --text {files[0]}")
    settings = QuickstartSettings(out=out, text=(*(text or ()), *(files or ())), budget=parse_budget(budget))
    note(f"takes about {budget}; after an interruption, the same command continues where it stopped")
    from spanlab.cli.quickstart_display import QuickstartDisplay
    from spanlab.quickstart.run import run_quickstart

    display = QuickstartDisplay()
    try:
        results = run_quickstart(settings, display, overwrite=overwrite)
    except (KeyboardInterrupt, SystemExit):
        note("the same command continues where it stopped")
        raise
    finally:
        display.close()
    if as_json:
        print_json(results.to_dict())
    else:
        _print(out, results)


def _print(out: Path, results: "QuickstartResults") -> None:
    """Print the table, a few predictions, and the commands to try next."""
    from rich.console import Console

    from spanlab.quickstart.page import next_commands, remarks
    from spanlab.quickstart.plan import REPORT
    from spanlab.report.number_format import duration

    console = Console(highlight=False)
    _print_table(console, results)
    for line in remarks(results):
        console.print(line, markup=False)
    _print_samples(console, results)
    console.print("\nWhat to try next, with these models and with your own files", style="bold")
    for purpose, command in next_commands(str(out), results):
        console.print(f"  # {purpose}", style="dim", markup=False)
        console.print(f"  {command}", markup=False, soft_wrap=True)
    note(f"{duration(results.seconds)} in total; see {out / REPORT}")


def _print_table(console: "Console", results: "QuickstartResults") -> None:
    from rich import box
    from rich.table import Table

    from spanlab.quickstart.page import header, rows

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, title in enumerate(header()):
        table.add_column(title, justify="left" if index < 2 else "right")
    for row in rows(results):
        table.add_row(*row)
    console.print(table)


def _print_samples(console: "Console", results: "QuickstartResults") -> None:
    """Print the first unseen passage with the entities of the best model, and the answers of the best model."""
    from rich.text import Text

    from spanlab.quickstart.plan import TASKS

    entities, questions = (results.best(task) for task in TASKS)
    console.print(f"\nEntities in unseen text (initial weights: {entities.title})", style="bold", markup=False)
    sample = results.entities[0]
    line, end = Text(), 0
    for span in sample.predicted[entities.initial_weights]:
        line.append(sample.text[end : span.start]).append(f"[{sample.text[span.start : span.end]}", "bold cyan")
        line.append(f" {span.label}]", "cyan")
        end = span.end
    console.print(line.append(sample.text[end:]))
    console.print(f"\nAnswers in unseen text (initial weights: {questions.title})", style="bold", markup=False)
    for sample in results.questions:
        answer = sample.answer(sample.predicted[questions.initial_weights]) or "(no answer)"
        console.print(f"  {sample.question}  ", markup=False, end="")
        console.print(answer, style="cyan", markup=False, end="")
        console.print(f"  (gold: {sample.answer(sample.gold) or 'no answer'})", style="dim", markup=False)
