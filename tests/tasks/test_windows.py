"""Special tokens and windows: what transformers' own tokenizer would give, every token in a window, nothing cut."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.errors import ConfigError, InputError
from spanlab.tasks.windows import Windower
from spanlab.text import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> Tokenizer:
    return Tokenizer.load(tiny_model)


def windower(tokenizer: Tokenizer, length: int = 16, **changes: object) -> Windower:
    return Windower(tokenizer, length=length, **changes, segments=2)  # type: ignore[arg-type]


def test_one_and_two_texts_as_transformers_frames_them(tokenizer: Tokenizer, tiny_model: Path) -> None:
    hf = pytest.importorskip("transformers")
    theirs = hf.AutoTokenizer.from_pretrained(tiny_model)
    ours = windower(tokenizer, length=128)
    one, two = ours.tokenize(["The river rose.", "It fell again in May."])
    (single,) = ours.single(one)
    assert single.sequence.ids.tolist() == theirs("The river rose.")["input_ids"]
    (pair,) = ours.pair(one, two)
    reference = theirs("The river rose.", "It fell again in May.")
    assert pair.sequence.ids.tolist() == reference["input_ids"]
    assert pair.sequence.segments is not None
    assert pair.sequence.segments.tolist() == reference["token_type_ids"]
    assert pair.second is not None
    inside = pair.sequence.ids[pair.second_start : pair.second_start + len(pair.second)]
    assert inside.tolist() == two.ids.tolist()


@settings(max_examples=60, deadline=None)
@given(first=st.integers(0, 60), second=st.integers(0, 60), length=st.integers(8, 40))
def test_every_token_is_in_a_window_and_no_sequence_too_long(
    tokenizer: Tokenizer, first: int, second: int, length: int
) -> None:
    ours = windower(tokenizer, length=length)
    one, two = ours.tokenize(["river " * first, "may " * second])
    for windows, covered in ((ours.single(one), "first"), (ours.pair(one, two), "second")):
        assert all(len(window.sequence) <= length for window in windows)
        assert not any(window.truncated for window in windows)
        tokens = one if covered == "first" else two
        seen = np.zeros(len(tokens), bool)
        for window in windows:
            part = getattr(window, covered)
            start = getattr(window, f"{covered}_start")
            seen[part.start : part.end] = True
            assert window.sequence.ids[start : start + len(part)].tolist() == tokens.ids[part.start : part.end].tolist()
        assert seen.all()


def test_pairs_meet_in_all_windows(tokenizer: Tokenizer) -> None:
    ours = windower(tokenizer, length=16)
    one, two = ours.tokenize(["river " * 20, "may " * 20])
    windows = ours.pair(one, two)
    firsts = {window.first for window in windows}
    seconds = {window.second for window in windows}
    assert len(windows) == len(firsts) * len(seconds) > 4
    short, _ = ours.tokenize(["river river", ""])
    assert {window.first for window in ours.pair(short, two)} == {ours.pair(short, two)[0].first}


def test_a_question_stays_whole(tokenizer: Tokenizer) -> None:
    ours = windower(tokenizer, length=16, stride=4)
    question, context = ours.tokenize(["may may", "river " * 30])
    windows = ours.question(question, context)
    assert all(len(window.first) == len(question) for window in windows)
    assert windows[1].second is not None
    assert windows[1].second.start == 4
    long, _ = ours.tokenize(["may " * 14, ""])
    with pytest.raises(InputError, match="leaves no tokens"):
        ours.question(long, context)


def test_truncation_and_refusal_are_said(tokenizer: Tokenizer) -> None:
    cut = windower(tokenizer, long_text="truncate")
    (tokens,) = cut.tokenize(["river " * 40])
    (window,) = cut.single(tokens)
    assert window.truncated
    assert len(window.sequence) == 16
    with pytest.raises(InputError, match=r"a text has \d+ tokens; the limit is 14"):
        windower(tokenizer, long_text="error").single(tokens)
    with pytest.raises(ConfigError, match="is too short"):
        windower(tokenizer, length=2).single(tokens)
