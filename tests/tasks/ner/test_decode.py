"""Tags against plain definitions: every path tried one by one, spans there and back."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.tasks.ner.decode import best_tags, is_valid, span_scores, spans_to_tags, tag_names, tags_to_spans


def valid(tags: tuple[int, ...]) -> bool:
    return all(
        tag == 0 or tag % 2 == 1 or before in {tag, tag - 1} for before, tag in zip((0, *tags), tags, strict=False)
    )


@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    labels=st.integers(1, 2),
    seed=st.integers(0, 10**6),
    push=st.floats(0, 5),
)
@settings(max_examples=60, deadline=None)
def test_the_best_valid_path_of_all_paths(lengths: list[int], labels: int, seed: int, push: float) -> None:
    scores = np.random.default_rng(seed).normal(size=(sum(lengths), 1 + 2 * labels)).astype(np.float32)
    scores[:, 2::2] += push  # the more, the more often the best tag of each unit is no valid sequence
    found = best_tags(scores, np.array(lengths))
    assert is_valid(found, np.array(lengths)).all()
    start = 0
    for length in lengths:
        own = scores[start : start + length]
        paths = [path for path in product(range(1 + 2 * labels), repeat=length) if valid(path)]
        best = max(float(sum(own[t, tag] for t, tag in enumerate(path))) for path in paths)
        chosen = tuple(found[start : start + length].tolist())
        assert valid(chosen)
        np.testing.assert_allclose(sum(own[t, tag] for t, tag in enumerate(chosen)), best, atol=1e-4)
        start += length


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(0, 2)), max_size=8), st.integers(0, 3))
def test_spans_to_tags_and_back(gaps: list[tuple[int, int, int]], tail: int) -> None:
    spans, place = [], 0
    for gap, width, label in gaps:
        spans.append((place + gap, place + gap + width - 1, label))
        place += gap + width
    first, last, labels = (np.array([span[i] for span in spans], dtype=np.int64) for i in range(3))
    tags = spans_to_tags(first, last, labels, place + tail)
    assert valid(tuple(tags.tolist()))
    assert [array.tolist() for array in tags_to_spans(tags)] == [first.tolist(), last.tolist(), labels.tolist()]


@given(st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=5))
def test_validity_of_each_sequence(sequences: list[list[int]]) -> None:
    flat = np.array([tag for tags in sequences for tag in tags], dtype=np.int64)
    expected = [valid(tuple(tags)) for tags in sequences]
    assert is_valid(flat, np.array([len(tags) for tags in sequences])).tolist() == expected


def test_names_and_scores() -> None:
    assert tag_names(["PER", "LOC"]) == ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    scores = np.log(np.array([[0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.9, 0.05, 0.05]]))
    tags = best_tags(scores, np.array([3]))
    first, last, _ = tags_to_spans(tags)
    np.testing.assert_allclose(span_scores(scores + 7.0, tags, first, last), [0.7])
