"""Candidate mentions: every span within a sentence up to a width, given ones besides, found again by characters."""

import numpy as np
import pytest

from spanlab.tasks.coref.samples import given_candidates, list_candidates
from spanlab.tasks.spans.units import LabelUnits, encode_units
from tests.tasks.making import TOKENIZER

TEXT = "Anna met Captain O'Neill. She gave him the map."
SENTENCES = [(0, 25), (26, 47)]


def units() -> LabelUnits:
    return encode_units(TOKENIZER, [TEXT], "word")[0]


@pytest.mark.parametrize("width", [1, 4, 50])
def test_all_spans_of_whole_words_within_a_sentence(width: int) -> None:
    words = units()
    expected = [
        (int(words.starts[a]), int(words.ends[b]))
        for a in range(len(words))
        for b in range(a, len(words))
        if (words.starts[a] < 26) == (words.starts[b] < 26) and words.last_tokens[b] - words.first_tokens[a] < width
    ]
    found = list_candidates(words, SENTENCES, width, ())
    assert list(zip(found.starts.tolist(), found.ends.tolist(), strict=True)) == expected
    assert not found.given.any()
    assert found.find(expected).tolist() == list(range(len(expected)))
    assert found.find([(0, 3), (20, 30)]).tolist() == [-1, -1]


def test_given_spans_are_there_once_and_keep_their_characters() -> None:
    words = units()
    given = [(0, 4), (10, 24), (17, 29)]  # a word, a part of one, and one across sentences
    plain, found = list_candidates(words, SENTENCES, 4, ()), list_candidates(words, SENTENCES, 4, given)
    assert len(found) == len(plain) + 2
    assert found.given[found.find(given)].all()
    assert found.given.sum() == 3
    assert (np.diff(found.first) >= 0).all()
    alone = given_candidates(words, given)
    assert list(zip(alone.starts.tolist(), alone.ends.tolist(), strict=True)) == given
    part = found.find([(10, 24)])[0]
    assert words.tokens.starts[found.first[part]] == 9
    assert given_candidates(words, ()).find([(0, 4)]).tolist() == [-1]
