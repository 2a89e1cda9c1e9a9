"""Batches made for the tests: blocks with words of several tokens, special tokens around them."""

import numpy as np

from spanlab.corruption import SpecialTokenLayout, TokenBatch, batch_sequences

CLS, SEP, MASK, PAD = 2, 3, 4, 0
SPECIAL = (PAD, 1, CLS, SEP, MASK)
VOCAB = 500
LAYOUT = SpecialTokenLayout(cls_id=CLS, sep_id=SEP, special_ids=SPECIAL)


def random_batch(lengths: list[int], seed: int = 0, pieces: float = 0.3, first_index: int = 0) -> TokenBatch:
    """Blocks of these many text tokens, of which a share `pieces` goes on with the word before; CLS and SEP around."""
    generator = np.random.default_rng(seed)
    sequences, flags = [], []
    for length in lengths:
        text = generator.integers(5, VOCAB, length)
        starts = generator.random(length) >= pieces
        starts[:1] = True
        sequences.append([CLS, *text.tolist(), SEP])
        flags.append([True, *starts.tolist(), True])
    return batch_sequences(sequences, flags, LAYOUT, indices=np.arange(first_index, first_index + len(lengths)))


def rows_of(batch: TokenBatch, rows: list[int]) -> TokenBatch:
    """Some blocks of a batch, in another order, as a batch of their own."""
    sequences = [batch.ids[batch.starts[r] : batch.starts[r] + batch.lengths[r]].tolist() for r in rows]
    flags = [batch.word_starts[batch.starts[r] : batch.starts[r] + batch.lengths[r]].tolist() for r in rows]
    return batch_sequences(sequences, flags, LAYOUT, indices=batch.indices[rows])


def words_in(batch: TokenBatch, row: int) -> list[int]:
    """Where the words of one block begin, within the block."""
    start, length = batch.starts[row], batch.lengths[row]
    return np.flatnonzero(batch.word_starts[start : start + length]).tolist()  # type: ignore[no-any-return]
