"""Continuous streams: the corpus as C texts side by side, cut into blocks that continue one another.

The streams follow one another in the corpus, so a range of every stream (its last hundredth, say) samples the whole
corpus. `StreamBlocks` reads them, half of them backwards if asked; `StreamPairBlocks` adds XLNet's second segments.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from spanlab.arrays import Flags, Integers, concatenated_ranges, offsets
from spanlab.corpus.blocks import (
    BlockBatch,
    Blocks,
    checked_indices,
    insert_separators,
    max_block_tokens,
    one_segment,
)
from spanlab.corpus.corpus import PreparedCorpus, Ranges
from spanlab.corpus.randomness import Draws, below, draws, mix, sample_keys, uniform
from spanlab.errors import InputError

StreamRange = tuple[float, float]
"""Begin and end of a range of every stream, as fractions of the stream."""
WHOLE_STREAM: StreamRange = (0.0, 1.0)


class StreamBlocks(Blocks):
    """C continuous streams side by side: block t·C + c is step t of stream c, and starts where step t - 1 ended.

    With a `stride` shorter than the length, step t begins `stride` tokens after step t - 1 and sees some of its tokens
    again (XLNet's `reuse_len`). With a separator id, one follows every document. Streams differ by at most one token;
    their last steps are shorter, or with `whole` left out. If `bidirectional` they are left out, too, and the second
    half of the streams has the texts of the first half, each read from its end to its beginning (XLNet's `bi_data`).
    With a `stream_range`, only that range of every stream is read, in either direction.
    """

    def __init__(
        self,
        corpus: PreparedCorpus,
        *,
        length: int,
        streams: int = 1,
        stride: int | None = None,
        special_tokens: int = 0,
        separator_id: int | None = None,
        whole: bool = False,
        bidirectional: bool = False,
        stream_range: StreamRange = WHOLE_STREAM,
    ) -> None:
        self._corpus, self._separator, self._bidirectional = corpus, separator_id, bidirectional
        self._max_tokens, self._streams = max_block_tokens(length, special_tokens), streams
        if bidirectional and streams % 2:
            cause = f"{streams} streams cannot be read half forwards, half backwards"
            raise InputError(cause, fix="use an even number")
        self._stride = self._max_tokens if stride is None else stride
        if not 1 <= self._stride <= self._max_tokens:
            raise InputError(f"a stride of {stride} does not fit blocks of {self._max_tokens} tokens")
        size = corpus.counts.tokens + (0 if separator_id is None else corpus.counts.documents)
        self._texts = streams // 2 if bidirectional else streams
        if not 1 <= self._texts <= size:
            raise InputError(f"{streams} streams cannot be made of {size} tokens", fix="use fewer streams")
        # Texts have `_text_size` tokens, the first `_longer_texts` of them one more.
        self._text_size, self._longer_texts = divmod(size, self._texts)
        is_whole = stream_range == WHOLE_STREAM
        self._skipped = 0 if is_whole else int(stream_range[0] * self._text_size)
        self._shortest = self._text_size if is_whole else int(stream_range[1] * self._text_size) - self._skipped
        self._longest = self._shortest + (is_whole and self._longer_texts > 0)
        only_whole = whole or bidirectional
        self._whole_steps = 1 + (self._shortest - self._max_tokens) // self._stride if only_whole else None
        if self._whole_steps is not None and self._whole_steps < 1:
            cause = f"{streams} streams of {self._shortest} tokens have no whole block of {self._max_tokens} tokens"
            raise InputError(cause, path=corpus.folder, fix="use fewer streams or shorter blocks")

    @override
    def __len__(self) -> int:
        if self._whole_steps is not None:
            return self._whole_steps * self._streams
        steps, rest = divmod(self._shortest, self._stride)
        # Where whole steps fill the short streams, the longer ones, which come first, have one more token each.
        longer = self._longer_texts if self._longest > self._shortest else 0
        return steps * self._streams + (self._streams if rest else longer)

    @override
    def first_tokens(self) -> Integers:
        starts, _, _ = self._block_bounds(np.arange(len(self)))
        return self._in_corpus(starts)

    @override
    def batch(self, indices: ArrayLike) -> BlockBatch:
        indices = checked_indices(indices, len(self))
        starts, stops, backward = self._block_bounds(indices)
        if self._separator is None:
            blocks = one_segment(indices, self._corpus.read(starts, stops), sources=starts)
        else:
            blocks = one_segment(indices, self._read_separated(starts, stops, self._separator))
        return _reverse_blocks(blocks, backward) if self._bidirectional else blocks

    def text_ranges(self) -> tuple[Integers, Integers]:
        """(texts,) position in the corpus where the text of each stream begins, and where it ends."""
        first, end = self._text_bounds(np.arange(self._texts))
        return self._in_corpus(first), self._in_corpus(end)

    def same_direction(self, indices: Integers, values: Draws) -> Integers:
        """(B,) for each block the index of a random one read in the same direction, by a draw (B,)."""
        backward = indices % self._streams >= self._texts
        steps = below(values, len(self) // self._streams)
        texts = below(mix(values), self._texts)
        return steps * self._streams + texts + np.where(backward, self._texts, 0)

    # Stream positions count tokens and separators; corpus positions count tokens alone.

    def _text_bounds(self, texts: Integers) -> tuple[Integers, Integers]:
        """Stream positions at which texts begin and end."""
        first = texts * self._text_size + np.minimum(texts, self._longer_texts) + self._skipped
        return first, first + np.where(texts < self._longer_texts, self._longest, self._shortest)

    def _block_bounds(self, indices: Integers) -> tuple[Integers, Integers, Flags]:
        """Stream positions at which blocks begin and end, and which blocks are read backwards."""
        steps, streams = np.divmod(indices, self._streams)
        backward = streams >= self._texts
        first, end = self._text_bounds(streams % self._texts)
        ahead = steps * self._stride
        starts = np.where(backward, np.maximum(end - ahead - self._max_tokens, first), first + ahead)
        stops = np.where(backward, end - ahead, np.minimum(starts + self._max_tokens, end))
        return starts, stops, backward

    def _in_corpus(self, positions: Integers) -> Integers:
        """Stream positions as corpus positions."""
        return positions if self._separator is None else positions - self._separators_before(positions)

    def _read_separated(self, starts: Integers, stops: Integers, separator: int) -> Ranges:
        before, until = self._separators_before(starts), self._separators_before(stops)
        text = self._corpus.read(starts - before, stops - until)
        counts = until - before
        # The separator of document d - 1 stands before the first token of document d.
        tokens = self._corpus.start_of("documents", concatenated_ranges(before + 1, counts))
        shifts = offsets(text.lengths) - (starts - before)
        return insert_separators(text, tokens + np.repeat(shifts, counts), counts, separator)

    def _separators_before(self, positions: Integers) -> Integers:
        """(R,) separators before each stream position, by bisection over all documents at once."""
        low, high = np.zeros_like(positions), np.full_like(positions, self._corpus.counts.documents)
        while (open_ := low < high).any():
            middle = (low + high + 1) // 2
            ended = self._corpus.start_of("documents", middle) + middle <= positions
            low, high = np.where(open_ & ended, middle, low), np.where(open_ & ~ended, middle - 1, high)
        return low


def _reverse_blocks(batch: BlockBatch, reversed_B: Flags) -> BlockBatch:
    """The batch with the blocks where `reversed_B` is True reversed; all have one segment."""
    first_B = offsets(batch.lengths)
    position_N = np.arange(len(batch.ids))
    mirrored_N = np.repeat(2 * first_B + batch.lengths - 1, batch.lengths) - position_N
    reversed_N = np.repeat(reversed_B, batch.lengths)
    order_N = np.where(reversed_N, mirrored_N, position_N)
    last_tokens = np.cumsum(batch.lengths)[batch.lengths > 0] - 1

    def reverse_starts(starts_N: Flags) -> Flags:
        """Read backwards, words and sentences begin where they ended."""
        ends_N = np.append(starts_N[1:], True)
        ends_N[last_tokens] = True
        return np.where(reversed_N, ends_N[order_N], starts_N)

    return replace(
        batch,
        ids=batch.ids[order_N],
        word_starts=reverse_starts(batch.word_starts),
        sentence_starts=reverse_starts(batch.sentence_starts),
        sources=None,
    )


class StreamPairBlocks(Blocks):
    """The blocks of streams, all of one length, each split into two segments (XLNet's input).

    The first `reused` tokens belong to the first segment. The second segment begins at a random sentence start behind
    them; it is the rest of the block (label 0) or the beginning of a random block (label 1).
    """

    def __init__(self, blocks: StreamBlocks, *, reused: int, random_share: float = 0.5, seed: int = 0) -> None:
        self._blocks, self._reused, self._random_share, self._seed = blocks, reused, random_share, seed

    @override
    def __len__(self) -> int:
        return len(self._blocks)

    @override
    def first_tokens(self) -> Integers:
        return self._blocks.first_tokens()

    def text_ranges(self) -> tuple[Integers, Integers]:
        """(texts,) position in the corpus where the text of each stream begins, and where it ends."""
        return self._blocks.text_ranges()

    @override
    def batch(self, indices: ArrayLike) -> BlockBatch:
        batch = self._blocks.batch(indices)
        keys = sample_keys(seed=self._seed, purpose="stream pairs", epoch=0, index=batch.indices)
        draws_B3 = draws(keys, 3)
        shape = (len(batch.lengths), -1)
        starts_BT = batch.sentence_starts.reshape(shape)
        cut_B, is_sentence_B = _choose_cuts(starts_BT, self._reused, uniform(draws_B3[:, 0]))
        random_B = ~is_sentence_B | (uniform(draws_B3[:, 1]) < self._random_share)
        other = self._blocks.batch(self._blocks.same_direction(batch.indices, draws_B3[:, 2]))
        position_T = np.arange(starts_BT.shape[1])
        second_BT = position_T >= cut_B[:, None]
        # The beginning of the other block moves to where the second segment begins.
        source_BT = np.where(second_BT, position_T - cut_B[:, None], 0)
        replaced_BT = second_BT & random_B[:, None]

        def replace_second(values: np.ndarray, other_values: np.ndarray) -> np.ndarray:
            moved_BT = np.take_along_axis(other_values.reshape(shape), source_BT, axis=1)
            return np.where(replaced_BT, moved_BT, values.reshape(shape)).reshape(-1)

        word_starts = replace_second(batch.word_starts, other.word_starts)
        word_starts.reshape(shape)[np.arange(len(cut_B)), cut_B] = True
        return replace(
            batch,
            ids=replace_second(batch.ids, other.ids),
            word_starts=word_starts,
            sentence_starts=replace_second(batch.sentence_starts, other.sentence_starts),
            first_lengths=cut_B,
            sources=None,
            labels=random_B.astype(np.int8),
        )


def _choose_cuts(starts_BT: np.ndarray, reused: int, uniform_B: np.ndarray) -> tuple[Integers, Flags]:
    """(B,) a random sentence start behind the reused part, or the middle of the rest; and whether it is a start."""
    after_BT = starts_BT.copy()
    after_BT[:, : reused + 1] = False
    count_B = after_BT.sum(axis=1)
    wanted_B = (uniform_B * count_B).astype(np.int64) + 1
    chosen_B = (np.cumsum(after_BT, axis=1) >= wanted_B[:, None]).argmax(axis=1)
    return np.where(count_B > 0, chosen_B, (reused + starts_BT.shape[1]) // 2), count_B > 0
