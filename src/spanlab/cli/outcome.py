"""What came of a run: its result on stdout, what to do next on stderr."""

import os
from typing import TYPE_CHECKING

from spanlab.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from spanlab.workflows.run import RunResult


def conclude(result: "RunResult", *, as_json: bool) -> None:
    """Tell it, in the first process of several alone."""
    if os.environ.get("RANK", "0") != "0":
        return
    if as_json:
        print_json(result.to_dict())
        return
    rows = [("outcome", result.outcome), ("steps", f"{result.steps:,}"), ("model", str(result.model))]
    print_table([*rows, *((f"last {name}", f"{value:.4g}") for name, value in result.scores.items())])
    note(f"look at {result.folder / 'report.html'}")
    if result.outcome == "time limit":
        note("the time limit was reached: the same command with --resume goes on")
