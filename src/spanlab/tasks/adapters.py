"""Which weights of an encoder learn: all, the upper layers, or low-rank adapters in place of its matrices.

An adapter (Hu et al. 2021) adds `B·A·α/r` to a matrix that stays as it is; B begins at zero, so nothing changes before
the first step. It sits on the weight itself (a parametrisation), so whatever computes with the weight, fused or not,
sees the sum; on saving, the sum is the weight.
"""

import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import parametrize

from spanlab.encoder import Encoder
from spanlab.encoder.model import EncoderOutput
from spanlab.errors import ConfigError
from spanlab.tasks.config import TuningConfig


class LowRank(nn.Module):
    """The change that one adapter makes to its matrix."""

    def __init__(self, weight: Tensor, rank: int, alpha: float) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.scale = alpha / rank
        self.down = nn.Parameter(torch.empty(rank, columns))
        self.up = nn.Parameter(torch.zeros(rows, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, weight: Tensor) -> Tensor:
        """The matrix with the change added."""
        return weight + self.up @ self.down * self.scale


def adapt(encoder: Encoder, tuning: TuningConfig) -> None:
    """Freeze what is not to learn, and put adapters in where they are asked for."""
    if tuning.freeze:
        _freeze(encoder, tuning.freeze)
    if tuning.lora:
        encoder.requires_grad_(False)
        if encoder.pooler is not None:  # it learns as a head does
            encoder.pooler.requires_grad_(True)
        for module in matrices_of(encoder).values():
            change = LowRank(module.weight, tuning.lora, tuning.lora_alpha)
            parametrize.register_parametrization(module, "weight", change)


def merged(encoder: Encoder) -> Encoder:
    """The encoder with its adapters' changes in its matrices; itself where it has none."""
    if not any(parametrize.is_parametrized(module) for module in encoder.modules()):
        return encoder
    plain = copy.deepcopy(encoder)
    for parent in list(plain.modules()):
        for name, module in parent.named_children():
            if isinstance(module, nn.Linear) and parametrize.is_parametrized(module):
                setattr(parent, name, _plain(module))
    return plain


def _plain(module: nn.Linear) -> nn.Linear:
    """The layer as it computes now. (torch's own removal would undo the class that copies share with the original.)"""
    linear = nn.Linear(module.in_features, module.out_features, bias=module.bias is not None)
    linear.weight = nn.Parameter(module.weight.detach().clone())
    linear.bias = module.bias
    return linear


def _freeze(encoder: Encoder, count: int) -> None:
    stack = encoder.layer_stack()
    if not stack:
        raise ConfigError("tuning.freeze is for SpanLab's own encoders", fix="take tuning.lora, or freeze nothing")
    if count >= len(stack):
        raise ConfigError(f"tuning.freeze is {count}, and the encoder has {len(stack) - 1} layers of its own")
    for module in stack[: count + 1]:
        module.requires_grad_(False)


def matrices_of(encoder: Encoder) -> dict[str, nn.Linear]:
    """Every linear layer of the encoder's blocks by its name; the pooler is more of a head's."""
    named = encoder.named_modules()
    return {name: module for name, module in named if isinstance(module, nn.Linear) and module is not encoder.pooler}


@dataclass(frozen=True, kw_only=True)
class TaskAdapterConfig:
    """Which parts a task has; kept in `spanlab.json`."""

    lora: int = 0
    """The rank of its adapters; 0: none."""
    lora_alpha: float = 16.0
    pooler: bool = False
    embedding: bool = False
    """A vector that is added to every embedded token."""

    @property
    def any(self) -> bool:
        """Whether there is a part at all."""
        return bool(self.lora or self.pooler or self.embedding)


class TaskAdapters(nn.Module):
    """The parts of one task; made from the encoder as it is, they change nothing before they learn."""

    def __init__(self, encoder: Encoder, config: TaskAdapterConfig) -> None:
        super().__init__()
        self.config = config
        named = matrices_of(encoder) if config.lora else {}
        self._names = [f"{name}.weight" for name in named]
        self.adapters = nn.ModuleList(LowRank(m.weight, config.lora, config.lora_alpha) for m in named.values())
        own_pooler = config.pooler and encoder.pooler is not None
        self.pooler = copy.deepcopy(encoder.pooler).requires_grad_(True) if own_pooler else None  # type: ignore[union-attr]
        self.embedding_E = nn.Parameter(torch.zeros(encoder.word_table.shape[1])) if config.embedding else None

    @property
    def changes_hidden_states(self) -> bool:
        """Whether hidden states are others than the encoder's own: then no pass can be shared."""
        return bool(len(self.adapters)) or self.embedding_E is not None

    def encode(
        self, encoder: Encoder, input_ids_N: Tensor, segment_ids_N: Tensor | None, lengths_B: Tensor
    ) -> EncoderOutput:
        """The pass of the encoder with these parts in it."""
        given = {"token_type_ids": segment_ids_N, "lengths": lengths_B}
        if self.embedding_E is None:
            given["input_ids"] = input_ids_N
        else:
            given["inputs_embeds"] = F.embedding(input_ids_N, encoder.word_table) + self.embedding_E
        if not len(self.adapters):
            output: EncoderOutput = encoder(**given)
        else:
            output = functional_call(encoder, self._weights(encoder), kwargs=given)
        starts_B = torch.cumsum(lengths_B, 0) - lengths_B
        return EncoderOutput(hidden=output.hidden, pooled=self.pooled(output.hidden, starts_B, output.pooled))

    def pooled(self, hidden_ND: Tensor, starts_B: Tensor, otherwise: Tensor | None) -> Tensor | None:
        """(B, D) by the pooler of its own, or `otherwise`, where the encoder's serves."""
        if self.pooler is None:
            return otherwise
        return torch.tanh(self.pooler(hidden_ND.index_select(0, starts_B)))

    def _weights(self, encoder: Encoder) -> dict[str, Tensor]:
        """The adapted matrices by their names in the encoder."""
        found = zip(self._names, self.adapters, strict=True)
        return {name: change(encoder.get_parameter(name)) for name, change in found}
