"""Sentences packed into blocks, greedily and in order.

What enters is a shard's sentence and document starts and the room of a block; what leaves is the first token of every
block. A block ends where the next one starts, so a corpus needs 8 bytes a block and every token is in exactly one.
The next block of any sentence is found for all sentences at once; which sentences begin blocks is then a walk.
"""

import numpy as np

from spanlab.arrays import Numbers
from spanlab.corpus.shards import Shard


def document_block_starts(shard: Shard, room: int) -> Numbers:
    """Whole sentences up to `room` tokens, never across documents; a longer sentence is split between words."""
    starts = _segment_starts(shard, room)
    bounds = np.append(starts, len(shard.tokens))
    fitting = np.searchsorted(bounds, starts + room, side="right") - 1
    documents = np.searchsorted(starts, shard.documents)
    document_ends = np.append(documents[1:], len(starts))
    own_document = np.repeat(document_ends, np.diff(np.append(documents, len(starts))))
    return starts[_walk(np.minimum(fitting, own_document))]


def full_sentence_block_starts(shard: Shard, room: int) -> Numbers:
    """Whole sentences up to `room` tokens, across documents; the separator between two documents takes a place."""
    starts = _segment_starts(shard, room)
    documents = np.searchsorted(starts, shard.documents)
    separators = np.cumsum(np.bincount(documents, minlength=len(starts)))  # before a segment, from the beginning on
    ends = np.append(starts[1:], len(shard.tokens)) + separators
    return starts[_walk(np.searchsorted(ends, starts + separators + room, side="right"))]


def _segment_starts(shard: Shard, room: int) -> Numbers:
    """Where sentences start, and where those longer than `room` are split."""
    starts = shard.sentences.astype(np.int64)
    ends = np.append(starts[1:], len(shard.tokens))
    splits = [
        split
        for sentence in np.flatnonzero(ends - starts > room).tolist()
        for split in _splits(shard, int(starts[sentence]), int(ends[sentence]), room)
    ]
    return np.sort(np.append(starts, np.array(splits, np.int64))) if splits else starts


def _splits(shard: Shard, start: int, end: int, room: int) -> list[int]:
    """Where to split a sentence so that no piece exceeds `room`: at the last word start that fits, if there is one."""
    first_byte = start // 8
    bits = np.unpackbits(shard.words[first_byte : end // 8 + 1], bitorder="little")
    words = np.flatnonzero(bits) + 8 * first_byte
    splits = []
    while end - start > room:
        place = int(np.searchsorted(words, start + room, side="right")) - 1
        start = int(words[place]) if place >= 0 and words[place] > start else start + room
        splits.append(start)
    return splits


def _walk(successors: Numbers) -> Numbers:
    """The numbers met from 0 on by going from each to its successor, until past the end."""
    following = successors.data
    met, number = [], 0
    while number < len(following):
        met.append(number)
        number = following[number]
    return np.array(met, np.int64)
