"""`spanlab score`: the metrics of a task on the output of any system."""

from typing import Annotated

import typer

from spanlab.cli.evaluate import print_scores
from spanlab.cli.options import ColumnsOption, TagSchemeOption, TaskArgument, split_columns


def score(
    task: TaskArgument,
    gold: Annotated[str, typer.Option(help="Labelled file.")],
    predicted: Annotated[
        str,
        typer.Option(help="Predictions, from `spanlab predict --json` or in a standard format of the task."),
    ],
    columns: ColumnsOption = None,
    tag_scheme: TagSchemeOption = "auto",
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse predictions with missing or unknown ids; else they are counted.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score predictions against a labelled file; examples are matched by id, or else by order.

    Example: spanlab score classification --gold dev.jsonl --predicted theirs.jsonl
    """
    from spanlab.tasks.config import TaskDataConfig
    from spanlab.tasks.scoring import score_files

    settings = TaskDataConfig(columns=split_columns(columns), tag_scheme=tag_scheme)
    print_scores(score_files(task, gold, predicted, settings, strict=strict), as_json=as_json)
