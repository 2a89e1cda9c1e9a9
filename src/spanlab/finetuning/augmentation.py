"""More training samples: copies with some words masked and refilled by the model's own MLM head.

A refilled token takes the place of a token, so whatever is said about positions stays true; tokens that carry the
answer (`Sample.fixed`) and special tokens are left alone. Which words, and what fills them, is decided by the seed and
the number of the sample and of the copy.

Shapes: N tokens, K masked tokens, V vocabulary, C candidates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from spanlab.arrays import Flags, Integers
from spanlab.corpus.randomness import draw_at, sample_keys, uniform
from spanlab.encoder import Model
from spanlab.errors import ConfigError
from spanlab.tasks.config import TuningConfig
from spanlab.tasks.predict import batches_by_tokens
from spanlab.tasks.sample import Sample, SampleBatch, TokenSequence, pack_samples
from spanlab.text import Tokenizer
from spanlab.training.distributed import ProcessContext

_CANDIDATES = 10
"""A word is drawn from the likeliest few: enough to vary, not enough to ramble."""


def refilled_copies(
    samples: Sequence[Sample],
    model: Model,
    tokenizer: Tokenizer,
    tuning: TuningConfig,
    *,
    seed: int,
    batch_tokens: int,
    process: ProcessContext,
) -> list[Sample]:
    """`tuning.augment` copies of each sample."""
    if tokenizer.mask_id is None:
        raise ConfigError("tuning.augment needs a tokenizer with a mask token", fix="take tuning.augment=0")
    model.head("mlm").to(process.device).eval()
    model.encoder.to(process.device).eval()
    copies: list[Sample] = []
    for copy in range(tuning.augment):
        masks = [_choose(sample, number, copy, tokenizer, tuning, seed) for number, sample in enumerate(samples)]
        made = dict(_refill(samples, masks, model, tokenizer, seed + copy, batch_tokens, process))
        copies += [made[number] for number in range(len(samples))]
    return copies


def _choose(sample: Sample, number: int, copy: int, tokenizer: Tokenizer, tuning: TuningConfig, seed: int) -> Flags:
    """(N,) which tokens of all sequences are masked: whole words, as many as the share says, at least one."""
    ids = np.concatenate([sequence.ids for sequence in sample.sequences])
    starts = [_word_starts(sequence) for sequence in sample.sequences]
    free = ~np.isin(ids, tokenizer.special_ids)
    if sample.fixed is not None:
        free &= ~sample.fixed
    word_of = np.cumsum(np.concatenate(starts)) - 1
    fixed_words = np.bincount(word_of, weights=~free) > 0
    words = np.flatnonzero(~fixed_words)
    if not len(words):
        return np.zeros(len(ids), bool)
    keys = np.broadcast_to(sample_keys(seed=seed, purpose="augment", epoch=copy, index=number), words.shape)
    order = words[np.argsort(draw_at(keys, words))]
    chosen = order[: max(1, round(tuning.augment_share * len(words)))]
    return np.isin(word_of, chosen)


def _word_starts(sequence: TokenSequence) -> Flags:
    return np.ones(len(sequence), bool) if sequence.word_starts is None else sequence.word_starts


def _refill(
    samples: Sequence[Sample],
    masks: Sequence[Flags],
    model: Model,
    tokenizer: Tokenizer,
    seed: int,
    batch_tokens: int,
    process: ProcessContext,
) -> Iterator[tuple[int, Sample]]:
    special = torch.tensor(tokenizer.special_ids, device=process.device)
    for numbers in batches_by_tokens(samples, batch_tokens):
        batch = pack_samples(SampleBatch(task="", samples=tuple(samples[n] for n in numbers)), process.device)
        mask_N = torch.from_numpy(np.concatenate([masks[n] for n in numbers])).to(process.device)
        ids_N = batch.input_ids_N.clone()
        with torch.no_grad(), process.autocast():
            ids_N[mask_N] = tokenizer.mask_id  # type: ignore[assignment]
            output = model.encoder(ids_N, token_type_ids=batch.segment_ids_N, lengths=batch.lengths_B)
            logits_KV = model.head("mlm")(output.hidden[mask_N], model.encoder.word_table).float()
        logits_KV[:, special] = -torch.inf
        best = logits_KV.topk(min(_CANDIDATES, logits_KV.shape[1]), dim=-1)
        picked_K = _draw(best.values.softmax(dim=-1).cpu().numpy(), numbers, masks, seed)
        ids_N[mask_N] = best.indices.gather(1, torch.from_numpy(picked_K).to(process.device)[:, None]).squeeze(1)
        filled = np.split(ids_N.cpu().numpy(), np.cumsum(batch.token_counts)[:-1])
        yield from ((number, _with_ids(samples[number], ids)) for number, ids in zip(numbers, filled, strict=True))


def _draw(share_KC: NDArray[np.float32], numbers: Sequence[int], masks: Sequence[Flags], seed: int) -> Integers:
    """(K,) the candidate of each masked token; the draw belongs to the sample and the process, not to the batch."""
    places = [np.flatnonzero(masks[number]) for number in numbers]
    keys = [
        np.broadcast_to(sample_keys(seed=seed, purpose="refill", epoch=0, index=number), found.shape)
        for number, found in zip(numbers, places, strict=True)
    ]
    drawn_K = uniform(draw_at(np.concatenate(keys), np.concatenate(places)))
    passed_KC = np.cumsum(share_KC, axis=1, dtype=np.float64) <= drawn_K[:, None]
    picked_K: Integers = np.minimum(passed_KC.sum(axis=1), share_KC.shape[1] - 1)
    return picked_K


def _with_ids(sample: Sample, ids: Integers) -> Sample:
    parts = np.split(ids, np.cumsum([len(sequence) for sequence in sample.sequences])[:-1])
    sequences = tuple(replace(old, ids=new) for old, new in zip(sample.sequences, parts, strict=True))
    return replace(sample, sequences=sequences, draw=None)
