"""How much a span looks like a mention: a network on its vector, and a prior by its width.

Shapes: N tokens, D width of the encoder, S spans, F features of a span's vector, H inner width.
"""

import torch
from torch import Tensor, nn

from spanlab.encoder.layers import Dropout, init_weights
from spanlab.tasks.spans.representation import SpanConfig, SpanRepresentation, Spans


class MentionScorer(nn.Module):
    """Scores of all candidates, and the vectors of those that are kept."""

    def __init__(
        self, width: int, config: SpanConfig, *, inner_width: int, dropout: float, init_std: float = 0.02
    ) -> None:
        super().__init__()
        self.spans = SpanRepresentation(width, config, dropout=dropout, init_std=init_std)
        self.inner = nn.Linear(self.spans.features, inner_width)
        self.outer = nn.Linear(inner_width, 1)
        size = config.width_features
        self.widths = nn.Embedding(config.max_width, size) if size else None
        self.width_inner = nn.Linear(size, inner_width) if size else None
        self.width_outer = nn.Linear(inner_width, 1) if size else None
        self.dropout = Dropout(dropout)
        self.max_width = config.max_width
        for module in (self.inner, self.outer, self.widths, self.width_inner, self.width_outer):
            if module is not None:
                init_weights(module, init_std)

    @property
    def features(self) -> int:
        """F."""
        return self.spans.features

    def forward(self, hidden_ND: Tensor, spans: Spans, *, rows: int) -> Tensor:
        """(S,) scores of spans in the order of their first tokens, computed `rows` at a time."""
        prior_W = self._prior()
        blocks = []
        for start in range(0, len(spans), rows):
            end = min(start + rows, len(spans))
            first_R, last_R, widths_R = (part[start:end] for part in (spans.first_S, spans.last_S, spans.widths_S))
            # Spans come in the order of the text: a block needs only the tokens around it.
            lowest, highest = int(first_R[0]), int(last_R.max()) + 1
            here = Spans(first_S=first_R - lowest, last_S=last_R - lowest, widths_S=widths_R)
            inner_RH = torch.relu(self.spans.project(hidden_ND[lowest:highest], here, self.inner))
            score_R = self.outer(self.dropout(inner_RH)).squeeze(-1)
            if prior_W is not None:
                score_R = score_R + prior_W[widths_R.clamp(max=self.max_width) - 1]
            blocks.append(score_R)
        return torch.cat(blocks) if blocks else hidden_ND.new_zeros(0)

    def vectors(self, hidden_ND: Tensor, spans: Spans) -> Tensor:
        """(S, F) the spans' vectors."""
        return self.spans(hidden_ND, spans)  # type: ignore[no-any-return]

    def _prior(self) -> Tensor | None:
        """(widths,) the score of each width from 1 on."""
        if self.widths is None or self.width_inner is None or self.width_outer is None:
            return None
        inner_WH = torch.relu(self.width_inner(self.dropout(self.widths.weight)))
        return self.width_outer(self.dropout(inner_WH)).squeeze(-1)  # type: ignore[no-any-return]
