"""Augmentation: copies of training samples with some words masked and refilled by the MLM head of the model.

A refilled token replaces a token, so positions in the sample stay valid; tokens that carry the answer (`Sample.fixed`)
and special tokens are kept. Which words are refilled, and with what, is a function of the seed, the index of the sample
and the index of the copy.

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
from spanlab.tasks.batching import batches_by_tokens
from spanlab.tasks.config import TuningConfig
from spanlab.tasks.sample import Sample, SampleBatch
from spanlab.tasks.tensor_batch import pack_samples
from spanlab.text import Tokenizer
from spanlab.training.distributed import ProcessContext

_CANDIDATES = 10
"""A token is drawn from the few most likely ones: enough to vary, not enough to turn into nonsense."""


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
    """`tuning.augment` copies of each sample: all samples, then all again."""
    if tokenizer.mask_id is None:
        raise ConfigError("tuning.augment needs a tokenizer with a mask token", fix="use tuning.augment=0")
    model.head("mlm").to(process.device).eval()
    model.encoder.to(process.device).eval()
    copies: list[Sample] = []
    for copy in range(tuning.augment):
        masks = [_draw_mask(sample, index, copy, tokenizer, tuning, seed) for index, sample in enumerate(samples)]
        refilled = dict(_refill(samples, masks, model, tokenizer, seed + copy, batch_tokens, process))
        copies += [refilled[index] for index in range(len(samples))]
    return copies


def _draw_mask(sample: Sample, index: int, copy: int, tokenizer: Tokenizer, tuning: TuningConfig, seed: int) -> Flags:
    """(N,) which tokens of all sequences are masked: whole words, a share of `augment_share`, at least one."""
    ids = np.concatenate([sequence.ids for sequence in sample.sequences])
    starts = [
        np.ones(len(sequence), bool) if sequence.word_starts is None else sequence.word_starts
        for sequence in sample.sequences
    ]
    fixed = np.isin(ids, tokenizer.special_ids)
    if sample.fixed is not None:
        fixed |= sample.fixed
    word_of = np.cumsum(np.concatenate(starts)) - 1
    words = np.flatnonzero(np.bincount(word_of, weights=fixed) == 0)
    if not len(words):
        return np.zeros(len(ids), bool)
    keys = np.broadcast_to(sample_keys(seed=seed, purpose="augment", epoch=copy, index=index), words.shape)
    shuffled = words[np.argsort(draw_at(keys, words))]
    return np.isin(word_of, shuffled[: max(1, round(tuning.augment_share * len(words)))])


def _refill(
    samples: Sequence[Sample],
    masks: Sequence[Flags],
    model: Model,
    tokenizer: Tokenizer,
    seed: int,
    batch_tokens: int,
    process: ProcessContext,
) -> Iterator[tuple[int, Sample]]:
    """The index of each sample with its copy, in batches of similar length."""
    special = torch.tensor(tokenizer.special_ids, device=process.device)
    for indices in batches_by_tokens(samples, batch_tokens):
        batch = pack_samples(SampleBatch(task="", samples=tuple(samples[index] for index in indices)), process.device)
        mask_N = torch.from_numpy(np.concatenate([masks[index] for index in indices])).to(process.device)
        ids_N = batch.input_ids_N.clone()
        with torch.no_grad(), process.autocast():
            ids_N[mask_N] = tokenizer.mask_id  # type: ignore[assignment]
            output = model.encoder(ids_N, token_type_ids=batch.segment_ids_N, lengths=batch.lengths_B)
            logits_KV = model.head("mlm")(output.hidden[mask_N], model.encoder.word_table).float()
        logits_KV[:, special] = -torch.inf
        best = logits_KV.topk(min(_CANDIDATES, logits_KV.shape[1]), dim=-1)
        drawn_K = _draw_candidates(best.values.softmax(dim=-1).cpu().numpy(), indices, masks, seed)
        ids_N[mask_N] = best.indices.gather(1, torch.from_numpy(drawn_K).to(process.device)[:, None]).squeeze(1)
        refilled = np.split(ids_N.cpu().numpy(), np.cumsum(batch.token_counts)[:-1])
        yield from ((index, _with_ids(samples[index], ids)) for index, ids in zip(indices, refilled, strict=True))


def _draw_candidates(
    probabilities_KC: NDArray[np.float32], indices: Sequence[int], masks: Sequence[Flags], seed: int
) -> Integers:
    """(K,) the candidate of each masked token; a function of sample and position, not of the batch."""
    positions = [np.flatnonzero(masks[index]) for index in indices]
    keys = [
        np.broadcast_to(sample_keys(seed=seed, purpose="refill", epoch=0, index=index), masked.shape)
        for index, masked in zip(indices, positions, strict=True)
    ]
    uniform_K = uniform(draw_at(np.concatenate(keys), np.concatenate(positions)))
    below_KC = np.cumsum(probabilities_KC, axis=1, dtype=np.float64) <= uniform_K[:, None]
    drawn_K: Integers = np.minimum(below_KC.sum(axis=1), probabilities_KC.shape[1] - 1)
    return drawn_K


def _with_ids(sample: Sample, ids: Integers) -> Sample:
    """The sample with the ids of all its sequences, end to end, replaced."""
    parts = np.split(ids, np.cumsum([len(sequence) for sequence in sample.sequences])[:-1])
    sequences = tuple(replace(old, ids=new) for old, new in zip(sample.sequences, parts, strict=True))
    return replace(sample, sequences=sequences, draw=None)
