"""Raw files to shards, shards to blocks, and the order of samples; no masking.

The names below are the package's public names. They are imported when first used.
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
    from spanlab.corpus.text_streams import WHOLE_STREAM, StreamBlocks, StreamPairBlocks, StreamRange

__all__ = [
    "WHOLE_STREAM",
    "BlockBatch",
    "Blocks",
    "DocumentBlocks",
    "FullSentenceBlocks",
    "PairBlocks",
    "PairLaw",
    "PrepareConfig",
    "PreparedCorpus",
    "SampleOrder",
    "StreamBlocks",
    "StreamPairBlocks",
    "StreamRange",
    "plan_preparation",
    "run_preparation",
]

_HOMES = {
    "BlockBatch": "blocks",
    "Blocks": "blocks",
    "DocumentBlocks": "blocks",
    "FullSentenceBlocks": "blocks",
    "PairBlocks": "pairs",
    "PairLaw": "pairs",
    "PrepareConfig": "prepare.config",
    "PreparedCorpus": "corpus",
    "SampleOrder": "order",
    "StreamBlocks": "text_streams",
    "StreamPairBlocks": "text_streams",
    "StreamRange": "text_streams",
    "WHOLE_STREAM": "text_streams",
    "plan_preparation": "prepare.plan",
    "run_preparation": "prepare.run",
}


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
