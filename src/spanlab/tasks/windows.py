"""Texts to input sequences: special tokens are added, and long texts are cut into windows.

Texts of any length enter; sequences of at most `length` tokens leave, with the position of each text's tokens in them.
Text is truncated only on request, and then every window of it says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spanlab.arrays import Flags, Integers
from spanlab.errors import ConfigError, InputError
from spanlab.tasks.config import LongText
from spanlab.tasks.sample import TokenSequence
from spanlab.text import Tokenizer
from spanlab.text.special_tokens import SYSTEMS
from spanlab.text.tokens import Tokens
from spanlab.text.windows import Window, cut_windows

Template = tuple[tuple[int | str, int], ...]
"""Ids of special tokens, or `$A` and `$B` for the texts, each with its segment."""


@dataclass(frozen=True, kw_only=True, eq=False)
class InputWindow:
    """A sequence with a window over a text, or with a window over each of two texts."""

    sequence: TokenSequence
    first: Window
    """The tokens of the first text in this sequence."""
    first_start: int
    """Their first position in the sequence."""
    second: Window | None = None
    second_start: int = 0
    truncated: bool = False
    """Whether some of the text is in no window."""

    def flags(self, *, first: Flags | None = None, second: Flags | None = None) -> Flags:
        """(N,) of the sequence, from flags of all tokens of either text; special tokens have none."""
        flags = np.zeros(len(self.sequence), bool)
        for text_flags, window, start in (
            (first, self.first, self.first_start),
            (second, self.second, self.second_start),
        ):
            if text_flags is not None and window is not None:
                flags[start : start + len(window)] = text_flags[window.start : window.end]
        return flags


class Windower:
    """A tokenizer with its system's special tokens and a model's window settings."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        length: int,
        stride: int | None = None,
        long_text: LongText = "windows",
        segments: int,
    ) -> None:
        """`length` in tokens, special ones included; `segments` is the encoder's number of token types."""
        self.tokenizer, self.length, self.stride, self.long_text = tokenizer, length, stride, long_text
        templates = SYSTEMS[tokenizer.system].template or ("$A:0", "$A:0 $B:1")
        self._single, self._pair = (_parse_template(template, tokenizer) for template in templates)
        self._segments = segments if segments > 1 else 0

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of texts, without special ones."""
        return self.tokenizer.encode_batch(texts)

    def reserved(self, *, pair: bool = False) -> int:
        """The number of special tokens of a sequence."""
        return sum(isinstance(piece, int) for piece, _ in (self._pair if pair else self._single))

    def single(self, tokens: Tokens) -> list[InputWindow]:
        """The windows over one text."""
        windows, truncated = self._cut(len(tokens), self.length - self.reserved(), self.stride)
        return [
            InputWindow(sequence=sequence, first=window, first_start=starts["$A"], truncated=truncated)
            for window in windows
            for sequence, starts in [self.join(self._single, {"$A": (tokens, window)})]
        ]

    def in_windows(self, tokens: Tokens, windows: Sequence[Window]) -> list[InputWindow]:
        """One text in windows that the caller cut."""
        return [
            InputWindow(sequence=sequence, first=window, first_start=starts["$A"])
            for window in windows
            for sequence, starts in [self.join(self._single, {"$A": (tokens, window)})]
        ]

    def question(self, question: Tokens, context: Tokens) -> list[InputWindow]:
        """The whole question before each window over its context."""
        available = self.length - self.reserved(pair=True) - len(question)
        if available < 1:
            cause = (
                f"a question of {len(question)} tokens leaves no tokens for its context in a length of {self.length}"
            )
            raise InputError(cause, fix="use a shorter question or a larger data.length")
        windows, truncated = self._cut(len(context), available, self.stride)
        whole = Window(0, len(question))
        return [self._paired(question, context, whole, window, truncated=truncated) for window in windows]

    def pair(self, first: Tokens, second: Tokens) -> list[InputWindow]:
        """Two texts in one sequence; where they are too long, every window over one with every window over the other.

        A text of up to half of the available tokens stays whole, and the other gets the rest.
        """
        available = self.length - self.reserved(pair=True)
        if available < 2:
            raise ConfigError(f"data.length {self.length} is too short for two texts")
        for_first = (
            max(available // 2, available - len(second)) if len(first) + len(second) > available else max(1, len(first))
        )
        for_second = available - min(for_first, len(first))
        firsts, cut_first = self._cut(len(first), for_first, None)
        seconds, cut_second = self._cut(len(second), max(1, for_second), None)
        return [
            self._paired(first, second, first_window, second_window, truncated=cut_first or cut_second)
            for first_window in firsts
            for second_window in seconds
        ]

    def _cut(self, count: int, available: int, stride: int | None) -> tuple[list[Window], bool]:
        """Windows of `available` tokens over `count` tokens, and whether some tokens are in none."""
        if available < 1:
            raise ConfigError(f"data.length {self.length} is too short for text beside the special tokens")
        if count <= available:
            return [Window(0, count)], False
        if self.long_text == "error":
            cause = f"a text has {count} tokens; the limit is {available}"
            raise InputError(cause, fix="use data.long_text=windows, or shorten it")
        if self.long_text == "truncate":
            return [Window(0, available)], True
        return cut_windows(count, length=available, stride=min(stride or max(1, available // 2), available)), False

    def _paired(
        self, first: Tokens, second: Tokens, first_window: Window, second_window: Window, *, truncated: bool
    ) -> InputWindow:
        sequence, starts = self.join(self._pair, {"$A": (first, first_window), "$B": (second, second_window)})
        return InputWindow(
            sequence=sequence,
            first=first_window,
            first_start=starts["$A"],
            second=second_window,
            second_start=starts["$B"],
            truncated=truncated,
        )

    def join(self, template: Template, texts: dict[str, tuple[Tokens, Window]]) -> tuple[TokenSequence, dict[str, int]]:
        """The sequence, and the first position of each text in it; every sequence is made here."""
        ids: list[Integers] = []
        word_starts: list[Flags] = []
        segments: list[int] = []
        starts: dict[str, int] = {}
        for piece, segment in template:
            if isinstance(piece, int):
                ids.append(np.array([piece]))
                word_starts.append(np.array([True]))
            else:
                tokens, window = texts[piece]
                starts[piece] = len(segments)
                ids.append(tokens.ids[window.start : window.end].astype(np.int64))
                word_starts.append(tokens.word_starts[window.start : window.end])
            segments += [min(segment, max(0, self._segments - 1))] * len(ids[-1])
        if not segments:
            raise InputError("a text has no token", fix="remove empty texts")
        segment_ids = np.array(segments) if self._segments else None
        sequence = TokenSequence(ids=np.concatenate(ids), segments=segment_ids, word_starts=np.concatenate(word_starts))
        return sequence, starts


def _parse_template(template: str, tokenizer: Tokenizer) -> Template:
    """A template such as `[CLS]:0 $A:0 [SEP]:0`, with ids in place of the names of special tokens."""
    parsed: list[tuple[int | str, int]] = []
    for part in template.split():
        name, _, segment = part.rpartition(":")
        parsed.append((name if name.startswith("$") else tokenizer.vocabulary.index(name), int(segment)))
    return tuple(parsed)
