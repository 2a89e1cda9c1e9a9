"""Samples to outputs, the same way for dev scores, evaluation, prediction and serving.

The tasks of a model are computed together: a sequence that several of them share is encoded once, unless a task changes
the hidden states (adapters) or generates. One task is the case of a mapping with one entry.

Shapes: B sequences, N tokens, D width, E texts.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from spanlab.encoder import Encoder
from spanlab.encoder.layers import evaluating
from spanlab.tasks.batching import SamplesByTask, batches_by_tokens, sequence_key, sequences_of, shared_batches
from spanlab.tasks.formats.row import Row
from spanlab.tasks.head import Encoded, Head
from spanlab.tasks.heads import sums_by_sequence
from spanlab.tasks.network import MultiTaskNetwork, encode_samples
from spanlab.tasks.outputs import embedding_samples, embedding_vectors
from spanlab.tasks.sample import Sample, SampleBatch
from spanlab.tasks.tensor_batch import TensorBatch, pack_samples
from spanlab.tasks.unknown_tokens import UnknownTokens
from spanlab.tasks.windows import Windower
from spanlab.training.distributed import ProcessContext

OnShare = Callable[[float], None]
OnBatch = Callable[[TensorBatch], None]


def compute_outputs(
    network: MultiTaskNetwork,
    samples: SamplesByTask,
    *,
    batch_tokens: int,
    process: ProcessContext,
    on_share: OnShare = lambda share: None,
) -> dict[str, list[Any]]:
    """The output of each task's head for each of its samples, in order; at most `batch_tokens` tokens at a time.

    `Sample.example` must count the same examples in all tasks. `on_share` is told the share of each batch in the work.
    """
    total = sum(sample.tokens for part in samples.values() for sample in part)

    def on_batch(batch: TensorBatch) -> None:
        on_share(sum(batch.token_counts) / total)

    sharing = [name for name in samples if _can_share(network, name)]
    if len(sharing) < 2:
        sharing = []
    # no_grad, not inference_mode: the same tensors may be trained on afterwards.
    with torch.no_grad(), process.autocast(), evaluating(network):
        outputs = {
            name: _compute_task(network, name, samples[name], batch_tokens, process, on_batch)
            for name in samples
            if name not in sharing
        }
        shared = {name: samples[name] for name in sharing}
        outputs |= _compute_shared(network, shared, batch_tokens, process, on_batch)
    return {name: outputs[name] for name in samples}


def _can_share(network: MultiTaskNetwork, task: str) -> bool:
    """Whether a task's head only needs the encoder's own hidden states."""
    adapters = network.adapters(task)
    return not network.head(task).generates and (adapters is None or not adapters.changes_hidden_states)


# ---- one task


def _compute_task(
    network: MultiTaskNetwork,
    task: str,
    samples: Sequence[Sample],
    batch_tokens: int,
    process: ProcessContext,
    on_batch: OnBatch,
) -> list[Any]:
    """The outputs of one task; several processes share the work, and each gets all outputs."""
    batches = list(batches_by_tokens(samples, batch_tokens))
    head = network.head(task)
    outputs: dict[int, Any] = {}
    # Every process runs the model equally often, as sharded models need: a last batch may be computed twice.
    for turn in range(-(-len(batches) // process.world_size)):
        indices = batches[min(turn * process.world_size + process.rank, len(batches) - 1)]
        batch = pack_samples(SampleBatch(task=task, samples=tuple(samples[i] for i in indices)), process.device)
        logits = network(batch, return_logits=True, max_tokens=batch_tokens)
        outputs.update(zip(indices, head.split(logits, batch), strict=True))
        on_batch(batch)
    if process.world_size > 1:
        gathered: list[dict[int, Any]] = [{}] * process.world_size
        dist.all_gather_object(gathered, outputs)
        outputs = {index: output for part in gathered for index, output in part.items()}
    return [outputs[index] for index in range(len(samples))]


# ---- several tasks in one pass of the encoder


def _compute_shared(
    network: MultiTaskNetwork,
    samples: SamplesByTask,
    batch_tokens: int,
    process: ProcessContext,
    on_batch: OnBatch,
) -> dict[str, list[Any]]:
    """The outputs of tasks that share hidden states: each distinct sequence of a batch is encoded once."""
    outputs: dict[str, dict[int, Any]] = {name: {} for name in samples}
    for indices in shared_batches(samples, batch_tokens):
        chosen = {name: tuple(samples[name][i] for i in part) for name, part in indices.items()}
        distinct = {sequence_key(sequence): sequence for part in chosen.values() for sequence in sequences_of(part)}
        rows = {key: row for row, key in enumerate(distinct)}
        single = tuple(Sample(example=0, sequences=(sequence,)) for sequence in distinct.values())
        packed = pack_samples(SampleBatch(task="", samples=single), process.device)
        encoded = encode_samples(network.encoder, packed, max_tokens=batch_tokens)
        for name, part in chosen.items():
            batch = pack_samples(SampleBatch(task=name, samples=part), process.device)
            selected = _select(
                network, encoded, batch, [rows[sequence_key(sequence)] for sequence in batch.batch.sequences]
            )
            head = network.head(name)
            outputs[name].update(zip(indices[name], head.split(head(selected), batch), strict=True))
            on_batch(batch)
    return {name: [part[index] for index in range(len(part))] for name, part in outputs.items()}


def _select(network: MultiTaskNetwork, encoded: Encoded, batch: TensorBatch, rows: Sequence[int]) -> Encoded:
    """The encoder's output for one task's batch, whose sequences are `rows` of what was encoded."""
    hidden = torch.split(encoded.hidden_ND, [sample.tokens for sample in encoded.batch.batch.samples])
    hidden_ND = torch.cat([hidden[row] for row in rows])
    pooled_BD = encoded.pooled_BD
    if pooled_BD is not None:
        pooled_BD = pooled_BD.index_select(0, torch.tensor(rows, device=pooled_BD.device))
    adapters = network.adapters(batch.batch.task)
    if adapters is not None:
        pooled_BD = adapters.pooled(hidden_ND, batch.starts, pooled_BD)
    return Encoded(hidden_ND=hidden_ND, pooled_BD=pooled_BD, batch=batch)


# ---- texts to vectors


class TokenSumHead(Head):
    """The sum of a window's hidden states; without weights."""

    @override
    def forward(self, encoded: Encoded) -> Tensor:
        """(B, D)."""
        return sums_by_sequence(encoded)

    @override
    def split(self, logits: Tensor, batch: TensorBatch) -> list[NDArray[np.float32]]:
        """(D,) per sample."""
        return list(logits.float().cpu().numpy())


def embed_texts(
    encoder: Encoder,
    windower: Windower,
    texts: Sequence[str],
    *,
    batch_tokens: int,
    process: ProcessContext,
    on_share: OnShare = lambda share: None,
    unknown: UnknownTokens | None = None,
) -> NDArray[np.float32]:
    """(E, D) the mean of each text's last hidden states, scaled to unit length, so that a dot product is the cosine.

    Special tokens count in the mean, as in sentence-transformers, so a model published there gives the same vectors. A
    long text is the mean over the tokens of all its windows; the vector of an empty text is zero. `unknown` counts
    texts that the tokenizer hardly knows.
    """
    samples = embedding_samples(windower, texts)
    if unknown is not None:
        unknown.add_rows([Row(values={"text": text}) for text in texts], samples)
    network = MultiTaskNetwork(encoder, {"embedding": TokenSumHead()})
    outputs = compute_outputs(
        network, {"embedding": samples}, batch_tokens=batch_tokens, process=process, on_share=on_share
    )
    return embedding_vectors(samples, outputs["embedding"], count=len(texts), width=encoder.config.width)
