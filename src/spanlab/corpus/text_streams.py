"""Continuous streams: the whole corpus, or a part of each stream, cut into blocks that go on from one another.

Streams follow one another in the corpus, so a part of every stream (its last hundredth, say) is text from all over it.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from spanlab.arrays import Flags, Integers, concatenated_ranges, offsets
from spanlab.corpus.blocks import BlockBatch, checked, one_segment, room_for_text, with_separators
from spanlab.corpus.corpus import PreparedCorpus, Ranges
from spanlab.corpus.randomness import Draws, below, draws, mix, sample_keys, uniform
from spanlab.errors import InputError


def turn_round(batch: BlockBatch, turned: Flags) -> BlockBatch:
    """The batch with some of its blocks (B,) turned round; they must have one segment."""
    firsts = offsets(batch.lengths)
    places = np.arange(len(batch.ids))
    mirrored = np.repeat(2 * firsts + batch.lengths - 1, batch.lengths) - places
    turned_N = np.repeat(turned, batch.lengths)
    order = np.where(turned_N, mirrored, places)
    return replace(
        batch,
        ids=batch.ids[order],
        word_starts=np.where(turned_N, _ends(batch.word_starts, batch)[order], batch.word_starts),
        sentence_starts=np.where(turned_N, _ends(batch.sentence_starts, batch)[order], batch.sentence_starts),
        sources=None,
    )


def _ends(starts: Flags, batch: BlockBatch) -> Flags:
    """(N,) where what begins at `starts` ends."""
    ends = np.append(starts[1:], True)
    lasts: Integers = np.cumsum(batch.lengths)[batch.lengths > 0] - 1
    ends[lasts] = True
    return ends


Part = tuple[float, float]
"""From which share of a stream to which."""
WHOLE: Part = (0.0, 1.0)


class StreamBlocks:
    """C continuous streams side by side: block t·C + c is step t of stream c, and goes on where step t - 1 ended.

    With a `stride` shorter than the length, step t begins `stride` tokens after step t - 1 and sees some of its tokens
    again (XLNet's `reuse_len`). With a separator id, one follows every document. Streams differ by at most one token;
    their last steps are shorter, or with `whole` left out. With `both_ways` they are left out, too, and the second half
    of the streams has the texts of the first half, each read from its end to its beginning (XLNet's `bi_data`).
    With a `part`, every stream is only that part of itself, in whichever direction it is read.
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
        both_ways: bool = False,
        part: Part = WHOLE,
    ) -> None:
        self._corpus, self._separator, self._both_ways = corpus, separator_id, both_ways
        self._room, self._streams = room_for_text(length, special_tokens), streams
        if both_ways and streams % 2:
            cause = f"{streams} streams cannot be read half forwards, half backwards"
            raise InputError(cause, fix="ask for an even number")
        self._stride = self._room if stride is None else stride
        if not 1 <= self._stride <= self._room:
            raise InputError(f"a stride of {stride} does not fit blocks with room for {self._room} tokens")
        size = corpus.counts.tokens + (0 if separator_id is None else corpus.counts.documents)
        self._texts = streams // 2 if both_ways else streams
        if not 1 <= self._texts <= size:
            raise InputError(f"{streams} streams cannot be made of {size} tokens", fix="ask for fewer streams")
        self._apart, self._longer = divmod(size, self._texts)
        self._skipped = 0 if part == WHOLE else int(part[0] * self._apart)
        self._shortest = self._apart if part == WHOLE else int(part[1] * self._apart) - self._skipped
        self._longest = self._shortest + (part == WHOLE and self._longer > 0)
        self._whole_steps = 1 + (self._shortest - self._room) // self._stride if whole or both_ways else None
        if self._whole_steps is not None and self._whole_steps < 1:
            cause = f"{streams} streams of {self._shortest} tokens have no whole block of {self._room} tokens"
            raise InputError(cause, path=corpus.folder, fix="ask for fewer streams or shorter blocks")

    def __len__(self) -> int:
        if self._whole_steps is not None:
            return self._whole_steps * self._streams
        steps, rest = divmod(self._shortest, self._stride)
        # Where whole steps fill the short streams, the longer ones, which come first, have one more token each.
        longer = self._longer if self._longest > self._shortest else 0
        return steps * self._streams + (self._streams if rest else longer)

    def first_tokens(self) -> Integers:  # noqa: D102 (as in the protocol)
        starts, _, _ = self._bounds(np.arange(len(self)))
        return self._in_corpus(starts)

    def stretches(self) -> tuple[Integers, Integers]:
        """(streams,) where the text of each stream begins in the corpus, and where it ends."""
        first, end = self._text_bounds(np.arange(self._texts))
        return self._in_corpus(first), self._in_corpus(end)

    def batch(self, indices: ArrayLike) -> BlockBatch:  # noqa: D102
        numbers = checked(indices, len(self))
        starts, stops, backward = self._bounds(numbers)
        if self._separator is None:
            blocks = one_segment(numbers, self._corpus.read(starts, stops), sources=starts)
        else:
            blocks = one_segment(numbers, self._read_separated(starts, stops, self._separator))
        return turn_round(blocks, backward) if self._both_ways else blocks

    def same_direction(self, indices: Integers, values: Draws) -> Integers:
        """(B,) for each block a random one that is read in the same direction, by a draw (B,)."""
        backward = indices % self._streams >= self._texts
        steps = below(values, len(self) // self._streams)
        texts = below(mix(values), self._texts)
        return steps * self._streams + texts + np.where(backward, self._texts, 0)

    def _text_bounds(self, texts: Integers) -> tuple[Integers, Integers]:
        """Where the texts of streams begin and end among all tokens and separators."""
        first = texts * self._apart + np.minimum(texts, self._longer) + self._skipped
        return first, first + np.where(texts < self._longer, self._longest, self._shortest)

    def _bounds(self, numbers: Integers) -> tuple[Integers, Integers, Flags]:
        """Where blocks begin and end among all tokens and separators, and which are read backwards."""
        steps, streams = np.divmod(numbers, self._streams)
        backward = streams >= self._texts
        first, end = self._text_bounds(streams % self._texts)
        ahead = steps * self._stride
        starts = np.where(backward, np.maximum(end - ahead - self._room, first), first + ahead)
        stops = np.where(backward, end - ahead, np.minimum(starts + self._room, end))
        return starts, stops, backward

    def _in_corpus(self, places: Integers) -> Integers:
        """The same places among the tokens of the corpus, which has no separators."""
        return places if self._separator is None else places - self._separators_before(places)

    def _read_separated(self, starts: Integers, stops: Integers, separator: int) -> Ranges:
        before, until = self._separators_before(starts), self._separators_before(stops)
        text = self._corpus.read(starts - before, stops - until)
        counts = until - before
        # The separator of document d - 1 stands before the first token of document d.
        tokens = self._corpus.start_of("documents", concatenated_ranges(before + 1, counts))
        shifts = offsets(text.lengths) - (starts - before)
        return with_separators(text, tokens + np.repeat(shifts, counts), counts, separator)

    def _separators_before(self, places: Integers) -> Integers:
        """(R,) separators in the stream before each place, by bisection over all documents at once."""
        low, high = np.zeros_like(places), np.full_like(places, self._corpus.counts.documents)
        while (open_ := low < high).any():
            middle = (low + high + 1) // 2
            ended = self._corpus.start_of("documents", middle) + middle <= places
            low, high = np.where(open_ & ended, middle, low), np.where(open_ & ~ended, middle - 1, high)
        return low


class StreamPairBlocks:
    """The blocks of streams, all of one length, with a second segment each."""

    def __init__(self, blocks: StreamBlocks, *, reused: int, random_share: float = 0.5, seed: int = 0) -> None:
        self._blocks, self._reused, self._random_share, self._seed = blocks, reused, random_share, seed

    def __len__(self) -> int:
        return len(self._blocks)

    def first_tokens(self) -> Integers:
        """(blocks,) where each block begins in the corpus."""
        return self._blocks.first_tokens()

    def stretches(self) -> tuple[Integers, Integers]:
        """(streams,) where the text of each stream begins in the corpus, and where it ends."""
        return self._blocks.stretches()

    def batch(self, indices: ArrayLike) -> BlockBatch:
        """The blocks at `indices` (B,), in that order."""
        batch = self._blocks.batch(indices)
        keys = sample_keys(seed=self._seed, purpose="stream pairs", epoch=0, index=batch.indices)
        draws_B3 = draws(keys, 3)
        shape = (len(batch.lengths), -1)
        starts_BT = batch.sentence_starts.reshape(shape)
        cut_B, found_B = _cut(starts_BT, self._reused, uniform(draws_B3[:, 0]))
        random_B = ~found_B | (uniform(draws_B3[:, 1]) < self._random_share)
        other = self._blocks.batch(self._blocks.same_direction(batch.indices, draws_B3[:, 2]))
        place_T = np.arange(starts_BT.shape[1])
        second_BT = place_T >= cut_B[:, None]
        # The stretch from elsewhere is the beginning of the other block, moved to where the second segment begins.
        source_BT = np.where(second_BT, place_T - cut_B[:, None], 0)
        swapped_BT = second_BT & random_B[:, None]

        def mixed(own: np.ndarray, theirs: np.ndarray) -> np.ndarray:
            moved_BT = np.take_along_axis(theirs.reshape(shape), source_BT, axis=1)
            return np.where(swapped_BT, moved_BT, own.reshape(shape)).reshape(-1)

        word_starts = mixed(batch.word_starts, other.word_starts)
        word_starts.reshape(shape)[np.arange(len(cut_B)), cut_B] = True
        return replace(
            batch,
            ids=mixed(batch.ids, other.ids),
            word_starts=word_starts,
            sentence_starts=mixed(batch.sentence_starts, other.sentence_starts),
            first_lengths=cut_B,
            sources=None,
            labels=random_B.astype(np.int8),
        )


def _cut(starts_BT: np.ndarray, reused: int, share_B: np.ndarray) -> tuple[Integers, np.ndarray]:
    """(B,) a random sentence start behind the reused part, and whether there is one; else the middle of the rest."""
    after_BT = starts_BT.copy()
    after_BT[:, : reused + 1] = False
    count_B = after_BT.sum(axis=1)
    wanted_B = (share_B * count_B).astype(np.int64) + 1
    chosen_B = (np.cumsum(after_BT, axis=1) >= wanted_B[:, None]).argmax(axis=1)
    return np.where(count_B > 0, chosen_B, (reused + starts_BT.shape[1]) // 2), count_B > 0
