"""Segments: every token in one, ends where sentences or words end, and tokens found again."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spanlab.tasks.coref.samples import cut_overlapping, cut_segments, locate_tokens
from spanlab.text.windows import Window


@st.composite
def documents(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    """Tokens of a document, where words end, and which of those are ends of sentences."""
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=30))
    word_ends = np.cumsum(lengths).tolist()
    sentence_ends = [end for end in word_ends if draw(st.booleans())]
    return word_ends[-1], sentence_ends, word_ends


@given(documents(), st.integers(1, 20))
def test_segments_follow_each_other_and_end_as_late_as_they_can(
    document: tuple[int, list[int], list[int]], room: int
) -> None:
    count, sentence_ends, word_ends = document
    windows = cut_segments(count, room, np.array(sentence_ends, dtype=np.int64), np.array(word_ends))
    assert [token for window in windows for token in range(window.start, window.end)] == list(range(count))
    for window in windows:
        assert len(window) <= room
        reachable = range(window.start + 1, min(window.start + room, count) + 1)
        if count in reachable:
            assert window.end == count
            continue
        sentences = [end for end in sentence_ends if end in reachable]
        words = [end for end in word_ends if end in reachable]
        assert window.end == (sentences or words or [reachable[-1]])[-1]


@given(st.integers(1, 60), st.integers(2, 12))
def test_where_segments_overlap_a_token_is_in_two_but_at_the_ends(count: int, room: int) -> None:
    windows = cut_overlapping(count, room)
    starts = [100 * number for number in range(len(windows))]
    first, second, segment = locate_tokens(windows, starts, [1] * len(windows))
    for token in range(count):
        holders = [n for n, window in enumerate(windows) if window.start <= token < window.end]
        at = [starts[n] + 1 + token - windows[n].start for n in holders]
        assert (first[token], second[token]) == (at[0], at[-1])
        assert segment[token] == holders[0]
        if room <= count and room // 2 <= token < count - room:
            assert len(holders) >= 2


def test_one_segment_has_each_token_at_one_place() -> None:
    first, second, segment = locate_tokens([Window(0, 3), Window(3, 5)], [0, 5], [1, 1])
    assert first.tolist() == second.tolist() == [1, 2, 3, 6, 7]
    assert segment.tolist() == [0, 0, 0, 1, 1]
