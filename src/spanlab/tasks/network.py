"""An encoder with the heads of one or more tasks, as the training loop sees it.

A batch belongs to one task; the encoder is shared. The loss of a task is the sum over its terms divided by its terms in
the whole step, and the tasks' losses are weighted and added. Weights are fixed or trained: with `s` the logarithm of a
task's variance, its loss L counts as `exp(-s) L + s / 2` (Kendall et al. 2018), so that tasks whose loss stays high
count less.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import Tensor, nn

from spanlab.encoder import Encoder
from spanlab.encoder.model import EncoderOutput
from spanlab.errors import ConfigError
from spanlab.objectives.objective import CriterionLoss, ObjectiveLoss
from spanlab.tasks.adapters import TaskAdapters
from spanlab.tasks.head import Encoded, Head
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.tensor_batch import TensorBatch


class MultiTaskNetwork(nn.Module):
    """`encoder`, `heads.NAME`, `own.NAME`, `log_variances.NAME`: the parameter names in `training.lr_factors`."""

    def __init__(
        self,
        encoder: Encoder,
        heads: Mapping[str, Head],
        weights: Mapping[str, float] = MappingProxyType({}),
        *,
        adapters: Mapping[str, TaskAdapters] = MappingProxyType({}),
        learn_weights: bool = False,
    ) -> None:
        """`weights` are loss weights by task, 1 by default; `adapters` per-task parameters inside the encoder."""
        super().__init__()
        for name in adapters:
            if heads[name].generates:
                cause = f"'{name}' generates text, and cannot have adapters in the encoder"
                raise ConfigError(cause, fix="add it without adapters and task embeddings")
        self.encoder = encoder
        self.heads = nn.ModuleDict(dict(heads))
        self.own = nn.ModuleDict(adapters)  # the name is part of checkpoints and of `training.lr_factors`
        self.weights = {name: weights.get(name, 1.0) for name in heads}
        uncertain = heads if learn_weights else ()
        self.log_variances = nn.ParameterDict({name: nn.Parameter(torch.zeros(1)) for name in uncertain})
        pooler = getattr(encoder, "pooler", None)
        if pooler is not None and not any(head.uses_pooler for head in heads.values()):
            pooler.requires_grad_(False)  # DDP waits for every gradient, and none would come

    def head(self, task: str) -> Head:
        """The head of a task."""
        return cast(Head, self.heads[task])

    def adapters(self, task: str) -> TaskAdapters | None:
        """The per-task parameters inside the encoder, if the task has any."""
        return cast(TaskAdapters, self.own[task]) if task in self.own else None

    def counts(self, batch: SampleBatch) -> dict[str, int]:
        """The number of loss terms of each task in this batch."""
        return {name: self.head(name).count(batch) if name == batch.task else 0 for name in self.heads}

    def forward(
        self,
        batch: TensorBatch,
        counts: Mapping[str, int] | None = None,
        *,
        return_logits: bool = False,
        max_tokens: int | None = None,
    ) -> Any:  # noqa: ANN401 (a CriterionLoss, or the head's own tensors)
        """The share of this batch in the loss of a step with `counts` terms; by default the step is this batch.

        With `return_logits` the head's output instead, with at most `max_tokens` tokens in the encoder at a time. Both
        are in `forward`, because FSDP gathers sharded weights only there.
        """
        task = batch.batch.task
        head = self.head(task)
        if return_logits and head.generates:
            return head.generate(self.encoder, batch)
        adapters, words = self.adapters(task), head.uses_words
        logits = head(encode_samples(self.encoder, batch, max_tokens=max_tokens, adapters=adapters, needs_words=words))
        if return_logits:
            return logits
        part = head.loss(logits, batch)
        terms = part.count if counts is None else counts[task]
        value = self._weigh(task, part, max(1, terms))
        zero = part.total.new_zeros(())
        none = ObjectiveLoss(total=zero, count=0, tallies={"correct": zero})
        return CriterionLoss(value=value, parts={name: part if name == task else none for name in self.heads})

    def _weigh(self, task: str, part: ObjectiveLoss, terms: int) -> Tensor:
        """The share of a batch in the loss of a step with `terms` terms of this task."""
        if task not in self.log_variances:
            return self.weights[task] / terms * part.total
        log_variance: Tensor = self.log_variances[task].squeeze()
        mean, share = part.total / terms, part.count / terms
        return self.weights[task] * (torch.exp(-log_variance) * mean + share * log_variance / 2)

    def metrics(self, parts: Mapping[str, ObjectiveLoss]) -> dict[str, float]:
        """`loss.NAME`, `accuracy.NAME`, … of summed losses; `weight.NAME` where weights are trained."""
        metrics = {
            f"{metric}.{name}": value
            for name in self.heads
            for metric, value in self.head(name).metrics(parts[name]).items()
        }
        from spanlab.training.sharding import full_tensor  # seconds of import that only training needs

        # Between steps a sharded parameter is distributed over all processes, so all of them gather it.
        trained = {name: full_tensor(self.log_variances[name]) for name in self.log_variances if parts[name].count}
        return metrics | {f"weight.{name}": self.weights[name] * torch.exp(-s).item() for name, s in trained.items()}


def encode_samples(
    encoder: Encoder,
    batch: TensorBatch,
    *,
    max_tokens: int | None = None,
    adapters: TaskAdapters | None = None,
    needs_words: bool = False,
) -> Encoded:
    """Run the encoder on a batch; with `max_tokens`, a larger batch is run a few sequences at a time.

    That bounds memory in prediction without changing the result, since sequences do not attend to each other.
    `adapters` are those of the batch's task; with `needs_words` the word table goes along, as with a causal encoder.
    """
    prefixed = {} if batch.prefixes_B is None else {"prefix_lengths": batch.prefixes_B}

    def run(ids_N: Tensor, segments_N: Tensor | None, lengths_B: Tensor) -> EncoderOutput:
        if adapters is not None:
            return adapters.encode(encoder, ids_N, segments_N, lengths_B)
        return encoder(ids_N, token_type_ids=segments_N, lengths=lengths_B, **prefixed)  # type: ignore[no-any-return]

    table_VE = encoder.word_table if encoder.config.causal or needs_words else None
    if max_tokens is None or batch.input_ids_N.shape[0] <= max_tokens:
        output = run(batch.input_ids_N, batch.segment_ids_N, batch.lengths_B)
        return Encoded(hidden_ND=output.hidden, pooled_BD=output.pooled, batch=batch, word_table_VE=table_VE)
    assert batch.prefixes_B is None, "heads of sequences with a prefix run the encoder in `generate`"
    hidden, pooled, start, first = [], [], 0, 0
    for lengths in _group_lengths(batch.lengths_B.tolist(), max_tokens):
        tokens = slice(start, start + sum(lengths))
        segments = None if batch.segment_ids_N is None else batch.segment_ids_N[tokens]
        output = run(batch.input_ids_N[tokens], segments, batch.lengths_B[first : first + len(lengths)])
        hidden.append(output.hidden)
        pooled.append(output.pooled)
        start, first = tokens.stop, first + len(lengths)
    pooled_parts = [part for part in pooled if part is not None]
    return Encoded(
        hidden_ND=torch.cat(hidden),
        pooled_BD=torch.cat(pooled_parts) if pooled_parts else None,
        batch=batch,
        word_table_VE=table_VE,
    )


def _group_lengths(lengths: list[int], max_tokens: int) -> list[list[int]]:
    """The lengths, in order, in groups that sum to at most `max_tokens`; a longer sequence is a group of its own."""
    groups: list[list[int]] = [[]]
    for length in lengths:
        if groups[-1] and sum(groups[-1]) + length > max_tokens:
            groups.append([])
        groups[-1].append(length)
    return groups
