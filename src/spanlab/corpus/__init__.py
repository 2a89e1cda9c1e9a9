"""Raw files to shards, shards to blocks, and the order of samples. No masking here.

The names below are the room's face. They are imported when first used.
"""

from typing import TYPE_CHECKING

from spanlab.lazy_imports import lazy_names

if TYPE_CHECKING:
    from spanlab.corpus.blocks import BlockBatch, Blocks, DocumentBlocks, FullSentenceBlocks
    from spanlab.corpus.corpus import PreparedCorpus
    from spanlab.corpus.order import SampleOrder
    from spanlab.corpus.pairs import PairBlocks, PairLaw
    from spanlab.corpus.prepare.config import PrepareConfig
    from spanlab.corpus.prepare.plan import plan_preparation
    from spanlab.corpus.prepare.run import run_preparation
    from spanlab.corpus.text_streams import WHOLE, Part, StreamBlocks, StreamPairBlocks

__all__ = [
    "WHOLE",
    "BlockBatch",
    "Blocks",
    "DocumentBlocks",
    "FullSentenceBlocks",
    "PairBlocks",
    "PairLaw",
    "Part",
    "PrepareConfig",
    "PreparedCorpus",
    "SampleOrder",
    "StreamBlocks",
    "StreamPairBlocks",
    "plan_preparation",
    "run_preparation",
]

_HOMES = {
    "WHOLE": "text_streams",
    "BlockBatch": "blocks",
    "Blocks": "blocks",
    "StreamBlocks": "text_streams",
    "DocumentBlocks": "blocks",
    "FullSentenceBlocks": "blocks",
    "PrepareConfig": "prepare.config",
    "PairBlocks": "pairs",
    "PairLaw": "pairs",
    "Part": "text_streams",
    "PreparedCorpus": "corpus",
    "SampleOrder": "order",
    "StreamPairBlocks": "text_streams",
    "plan_preparation": "prepare.plan",
    "run_preparation": "prepare.run",
}


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
