"""Higher-order refinement: a mention's vector takes up those of its probable antecedents (Lee et al. 2018).

Each round weighs the antecedents, and the mention itself for "none", by the probabilities of the scores so far, and
mixes the mean into the vector through a gate. No tensor of shape (mentions, antecedents, features) is made.

Shapes: M mentions, K antecedents, F features of a vector.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spanlab.encoder.model import init_weights
from spanlab.tasks.coref.antecedents import with_none


class Refinement(nn.Module):
    """One round; the same weights serve every round."""

    def __init__(self, features: int, *, init_std: float = 0.02) -> None:
        super().__init__()
        self.gate = nn.Linear(2 * features, features)
        init_weights(self.gate, init_std)

    def forward(self, vectors_MF: Tensor, index_MK: Tensor, score_MK: Tensor) -> Tensor:
        """(M, F) the vectors after the round; minus infinity in `score_MK` where there is no antecedent."""
        weight = torch.softmax(with_none(score_MK), dim=1)
        own_M1 = torch.arange(len(vectors_MF), device=vectors_MF.device)[:, None]
        attended_MF = F.embedding_bag(
            torch.cat([own_M1, index_MK], dim=1), vectors_MF, mode="sum", per_sample_weights=weight.to(vectors_MF.dtype)
        )
        gate_MF = torch.sigmoid(self.gate(torch.cat([vectors_MF, attended_MF], dim=1)))
        return gate_MF * attended_MF + (1 - gate_MF) * vectors_MF
