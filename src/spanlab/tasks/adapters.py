"""Which weights of an encoder are trained: all, the upper layers, or LoRA adapters; and adapters per task.

LoRA (Hu et al. 2021) adds `B·A·α/r` to a frozen matrix; B starts at zero, so nothing changes before the first step. It
is a parametrisation of the weight, so fused kernels use the sum, too; it is merged on saving.
"""

import copy
import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import parametrize

from spanlab.encoder import Encoder
from spanlab.encoder.layers import copy_sharing_tensors
from spanlab.encoder.model import EncoderOutput
from spanlab.errors import ConfigError
from spanlab.tasks.config import TaskAdapterConfig, TuningConfig


class LowRank(nn.Module):
    """The LoRA update of one matrix."""

    def __init__(self, weight: Tensor, rank: int, alpha: float) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.scale = alpha / rank
        self.down = nn.Parameter(torch.empty(rank, columns))
        self.up = nn.Parameter(torch.zeros(rows, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, weight: Tensor) -> Tensor:
        """The matrix plus its update."""
        return weight + self.up @ self.down * self.scale


def adapt(encoder: Encoder, tuning: TuningConfig) -> None:
    """Freeze layers and insert LoRA adapters as `tuning` says."""
    if tuning.freeze:
        _freeze(encoder, tuning.freeze)
    if tuning.lora:
        encoder.requires_grad_(False)
        if encoder.pooler is not None:  # trained like a head
            encoder.pooler.requires_grad_(True)
        for module in matrices_of(encoder).values():
            update = LowRank(module.weight, tuning.lora, tuning.lora_alpha)
            parametrize.register_parametrization(module, "weight", update)


def merged(encoder: Encoder) -> Encoder:
    """A copy of the encoder with its adapters merged into its matrices; the encoder itself if it has none."""
    if not any(parametrize.is_parametrized(module) for module in encoder.modules()):
        return encoder
    plain = copy.deepcopy(encoder)
    for parent in list(plain.modules()):
        for name, module in parent.named_children():
            if isinstance(module, nn.Linear) and parametrize.is_parametrized(module):
                setattr(parent, name, _merge_layer(module))
    return plain


def _merge_layer(module: nn.Linear) -> nn.Linear:
    """The layer with its adapter merged; torch's `remove_parametrizations` would change the class that copies share."""
    linear = nn.Linear(module.in_features, module.out_features, bias=module.bias is not None)
    linear.weight = nn.Parameter(module.weight.detach().clone())
    linear.bias = module.bias
    return linear


def _freeze(encoder: Encoder, count: int) -> None:
    stack = encoder.layer_stack()
    if not stack:
        raise ConfigError("tuning.freeze is for SpanLab's own encoders", fix="use tuning.lora, or tuning.freeze=0")
    if count >= len(stack):
        raise ConfigError(f"tuning.freeze is {count}, but the encoder has {len(stack) - 1} layers", fix="use fewer")
    for module in stack[: count + 1]:
        module.requires_grad_(False)


def matrices_of(encoder: Encoder) -> dict[str, nn.Linear]:
    """Every linear layer of the encoder by name, except the pooler, which belongs to the heads."""
    named = encoder.named_modules()
    return {name: module for name, module in named if isinstance(module, nn.Linear) and module is not encoder.pooler}


class TaskAdapters(nn.Module):
    """Per-task parameters inside a shared encoder: embedding, LoRA, pooler; initialised so that they change nothing."""

    def __init__(self, encoder: Encoder, config: TaskAdapterConfig) -> None:
        super().__init__()
        self.config = config
        named = matrices_of(encoder) if config.lora else {}
        self._names = [f"{name}.weight" for name in named]
        self.adapters = nn.ModuleList(LowRank(m.weight, config.lora, config.lora_alpha) for m in named.values())
        own_pooler = config.pooler and encoder.pooler is not None
        self.pooler = copy.deepcopy(encoder.pooler).requires_grad_(True) if own_pooler else None  # type: ignore[union-attr]
        self.embedding_E = nn.Parameter(torch.zeros(encoder.word_table.shape[1])) if config.embedding else None
        self.merged_encoder: Encoder | None = None
        """What `merged_with` made; None where the update is added in every pass, as in training."""

    def merged_with(self, encoder: Encoder) -> "TaskAdapters":
        """These adapters for prediction alone, over a copy of the encoder that has the LoRA update in its matrices.

        The copy shares every other tensor, and several threads may use it at once. Adding the update in every pass
        costs as much as encoding a sentence.
        """
        with torch.no_grad():
            weights = self._weights(encoder)
        merged: TaskAdapters = copy_sharing_tensors(self)
        merged.merged_encoder = copy_sharing_tensors(encoder)
        for name, weight in weights.items():
            module = merged.merged_encoder.get_submodule(name.removesuffix(".weight"))
            module.weight = nn.Parameter(weight, requires_grad=False)
        return merged

    def updates(self) -> list[tuple[str, LowRank]]:
        """The LoRA updates with the names of their matrices in the encoder."""
        return [(name, cast(LowRank, update)) for name, update in zip(self._names, self.adapters, strict=True)]

    @property
    def changes_hidden_states(self) -> bool:
        """Whether hidden states differ from the encoder's own, so that tasks cannot share a pass."""
        return bool(len(self.adapters)) or self.embedding_E is not None

    def encode(
        self,
        encoder: Encoder,
        input_ids_N: Tensor,
        segment_ids_N: Tensor | None,
        lengths_B: Tensor,
        *,
        embeds_NE: Tensor | None = None,
    ) -> EncoderOutput:
        """The encoder's output with these adapters; `embeds_NE`, if given, in place of the embedded ids."""
        inputs = {"token_type_ids": segment_ids_N, "lengths": lengths_B}
        if self.embedding_E is None and embeds_NE is None:
            inputs["input_ids"] = input_ids_N
        else:
            embeds_NE = F.embedding(input_ids_N, encoder.word_table) if embeds_NE is None else embeds_NE
            inputs["inputs_embeds"] = embeds_NE if self.embedding_E is None else embeds_NE + self.embedding_E
        if self.merged_encoder is not None:
            output: EncoderOutput = self.merged_encoder(**inputs)
        elif not len(self.adapters):
            output = encoder(**inputs)
        else:
            output = functional_call(encoder, self._weights(encoder), kwargs=inputs)
        starts_B = torch.cumsum(lengths_B, 0) - lengths_B
        return EncoderOutput(hidden=output.hidden, pooled=self.pooled(output.hidden, starts_B, output.pooled))

    def pooled(self, hidden_ND: Tensor, starts_B: Tensor, default: Tensor | None) -> Tensor | None:
        """(B, D) the output of the task's own pooler; `default` if it has none."""
        if self.pooler is None:
            return default
        return torch.tanh(self.pooler(hidden_ND.index_select(0, starts_B)))

    def _weights(self, encoder: Encoder) -> dict[str, Tensor]:
        """The adapted matrices by their names in the encoder."""
        named = zip(self._names, self.adapters, strict=True)
        return {name: adapter(encoder.get_parameter(name)) for name, adapter in named}
