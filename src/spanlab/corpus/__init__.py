"""Raw files to shards, shards to blocks, and the order of samples. No masking here.

The names below are the room's face. They are imported when first used.
"""

from typing import TYPE_CHECKING

from spanlab.lazy_names import lazy_names

if TYPE_CHECKING:
    from spanlab.corpus.blocks import BlockBatch, Blocks, DocumentBlocks, FullSentenceBlocks
    from spanlab.corpus.columns import WHOLE, ColumnBlocks, Part
    from spanlab.corpus.corpus import PreparedCorpus
    from spanlab.corpus.manifest import Options
    from spanlab.corpus.order import SampleOrder
    from spanlab.corpus.pairs import PairBlocks, PairLaw
    from spanlab.corpus.planning import plan_preparation
    from spanlab.corpus.prepare import run_preparation
    from spanlab.corpus.stream_pairs import StreamPairBlocks

__all__ = [
    "WHOLE",
    "BlockBatch",
    "Blocks",
    "ColumnBlocks",
    "DocumentBlocks",
    "FullSentenceBlocks",
    "Options",
    "PairBlocks",
    "PairLaw",
    "Part",
    "PreparedCorpus",
    "SampleOrder",
    "StreamPairBlocks",
    "plan_preparation",
    "run_preparation",
]

_HOMES = {
    "WHOLE": "columns",
    "BlockBatch": "blocks",
    "Blocks": "blocks",
    "ColumnBlocks": "columns",
    "DocumentBlocks": "blocks",
    "FullSentenceBlocks": "blocks",
    "Options": "manifest",
    "PairBlocks": "pairs",
    "PairLaw": "pairs",
    "Part": "columns",
    "PreparedCorpus": "corpus",
    "SampleOrder": "order",
    "StreamPairBlocks": "stream_pairs",
    "plan_preparation": "planning",
    "run_preparation": "prepare",
}


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
