"""Small batches of examples made by hand from sequences, so that the same sequences can be batched in any way."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spanlab.corruption.examples import ExampleBatch, SentencePairs, SpanBoundaries

# 0 and 1 are the padding ids of the family, which transformers' RoBERTa takes for padding wherever it sees them.
CLS, SEP, MASK, FIRST_WORD = 2, 3, 4, 5
VOCAB = 61


@dataclass(frozen=True, kw_only=True)
class Masked:
    """One sequence: its true ids, the spans (first, last) that are masked, and what else an example may have."""

    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...] = ()
    segment_starts: int | None = None
    """Where the second segment begins."""
    pair_label: int = -1
    seed: int = 0


def random_sequences(
    count: int, *, seed: int = 0, longest: int = 24, pairs: bool = False, vocab: int = VOCAB
) -> list[Masked]:
    """Sequences of many lengths, each with one to three spans, some next to [CLS] or [SEP]."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        length = int(rng.integers(8, longest + 1))
        ids = (CLS, *rng.integers(FIRST_WORD, vocab, length - 2).tolist(), SEP)
        cuts = sorted(rng.choice(np.arange(1, length), size=2 * int(rng.integers(1, 4)), replace=False).tolist())
        spans = tuple((first, after - 1) for first, after in zip(cuts[::2], cuts[1::2], strict=True))
        made.append(
            Masked(
                ids=ids,
                spans=spans,
                segment_starts=length // 2 if pairs else None,
                pair_label=int(rng.integers(0, 2)) if pairs else -1,
                seed=number,
            )
        )
    return made


def batch_of(sequences: Sequence[Masked]) -> ExampleBatch:
    """The sequences in a row, masked tokens replaced by [MASK]."""
    starts = np.cumsum([0, *(len(one.ids) for one in sequences)])[:-1]
    original = np.array([token for one in sequences for token in one.ids], dtype=np.int64)
    spans = [
        (int(start) + first, int(start) + last)
        for start, one in zip(starts, sequences, strict=True)
        for first, last in one.spans
    ]
    sizes = np.array([last - first + 1 for first, last in spans], dtype=np.int64)
    firsts, lasts = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    first, last = np.repeat(firsts, sizes), np.repeat(lasts, sizes)
    positions = np.array([place for a, b in spans for place in range(a, b + 1)], dtype=np.int64)
    masked = original.copy()
    masked[positions] = MASK
    segments = [
        0 if one.segment_starts is None else int(place >= one.segment_starts)
        for one in sequences
        for place in range(len(one.ids))
    ]
    labels = np.array([one.pair_label for one in sequences], dtype=np.int64)
    has_pairs = any(one.segment_starts is not None for one in sequences)
    uniforms = [np.random.default_rng(one.seed).random(sum(b - a + 1 for a, b in one.spans)) for one in sequences]
    return ExampleBatch(
        indices=np.arange(len(sequences)),
        input_ids=masked,
        original_ids=original,
        lengths=np.array([len(one.ids) for one in sequences]),
        positions=positions,
        targets=original[positions],
        boundaries=SpanBoundaries(
            positions=positions,
            targets=original[positions],
            left=first - 1,
            right=last + 1,
            first=first,
            last=last,
            offsets=positions - first,
        ),
        pairs=SentencePairs(segment_ids=np.array(segments, dtype=np.int64), labels=labels) if has_pairs else None,
        sampling_uniforms=np.concatenate([np.zeros(0), *uniforms]),
    )
