"""A dev set from a training file: `data.dev_share` of its examples, by a function of the seed.

Examples with the same text, such as the questions about one passage, stay together: otherwise dev would score what
training has seen.
"""

from dataclasses import replace

from spanlab.corpus.order import SampleOrder
from spanlab.errors import InputError
from spanlab.tasks.examples import Examples
from spanlab.tasks.formats.row import FileShape


def split_examples(data: Examples, shape: FileShape, share: float, seed: int) -> tuple[Examples, Examples]:
    """The examples to train on and those held out, each in the order of the file.

    Args:
        data: all labelled examples of the training file.
        shape: of the task; the last of its required fields is the text of an example.
        share: of the examples that is held out, at least one.
        seed: decides which.
    """
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(data.rows):
        groups.setdefault(shape.input_of(row.values)[-1], []).append(index)
    members = list(groups.values())
    held_out: set[int] = set()
    for group in SampleOrder(len(members), seed).indices(0, 0, len(members) - 1).tolist():  # one group is trained on
        if len(held_out) >= share * len(data):
            break
        held_out.update(members[group])
    if not held_out:
        fix = "use data.dev_share=0, or --dev with a file of other texts"
        raise InputError("all examples have the same text, so none can be held out", path=data.path, fix=fix)
    train = [index for index in range(len(data)) if index not in held_out]
    return _select(data, train), replace(_select(data, sorted(held_out)), dropped={})


def _select(data: Examples, indices: list[int]) -> Examples:
    examples, rows = (tuple(values[index] for index in indices) for values in (data.examples, data.rows))
    return replace(data, examples=examples, rows=rows)
