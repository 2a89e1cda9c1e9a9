"""Samples to outputs: the forward pass of prediction and of evaluation, in batches by tokens and in order of length."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.sample import Sample, SampleBatch, pack_samples
from spanlab.training.place import ProcessContext


def compute_outputs(
    network: MultiTaskNetwork, samples: Sequence[Sample], *, task: str, batch_tokens: int, process: ProcessContext
) -> list[Any]:
    """The head's output for each sample, in order; several processes share the work and all get all of it."""
    batches = list(batches_by_tokens(samples, batch_tokens))
    head = network.head(task)
    computed: dict[int, Any] = {}
    training = network.training
    network.eval()
    # no_grad and not inference_mode: the same tensors may be trained on afterwards.
    with torch.no_grad(), process.autocast():
        # Every process runs the model equally often, as sharded models need: a last batch may be computed twice.
        for turn in range(-(-len(batches) // process.world_size)):
            indices = batches[min(turn * process.world_size + process.rank, len(batches) - 1)]
            batch = pack_samples(SampleBatch(task=task, samples=tuple(samples[i] for i in indices)), process.device)
            logits = network(batch, answer=True, most_tokens=batch_tokens)
            computed.update(zip(indices, head.split(logits, batch), strict=True))
    network.train(training)
    if process.world_size > 1:
        shares: list[dict[int, Any]] = [{}] * process.world_size
        dist.all_gather_object(shares, computed)
        computed = {index: output for share in shares for index, output in share.items()}
    return [computed[index] for index in range(len(samples))]


def batches_by_tokens(samples: Sequence[Sample], batch_tokens: int) -> Iterator[list[int]]:
    """The samples' numbers in order of length, in batches of at most `batch_tokens` tokens or of one sample."""
    batch: list[int] = []
    held = 0
    for index in np.argsort([sample.longest for sample in samples], kind="stable").tolist():
        tokens = samples[index].tokens
        if batch and held + tokens > batch_tokens:
            yield batch
            batch, held = [], 0
        batch.append(index)
        held += tokens
    if batch:
        yield batch
