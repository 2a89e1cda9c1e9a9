"""`spanlab quickstart`: a model that reads, pre-training on the user's text, and a new task, without network."""

from pathlib import Path
from typing import Annotated

import typer

from spanlab.cli.options import QuietOption, parse_budget
from spanlab.cli.output import note, print_json


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
        typer.Option("--text", help="Your plain text, to read and to continue pre-training on."),
    ] = None,
    budget: Annotated[str, typer.Option("--budget", help="Approximate running time: 90s, 6m, 1.5h.")] = "6m",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start over in the folder.")] = False,
    quiet: QuietOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Read a text with a finished model, continue pre-training on a text, and train and compare models of a new task.

    Needs no network. After an interruption, the same command continues where it stopped.

    Examples:
      spanlab quickstart
      spanlab quickstart --text novels/*.txt --budget 30m --out novels
    """
    from spanlab.quickstart.plan import REPORT, QuickstartSettings
    from spanlab.report.number_format import duration

    if files and not text:
        raise typer.BadParameter(f"'{files[0]}' needs --text before it: --text {files[0]}")
    settings = QuickstartSettings(out=out, text=(*(text or ()), *(files or ())), budget=parse_budget(budget))
    if not quiet:
        note(f"takes about {budget}; after an interruption, the same command continues where it stopped")
    from spanlab.cli.quickstart_display import QuickstartDisplay, print_results
    from spanlab.quickstart.run import run_quickstart

    display = QuickstartDisplay(with_results=not as_json, quiet=quiet)
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
        print_results(out, results)
    if not quiet:
        note(f"{duration(results.seconds)} in total; see {out / REPORT}")
