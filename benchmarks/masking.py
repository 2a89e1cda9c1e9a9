"""Span masking with boundaries on one core, against transformers' whole-word collator and a good plain-Python loop.

    python -m benchmarks.masking [--batches 24]

Distinct batches of 64 x 512 tokens. SpanLab: SpanBERT's scheme (geometric lengths, whole words, merged spans, one
decision a span), targets, the two boundary tokens and the place in the span for every masked token, from framed blocks
to what the objectives take. transformers: `DataCollatorForLanguageModeling(whole_word_mask=True)` on what a tokenizer
returns, as it is used. The plain loop: the same scheme, draw for draw, one sequence at a time, from the same blocks to
the same arrays. Beside them: copying the ids in memory.
"""

import argparse
from itertools import chain
from typing import Any

import numpy as np
import transformers
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers

from benchmarks.measure import Ratio, circumstances, print_result, rounds_in_turn
from benchmarks.plain_span_masking import PlainSpanMasking
from spanlab.corruption import Masking, MaskingConfig, RandomTokens, SpecialTokenLayout, batch_sequences
from spanlab.corruption.special_tokens import TokenBatch
from spanlab.training.malloc import keep_freed_memory

SEQUENCES, LENGTH, VOCAB = 64, 512, 30_522
PAD, UNK, CLS, SEP, MASK = range(5)
PIECES = 0.28
"""The share of tokens that go on with the word before them, about that of English WordPiece."""


def vocabulary() -> list[str]:
    """Words and continuations, so that transformers can distinguish them."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = int((VOCAB - len(specials)) * 0.8)
    return [*specials, *(f"w{n}" for n in range(words)), *(f"##p{n}" for n in range(VOCAB - len(specials) - words))]


def make_batches(count: int, tokens: list[str]) -> list[TokenBatch]:
    """Framed blocks of random text."""
    generator = np.random.default_rng(0)
    first_piece = next(number for number, token in enumerate(tokens) if token.startswith("##"))
    layout = SpecialTokenLayout(cls_id=CLS, sep_id=SEP, special_ids=(PAD, UNK, CLS, SEP, MASK))
    batches = []
    for number in range(count):
        shape = (SEQUENCES, LENGTH)
        goes_on = generator.random(shape) < PIECES
        goes_on[:, :2] = False
        ids = np.where(
            goes_on, generator.integers(first_piece, VOCAB, shape), generator.integers(5, first_piece, shape)
        )
        ids[:, 0], ids[:, -1] = CLS, SEP
        indices = np.arange(number * SEQUENCES, (number + 1) * SEQUENCES)
        batches.append(batch_sequences(list(ids), list(~goes_on), layout, indices=indices))
    return batches


class PeerCollator:
    """transformers' whole-word collator on the same ids."""

    def __init__(self, batches: list[TokenBatch], tokens: list[str]) -> None:
        backend = Tokenizer(models.WordPiece({token: number for number, token in enumerate(tokens)}, unk_token="[UNK]"))
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=backend,
            pad_token="[PAD]",
            unk_token="[UNK]",
            cls_token="[CLS]",
            sep_token="[SEP]",
            mask_token="[MASK]",
        )
        self.collator = transformers.DataCollatorForLanguageModeling(tokenizer, whole_word_mask=True)
        self.features = [[_feature(batch, start) for start in batch.starts.tolist()] for batch in batches]

    def __call__(self, number: int) -> Any:  # noqa: ANN401 (a batch of transformers)
        """One batch."""
        return self.collator(self.features[number])


def _feature(batch: TokenBatch, start: int) -> dict[str, list[Any]]:
    """One sequence as a tokenizer returns it: ids, special tokens, and offsets that touch inside a word."""
    row = slice(start, start + LENGTH)
    begins = batch.word_starts[row] | ~batch.maskable[row]
    ends = np.cumsum(2 + begins)
    return {
        "input_ids": batch.ids[row].tolist(),
        "special_tokens_mask": (~batch.maskable[row]).astype(int).tolist(),
        "offset_mapping": list(zip((ends - 2).tolist(), ends.tolist(), strict=True)),
    }


def plain_batch(masking: PlainSpanMasking, batch: TokenBatch) -> list[NDArray[np.int64]]:
    """One batch by the plain loop: from the same framed blocks to flat arrays of the same content."""
    keys, replace_keys = masking.keys(0, 0, batch.indices)
    ids, flags = batch.ids.reshape(SEQUENCES, LENGTH).tolist(), batch.word_starts.reshape(SEQUENCES, LENGTH)
    results = [
        masking(row, np.flatnonzero(starts).tolist(), LENGTH - 1, key, other)
        for row, starts, key, other in zip(ids, flags, keys, replace_keys, strict=True)
    ]
    return [np.fromiter(chain.from_iterable(parts), np.int64) for parts in zip(*results, strict=True)]


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # for all contenders alike, as a training process would
    tokens = vocabulary()
    batches = make_batches(arguments.batches, tokens)
    masking = Masking(
        MaskingConfig(random_from="vocabulary"), mask_id=MASK, random_tokens=RandomTokens(VOCAB, tuple(range(5)))
    )
    collator, plain = PeerCollator(batches, tokens), PlainSpanMasking(MASK, list(range(5, VOCAB)))
    few = range(min(4, len(batches)))
    everything = range(len(batches))
    seconds = rounds_in_turn(
        {
            "spanlab": lambda: [masking(batches[number], seed=0) for number in everything],
            "plain loop": lambda: [plain_batch(plain, batches[number]) for number in few],
            "transformers": lambda: [collator(number) for number in few],
            "memory copy": lambda: [batches[number].ids.copy() for number in everything],
        },
        arguments.rounds,
    )
    counts = {
        "spanlab": len(everything),
        "plain loop": len(few),
        "transformers": len(few),
        "memory copy": len(everything),
    }
    rates = {name: [counts[name] * SEQUENCES * LENGTH / taken for taken in rounds] for name, rounds in seconds.items()}
    for name, found in rates.items():
        print(f"{name:14s} {max(found) / 1e6:10.2f} M tokens/s", flush=True)
    peers = {"transformers": "transformers' whole-word collator", "plain loop": "a good hand-written loop"}
    what = "span masking with boundaries, one core"
    ratios = [
        Ratio.of_rates(rates["spanlab"], rates[name], what=what, peer=peer, headline=True)
        for name, peer in peers.items()
    ]
    result = {
        "share_of_memory_copy": round(max(rates["spanlab"]) / max(rates["memory copy"]), 4),
        "million_tokens_per_second": round(max(rates["spanlab"]) / 1e6, 1),
    }
    print_result({**result, **circumstances()}, ratios)


if __name__ == "__main__":
    main()
