from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.errors import ConfigError
from spanlab.text import Tokenizer
from spanlab.text.windows import Window, best_windows, cut_windows
from tests.text.hostile_text import hostile_text


def merge_best(windows: list[Window], results: list[np.ndarray], count: int) -> np.ndarray:
    """(N, …) the result of each token from its best window; `results` are (len(window), …) each."""
    merged = np.empty((count, *results[0].shape[1:]), results[0].dtype)
    for token, index in enumerate(best_windows(windows, count).tolist()):
        merged[token] = results[index][token - windows[index].start]
    return merged


@st.composite
def windowed(draw: st.DrawFn) -> tuple[int, list[Window]]:
    count = draw(st.integers(0, 200))
    reserved = draw(st.integers(0, 20))
    length = draw(st.integers(reserved + 1, reserved + 60))
    stride = draw(st.integers(1, length - reserved))
    windows = cut_windows(count, length=length, stride=stride, reserved=reserved)
    assert all(len(window) + reserved <= length for window in windows)
    return count, windows


@given(cut=windowed())
def test_windows_cover_every_token_and_none_is_idle(cut: tuple[int, list[Window]]) -> None:
    count, windows = cut
    covered = {token for window in windows for token in range(window.start, window.end)}
    assert covered == set(range(count))
    assert windows[-1].end == count
    assert all(one.end < other.end for one, other in pairwise(windows))


@given(cut=windowed())
def test_merging_what_was_cut_gives_it_back(cut: tuple[int, list[Window]]) -> None:
    count, windows = cut
    values = np.random.default_rng(count).normal(size=(count, 3))
    results = [values[window.start : window.end] for window in windows]
    np.testing.assert_array_equal(merge_best(windows, results, count), values)


@given(cut=windowed())
def test_best_window_is_the_one_with_most_context(cut: tuple[int, list[Window]]) -> None:
    count, windows = cut

    def context(number: int, token: int) -> tuple[int, int, int]:
        window = windows[number]
        return min(token - window.start, window.end - 1 - token), len(window), -number

    for token, chosen in enumerate(best_windows(windows, count).tolist()):
        holding = [number for number, window in enumerate(windows) if window.start <= token < window.end]
        assert chosen == max(holding, key=lambda number: context(number, token))


@given(text=hostile_text)
def test_a_text_comes_back_through_windows_of_its_tokens(trained: dict[str, Tokenizer], text: str) -> None:
    tokens = trained["bpe gpt"].encode(text)
    windows = cut_windows(len(tokens), length=8, stride=3, reserved=2)
    results = [tokens.ids[window.start : window.end] for window in windows]
    merged = merge_best(windows, results, len(tokens))
    assert merged.dtype == np.uint32
    assert trained["bpe gpt"].decode(merged) == text


def test_tokens_of_an_overlap_come_from_the_window_with_more_context() -> None:
    windows = cut_windows(5, length=4, stride=2)
    assert windows == [Window(0, 4), Window(2, 5)]
    np.testing.assert_array_equal(merge_best(windows, [np.arange(4), np.arange(10, 13)], 5), [0, 1, 2, 11, 12])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 10, "stride": 5, "reserved": 10}, "leave none for text: 10 are reserved"),
        ({"length": 10, "stride": 8, "reserved": 3}, "stride is 8, but a window has 7 tokens"),
        ({"length": 10, "stride": 0}, "use a stride from 1 to 10"),
    ],
)
def test_windows_that_would_lose_tokens_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        cut_windows(50, **options)
