"""The search for answers against a plain double loop over all pairs of all windows."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.tasks.heads import pad_rows
from spanlab.tasks.qa.band import best_pointers
from spanlab.tasks.qa.decode import WindowAnswers, merge_windows, probabilities
from spanlab.tasks.sample import Sample, SampleBatch, TokenSequence
from spanlab.tasks.spans.units import tokens_over

Window = tuple[int, int, int]
"""Tokens before the text, of the text, and behind it."""
WINDOWS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 7), st.integers(0, 2)), min_size=1, max_size=5)


def window_sample(before: int, text: int, behind: int) -> Sample:
    ids = np.zeros(before + text + behind, np.int64)
    features = {"begin": np.array([before]), "stop": np.array([before + text]), "null": np.array([0])}
    features |= {"may_begin": np.ones(text, bool), "may_end": np.ones(text, bool)}
    return Sample(example=0, sequences=(TokenSequence(ids=ids),), features=features)


@given(windows=WINDOWS, max_length=st.integers(1, 6), count=st.integers(1, 8), seed=st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_best_pairs_of_windows(windows: list[Window], max_length: int, count: int, seed: int) -> None:
    batch = SampleBatch(task="qa", samples=tuple(window_sample(*window) for window in windows))
    lengths = [sum(window) for window in windows]
    logits = np.random.default_rng(seed).normal(size=(sum(lengths), 2)).astype(np.float32)
    found = best_pointers(logits, batch, max_answer=max_length, count=count)
    (start, end), place = logits.T, 0
    for (before, text, _), length, answers in zip(windows, lengths, found, strict=True):
        pairs = [
            (float(start[place + a] + end[place + b]), a, b)
            for a in range(before, before + text)
            for b in range(a, min(a + max_length, before + text))
        ]
        pairs = sorted(pairs, reverse=True)[:count]
        assert answers.scores.tolist() == [pair[0] for pair in pairs]
        assert list(zip(answers.first.tolist(), answers.last.tolist(), strict=True)) == [pair[1:] for pair in pairs]
        assert answers.null == float(start[place] + end[place])
        place += length


@given(
    tokens=st.integers(1, 20),
    room=st.integers(2, 8),
    documents=st.integers(1, 3),
    count=st.integers(1, 10),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=80, deadline=None)
def test_the_best_of_each_window_are_enough(tokens: int, room: int, documents: int, count: int, seed: int) -> None:
    """Merging the `count` best of each window gives what all pairs of all windows would give."""
    random = np.random.default_rng(seed)
    best: dict[tuple[int, int, int], float] = {}
    windows, places = [], []
    for document in range(documents):
        for begin in range(0, tokens, max(1, room // 2)):
            width = min(room, tokens - begin)
            pairs = [(a, b) for a in range(width) for b in range(a, width)]
            scores = random.normal(size=len(pairs)).astype(np.float32)
            for (a, b), score in zip(pairs, scores.tolist(), strict=True):
                key = (document, begin + a, begin + b)
                best[key] = max(best.get(key, score), score)
            order = np.argsort(-scores)[:count]
            first, last = (np.array([pairs[i][side] for i in order], dtype=np.int64) + begin for side in (0, 1))
            windows.append(WindowAnswers(scores=scores[order], first=first, last=last, null=float(random.normal())))
            places.append(document)
    ranked = merge_windows(windows, places, count)
    expected = sorted(((score, key) for key, score in best.items()), reverse=True)[:count]
    assert ranked.scores.tolist() == [score for score, _ in expected]
    found = zip(ranked.documents.tolist(), ranked.first.tolist(), ranked.last.tolist(), strict=True)
    assert list(found) == [key for _, key in expected]
    assert ranked.null == min(window.null for window in windows)


@given(
    starts=st.lists(st.integers(1, 4), min_size=1, max_size=10), bounds=st.tuples(st.integers(0, 30), st.integers(1, 9))
)
def test_tokens_over_characters(starts: list[int], bounds: tuple[int, int]) -> None:
    """Tokens of one to four characters, every second followed by a space."""
    first, last, place = [], [], 0
    for number, width in enumerate(starts):
        first.append(place)
        last.append(place + width)
        place += width + number % 2
    begin, end = bounds[0], bounds[0] + bounds[1]
    over = [i for i in range(len(first)) if first[i] < end and last[i] > begin]
    assert tokens_over(np.array(first), np.array(last), begin, end) == ((over[0], over[-1]) if over else None)


def test_padding_and_probabilities() -> None:
    padded = pad_rows(torch.arange(5.0), torch.tensor([2, 3]), -1.0)
    assert padded.tolist() == [[0, 1, -1], [2, 3, 4]]
    np.testing.assert_allclose(probabilities(np.log(np.array([1.0, 3.0])) + 900), [0.25, 0.75])
    assert probabilities(np.zeros(0)).shape == (0,)
