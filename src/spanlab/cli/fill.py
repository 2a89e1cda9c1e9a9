"""`spanlab fill`: the tokens that a model predicts for masks."""

from typing import TYPE_CHECKING, Annotated

import typer

from spanlab.cli.options import DeviceOption, ModelArgument
from spanlab.cli.output import note, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from spanlab.inference.fill_result import Candidate, FillResult, MaskRun

_METHODS = {"mlm": "best filling by MLM", "mlm+sbo": "best filling by MLM and SBO"}


def fill(
    model: ModelArgument,
    text: Annotated[str, typer.Argument(help="Text with [MASK] for every token to predict.")],
    top: Annotated[int, typer.Option(min=1, help="Candidates for each mask.")] = 5,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Fill masks: candidates by the MLM and the SBO head side by side, and the best filling of a run of masks.

    A token that continues the word before it is shown with a dot, such as ·ing.

    Example: spanlab fill runs/novels "The old [MASK] [MASK] went out to sea."
    """
    from spanlab.inference.fill import Filler

    result = Filler(model, device=device).fill(text, top=top)
    if as_json:
        print_json(result.to_dict())
        return
    _print(result)


def _print(result: "FillResult") -> None:
    from rich.console import Console

    console = Console(highlight=False, emoji=False)
    for index, run in enumerate(result.runs, start=1):
        masks = f"{len(run.places)} mask{'s' * (len(run.places) > 1)}"
        console.print(f"[bold]run {index}[/bold] of {len(result.runs)}, characters {run.start} to {run.end}: {masks}")
        console.print(_candidates(run))
        for method, fillings in run.fillings.items():
            best = fillings[0]
            console.print(
                f"{_METHODS[method]}: ", best.text, f" (mean log probability {best.score:.3f})", sep="", markup=False
            )
        console.print()
    typer.echo(result.filled)
    for line in (*result.notes, *(line for run in result.runs for line in run.notes)):
        note(line)


def _candidates(run: "MaskRun") -> "Table":
    """A row for each candidate, the heads side by side if there are two."""
    from rich.table import Table
    from rich.text import Text

    heads = ["mlm", "sbo"] if any(mask.sbo is not None for mask in run.places) else ["mlm"]
    table = Table(box=None, pad_edge=False, header_style="cyan")
    table.add_column("mask", justify="right", style="dim")
    for head in heads:
        table.add_column(f"by {head.upper()}")
        table.add_column("", justify="right", style="dim")
    for index, mask in enumerate(run.places, start=1):
        for rank, by_mlm in enumerate(mask.mlm):
            cells = [str(index) if rank == 0 else "", *_cells(by_mlm)]
            if len(heads) == 2:
                cells += _cells(mask.sbo[rank]) if mask.sbo is not None else ["—" if rank == 0 else "", ""]
            table.add_row(*map(Text, cells))
    return table


def _cells(candidate: "Candidate") -> list[str]:
    text = "".join(character if character.isprintable() else repr(character)[1:-1] for character in candidate.text)
    mark = "" if candidate.begins_word else "·"
    return [mark + (text or "␣"), f"{candidate.probability:.2%}"]
