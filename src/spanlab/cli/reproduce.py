"""`spanlab reproduce`: train a model again as its folder says, and compare the score."""

import os
import shlex
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spanlab.cli.options import ModelArgument
from spanlab.cli.output import note, print_json, print_table
from spanlab.cli.progress import RunDisplay
from spanlab.errors import RunError

if TYPE_CHECKING:
    from spanlab.workflows.reproduce import Comparison


def reproduce(
    model: ModelArgument,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder that has the data, at any depth; default: where the run had it, or here."),
    ] = None,
    out: Annotated[str | None, typer.Option(help="Run folder to write; default: reproduced-NAME.")] = None,
    tolerance: Annotated[
        float, typer.Option(help="How far the score may be from the original, in its own unit.", min=0)
    ] = 0.01,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compare the files and say what would run.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a model again on the same files with the same settings, and compare its score.

    The files are compared first, by their sha256. A run that was stopped goes on with the same command. The exit code
    is 1 if the score differs by more than the tolerance. On the same machine it is the same to the last digit; other
    processors and versions round differently.

    Examples:
      spanlab reproduce run
      spanlab reproduce name/model --data downloads --tolerance 0.5
    """
    from spanlab.workflows.reproduce import plan_reproduction
    from spanlab.workflows.reproduce import reproduce as train_again

    folder = out or f"reproduced-{Path(model).resolve().name}"
    plan = plan_reproduction(model, data=data, out=folder)
    for line in plan.notes():
        note(line)
    if dry_run:
        return
    display = RunDisplay()
    try:
        with closing(display):
            comparison = train_again(plan, tolerance=tolerance, on_start=display.start, on_record=display.log)
    except (KeyboardInterrupt, SystemExit):
        from_data = "" if data is None else f" --data {shlex.quote(str(data))}"
        note(f"continue with: spanlab reproduce {shlex.quote(model)}{from_data} --out {shlex.quote(folder)}")
        raise
    if os.environ.get("RANK", "0") == "0":
        _conclude(comparison, as_json=as_json)


def _conclude(comparison: "Comparison", *, as_json: bool) -> None:
    """Print the scores side by side; an error if they differ by more than the tolerance."""
    if as_json:
        print_json(comparison.to_dict())
    else:
        rows = [
            (name, f"{_number(before)} then, {_number(now)} now") for name, (before, now) in comparison.scores.items()
        ]
        rows = rows or [(comparison.metric, f"{comparison.original:.4f} then, {comparison.reproduced:.4f} now")]
        seconds = f"{comparison.original_seconds:,.1f} s then, {comparison.seconds:,.1f} s now"
        verdict = "reproduced" if comparison.same else "not reproduced"
        print_table([*rows, ("time", seconds), ("verdict", f"{verdict}, by {comparison.metric}")])
    if not comparison.same:
        difference = f"{comparison.metric} differs by {comparison.difference:+.4g}"
        raise RunError(f"{difference}, more than the tolerance of {comparison.tolerance:g}; --tolerance sets it")


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"
