"""Given spans from a side file: laid into the right blocks, and refused with every wrong line named."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spanlab.corruption import SpanFile
from spanlab.corruption.special_tokens import TokenBatch
from spanlab.errors import InputError
from tests.corruption.batches import random_batch

WORD_STARTS = np.array([True, True, False, True, True, True, False, False, True, True])


def write(path: Path, *spans: tuple[int, int]) -> Path:
    path.write_text("\n".join(json.dumps({"start": start, "end": end}) for start, end in spans))
    return path


def batch_of(lengths: list[int], sources: list[int]) -> TokenBatch:
    return replace(random_batch(lengths), sources=np.array(sources))


def test_spans_are_laid_into_the_blocks_that_hold_them_whole(tmp_path: Path) -> None:
    spans = SpanFile(write(tmp_path / "s.jsonl", (8, 10), (1, 3), (4, 5)), WORD_STARTS)
    # Two blocks of the corpus, tokens 0 to 4 and 5 to 9; special tokens stand around them.
    table = spans(batch_of([5, 5], [0, 5]))
    assert table.starts.tolist() == [1 + 1, 1 + 4, 7 + 1 + 3]
    assert table.lengths.tolist() == [2, 1, 2]
    # A block that ends inside a span does not hold it, nor does one that begins inside it.
    assert spans(batch_of([2, 2], [0, 2])).starts.tolist() == []
    assert spans(batch_of([3], [7])).lengths.tolist() == [2]


def test_blocks_that_are_no_stretch_of_text_are_refused(tmp_path: Path) -> None:
    spans = SpanFile(write(tmp_path / "s.jsonl", (1, 3)), WORD_STARTS)
    with pytest.raises(InputError, match="blocks of contiguous text"):
        spans(random_batch([5]))


def test_wrong_spans_are_all_listed_by_line(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", (0, 1), (2, 3), (1, 3), (5, 7), (6, 8))
    with pytest.raises(InputError, match=r"s\.jsonl: 3 spans do not cover whole words: lines 2, 4, 5"):
        SpanFile(path, WORD_STARTS)
    with pytest.raises(InputError, match="1 spans overlap the one before: lines 1"):
        SpanFile(write(path, (3, 5), (1, 4)), WORD_STARTS)
    with pytest.raises(InputError, match=r"s\.jsonl:2: span 9 to 11 is not within the 10 tokens"):
        SpanFile(write(path, (0, 1), (9, 11)), WORD_STARTS)
    path.write_text('{"start": 1, "end": 3}\n\n{"begin": 2}')
    with pytest.raises(InputError, match=r"s\.jsonl:3: not a span"):
        SpanFile(path, WORD_STARTS)
    with pytest.raises(InputError, match="no such file"):
        SpanFile(tmp_path / "none.jsonl", WORD_STARTS)
