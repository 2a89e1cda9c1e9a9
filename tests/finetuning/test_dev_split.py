"""A dev set from a training file: by the seed alone, and no text on both sides."""

from typing import Any

import pytest

from spanlab.errors import InputError
from spanlab.finetuning.dev_split import split_examples
from spanlab.tasks.examples import Examples
from spanlab.tasks.formats.row import Row
from spanlab.tasks.qa.task import QuestionAnswering


def questions(passages: int, each: int) -> Examples:
    rows: list[Row] = []
    for index in range(passages * each):
        values: dict[str, Any] = {"question": f"q{index}", "context": f"passage {index % passages}", "answers": []}
        rows.append(Row(values=values, path="train.jsonl", line=index + 1))
    return Examples(path="train.jsonl", examples=tuple(range(len(rows))), rows=tuple(rows), dropped={"bad": 2})


def test_passages_stay_together_and_the_order_of_the_file_is_kept() -> None:
    data = questions(20, 3)
    train, dev = split_examples(data, QuestionAnswering.shape, 0.1, seed=4)
    assert len(dev) == 6
    assert sorted([*train.examples, *dev.examples]) == list(range(60))
    for part in (train, dev):
        assert list(part.examples) == sorted(part.examples)
        assert [row.line for row in part.rows] == [index + 1 for index in part.examples]
    contexts = [{row.values["context"] for row in part.rows} for part in (train, dev)]
    assert not contexts[0] & contexts[1]
    assert (train.dropped, dev.dropped) == ({"bad": 2}, {})


def test_the_seed_decides() -> None:
    data = questions(50, 1)
    split = [split_examples(data, QuestionAnswering.shape, 0.2, seed)[1].examples for seed in (0, 0, 1)]
    assert split[0] == split[1] != split[2]
    assert len(split[2]) == 10


@pytest.mark.parametrize("share", [0.0001, 0.999])
def test_neither_side_is_empty(share: float) -> None:
    train, dev = split_examples(questions(5, 2), QuestionAnswering.shape, share, seed=0)
    assert len(train) > 0
    assert len(dev) > 0


def test_one_text_cannot_be_split() -> None:
    with pytest.raises(InputError, match="all examples have the same text"):
        split_examples(questions(1, 9), QuestionAnswering.shape, 0.5, seed=0)
