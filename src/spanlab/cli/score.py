"""`spanlab score`: a task's metrics on any system's output."""

from typing import Annotated

import typer

from spanlab.cli.columns import ColumnsOption, split_columns
from spanlab.cli.evaluate import print_scores


def score(
    task: Annotated[str, typer.Argument(help="classification, similarity, …")],
    gold: Annotated[str, typer.Option(help="Labelled file.")],
    predicted: Annotated[
        str, typer.Option(help="Predictions, in the form of `spanlab predict --json` or of the field.")
    ],
    columns: ColumnsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score predictions against a labelled file; they are matched by id, else by order.

    Example: spanlab score classification --gold dev.jsonl --predicted theirs.jsonl
    """
    from spanlab.tasks.config import TaskDataConfig
    from spanlab.tasks.scoring import score_files

    settings = TaskDataConfig(columns=split_columns(columns))
    print_scores(score_files(task, gold, predicted, settings), as_json=as_json)
