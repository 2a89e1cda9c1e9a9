"""What one task has of its own inside a shared encoder: a vector on its input, adapters on its matrices, a pooler.

The encoder itself is never touched: for a batch of this task it runs with other weights in place of its own, and for
every other task as if nothing were there. So a task that is added later changes no bit of what the earlier ones say.
The trade-off: two such tasks cannot share one pass over a text, unless all they have is a pooler.

Shapes: B sequences, N tokens, D width, E width of the word table.
"""

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from spanlab.encoder import Encoder
from spanlab.encoder.model import EncoderOutput
from spanlab.tasks.lora import LowRank, matrices_of


@dataclass(frozen=True, kw_only=True)
class OwnPartsConfig:
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

    def __init__(self, encoder: Encoder, config: OwnPartsConfig) -> None:
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
