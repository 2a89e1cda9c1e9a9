"""The layers that transformers puts on an encoder for a task: on a sequence, every token, the ends of an answer.

They hold weights and compute logits, shaped so that a model folder has transformers' own names for them. Tasks that
transformers has no class for have their layers in their own files.

Shapes: B sequences, N tokens, D width, L labels.
"""

import torch
from torch import Tensor, nn

from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.dropout import Dropout
from spanlab.encoder.layers import ACTIVATIONS
from spanlab.encoder.model import init_weights

POOLED = ("bert", "albert")
"""Architectures whose sequence head is one layer on the encoder's own pooled vector; the others bring a dense layer."""


class SequenceHead(nn.Module):
    """Labels of a whole sequence."""

    def __init__(self, config: EncoderConfig, labels: int) -> None:
        super().__init__()
        self.on_pooled = config.architecture in POOLED and config.pooler
        self.dense = None if self.on_pooled else nn.Linear(config.width, config.width)
        self.activation = ACTIVATIONS["gelu"] if config.architecture == "electra" else torch.tanh
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.width, labels)
        for layer in (self.dense, self.classifier):
            if layer is not None:
                init_weights(layer, config.init_std)

    def forward(self, summary_BD: Tensor, pooled_BD: Tensor | None) -> Tensor:
        """(B, L) logits from the pooled vector where the architecture has one, else from the summarising token's."""
        if self.dense is None:
            assert pooled_BD is not None, "this head sits on a pooler"
            return self.classifier(self.dropout(pooled_BD))  # type: ignore[no-any-return]
        inner_BD = self.activation(self.dense(self.dropout(summary_BD)))
        return self.classifier(self.dropout(inner_BD))  # type: ignore[no-any-return]


class TokenHead(nn.Module):
    """Labels of every token."""

    def __init__(self, config: EncoderConfig, labels: int) -> None:
        super().__init__()
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.width, labels)
        init_weights(self.classifier, config.init_std)

    def forward(self, hidden_ND: Tensor) -> Tensor:
        """(N, L) logits."""
        return self.classifier(self.dropout(hidden_ND))  # type: ignore[no-any-return]


class AnswerHead(nn.Module):
    """How likely an answer begins and ends at each token."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.ends = nn.Linear(config.width, 2)
        init_weights(self.ends, config.init_std)

    def forward(self, hidden_ND: Tensor) -> Tensor:
        """(N, 2) logits: start, end."""
        return self.ends(hidden_ND)  # type: ignore[no-any-return]
