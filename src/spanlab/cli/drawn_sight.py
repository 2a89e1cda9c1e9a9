"""Who sees whom on a terminal, for `spanlab inspect masks` with a recipe that predicts what comes next."""

from typing import TYPE_CHECKING

from spanlab.cli.output import print_table

if TYPE_CHECKING:
    from spanlab.report.visibility import Visibility, VisibilityReport

_SHOWN = 48
"""Rows and columns of a square that fit a terminal."""
_SIGNS = "·░█▒×◆"
"""By `Cell`."""


def sight_statistics(report: "VisibilityReport") -> dict[str, object]:
    """For JSON."""
    return {"samples": report.samples, "predicted_share": report.predicted_share, "seen_share": report.seen_share}


def draw_sight(report: "VisibilityReport") -> None:
    """The squares of the blocks, and the shares."""
    from rich.console import Console

    console = Console(highlight=False)
    for sight in report.blocks:
        console.print("\n".join(_lines(sight)), markup=False)
        console.print()
    rows = [
        ("blocks looked at", f"{report.samples:,}"),
        ("share of tokens predicted", f"{report.predicted_share:.2%}"),
        ("share of its block that a predicted token sees", f"{report.seen_share:.1%}"),
    ]
    print_table(rows, title=report.title)


def _lines(sight: "Visibility") -> list[str]:
    more = "" if len(sight.tokens) <= _SHOWN else f" (the first {_SHOWN} tokens)"
    behind = ", ▒ by a second reader from behind" if sight.readers > 1 else ""
    cells = sight.cells[:_SHOWN, :_SHOWN].tolist()
    return [
        f"who sees whom: a row for each token, █ seen{behind}, · hidden, ◆ what is predicted{more}",
        *(
            f"{token[:14]:>14} {''.join(_SIGNS[cell] for cell in row)}"
            for token, row in zip(sight.tokens, cells, strict=False)
        ),
    ]
