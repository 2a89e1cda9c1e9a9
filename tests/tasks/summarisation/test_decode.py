"""Choosing sentences: never more than may be, never one that repeats a better one, always at least one."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.errors import ConfigError
from spanlab.tasks.summarisation.config import Limit, LimitUnit
from spanlab.tasks.summarisation.decode import lead_sentences, select_sentences, sentence_words

WORDS = st.lists(st.sampled_from(["red", "green", "blue", "grey"]), min_size=1, max_size=6).map(" ".join)
DOCUMENTS = st.lists(st.tuples(WORDS, st.integers(-3, 3)), min_size=1, max_size=8)
LIMITS = st.one_of(
    st.builds(Limit, amount=st.integers(1, 4).map(float)),
    st.builds(Limit, amount=st.integers(1, 12).map(float), unit=st.just("words")),
    st.builds(Limit, amount=st.floats(0.05, 1.0), unit=st.just("ratio")),
)


def trigrams(sentence: str) -> set[tuple[str, ...]]:
    words = sentence.split()
    return {tuple(words[n : n + 3]) for n in range(len(words) - 2)}


def size(sentences: list[str], chosen: list[int], limit: Limit) -> float:
    words = sum(len(sentences[n].split()) for n in chosen)
    return {"sentences": len(chosen), "words": words, "ratio": words / sum(len(s.split()) for s in sentences)}[
        limit.unit
    ]


@given(DOCUMENTS, LIMITS, st.booleans())
def test_what_is_chosen_fits_and_nothing_better_would(
    document: list[tuple[str, int]], limit: Limit, blocked: bool
) -> None:
    sentences, scores = [text for text, _ in document], np.array([float(score) for _, score in document])
    chosen = select_sentences(scores, sentences, limit, block_trigrams=blocked)
    assert chosen == sorted(set(chosen))
    most = max(limit.amount, min(size(sentences, [n], limit) for n in range(len(sentences))))
    assert chosen
    assert size(sentences, chosen, limit) <= most + 1e-6
    order = sorted(range(len(sentences)), key=lambda n: (-scores[n], n))
    if blocked:
        assert not any(trigrams(sentences[a]) & trigrams(sentences[b]) for a, b in combinations(chosen, 2))
    for place, number in enumerate(order):
        if number not in chosen:
            better = [n for n in order[:place] if n in chosen]
            repeats = blocked and any(trigrams(sentences[number]) & trigrams(sentences[n]) for n in better)
            assert repeats or size(sentences, [*better, number], limit) > most - 1e-6


@given(DOCUMENTS, LIMITS)
def test_lead_is_a_beginning(document: list[tuple[str, int]], limit: Limit) -> None:
    sentences = [text for text, _ in document]
    chosen = lead_sentences(sentences, limit)
    assert chosen == list(range(len(chosen)))
    assert chosen
    if len(chosen) < len(sentences):
        assert size(sentences, [*chosen, len(chosen)], limit) > limit.amount - 1e-6


def test_what_has_no_score_is_never_chosen() -> None:
    scores = np.array([-np.inf, 0.5, -np.inf])
    assert select_sentences(scores, ["a b", "c d", "e f"], Limit(amount=3.0)) == [1]


def test_words_are_counted_without_punctuation() -> None:
    assert sentence_words("“No,” she said – twice!") == ["no", "she", "said", "twice"]
    assert len(sentence_words("北京大学。")) == 4
    assert select_sentences(np.array([1.0, 2.0]), ["One, two.", "Three!"], Limit(amount=3.0, unit="words")) == [0, 1]


@pytest.mark.parametrize(("amount", "unit"), [(0.0, "sentences"), (-1.0, "words"), (1.5, "ratio"), (np.nan, "words")])
def test_limits_that_cannot_be_meant(amount: float, unit: LimitUnit) -> None:
    with pytest.raises(ConfigError, match="'limit' is"):
        Limit(amount=amount, unit=unit)
