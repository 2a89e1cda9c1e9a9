"""`spanlab evaluate`: a model's metrics on a labelled file."""

from typing import TYPE_CHECKING, Annotated

import typer

from spanlab.cli.options import (
    ColumnsOption,
    DeviceOption,
    ModelArgument,
    PrecisionOption,
    QuietOption,
    TagSchemeOption,
    split_columns,
)
from spanlab.cli.output import note, print_json, print_table
from spanlab.cli.progress import InputProgress

if TYPE_CHECKING:
    from spanlab.tasks.result import Scores


def evaluate(
    model: ModelArgument,
    data: Annotated[str, typer.Option(help="Labelled file, or two that are aligned by line: test.en,test.de.")],
    task: Annotated[str | None, typer.Option(help="Name of the task, if the model has several.")] = None,
    columns: ColumnsOption = None,
    tag_scheme: TagSchemeOption = "auto",
    beams: Annotated[
        int | None, typer.Option(min=1, help="Beam size of a model that generates; default: that of its training.")
    ] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = None,
    quiet: QuietOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score a model on a labelled file, with the same code that predicts.

    Example: spanlab evaluate run --data test.tsv --json
    """
    from spanlab.inference.load import load
    from spanlab.tasks.config import TaskDataConfig
    from spanlab.tasks.formats.reading import count_rows

    predictor = load(model, device=device, precision=precision, beams=beams)
    settings = TaskDataConfig(columns=split_columns(columns), tag_scheme=tag_scheme)
    shape = predictor.model.tasks[predictor.model.name_of(task)].shape
    with InputProgress("evaluate", count_rows(data, shape, settings.columns), quiet=quiet) as progress:
        scores = predictor.evaluate(data, task=task, data=settings, progress=progress.advance)
    print_scores(scores, as_json=as_json)


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
