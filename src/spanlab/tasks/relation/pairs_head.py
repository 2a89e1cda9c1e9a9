"""The head of `head=pairs`: the relations of given entities, by their span vectors.

Shapes: S spans, P pairs, R relations.
"""

from torch import Tensor
from typing_extensions import override

from spanlab.encoder import EncoderConfig
from spanlab.objectives.objective import ObjectiveLoss
from spanlab.tasks.head import Encoded, Head
from spanlab.tasks.head_graphs import HeadGraph
from spanlab.tasks.heads import label_set_loss, on_host
from spanlab.tasks.host_head import LOGITS
from spanlab.tasks.relation.decode import ScoredPairs
from spanlab.tasks.relation.host_pairs import scored_pairs
from spanlab.tasks.relation.pair_scorer import PairScorer, pair_graph, span_rows
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.spans.config import SpanConfig
from spanlab.tasks.spans.representation import SpanRepresentation, packed_spans
from spanlab.tasks.tensor_batch import TensorBatch


class PairHead(Head):
    """Relations of given entities."""

    def __init__(
        self, encoder: EncoderConfig, config: SpanConfig, *, labels: int, relations: int, inner_width: int
    ) -> None:
        """`labels` are those of entities, "none" included."""
        super().__init__()
        self.spans = SpanRepresentation(encoder.width, config, dropout=encoder.dropout, init_std=encoder.init_std)
        self.pairs = PairScorer(encoder, self.spans, labels, relations, inner_width)

    @override
    def count(self, batch: SampleBatch) -> int:
        """A term for each pair."""
        return sum(len(sample.targets["relations"]) for sample in batch.samples)

    @override
    def graphs(self) -> dict[str, HeadGraph]:
        return {LOGITS: pair_graph(self.pairs, self.spans)}

    @override
    def forward(self, encoded: Encoded) -> Tensor:
        """(P, R) logits."""
        batch = encoded.batch
        counts = batch.batch.feature_counts("heads")
        heads_P, tails_P = (span_rows(batch, batch.features[name], counts) for name in ("heads", "tails"))
        spans, types_S = packed_spans(batch), batch.features["types"]
        return self.pairs(encoded.hidden_ND, self.spans, spans, types_S, heads_P, tails_P)  # type: ignore[no-any-return]

    @override
    def loss(self, logits: Tensor, batch: TensorBatch) -> ObjectiveLoss:
        """Binary cross-entropy of every relation of every pair."""
        loss = label_set_loss(logits, batch.targets["relations"])
        return ObjectiveLoss(total=loss.total * logits.shape[1], count=loss.count, tallies=loss.tallies)

    @override
    def split(self, logits: Tensor, batch: TensorBatch) -> list[ScoredPairs]:
        """The pairs of each sample with their scores."""
        return scored_pairs(on_host(logits), batch.batch)
