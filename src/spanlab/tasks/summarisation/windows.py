"""A document to windows, and the positions of its sentences in them.

Input: the tokens of a document and the offsets of its sentences. Output: all its windows, and the positions of the
tokens that represent each sentence. A token is taken from the window where it has most context, so a sentence may have
tokens from two windows; the head sees the sentences of all windows together.

A sentence is the mean of its tokens, or, as in BERTSUM, one [CLS] before it: sentences are then separated by
[SEP] [CLS], and segment ids alternate where the encoder has them.

Shapes: N tokens, K sentences.
"""

from dataclasses import replace

import numpy as np

from spanlab.arrays import Integers
from spanlab.errors import ConfigError, InputError
from spanlab.tasks.windows import InputWindow, Windower
from spanlab.text.tokens import Tokens
from spanlab.text.windows import best_windows


def cut_document(
    spans: tuple[tuple[int, int], ...], tokens: Tokens, windower: Windower, *, markers: bool
) -> tuple[list[InputWindow], dict[str, Integers], Integers]:
    """The windows over a document, and the features of its sentences.

    Args:
        spans: The characters of its sentences.
        tokens: The tokens of the document.
        windower: Splits them into windows.
        markers: Whether each sentence has a [CLS] before it.

    Returns:
        The windows, and as features: `positions` of the tokens that represent sentences, sentence by sentence, counted
        over the concatenated sequences; `counts` (K,) how many of them each sentence has; `sentences` (K,) which
        sentences of the document these are: all that have a token and were not truncated. And (N,) the sentence of each
        token that the windows were cut from.
    """
    if not len(tokens):
        raise InputError("the document has no token", fix="leave it out")
    sentence_N = _sentence_of_tokens(spans, tokens)
    if not markers:
        windows = windower.single(tokens)
        positions = _token_positions(windows)
        counts = np.bincount(sentence_N[: len(positions)], minlength=len(spans))
        features = {
            "positions": positions,
            "counts": counts[counts > 0].astype(np.int64),
            "sentences": np.flatnonzero(counts).astype(np.int64),
        }
        return windows, features, sentence_N
    stream, sentence_N = _with_markers(tokens, sentence_N, windower)
    windows = [_with_segments(window, sentence_N) for window in windower.single(stream)]
    first_marker = windows[0].first_start - 1
    if first_marker < 0 or windows[0].sequence.ids[first_marker] != windower.tokenizer.cls_id:
        raise _no_marker()
    positions = _token_positions(windows)
    marked = np.flatnonzero(np.diff(sentence_N[: len(positions)])) + 1
    sentences = np.append(sentence_N[0], sentence_N[marked])
    features = {
        "positions": np.append(first_marker, positions[marked]),
        "counts": np.ones_like(sentences, dtype=np.int64),
        "sentences": sentences.astype(np.int64),
    }
    return windows, features, sentence_N


def _sentence_of_tokens(spans: tuple[tuple[int, int], ...], tokens: Tokens) -> Integers:
    """(N,) the sentence in which each token ends; tokens between two sentences belong to the first."""
    last = np.maximum(tokens.ends - 1, tokens.starts)
    sentences = np.searchsorted([start for start, _ in spans], last, side="right") - 1
    return np.maximum.accumulate(np.maximum(sentences, 0)).astype(np.int64)


def _token_positions(windows: list[InputWindow]) -> Integers:
    """(N,) the position of each token in the concatenated sequences; truncated tokens have none."""
    covered = max(window.first.end for window in windows)
    best_N = best_windows([window.first for window in windows], covered)
    begins = np.cumsum([0, *(len(window.sequence) for window in windows[:-1])])
    shifts = np.array([window.first_start - window.first.start for window in windows]) + begins
    positions: Integers = np.arange(covered) + shifts[best_N]
    return positions


def _with_markers(tokens: Tokens, sentence_N: Integers, windower: Windower) -> tuple[Tokens, Integers]:
    """The tokens with [SEP] [CLS] between sentences, and the sentence of each; the windower adds the outermost two."""
    sep, cls = windower.tokenizer.sep_id, windower.tokenizer.cls_id
    if sep is None or cls is None:
        raise _no_marker()
    cuts = np.repeat(np.flatnonzero(np.diff(sentence_N)) + 1, 2)
    between = np.tile([sep, cls], len(cuts) // 2)
    separator_sentences = sentence_N[cuts - np.tile([1, 0], len(cuts) // 2)]  # [SEP] ends one, [CLS] begins the next
    stream = Tokens(
        np.insert(tokens.ids.astype(np.int64), cuts, between),
        np.insert(tokens.starts, cuts, 0),
        np.insert(tokens.ends, cuts, 0),
        np.insert(tokens.word_starts, cuts, True),
    )
    return stream, np.insert(sentence_N, cuts, separator_sentences)


def _with_segments(window: InputWindow, sentence_N: Integers) -> InputWindow:
    """Segment ids that alternate from sentence to sentence, where the encoder has them."""
    if window.sequence.segments is None:
        return window
    alternating = sentence_N[window.first.start : window.first.end] % 2
    after = len(window.sequence) - window.first_start - len(alternating)
    segments = np.pad(alternating, (window.first_start, after), mode="edge")
    return replace(window, sequence=replace(window.sequence, segments=segments))


def _no_marker() -> ConfigError:
    return ConfigError("this model's sequences do not begin with a [CLS]", fix="use sentence_vector=mean")
