"""`spanlab evaluate`: a model's metrics on a labelled file."""

from typing import TYPE_CHECKING, Annotated

import typer

from spanlab.cli.options import ColumnsOption, DeviceOption, ModelArgument, TagSchemeOption, split_columns
from spanlab.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from spanlab.tasks.result import Scores


def evaluate(
    model: ModelArgument,
    data: Annotated[str, typer.Option(help="Labelled file.")],
    task: Annotated[str | None, typer.Option(help="Name of the task, if the model has several.")] = None,
    columns: ColumnsOption = None,
    tag_scheme: TagSchemeOption = "auto",
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score a model on a labelled file, with the same code that predicts.

    Example: spanlab evaluate run --data test.tsv --json
    """
    from spanlab.inference.load import load
    from spanlab.tasks.config import TaskDataConfig

    settings = TaskDataConfig(columns=split_columns(columns), tag_scheme=tag_scheme)
    print_scores(load(model, device=device).evaluate(data, task=task, data=settings), as_json=as_json)


def print_scores(scores: "Scores", *, as_json: bool) -> None:
    """Print the metrics; the table has those of each label, too. Remarks go to stderr."""
    for remark in scores.remarks:
        note(remark)
    if as_json:
        print_json(scores.to_dict())
        return
    rows = [("task", scores.task), ("examples", str(scores.count))]
    rows += [(name, f"{value:.2f}") for name, value in scores.metrics.items()]
    rows += [
        (f"label {label}", f"precision {row.precision:.2f}, recall {row.recall:.2f}, F1 {row.f1:.2f} of {row.support}")
        for label, row in scores.per_label.items()
    ]
    print_table(rows)
