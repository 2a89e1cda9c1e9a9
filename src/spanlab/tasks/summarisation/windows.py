"""A document to the sequences an encoder takes, and the places of its sentences in them.

What enters is the tokens of a whole document and the characters of its sentences; what leaves is all its windows as one
sample, with the tokens that stand for each sentence. A token counts in the window where it has most context, so a
sentence may take its tokens from two windows, and the sentences of all windows are brought together in the head.

A sentence is the mean of its tokens, or, as in BERTSUM, one [CLS] before it: sentences are then divided by [SEP] [CLS],
and segments alternate where the encoder is told about them.

Shapes: N tokens, K sentences.
"""

from dataclasses import dataclass, replace

import numpy as np

from spanlab.arrays import Integers
from spanlab.errors import ConfigError, InputError
from spanlab.tasks.sample import TokenSequence
from spanlab.tasks.windows import InputWindow, Windower
from spanlab.text.tokens import Tokens
from spanlab.text.windows import best_windows


@dataclass(frozen=True, kw_only=True, eq=False)
class SentenceWindows:
    """The windows of one document."""

    sequences: tuple[TokenSequence, ...]
    places: Integers
    """The tokens that sentences are made of, sentence by sentence, counted over all sequences laid end to end."""
    counts: Integers
    """(K,) how many of them belong to each sentence."""
    sentences: Integers
    """(K,) which sentences of the document these are: all that have a token and were not cut off."""
    truncated: bool


def cut_document(
    spans: tuple[tuple[int, int], ...], tokens: Tokens, windower: Windower, *, markers: bool
) -> SentenceWindows:
    """The windows over a document; `markers` puts a [CLS] before each sentence."""
    if not len(tokens):
        raise InputError("the document has no token", fix="leave it out")
    owner_N = _owners(spans, tokens)
    if not markers:
        windows = windower.single(tokens)
        place_N = _places(windows)
        owner_N = owner_N[: len(place_N)]
        counts = np.bincount(owner_N, minlength=len(spans))
        return _put_together(windows, place_N, counts[counts > 0], np.flatnonzero(counts))
    stream, owner_N = _with_markers(tokens, owner_N, windower)
    windows = [_with_segments(window, owner_N) for window in windower.single(stream)]
    before = windows[0].first_start - 1
    if before < 0 or windows[0].sequence.ids[before] != windower.tokenizer.cls_id:
        raise _no_marker()
    place_N = _places(windows)
    marked = np.flatnonzero(np.diff(owner_N[: len(place_N)])) + 1
    sentences = np.append(owner_N[0], owner_N[marked])
    return _put_together(windows, np.append(before, place_N[marked]), np.ones_like(sentences), sentences)


def _put_together(
    windows: list[InputWindow], places: Integers, counts: Integers, sentences: Integers
) -> SentenceWindows:
    return SentenceWindows(
        sequences=tuple(window.sequence for window in windows),
        places=places,
        counts=counts.astype(np.int64),
        sentences=sentences.astype(np.int64),
        truncated=windows[0].truncated,
    )


def _owners(spans: tuple[tuple[int, int], ...], tokens: Tokens) -> Integers:
    """(N,) the sentence of each token: the one in which it ends; what lies between two belongs to the first."""
    last = np.maximum(tokens.ends - 1, tokens.starts)
    owners = np.searchsorted([start for start, _ in spans], last, side="right") - 1
    return np.maximum.accumulate(np.maximum(owners, 0)).astype(np.int64)


def _places(windows: list[InputWindow]) -> Integers:
    """(N,) where each token lies in the sequences laid end to end; tokens that were cut off have no place."""
    covered = max(window.first.end for window in windows)
    best_N = best_windows([window.first for window in windows], covered)
    begins = np.cumsum([0, *(len(window.sequence) for window in windows[:-1])])
    shifts = np.array([window.first_start - window.first.start for window in windows]) + begins
    places: Integers = np.arange(covered) + shifts[best_N]
    return places


def _with_markers(tokens: Tokens, owner_N: Integers, windower: Windower) -> tuple[Tokens, Integers]:
    """The tokens with [SEP] [CLS] between sentences, and the sentence of each; the frame brings the outermost two."""
    sep, cls = windower.tokenizer.sep_id, windower.tokenizer.cls_id
    if sep is None or cls is None:
        raise _no_marker()
    cuts = np.repeat(np.flatnonzero(np.diff(owner_N)) + 1, 2)
    between = np.tile([sep, cls], len(cuts) // 2)
    beside = owner_N[cuts - np.tile([1, 0], len(cuts) // 2)]
    stream = Tokens(
        np.insert(tokens.ids.astype(np.int64), cuts, between),
        np.insert(tokens.starts, cuts, 0),
        np.insert(tokens.ends, cuts, 0),
        np.insert(tokens.word_starts, cuts, True),
    )
    return stream, np.insert(owner_N, cuts, beside)


def _with_segments(window: InputWindow, owner_N: Integers) -> InputWindow:
    """Segments that alternate from sentence to sentence, where the encoder is told about segments."""
    if window.sequence.segments is None:
        return window
    here = owner_N[window.first.start : window.first.end] % 2
    after = len(window.sequence) - window.first_start - len(here)
    segments = np.pad(here, (window.first_start, after), mode="edge")
    return replace(window, sequence=replace(window.sequence, segments=segments))


def _no_marker() -> ConfigError:
    return ConfigError("this model's sequences do not begin with a [CLS]", fix="take sentence_vector=mean")
