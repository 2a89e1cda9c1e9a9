"""Several tasks of a model on the inputs of one file: what `spanlab predict --task a,b` gives."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from spanlab.cli.columns import split_columns

if TYPE_CHECKING:
    from spanlab.inference.predictor import Predictor


def answers_together(
    predictor: "Predictor", tasks: str, source: str, columns: str | None, *, batch_tokens: int, done: int
) -> Iterator[dict[str, Any]]:
    """One object an input after the first `done`: its id, and under `tasks` what each task says."""
    from spanlab.tasks.formats.reading import read_rows
    from spanlab.tasks.formats.row import joint_shape

    names = predictor.model.names_of(tasks.split(",") if "," in tasks else tasks)
    shape = joint_shape([predictor.model.tasks[name].shape for name in names])
    rows = islice(read_rows(source, shape, split_columns(columns)), done, None)
    for results in predictor.predict_together(rows, tasks=names, batch_tokens=batch_tokens, first=done):
        each = list(results.values())
        yield {
            "id": each[0].id,
            "windows": max(result.windows for result in each),
            "truncated": any(result.truncated for result in each),
            "tasks": {name: result.to_dict() for name, result in results.items()},
        }
